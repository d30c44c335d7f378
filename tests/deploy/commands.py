"""The commands of ours, of Ray and of MLflow in files of any kind, and whether those programs take them.

A text is read as a shell does, roughly: simple commands, in them the program wherever a wrapper puts it
(``docker compose run``, ``srun``, ``kubectl exec``, ``bash -c "..."``). What is given to a program is parsed by its own
parser.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any

TOOLS = ("orchestrator", "ray", "mlflow")
PROGRAM = re.compile(rf"(?:.*/bin/)?({'|'.join(TOOLS)})")
WRAPPERS = {"exec", "--", "join-ray.sh", "entrypoint.sh", "nohup", "driver"}
OPERATORS = set(";&|()<>")


class CommandError(Exception):
    """A command that its program refuses."""


def in_shell(text: str) -> Iterator[list[str]]:
    """Yield the commands in a shell script or line, those in quotes included."""
    for words in _simple_commands(text):
        for word in words:
            if len(word.split()) > 1 and any(tool in word for tool in TOOLS):
                yield from in_shell(word)
        for start in _starts(words):
            yield [PurePosixPath(words[start]).name, *words[start + 1 :]]


def in_markdown(text: str) -> Iterator[list[str]]:
    blocks = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for block in blocks.findall(text):
        yield from in_shell(block)
    for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", blocks.sub("", text)):
        words = code.split()
        if len(words) > 1 and any(tool in words for tool in TOOLS):
            # A command that is named in a sentence has no arguments.
            yield from in_shell(" ".join(words if len(words) > 2 else [*words, "--help"]))


def in_words(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the command that a list of words is, such as a container's, if it is one of ours."""
    yield from in_shell(shlex.join(words))


def check(command: Sequence[str]) -> None:
    """Let the program parse what it is given, or raise ``CommandError``."""
    program, *words = command
    # What the shell puts in may be a number.
    arguments = [re.sub(r"\$(\w+|\{[^}]*\}|\([^)]*\))", "1", word) for word in words]
    found = program_of(program)
    try:
        while True:
            context = found.make_context(program, list(arguments))
            if not hasattr(found, "resolve_command"):
                return
            rest = [*getattr(context, "_protected_args", []), *context.args]
            if not rest:
                return
            program, inner, arguments = found.resolve_command(context, rest)
            found = inner
    except Exception as error:
        if getattr(error, "exit_code", None) == 0:
            return
        if not hasattr(error, "format_message"):
            raise
        raise CommandError(f"{shlex.join(command)}: {error.format_message()}") from None


@cache
def program_of(name: str) -> Any:
    if name == "ray":
        from ray.scripts.scripts import cli as ray

        return ray
    if name == "mlflow":
        from mlflow.cli import cli as mlflow

        return mlflow
    import typer

    from orchestrator.cli import app

    return typer.main.get_command(app)


def _simple_commands(text: str) -> Iterator[list[str]]:
    # A new line ends a command as a semicolon does; in front of the line, where no comment can swallow it.
    lexer = shlex.shlex(text.replace("\\\n", " ").replace("\n", "\n;"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    for word in lexer:
        if word and set(word) <= OPERATORS:
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _starts(words: list[str]) -> Iterator[int]:
    """Yield where the programs of a simple command are, if they are tools."""
    first = next((index for index, word in enumerate(words) if not re.fullmatch(r"\w+=.*", word)), None)
    for index, word in enumerate(words[:-1]):
        if (match := PROGRAM.fullmatch(word)) is None:
            continue
        wrapped = index > 0 and words[index - 1] in WRAPPERS
        if index == first or wrapped or words[index + 1] in getattr(program_of(match[1]), "commands", {}):
            yield index
