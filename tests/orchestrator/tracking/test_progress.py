"""The curve of a study grows trial by trial, to the curve that all trials together have."""

import random
from pathlib import Path
from statistics import fmean

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.tracking.store import StudyCurve
from tests.support.experiments import make_experiment, start

STATES = [TrialState.FINISHED, TrialState.STOPPED_EARLY, TrialState.DIVERGED]


def write(ledger: Ledger, chance: random.Random) -> None:
    """Let 30 trials of two studies end in another order than they began; a third of them repeat a setting."""
    experiment = make_experiment()
    start(ledger, experiment)
    live, firsts = [], []
    for number in range(30):
        cell = experiment.cells()[number % 2]
        params = {name: 0.1 for name in cell.space.bounds()}
        config = experiment.trial_config(cell, {})
        repeated = chance.choice(firsts) if firsts and chance.random() < 0.3 else None
        first = repeated if repeated is not None and repeated.startswith(cell.name) else None
        trial = ledger.create(cell.name, number, params, config, first)
        firsts += [] if first else [trial.id]
        live.append(trial)
        if len(live) > 3:
            ended = live.pop(chance.randrange(4))
            state = chance.choice(STATES)
            if state is TrialState.DIVERGED:
                ledger.end(ended, state, "not finite")
            else:
                ledger.report(ended, 1, {"val/rsum": chance.random()}, state)


def whole_curve(history: History, study: str) -> list[tuple[int, float | None]]:
    """Return the number of ended trials and the best mean of a setting after each, made from nothing each time."""
    own = [trial for trial in history.ended if trial.study == study and trial.stage is Stage.SEARCH]
    found: list[tuple[int, float | None]] = []
    for count in range(1, len(own) + 1):
        values: dict[str, list[float]] = {}
        for trial in own[:count]:
            if trial.state is TrialState.FINISHED:
                values.setdefault(trial.candidate or trial.id, []).append(trial.best_value or 0.0)
        found.append((count, max(map(fmean, values.values())) if values else None))
    return found


def test_a_curve_that_grew_is_the_curve_of_all_trials(tmp_path: Path) -> None:
    for seed in range(5):
        path = tmp_path / f"{seed}.jsonl"
        ledger = Ledger(path)
        write(ledger, random.Random(seed))
        ledger.close()
        records, chance, history = read_journal(path), random.Random(seed), History()
        studies = [cell.name for cell in make_experiment().cells()]
        curves = {study: StudyCurve(study) for study in studies}
        grown: dict[str, list[tuple[int, float | None]]] = {study: [] for study in studies}
        for record in records:
            history.apply(record)
            if chance.random() < 0.3 or record is records[-1]:
                for study, curve in curves.items():
                    points = list(curve.grow(history))
                    assert all(values["trials_ended"] == count for count, values, _ in points)
                    grown[study] += [(count, values.get("val/rsum_best")) for count, values, _ in points]
        assert {study: whole_curve(history, study) for study in studies} == grown
