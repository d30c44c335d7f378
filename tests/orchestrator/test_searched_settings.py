"""Whatever a search varied stands beside every name of a candidate, in each place where somebody reads results.

A new output is one line of ``OUTPUTS``.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.champions import describe_champion
from orchestrator.cli import main
from orchestrator.confirmed import verdicts_of
from orchestrator.display import PlainDisplay, Progress, print_summary, trials_table
from orchestrator.history import History, TrialState
from orchestrator.journal import NAME, read_journal
from orchestrator.ledger import Ledger
from orchestrator.registry import about_version
from orchestrator.report.page import Extras, Page, build_page
from orchestrator.summary import find_champions, summarise
from orchestrator.tables import FORMATS
from orchestrator.tracking.description import note_of
from search_spaces.space import FixedPoint
from tests.orchestrator.experiments import add_repeat, make_experiment, open_test, start

RATE, RADIUS, MARGIN, LOSS = 0.001234, 1.375, 0.3125, "triplet_sh"
"""What the winner has: a setting of training, of the model, of the loss, and the loss itself, all of them searched."""

SEARCH = {
    "sampler": "random",
    "trials": 2,
    "loss": "choose",
    "training": {"learning_rate": [1e-4, 1e-2]},
    "model_parameters": {"radius": "default"},
}
POINTS = (
    {"loss": LOSS, f"{LOSS}.margin": MARGIN, "training.learning_rate": RATE, "model.radius": RADIUS},
    {"loss": "warp", "warp.margin": 0.5, "training.learning_rate": 0.002, "model.radius": 1.0},
)


def write(output: Path, name: str, *, confirmed: bool) -> Path:
    """Write the journal of a search in which everything that can be searched was, confirmed with three seeds or not."""
    folder = output / name
    folder.mkdir()
    losses = ["warp", LOSS]
    confirm = {"top": 1, "seeds": 3} if confirmed else None
    experiment = make_experiment(name=name, models=["wsabie"], losses=losses, search=SEARCH, confirm=confirm)
    (cell,) = experiment.cells()
    ledger = Ledger(folder / NAME)
    start(ledger, experiment)
    trials = []
    for number, (point, value) in enumerate(zip(POINTS, (50.0, 40.0), strict=True)):
        config = experiment.suggested(cell, cell.space.suggest(FixedPoint(point)))
        trials.append(ledger.create(cell.name, number, point, config.to_dict()))
        metrics = {"val/rsum": value, "cocos/i2t_negatives_per_query": value / 10}
        ledger.report(trials[-1], 1, metrics, TrialState.FINISHED)
    if confirmed:
        repeats = [
            add_repeat(ledger, trial, seed, seed, trial.best_value + seed) for trial in trials for seed in (0, 1, 2)
        ]
        open_test(ledger, repeats)
    ledger.append("experiment_ended", outcome="finished", ended_by="trials")
    ledger.close()
    return folder


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


def page(history: History) -> Page:
    return build_page(history, Extras(verdicts=[one.to_dict() for one in verdicts_of(history).values()]))


def live_table(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    Console(width=300).print(trials_table(history, "live"))
    return capsys.readouterr().out


def end_of_a_trial(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    trial = next(iter(history.trials))
    PlainDisplay(Progress(history, 2, 1)).listen({"kind": "trial_ended", "trial": trial, "state": "finished"})
    return capsys.readouterr().out


def end_of_a_search(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    print_summary(summarise(history))
    return capsys.readouterr().out


def described(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    return note_of(next(iter(find_champions(history).values())))["mlflow.note.content"].replace("\\", "")


def crowned(folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    ((dataset, trial),) = find_champions(history).items()
    return about_version(describe_champion(history, dataset, trial)).replace("\\", "")


def of_page(part: Callable[[Page], object], folder: Path, history: History, capsys: pytest.CaptureFixture[str]) -> str:
    return str(part(page(history)))


Output = Callable[[Path, History, pytest.CaptureFixture[str]], str]

OUTPUTS: dict[str, Output] = {
    "live table": live_table,
    "line at the end of a trial": end_of_a_trial,
    "winners at the end of a search": end_of_a_search,
    "status": lambda *given: printed(*given, "status"),
    "winners of status --json": lambda *given: str(json.loads(printed(*given, "status", "--json"))["winners"]),
    "trials of status --json": lambda *given: str(json.loads(printed(*given, "status", "--json"))["trials"]),
    "summary.json": lambda folder, history, _: json.dumps(summarise(history)["winners"]),
    **{
        f"summarise --format {form}": lambda *given, form=form: printed(*given, "summarise", "--format", form)
        for form in FORMATS
    },
    "verdict of the report": partial(of_page, lambda page: page.verdicts[0].standings[0]),
    "leaderboard of the report": partial(of_page, lambda page: page.rows[0].shown),
    "curves of the report": partial(of_page, lambda page: page.figures["curves"].options),
    "weight curves of the report": partial(of_page, lambda page: page.figures["weights"].options),
    "compare": compared,
    "compare --json": lambda *given: compared(*given, "--json"),
    "description in MLflow": described,
    "description of the champion": crowned,
}


@pytest.mark.parametrize("confirmed", [False, True], ids=["unconfirmed", "confirmed"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_everything_that_was_searched_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str, confirmed: bool
) -> None:
    # So wide that no cell is folded in the middle of a number.
    monkeypatch.setenv("COLUMNS", "400")
    # The link to MLflow's page names no hyper-parameter, and its store takes seconds to make.
    monkeypatch.setattr("orchestrator.tracking.comparison_page", lambda uri, trials: None)
    folder = write(tmp_path, "everything", confirmed=confirmed)
    shown = OUTPUTS[output](folder, History.of(read_journal(folder / NAME)), capsys)
    text = shown.replace("\\", "")  # LaTeX and Markdown escape an underscore.
    named = {"training.learning_rate": RATE, "model.radius": RADIUS, "margin": MARGIN, "loss": LOSS}
    missing = [name for name, value in named.items() if not re.search(rf"{re.escape(name)}\W+{value}", text)]
    assert not missing, text
