"""The table of trials on terminals of several widths: nothing is wrapped, the best stay in sight."""

from io import StringIO

import pytest
from rich.console import Console

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.search.trial_table import common_prefix, trials_table
from tests.support.experiments import add_repeat, add_trial, make_experiment, start

WIDTHS = (80, 100, 160)


def drawn(what: object, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(what)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def add_long(ledger: Ledger, value: float, count: int = 12) -> None:
    """Write down a trial of a polynomial whose hyper-parameters fill more than a line."""
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
    rows = [line for line in lines if line.startswith("│")]
    assert len(rows) == 6
    assert max(map(len, lines)) <= width
    # Every row has the end of its trial, so that none continues in the next line; long parameters end in an ellipsis.
    assert all(row.endswith(" finished │") for row in rows)
    assert sum("…" in row for row in rows) == 3
    assert [row.split("│")[1].split()[0] for row in rows[:2]] == ["polynomial_relative-0002", "triplet_sh-0002"]


@pytest.mark.parametrize(
    ("losses", "prefix"),
    [(["nt_xent"], "pets-vsepp-nt_xent-"), (["nt_xent", "triplet_sh"], "pets-vsepp-")],
    ids=["one study", "two studies"],
)
def test_names_are_without_what_all_begin_with(ledger: Ledger, losses: list[str], prefix: str) -> None:
    trials = [add_trial(ledger, [1.0], loss=loss) for loss in losses]
    assert common_prefix(trials) == prefix
    lines = drawn(trials_table(ledger.history, "tiny"), 80)
    assert f"trials without their common prefix {prefix}" in lines
    for trial in trials:
        assert any(line.startswith(f"│ {trial.id.removeprefix(prefix)} ") for line in lines)


def test_datasets_that_differ_leave_no_prefix(ledger: Ledger) -> None:
    assert common_prefix([add_trial(ledger, [1.0], dataset=name) for name in ("pets", "birds")]) == ""
    assert common_prefix([]) == ""


def test_a_stage_shows_its_own_trials(ledger: Ledger) -> None:
    trial = add_trial(ledger, [30.0])
    assert drawn(trials_table(ledger.history, "confirm", stage=Stage.CONFIRM), 80) == ["confirm"]
    add_repeat(ledger, trial, 0, 7, 31.0)
    searched = "\n".join(drawn(trials_table(ledger.history, "tiny"), 80))
    confirmed = "\n".join(drawn(trials_table(ledger.history, "confirm", stage=Stage.CONFIRM), 80))
    assert "30.00" in searched and "31.00" not in searched
    assert "0000-seed0" in confirmed and "30.00" not in confirmed


def test_the_best_stay_in_sight_however_many_trials_run(ledger: Ledger) -> None:
    for value in range(10):
        add_trial(ledger, [float(value)])
    for _ in range(10):
        add_trial(ledger, [5.0], state=TrialState.RUNNING)
    add_trial(ledger, [99.0], state=TrialState.DIVERGED)
    lines = drawn(trials_table(ledger.history, "tiny", 8), 80)
    states = [line.split("│")[-2].strip() for line in lines if line.startswith("│")]
    assert states == ["running"] * 4 + ["finished"] * 4
    best = [line.split("│")[4].strip() for line in lines if line.startswith("│")][4:]
    assert best == ["9.00", "8.00", "7.00", "6.00"]
    assert lines[-1] == "and 13 more: 6 running, 6 finished, 1 diverged"


def test_settings_beside_the_loss_have_short_names_where_these_are_clear(ledger: Ledger) -> None:
    experiment = make_experiment()
    start(ledger, experiment)
    cell = experiment.cells()[0]
    config = experiment.trial_config(cell, {"temperature": 0.1})
    ledger.create(cell.name, 0, {"temperature": 0.1, "training.learning_rate": 2e-4}, config)
    text = "\n".join(drawn(trials_table(ledger.history, "tiny"), 100))
    assert " learning_rate=0.0002" in text
    assert "training.learning_rate" not in text
