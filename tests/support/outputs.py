"""Every place where somebody reads results, as a text; a new output is one line of ``OUTPUTS``."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import TrialEnded
from orchestrator.journal.trial import TrialState
from orchestrator.report.page import Page
from orchestrator.results.answers import summarise
from orchestrator.results.winner import find_champions
from orchestrator.searches.display import PlainDisplay, Progress, print_summary, trials_table
from orchestrator.text.terminal import make_console
from orchestrator.tracking.description import note_of
from orchestrator.tracking.registry import about_version
from orchestrator.views.forms import FORMS
from orchestrator.winners.winners import describe_champion


def read_output(output: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what one of ``OUTPUTS`` says of the experiment in a folder, without the escapes of LaTeX and Markdown."""
    # So wide that no cell is folded in the middle of a number.
    monkeypatch.setenv("COLUMNS", "500")
    # The link to MLflow's page names no candidate, and its store takes seconds to make.
    monkeypatch.setattr("orchestrator.commands.results.comparison_page", lambda uri, trials: None)
    return OUTPUTS[output](folder, History.of(read_journal(folder / JOURNAL_FILE)), capsys).replace("\\", "")


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 0
    return capsys.readouterr().out


def printed(folder: Path, history: History, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return command(capsys, *arguments, str(folder))


def compared(folder: Path, history: History, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    # A trial with itself: no setting differs, so nothing but its name can tell what it is.
    names = [f"{folder.name}/{next(iter(history.trials))}"] * 2
    return command(capsys, "compare", *names, "--output", str(folder.parent), *arguments)


def live_table(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    make_console().print(trials_table(history, "live"))
    return capsys.readouterr().out


def end_of_a_trial(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    trial = next(iter(history.trials))
    PlainDisplay(Progress(history, 2, 1)).listen(TrialEnded(trial=trial, state=TrialState.FINISHED, error=""))
    return capsys.readouterr().out


def end_of_a_search(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    print_summary(history)
    return capsys.readouterr().out


def described(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    return note_of(next(iter(find_champions(history).values())))["mlflow.note.content"]


def crowned(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    ((dataset, trial),) = find_champions(history).items()
    return about_version(describe_champion(history, dataset, trial))


def of_page(part: Callable[[Page], object], folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    return str(part(Page(history)))


Output = Callable[[Path, History, pytest.CaptureFixture[str]], str]

OUTPUTS: dict[str, Output] = {
    "live table": live_table,
    "line at the end of a trial": end_of_a_trial,
    "winners at the end of a search": end_of_a_search,
    "status": lambda *given: printed(*given, "status"),
    "winners of status --json": lambda *given: str(json.loads(printed(*given, "status", "--json"))["winners"]),
    "trials of status --json": lambda *given: str(json.loads(printed(*given, "status", "--json"))["trials"]),
    "caveats of status --json": lambda *given: str(json.loads(printed(*given, "status", "--json"))["caveats"]),
    "summary.json": lambda folder, history, _: json.dumps(summarise(history)),
    **{
        f"summarise --format {form}": lambda *given, form=form: printed(*given, "summarise", "--format", form)
        for form in FORMS
    },
    "answers of the report": partial(of_page, lambda page: page.answers),
    "leaderboard of the report": partial(of_page, lambda page: page.rows[0].shown),
    "curves of the report": partial(of_page, lambda page: page.figures["curves"].options),
    "weight curves of the report": partial(of_page, lambda page: page.figures["weights"].options),
    "compare": compared,
    "compare --json": lambda *given: compared(*given, "--json"),
    "description in MLflow": described,
    "description of the champion": crowned,
}
