"""Whatever a search varied, and each of its objectives, stands in each place where somebody reads results."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from optuna.trial import FixedTrial

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.trial import TrialState
from orchestrator.results.winner import find_champions
from orchestrator.winners.winners import CARD, describe_champion, read_champion
from tests.support.experiments import add_repeats, begun, make_experiment, open_test
from tests.support.outputs import OUTPUTS
from tests.support.records import append

RATE, RADIUS, MARGIN, LOSS = 0.001234, 1.375, 0.3125, "triplet_sh"
"""What the winner has: a setting of training, of the model, of the loss, and the loss itself, all of them searched."""

SEARCH = {
    "sampler": "random",
    "trials": 3,
    "loss": "choose",
    "training": {"learning_rate": [1e-4, 1e-2]},
    "model_parameters": {"radius": "default"},
}
POINTS = (
    {"loss": LOSS, f"{LOSS}.margin": MARGIN, "training.learning_rate": RATE, "model.radius": RADIUS},
    {"loss": "warp", "warp.margin": 0.5, "training.learning_rate": 0.002, "model.radius": 1.0},
    {"loss": "warp", "warp.margin": 0.6, "training.learning_rate": 0.003, "model.radius": 1.0},
)
REACHED = ((50.0, 5.25), (40.0, 4.75), (30.0, 6.5))
COUNT = "cocos/i2t_negatives_per_query"
"""A second objective, the fewer the better: the last trial is beaten in both."""


def write(output: Path, name: str, *, confirmed: bool, **search: object) -> Path:
    """Write the journal of a search in which everything that can be searched was, confirmed with three seeds or not."""
    losses = ["warp", LOSS]
    confirm = {"top": 1, "seeds": 3} if confirmed else None
    experiment = make_experiment(
        name=name, models=["wsabie"], losses=losses, search={**SEARCH, **search}, confirm=confirm
    )
    (cell,) = experiment.cells()
    with begun(output / name, experiment) as ledger:
        for number, (point, reached) in enumerate(zip(POINTS, REACHED, strict=True)):
            config = experiment.suggested(cell, cell.space.suggest(FixedTrial(point)))
            trial = ledger.create(cell.name, number, point, config)
            ledger.report(trial, 1, dict(zip(("val/rsum", COUNT), reached, strict=True)), TrialState.FINISHED)
        if confirmed:
            values = [
                (trial, [trial.best_value + seed for seed in range(3)]) for trial in ledger.history.study(cell.name)
            ]
            open_test(ledger, add_repeats(ledger, values, 0))
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    return output / name


NAMES_NO_SETTING = ("Pareto", "caveats", "curves", "winners at the end")
"""Beginnings of outputs without settings, or with settings that are cut."""

NARROW = (
    "answers of the report",
    "weight curves",
    "live table",
    "line at the end of a trial",
    "status",
    "summarise",
    "compare",
)
"""Beginnings of the outputs for people that name a setting without its section."""


@pytest.mark.parametrize("confirmed", [False, True], ids=["unconfirmed", "confirmed"])
@pytest.mark.parametrize("output", [name for name in OUTPUTS if not name.startswith(NAMES_NO_SETTING)])
def test_everything_that_was_searched_stands_there(
    tmp_path: Path, read: Callable[[str, Path], str], output: str, confirmed: bool
) -> None:
    folder = write(tmp_path, "everything", confirmed=confirmed)
    text = read(output, folder)
    named = {"training.learning_rate": RATE, "model.radius": RADIUS, "margin": MARGIN, "loss": LOSS}
    short = output.startswith(NARROW) and not output.endswith("json")
    shown = {name.rpartition(".")[2].replace("_", "[_ ]") if short else name: value for name, value in named.items()}
    missing = [name for name, value in shown.items() if not re.search(rf"{name}\W+{value}", text)]
    assert not missing, text


NAMES_NO_COUNT = (
    "caveats",
    "line at the end of a trial",
    "winners of status",
    "verdict",
    "curves",
    "weight",
    "description",
    "winners at the end",
    "status",
)
"""Outputs that name candidates, and leave their further metrics to others."""


@pytest.mark.parametrize("output", [name for name in OUTPUTS if not name.startswith(NAMES_NO_COUNT)])
def test_every_objective_stands_there(tmp_path: Path, read: Callable[[str, Path], str], output: str) -> None:
    objectives = [{"metric": COUNT, "direction": "minimize"}]
    folder = write(tmp_path, "goals", confirmed=False, objectives=objectives)
    text = read(output, folder)
    assert "5.25" in text
    # Worse in the first objective and better in the second: as good an answer, of which the winner says nothing.
    assert "4.75" in text or output.startswith(("compare", "leaderboard")), text


@pytest.mark.parametrize("form", ["summarise --format table", "answers of the report"])
def test_the_front_leaves_out_what_is_beaten_in_every_objective(
    tmp_path: Path, read: Callable[[str, Path], str], form: str
) -> None:
    objectives = [{"metric": COUNT, "direction": "minimize"}]
    folder = write(tmp_path, "goals", confirmed=False, objectives=objectives)
    _, _, front = read(form, folder).partition("Pareto front")
    front = front.partition("What limits" if "summarise" in form else "key='caveats'")[0]
    assert f"val/rsum maximised, {COUNT} minimised" in front
    assert [value for value in ("5.25", "4.75", "6.5") if value in front] == ["5.25", "4.75"]


def test_without_further_objectives_there_is_no_front(tmp_path: Path, read: Callable[[str, Path], str]) -> None:
    folder = write(tmp_path, "one", confirmed=False)
    assert "Pareto" not in read("status", folder) + read("answers of the report", folder)


def test_what_an_older_version_packed_is_the_same_champion(tmp_path: Path) -> None:
    folder = write(tmp_path, "one", confirmed=False)
    history = History.of(read_journal(folder / JOURNAL_FILE))
    ((dataset, trial),) = find_champions(history).items()
    champion = describe_champion(history, dataset, trial)
    assert champion.parameters
    card = {name: value for name, value in asdict(champion).items() if name != "parameters"}
    (tmp_path / CARD).write_text(json.dumps(card))
    # Equal, so that it is neither packed again nor registered as another version.
    assert read_champion(tmp_path) == champion
