"""The contract of a plug-in's sampler, checked by small searches with invented values instead of trainings.

The searches are real searches with a journal. Their trials end in every possible way, and two trials are always running
while the next point is suggested.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.values import SAMPLERS
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import ExperimentStarted
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.studies.study import Studies
from trainables.contracts import BrokenError, ContractFinding, PerhapsMeantError, run_checks

TRIALS = 16
"""Trials of each search."""

UNDER_WAY = 2
"""Number of trials that run while the next trial is suggested."""

ENDS = (TrialState.FINISHED, TrialState.STOPPED_EARLY, TrialState.FINISHED, TrialState.DIVERGED)
"""How the trials of a search end, in turn."""

SEARCH: Mapping[str, Any] = {
    "trials": TRIALS,
    "training": {"learning_rate": "default", "warmup_epochs": [0, 3], "batch_size": {"values": [32, 64]}},
}
"""Logarithmic ranges, whole numbers and listed values."""

SPACE: Mapping[str, Any] = {"triplet": {"margin": [0.05, 0.4]}, "nt_xent": {"temperature": [0.01, 0.4]}}
"""Loss -> the range of its parameter."""

Points = list[Mapping[str, Any]]


def check_sampler_contract(name: str) -> Iterator[ContractFinding]:
    """Return a finding for each check of a plug-in's sampler."""
    # A sampler that cannot suggest the points of one search fails all further checks for this reason alone.
    return run_checks(CHECKS, name, needed="points")


def same_seed(name: str) -> None:
    """Check that randomness comes from the seed alone."""
    first, second = suggested(name), suggested(name)
    if mismatch := difference(first, second):
        raise BrokenError(
            f"two searches with one seed differ, first in {mismatch}: take all chance from seed, e.g. "
            f"random.Random(seed), and keep nothing from one suggestion to the next"
        )


def other_seed(name: str) -> None:
    """Check that another seed leads to another search."""
    if suggested(name) == suggested(name, seed=1):
        raise PerhapsMeantError("a search with another seed gets the same points; a design without chance may be meant")


def resumed(name: str) -> None:
    """Check that an interrupted search suggests the points of an undisturbed search."""
    if mismatch := difference(suggested(name), suggested(name, stops=(1, 6, 7))):
        raise BrokenError(
            f"a search that was interrupted differs from an undisturbed one, first in {mismatch}: keep nothing from "
            f"one suggestion to the next, all that is known is in study.trials"
        )


CHECKS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "points": (
        lambda name: suggested(name),
        "every point lies within ranges, whole numbers and listed values, however trials end",
    ),
    "seed": (same_seed, "two searches with one seed get the same points"),
    "other seed": (other_seed, "a search with another seed gets other points"),
    "resume": (resumed, "a search that was interrupted gets the points of an undisturbed one"),
    "conditions": (
        lambda name: SAMPLERS[name].conditional and suggested(name, loss="choose"),
        "a choice of losses is searched, or refused before a search begins",
    ),
    "objectives": (
        lambda name: SAMPLERS[name].several_objectives and suggested(name, objectives=["val/i2t_r1"]),
        "two objectives are searched, or refused before a search begins",
    ),
}
"""Name of a check -> the check, and the statement that the check proves."""


def difference(first: Points, second: Points) -> str:
    """Return in words the first difference of two searches; empty for equal searches."""
    for number, (point, other) in enumerate(zip(first, second, strict=True)):
        for name in {**point, **other}:
            if point.get(name) != other.get(name):
                return f"trial {number}, {name} = {point.get(name)} and {other.get(name)}"
    return ""


def suggested(name: str, *, stops: tuple[int, ...] = (), **search: Any) -> Points:
    """Return the points of a search with some keys of ``search``.

    After the numbers of trials in ``stops`` the search is interrupted and resumed from its journal.

    Raises:
        PluginError: If the sampler raises, or its point lies out of bounds.
    """
    losses = ["nt_xent", "triplet"] if search.get("loss") == "choose" else ["nt_xent"]
    keys = {
        "name": "check",
        "datasets": ["none"],
        "losses": losses,
        "training": {"epochs": 2},
        "search": {**SEARCH, "space": {loss: SPACE[loss] for loss in losses}, "sampler": name, **search},
    }
    experiment = validate(Experiment, keys, "check-plugin")
    with tempfile.TemporaryDirectory() as folder:
        for upto in (*stops, TRIALS):
            with closing(Ledger(Path(folder) / "journal.jsonl")) as ledger:
                points = _search(experiment, ledger, upto)
    return points


def _search(experiment: Experiment, ledger: Ledger, upto: int) -> Points:
    """Begin or resume a search until it has ``upto`` trials; return the points of all trials."""
    ledger.append(ExperimentStarted(experiment=experiment.to_dict(), data={}, environment={}))
    studies = Studies(experiment, ledger)
    trials = list(ledger.history.trials.values())
    for trial in (trial for trial in trials if not trial.has_ended):
        assert studies.next() is trial
    while len(trials) < upto and (new := studies.next()) is not None:
        trials.append(new)
        if len(trials) > UNDER_WAY:
            _end(trials[-1 - UNDER_WAY], ledger, studies)
    return [dict(trial.params) for trial in trials]


def _end(trial: Trial, ledger: Ledger, studies: Studies) -> None:
    """End a trial in the way of its number; some ways come after an epoch."""
    state = ENDS[trial.number % len(ENDS)]
    if state is TrialState.DIVERGED:
        ledger.end(trial, state, "train/loss is nan")
    else:
        # Values only have to differ from trial to trial and depend on the point.
        value = sum(float(value) for value in trial.params.values() if not isinstance(value, str))
        ledger.report(trial, 1, {"val/rsum": 100 + value % 100, "val/i2t_r1": 50 - value % 50}, state)
    studies.observe(trial)
