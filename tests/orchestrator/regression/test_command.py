"""The command ``regress``: its help is whole, and what it shows of its command line comes from one place."""

import shlex

import pytest

from orchestrator.cli import main
from orchestrator.commands.regress import app, command_line
from orchestrator.regression.suite import shipped_suites


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["regress", *arguments])
    return int(exit_.value.code or 0), capsys.readouterr().out


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(
    ("arguments", "usage", "options"),
    [
        pytest.param(
            ["--help"],
            " regress [OPTIONS]",
            "--set --data-root --output --reference --tracking-uri --address --storage --if-due --max-seeds --junit "
            "--report --json",
            id="regress",
        ),
        pytest.param(
            ["accept", "--help"],
            " regress accept [OPTIONS]",
            "--why --set --who --output --reference --restart-drift",
            id="accept",
        ),
    ],
)
def test_help_shows_every_option_and_the_suites_that_ship(
    capsys: pytest.CaptureFixture[str], arguments: list[str], usage: str, options: str
) -> None:
    code, printed = run(capsys, *arguments)
    assert code == 0 and usage in printed
    assert [option for option in options.split() if option not in printed] == []
    assert [name for name in shipped_suites() if name not in printed] == []


def test_every_option_of_the_commands_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """So that an option that is added later is seen as well."""
    import typer.main

    group = typer.main.get_command(app)
    for name, arguments in (("run", ["--help"]), ("accept", ["accept", "--help"])):
        printed = run(capsys, *arguments)[1]
        named = [option for one in group.commands[name].params for option in one.opts if option.startswith("--")]
        assert len(named) > 5
        assert [option for option in named if option not in printed] == []


def test_help_names_the_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "regress accept SUITE" in run(capsys, "--help")[1]


def test_without_a_suite_the_way_to_the_help_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["regress"])
    printed = capsys.readouterr().err
    assert exit_.value.code == 2 and "SUITE" in printed and "regress --help" in printed


def test_the_command_line_can_be_pasted_into_a_shell() -> None:
    arguments = ["regress", "scenes-quick", "--set", "cells=[{dataset: my data, loss: nt_xent}]"]
    assert shlex.split(command_line(arguments)) == ["orchestrator", *arguments]
