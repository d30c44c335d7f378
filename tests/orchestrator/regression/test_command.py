"""The command ``regress``: its help is whole, and what it shows of its command line comes from one place."""

import pwd
import shlex
from pathlib import Path

import pytest
import typer.main

from orchestrator.commands.regress import app, command_line
from orchestrator.regression.suite import shipped_suites
from tests.support.commands import CommandLine


@pytest.mark.parametrize(("name", "words"), [("run", []), ("accept", ["accept"]), ("claims", ["claims"])])
def test_help_shows_every_option_and_the_suites_that_ship(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, name: str, words: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    printed = cli.shows("regress", *words, "--help")
    assert f" {' '.join(['regress', *words])} [OPTIONS]" in printed
    (command,) = [one for key, one in typer.main.get_command(app).commands.items() if key == name]  # type: ignore[attr-defined]
    named = [option for one in command.params for option in one.opts if option.startswith("--")]
    assert len(named) > 5 and [option for option in named if option not in printed] == []
    assert name == "claims" or [suite for suite in shipped_suites() if suite not in printed] == []
    assert name != "run" or "regress accept SUITE" in printed


def test_without_a_suite_the_help_is_named(cli: CommandLine) -> None:
    err = cli.refuses("regress")
    assert "SUITE" in err and "regress --help" in err


def test_the_command_line_can_be_pasted_into_a_shell() -> None:
    arguments = ["regress", "scenes-quick", "--set", "cells=[{dataset: my data, loss: nt_xent}]"]
    assert shlex.split(command_line(arguments)) == ["orchestrator", *arguments]


def test_a_user_without_a_name_is_asked_for_one(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_name(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_name)
    accept = ("regress", "accept", "scenes-quick", "--why", "new", "--output", tmp_path)
    assert "name the person who accepts with --who" in cli.refuses(*accept)
    assert "no finished rerun to accept" in cli.refuses(*accept, "--who", "ada")
