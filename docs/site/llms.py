"""``llms.txt`` of the site: the product for assistants, made from the documents and from the command line itself.

The form is that of https://llmstxt.org: a heading, a summary, then sections of links to Markdown files.
"""

import re
from pathlib import Path

# This folder is on the path: conf.py and pyproject.toml put it there.
from references import EXIT_CODES, Command, list_commands

ROOT = Path(__file__).parents[2]
SUFFIX = ".md"


def write_llms() -> str:
    """Return the text of ``llms.txt``; its links lead to the Markdown files beside the pages of the site."""
    readme, searching, installing, index = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("README.md", "docs/searching.md", "docs/installing.md", "docs/README.md")
    )
    title, summary, details = re.findall(r"(?:\A|\n\n)(.+?)(?=\n\n)", readme, re.S)[:3]
    return (
        "\n\n".join(
            [
                title,
                f"> {summary}",
                details,
                "Install it:",
                _block(installing, "sh"),
                "## An experiment file",
                "This file is complete. `orchestrator search my-losses.yaml --data-root DATA` runs it, and the same\n"
                "command resumes it. `orchestrator list keys --json` prints every key.",
                _block(searching, "yaml"),
                "## Commands",
                "With `--json` a command prints its result as JSON and nothing else.",
                "\n".join(map(_line, list_commands())),
                "## Exit codes",
                "\n".join(f"- {code}: {meaning}" for code, meaning in EXIT_CODES),
                *_links(index),
            ]
        )
        + "\n"
    )


def markdown_file(page: str) -> str:
    """Return the place of a page's Markdown in the site, beside its HTML."""
    return page + SUFFIX


def _block(text: str, language: str) -> str:
    """Return the first block of code in a language, with its fences."""
    (block,) = re.findall(rf"^```{language}\n.*?^```$", text, re.M | re.S)[:1]
    return str(block)


def _line(command: Command) -> str:
    takes_json = any(parameter["name"] == "--json" for parameter in command.parameters)
    return f"- `{command.usage}{' [--json]' if takes_json else ''}`: {command.meaning}"


def _links(index: str) -> list[str]:
    """Return the sections of the list of documents that lead to pages."""
    parts = re.split(r"^## (.*)$", index, flags=re.M)
    sections: list[str] = []
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        rows = re.findall(r"^- \[([^\]]+)\]\(([\w./-]+)\): (.*)$", text, re.M)
        if rows:
            sections += [f"## {heading}", "\n".join(f"- [{name}]({_place(file)}): {task}" for name, file, task in rows)]
    return sections


def _place(file: str) -> str:
    """Return the place in the site of a file or folder that the list of documents in ``docs/`` names."""
    path = (ROOT / "docs" / file).resolve()
    return (path / "README.md" if path.is_dir() else path).relative_to(ROOT).as_posix()
