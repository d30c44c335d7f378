"""JSON files that were damaged or replaced cost neither memory nor a traceback, whoever reads them."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal.directory import PLACES_FILE, read_places
from orchestrator.regression.accepted import AcceptedError, read_accepted
from orchestrator.regression.reruns import SUMMARY, read_summary
from orchestrator.winners.winners import CARD, read_champion
from orchestrator.workload.single import read_epochs
from tests.test_architecture import PACKAGES, ROOT
from trainables.checkpoint import MANIFEST, find_damage
from trainables.data.tokenizers import Vocabulary
from trainables.errors import CheckpointError, UserError
from trainables.files import parse_state, read_state
from trainables.serving.packed import ABOUT
from trainables.serving.retriever import Retriever

DEEP = "[" * 100_000

DAMAGED = {
    "too large": (b'"' + b"x" * 2000 + b'"', "more than 1,000 bytes"),
    "too deep": (DEEP[:900].encode() + b"1", "nested|Expecting"),
    "not UTF-8": (b'"\xff"', "codec can't decode"),
    "cut short": (b'{"a": ', "Expecting value"),
    "empty": (b"", "Expecting value"),
    "a number of 5,000 digits": (b"9" * 5000, "more than 1,000 bytes"),
}


@pytest.mark.parametrize(("content", "message"), DAMAGED.values(), ids=DAMAGED)
def test_what_is_no_state_is_a_value_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_state(path, 1000)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"a": [1, "ü"]}', encoding="utf-8")
    assert read_state(path) == parse_state(path.read_text(encoding="utf-8")) == {"a": [1, "ü"]}
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path / "missing.json")


def test_values_that_are_nested_too_deeply_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_state(DEEP)


def refused(error: type[UserError], name: str, reader: Callable[[Path], Any]) -> tuple[str, Callable[[Path], Any]]:
    """Return a reader that gives the message of its refusal."""

    def message(folder: Path) -> str:
        with pytest.raises(error) as refusal:
            reader(folder)
        return str(refusal.value)

    return name, message


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "checkpoint": (MANIFEST, find_damage),
    "packed model": refused(CheckpointError, ABOUT, Retriever),
    "history": refused(CheckpointError, "history.jsonl", read_epochs),
    "rerun": refused(UserError, SUMMARY, read_summary),
    "accepted": refused(AcceptedError, "a.json", lambda folder: read_accepted(folder / "a.json", "quick")),
}


@pytest.mark.parametrize(("name", "reader"), READERS.values(), ids=READERS)
def test_each_reader_names_a_file_nested_too_deeply(tmp_path: Path, name: str, reader: Callable[[Path], Any]) -> None:
    (tmp_path / name).write_text(DEEP)
    assert str(tmp_path / name) in reader(tmp_path) or str(tmp_path) in reader(tmp_path)


def test_what_only_hints_is_left_out(tmp_path: Path) -> None:
    for name in (PLACES_FILE, CARD):
        (tmp_path / name).write_text(DEEP)
    assert (read_places(tmp_path), read_champion(tmp_path)) == ({}, None)
    with pytest.raises(ValueError, match="nested"):
        Vocabulary.from_json(DEEP)


OTHERS = {
    "trainables/files.py": "the way",
    "trainables/data/text_files.py": "data sets: another cap, and errors with line and column",
    "trainables/data/npy_files.py": "the header of a safetensors file: capped, and every error caught",
    "trainables/data/extract.py": "what was just written",
    "orchestrator/doctor/experiment.py": "what was just written; a file beside it is compared in `_says`",
    "orchestrator/experiment/yaml_files.py": "what was just written",
    "orchestrator/tuner/actor.py": "what the driver sent",
    "orchestrator/assistants/server.py": "what a command of ours printed",
    "orchestrator/workload/vectors.py": "questions of the user's: every error caught",
    "trainables/data/importing/tables.py": "tables of captions: every error caught, with its line",
    "trainables/data/role_graphs.py": "a graph a line: every error caught, with its line",
}
"""Modules that may call ``json.loads`` themselves, and why."""


def test_there_is_one_way_to_read_json() -> None:
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            nodes = ast.walk(ast.parse(text)) if "json.load" in text else ()
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            if any(ast.unparse(call.func) in ("json.loads", "json.load") for call in calls):
                found.add(str(path.relative_to(ROOT)))
    assert found == set(OTHERS)
