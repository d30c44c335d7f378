"""Printed commands can be pasted into the shell that started the process."""

import os
import sys
from pathlib import Path

import pytest

from orchestrator.text.terminal import as_typed, path_text, say, typed_program
from tests.support.commands import CommandLine
from tests.support.precomputed_folder import write_precomputed


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / ".venv" / "bin" / "orchestrator"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "argv", [".venv/bin/orchestrator", "search"])
    return script


def test_the_typed_path_is_printed_where_no_name_is_found(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_program() == ".venv/bin/orchestrator"
    say("resume it: `orchestrator resume tiny`, or read `orchestrator/searches/search.py`", error=True)
    assert capsys.readouterr().err == (
        "resume it: `.venv/bin/orchestrator resume tiny`, or read `orchestrator/searches/search.py`\n"
    )
    say("`orchestrator sync` brings it")
    assert capsys.readouterr().out == "`.venv/bin/orchestrator sync` brings it\n"


def test_the_name_is_printed_where_the_shell_finds_this_program(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}/usr/bin")
    assert (typed_program(), as_typed("`orchestrator sync`")) == ("orchestrator", "`orchestrator sync`")


def test_another_program_of_this_name_on_the_path_is_not_meant(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = script.parents[2] / "other" / "orchestrator"
    other.parent.mkdir()
    other.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert typed_program() == ".venv/bin/orchestrator"


def test_from_python_and_from_tests_the_name_is_printed(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["notebook.py"])
    assert typed_program() == "orchestrator"


def test_a_proposed_command_finds_what_this_command_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cli: CommandLine
) -> None:
    monkeypatch.chdir(tmp_path)
    write_precomputed(tmp_path / "my data" / "pets")
    training = ["train", "--set", "dataset=pets", "--set", "loss=nt_xent", "--set", "model=head"]
    said = cli.refuses(*training, "--data-root=my data", "--output", "my runs")
    assert said.endswith("`orchestrator data extract pets --text tfidf-svd --data-root 'my data'`\n")
    assert "my data" not in cli.refuses("data", "extract", "pets"), "what an earlier command was given is forgotten"
    cli.refuses("status", "tiny", "--output", "my runs")
    say("`orchestrator sync`, `orchestrator resume tiny`, `orchestrator sync --output x` or `orchestrator list losses`")
    assert capsys.readouterr().out == (
        "`orchestrator sync --output 'my runs'`, `orchestrator resume tiny --output 'my runs'`, "
        "`orchestrator sync --output x` or `orchestrator list losses`\n"
    )


@pytest.mark.parametrize("path", ["runs/flickr8k", "../runs", "/runs"], ids=["below", "beside", "far away"])
def test_a_path_is_relative_where_that_is_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    folder = tmp_path / "home" / "researcher"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert path_text((folder / path).resolve()) == path
