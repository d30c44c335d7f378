"""No command prints, writes down or hands on the password of the tracking server."""

import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil
import pytest
import typer
import yaml

from orchestrator.cli import COMMANDS as ALL
from orchestrator.cli import load_command, main
from orchestrator.tracking.address import PASSWORD, USERNAME
from tests.support.bucket import free_port
from tests.support.commands import run_command
from tests.support.in_process import without_ray
from tests.support.precomputed_folder import write_precomputed

pytestmark = pytest.mark.proof

CANARY = "c4n4ry"
SETTINGS = {
    "name": "pets",
    "datasets": ["pets"],
    "losses": ["nt_xent"],
    "training": {"epochs": 1, "batch_size": 16, "embedding_size": 8},
    "search": {"trials": 1},
    "confirm": {"top": 1, "seeds": 2},
    "resources": {"cpus": 1, "gpus": 0},
}
SUITE = {
    "name": "quick",
    "seeds": 2,
    "max_seeds": 2,
    "matters": 500,
    "training": SETTINGS["training"],
    "resources": SETTINGS["resources"],
    "cells": [{"dataset": "pets", "loss": "nt_xent"}],
}
PART = {"kind": "above", "loss": "nt_xent", "metrics": ["rsum"], "than": 1.0}
CLAIMS = {
    "name": "claims",
    "source": "A test",
    "experiment": {key: SETTINGS[key] for key in ("losses", "training", "search", "resources")},
    "claims": [
        {"id": "above", "number": 1, "statement": "It is above chance.", "where": "nowhere", "holds_if": [PART]}
    ],
}
CELLS = ["--datasets", "pets", "--models", "vsepp", "--seeds", "2"]
COMMANDS = {
    "search": ["search", "pets.yaml"],
    "resume": ["resume", "pets"],
    "extend": ["extend", "pets", "--trials", "1"],
    "confirm": ["confirm", "pets"],
    "regress run": ["regress", "quick.yaml"],
    "compare": ["compare", "pets-vsepp-nt_xent-0000", "pets-vsepp-nt_xent-0001"],
    "sync": ["sync"],
    "retrieve": ["retrieve", "a red dog runs", "--dataset", "pets"],
    "ui": ["ui"],
    "doctor": ["doctor", "pets"],
    "certify": ["certify", "claims.yaml", *CELLS],
    "regress claims": ["regress", "claims", "claims.yaml", *CELLS],
}
"""A command line for each command that takes an address of a store, in an order in which each finds what it needs."""

TRAINING = ("search", "resume", "extend", "confirm", "regress run", "certify", "regress claims")
"""Those that take longer: they are told the address in one way only."""

ON_RAY = "search"
"""The command whose trials Ray's workers train; those of the others, in which nothing else comes to Ray, train here."""


@pytest.fixture
def place(output: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which the commands run, with data and descriptions; ``runs`` in it has a database."""
    for name in (USERNAME, PASSWORD):
        # Set first, so that what the code sets is taken back after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(output.parent / "cache"))
    monkeypatch.setattr("orchestrator.searches.preparation.TRACKING_SECONDS", 0.1)
    monkeypatch.chdir(output.parent)
    write_precomputed(output.parent / "data" / "pets")
    for name, content in (("pets", SETTINGS), ("quick", SUITE), ("claims", CLAIMS)):
        (output.parent / f"{name}.yaml").write_text(yaml.safe_dump(content))
    yield output.parent
    shutil.rmtree(output.parent / "cache", ignore_errors=True)


def commands_with_a_store(command: typer.core.TyperCommand, *path: str) -> set[str]:
    """Return the names of the commands, this one and those below it, that take ``--tracking-uri``."""
    found = {" ".join(path)} if any(option.name == "tracking_uri" for option in command.params) else set()
    for name, part in getattr(command, "commands", {}).items():
        found |= commands_with_a_store(part, *path, name)
    return found


def holding(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_no_command_tells_the_password(
    place: Path, ray_session: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set().union(*(commands_with_a_store(load_command(name), name) for name in ALL))
    assert found == set(COMMANDS), "each has a command line here"
    address = f"http://user:{CANARY}%40{CANARY}%2F{CANARY}@127.0.0.1:{free_port()}"
    codes: dict[str, list[int]] = {}
    for name, arguments in COMMANDS.items():
        for option in (["--tracking-uri", address], []) if name not in TRAINING else (["--tracking-uri", address],):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", "" if option else address)
            # As from the command line: what is told of it comes from there.
            line = [*arguments, *option]
            monkeypatch.setattr("sys.argv", ["orchestrator", *line])
            where = nullcontext() if name == ON_RAY else without_ray(tracked=True)
            with where, pytest.raises(SystemExit) as exit_:
                main(line)
            codes.setdefault(name, []).append(exit_.value.code)
            said = "".join(capfd.readouterr())
            assert "Traceback" not in said, said
            assert CANARY not in said, (line, said)
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    assert CANARY not in " ".join(child.cmdline())
    no_store = {"sync": [2, 2], "retrieve": [2, 2], "doctor": [1, 1]}
    assert codes == {name: [0] if name in TRAINING else no_store.get(name, [0, 0]) for name in COMMANDS}
    assert "***" in next(place.glob("runs/quick/*/report.html")).read_text(), "the page shows how to run it again"
    # What is delivered to a store later holds no password either.
    assert CANARY in os.environ[PASSWORD]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    for arguments in (["sync"], ["report", "pets"], ["doctor", "pets"]):
        assert run_command(arguments) == 0
    assert CANARY not in "".join(capfd.readouterr())
    assert (place / "runs" / "pets" / "report.html").is_file()
    assert holding(place) == []
