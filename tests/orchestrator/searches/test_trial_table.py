"""The table of trials on terminals of several widths: nothing is wrapped, the best stay in sight."""

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.searches.trial_table import ROWS, brief_names, trials_table
from tests.support.consoles import drawn
from tests.support.experiments import add_repeat, add_trial, make_experiment

WIDTHS = (80, 100, 160)


def add_long(ledger: Ledger, value: float, count: int = 12) -> None:
    params = {f"e{power}": power / 7 for power in range(count)}
    experiment = make_experiment(losses=["polynomial_relative"])
    cell = experiment.cells()[0]
    config = experiment.trial_config(cell, {"coefficients": [0.2, 1.0]})
    number = len(ledger.history.study(cell.name))
    trial = ledger.create(cell.name, number, params, config)
    ledger.report(trial, 1, {"val/rsum": value}, TrialState.FINISHED)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wrapped(ledger: Ledger, width: int) -> None:
    for value in (30.0, 40.0, 50.0):
        add_long(ledger, value)
        add_trial(ledger, [value], loss="triplet_sh")
    lines = drawn(trials_table(ledger.history, "tiny: search"), width)
    rows = [line for line in lines if line.startswith(("polynomial", "triplet"))]
    assert len(rows) == 6
    assert max(map(len, lines)) <= width
    # Every row has the end of its trial, so that none continues in the next line; long parameters end in an ellipsis.
    assert all(row.endswith(" finished") for row in rows)
    assert sum("…" in row for row in rows) == 3
    assert [row.split()[0] for row in rows[:2]] == ["polynomial_relative-0002", "triplet_sh-0002"]


@pytest.mark.parametrize(
    ("cells", "shared", "names"),
    [
        ([("pets", "nt_xent")], "pets-vsepp-nt_xent", ["0000"]),
        ([("pets", "nt_xent"), ("pets", "triplet_sh")], "pets-vsepp", ["nt_xent-0000", "triplet_sh-0000"]),
        ([("pets", "nt_xent"), ("birds", "triplet_sh")], "vsepp", ["pets-nt_xent-0000", "birds-triplet_sh-0000"]),
        ([("pets", "nt_xent"), ("pets-2", "nt_xent")], "", ["pets-vsepp-nt_xent-0000", "pets-2-vsepp-nt_xent-0000"]),
        ([], "", []),
    ],
    ids=["one study", "two losses", "two datasets", "a name with a dash", "nothing"],
)
def test_names_are_without_what_all_have(
    ledger: Ledger, cells: list[tuple[str, str]], shared: str, names: list[str]
) -> None:
    trials = [add_trial(ledger, [1.0], dataset=dataset, loss=loss) for dataset, loss in cells]
    assert brief_names(trials) == (dict(zip([trial.id for trial in trials], names, strict=True)), shared)
    lines = drawn(trials_table(ledger.history, "tiny"), 80)
    assert (f"trials without {shared}, which all their names have" in lines) == bool(shared)
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in names)


def test_eighty_columns_have_room_for_parameters(ledger: Ledger) -> None:
    for dataset in ("flickr8k", "flickr8k_zh"):
        trial = add_trial(ledger, [1.0], dataset=dataset, loss="triplet_sh", state=TrialState.STOPPED_EARLY)
    lines = drawn(trials_table(ledger.history, "tiny"), 80)
    assert sum(" margin=0.2 " in line for line in lines) == 2
    trial.params = {"training.learning_rate": 2e-4}
    lines = drawn(trials_table(ledger.history, "tiny"), 80)
    assert any(" margin=0.2 learning_rate=0.0002 " in line for line in lines), "of other settings a short name"


def test_a_stage_shows_its_own_trials(ledger: Ledger) -> None:
    trial = add_trial(ledger, [30.0])
    assert drawn(trials_table(ledger.history, "confirm", stage=Stage.CONFIRM), 80) == ["confirm"]
    add_repeat(ledger, trial, 0, 7, 31.0)
    searched = "\n".join(drawn(trials_table(ledger.history, "tiny"), 80))
    confirmed = "\n".join(drawn(trials_table(ledger.history, "confirm", stage=Stage.CONFIRM), 80))
    assert "30.0" in searched and "31.0" not in searched
    assert "0000-seed0" in confirmed and "30.0" not in confirmed


def test_the_best_trial_that_can_win_comes_before_stopped_trials(ledger: Ledger) -> None:
    add_trial(ledger, [40.0], state=TrialState.STOPPED_EARLY)
    add_trial(ledger, [30.0])
    rows = [line.split() for line in drawn(trials_table(ledger.history, "tiny"), 80) if line.startswith("00")]
    assert [row[3:] for row in rows] == [["30.0", "finished"], ["40.0", "stopped", "early"]]


def test_the_best_stay_in_sight_however_many_trials_run(ledger: Ledger) -> None:
    for value in range(10):
        add_trial(ledger, [float(value)])
    for _ in range(10):
        add_trial(ledger, [5.0], state=TrialState.RUNNING)
    add_trial(ledger, [99.0], state=TrialState.DIVERGED)
    lines = drawn(trials_table(ledger.history, "tiny", 8), 80)
    rows = [line.split() for line in lines if line.startswith("00")]
    assert [row[2:] for row in rows[:4]] == [["1/6", "5.0", "running"]] * 4
    assert [row[3:] for row in rows[4:]] == [[best, "finished"] for best in ("9.0", "8.0", "7.0", "6.0")]
    assert lines[-1] == "and 13 more: 6 running, 6 finished, 1 diverged"
    assert sum(line.startswith("00") for line in drawn(trials_table(ledger.history, "tiny"))) == ROWS
