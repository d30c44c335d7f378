"""Commands that messages propose: each is found in the code, and the command line takes it."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.commands import CommandError, check

ROOT = Path(__file__).parents[1]


def texts(path: Path, filled: str = "x") -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings of a module that are no docstrings; ``filled`` is in place of what varies."""
    tree = ast.parse(path.read_text())
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else filled for part in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described | within:
            yield node.lineno, node.value


def remedies() -> Iterator[tuple[str, list[str]]]:
    for package in ("orchestrator", "trainables", "search_spaces"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, text in texts(path):
                for command in re.findall(r"`(orchestrator [^`]*)`", text):
                    yield f"{path.relative_to(ROOT)}:{line}", shlex.split(command.replace("...", "x"))


FOUND = list(remedies())


def test_the_remedies_are_found() -> None:
    assert len(FOUND) > 50
    assert any(command[:3] == ["orchestrator", "data", "extract"] for _, command in FOUND)


@pytest.mark.parametrize(("place", "command"), FOUND, ids=[place for place, _ in FOUND])
def test_a_remedy_is_a_command(place: str, command: list[str]) -> None:
    """Arguments that the sentence leaves out may be missing; a command or an option that is not there is an error."""
    try:
        check(command)
    except CommandError as error:
        said = str(error)
        is_left_out = any(words in said for words in ("Missing", "requires an argument", "Invalid value"))
        assert is_left_out and "No such" not in said, f"{place}: {said}"
