"""The command ``regress``: its help is whole, and what it shows of its command line comes from one place."""

import pwd
import shlex
from pathlib import Path
from unittest.mock import Mock

import pytest
import typer.main

from orchestrator.commands.regress import app, command_line
from orchestrator.regression.reruns import Rerun
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


@pytest.mark.parametrize(
    ("file", "message"), [("taken/junit.xml", "cannot be written"), ("reports", "is a folder")], ids=str
)
def test_a_copy_that_cannot_be_written_is_refused_before_the_rerun(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch, file: str, message: str
) -> None:
    (here / "taken").touch()
    (here / "reports").mkdir()
    rerun = Mock()
    monkeypatch.setattr("orchestrator.commands.regress.rerun", rerun)
    assert message in cli.refuses("regress", "scenes-quick", "--junit", file)
    rerun.assert_not_called()


def test_a_lost_reference_is_refused_before_the_rerun_where_one_is_required(
    cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rerun = Mock(return_value=Rerun(here, {"finding": "ok"}, is_alarm=False, was_due=False))
    monkeypatch.setattr("orchestrator.commands.regress.rerun", rerun)
    lost = ("regress", "scenes-quick", "--reference", "lost.json")
    said = cli.refuses(*lost, "--require-accepted")
    assert "--require-accepted: lost.json is not there; restore the file" in said
    more = "cells=[{dataset: scenes, loss: nt_xent}, {dataset: scenes, loss: warp}]"
    said = cli.refuses("regress", "scenes-quick", "--set", more, "--require-accepted")
    assert "has no accepted runs of scenes-vsepp-warp" in said
    claims = ("regress", "claims", "ecir-2022", "--datasets", "pets", "--require-accepted")
    assert "ecir-2022.accepted.json is not there" in cli.refuses(*claims)
    rerun.assert_not_called()
    cli.shows(*lost)
    cli.shows("regress", "scenes-quick", "--require-accepted")
    assert rerun.call_count == 2


def test_copies_get_their_folders(cli: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("junit.xml", "report.html"):
        (here / name).write_text(name)
    done = Rerun(here, {"finding": "ok"}, is_alarm=False, was_due=False)
    monkeypatch.setattr("orchestrator.commands.regress.rerun", lambda suite, request, workload: done)
    cli.shows("regress", "scenes-quick", "--junit", "a/b/junit.xml", "--report", "c/report.html")
    assert ((here / "a/b/junit.xml").read_text(), (here / "c/report.html").read_text()) == ("junit.xml", "report.html")


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
