"""The documents as a site: navigation, links and anchors at once, the built pages where Sphinx is installed."""

import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from llms import write_llms
from references import EXIT_CODES, PAGES, list_commands

from orchestrator.cli import main
from orchestrator.journal.records import KINDS
from tests.test_documents import DOCUMENTS, ROOT

SITE = ROOT / "docs" / "site"
PACKAGES = ("sphinx", "myst_parser", "furo")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#([^)]+)\)")
CODE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(text: str) -> set[str]:
    """Return the anchors of headings, as GitHub and the site make them; of equal headings the later have numbers."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,4} (.*)$", CODE.sub("", text), re.M):
        found.append(re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-"))
    return {
        name if not (before := found[:place].count(name)) else f"{name}-{before}" for place, name in enumerate(found)
    }


def test_every_page_and_script_is_in_the_navigation_once() -> None:
    entries = re.findall(r"^(\w[\w./-]*)$", (SITE / "navigation.md").read_text(), re.M)
    pages = {Path(name).with_suffix("").as_posix() for name in DOCUMENTS} - {"README"}
    scripts = {path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "docs" / "examples").glob("*.py")}
    assert sorted(entries) == sorted({*pages, *scripts, "docs/site/api"})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_anchor_is_that_of_a_heading(name: str) -> None:
    for file, anchor in LINK.findall((ROOT / name).read_text()):
        target = (ROOT / name).parent / file if file else ROOT / name
        assert anchor in anchors(target.read_text()), f"{name}: {file}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    kept = (ROOT / "docs" / f"{page}.md").read_text()
    assert PAGES[page]() == kept
    assert f"`python docs/site/references.py {page}`" in kept


def test_the_reference_of_records_has_every_kind() -> None:
    assert re.findall(r"^### `(\w+)`$", PAGES["journal"](), re.M) == list(KINDS)


def test_commands_are_listed_with_their_parameters() -> None:
    listed = list_commands()
    assert {"search", "data describe", "regress accept", "list"} <= {command.name for command in listed}
    options = {(command.name, parameter["name"]): parameter for command in listed for parameter in command.parameters}
    assert options["search", "--json"]["value"] == "" and options["search", "EXPERIMENT"]["default"] == "required"
    assert options["list", "WHAT"]["value"].startswith("`experiments`, `suites`, ")
    assert all(parameter["meaning"] for parameter in options.values())


def test_every_exit_code_is_in_the_reference_of_commands() -> None:
    documented = main.__doc__ or ""
    assert {f"{code} {meaning.split(';')[0]}" for code, meaning in EXIT_CODES} == set(
        re.findall(r"\d+ [a-z ]+", documented)
    )


def test_every_name_of_the_reference_is_documented() -> None:
    named = re.findall(r"^\.\. auto\w+:: (\S+)$", (SITE / "api.md").read_text(), re.M)
    assert len(named) > 20
    for name in named:
        module, _, attribute = name.rpartition(".")
        thing = getattr(importlib.import_module(module), attribute)
        assert thing.__doc__ and thing.__doc__.strip(), name


@cache
def llms() -> str:
    """Return the text of ``llms.txt``, as the build of the site writes it."""
    return write_llms()


def test_assistants_read_every_command_and_exit_code() -> None:
    commands = list_commands()
    lines = {line for line in llms().splitlines() if line.startswith("- ")}
    for command in commands:
        takes_json = any(parameter["name"] == "--json" for parameter in command.parameters)
        assert f"- `{command.usage}{' [--json]' if takes_json else ''}`: {command.meaning}" in lines
    assert {f"- {code}: {meaning}" for code, meaning in EXIT_CODES} <= lines


def test_assistants_read_a_summary_an_experiment_and_links_to_every_page() -> None:
    assert re.match(r"# icr-orchestrator\n\n> \S.*\n\n\S", llms())
    experiment = re.findall(r"```yaml\n(.*?)```", llms(), re.S)
    assert len(experiment) == 1 and experiment[0] in (ROOT / "docs" / "searching.md").read_text()
    links = set(re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", llms(), re.M))
    # GitHub shows the pages about contributing and security beside the repository; the site leaves them out.
    left_out = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/README.md"}
    assert links == set(DOCUMENTS) - left_out


@pytest.mark.proof
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in PACKAGES),
    reason="Sphinx, MyST or Furo is not installed: pip install 'icr-orchestrator[docs]'",
)
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    (command,) = re.findall(r"-m (sphinx .*)$", (ROOT / "Makefile").read_text(), re.M)
    words = command.replace("build/site", str(tmp_path)).split()
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = tmp_path / "html"
    for link in re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", (built / "llms.txt").read_text(), re.M):
        page = built / link
        assert page.read_text() == (ROOT / link).read_text() and page.with_suffix(".html").is_file()
    assert "```python" in (built / "docs" / "examples" / "own_loss.md").read_text()
    assert 'id="the-code"' in (built / "README.html").read_text()
    assert "<h1>A loss of your own in ten minutes" in (built / "docs" / "examples" / "own_loss.html").read_text()
    reference = (built / "docs" / "site" / "api.html").read_text()
    for name in ("search", "LoadedExperiment.trials", "NTXent", "count_contributions"):
        assert re.search(rf'id="[\w.]*\.{re.escape(name)}"', reference), name
