"""A search that is killed at every single record of its journal, one after the other, resumes to the same end.

``make test`` kills it at one record of each kind and at one record in five, the proofs at all of them.

No process is killed here: a snapshot of the disk at each record is what a kill leaves (``tests/support/snapshots.py``),
and the search that resumes from it runs without Ray (``tests/support/in_process.py``). So there is room for all ways in
which a record can get lost; ``test_drivers.py`` kills real processes at some of them.
"""

import math
import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import Record
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.results.answers import summarise
from orchestrator.results.winner import find_winners
from orchestrator.searches.search import run_search
from tests.faults.invariants import assert_ended_once, assert_kept, assert_sound, assert_tidy
from tests.faults.troubled_workload import Trouble, TroubledWorkload, trained_epochs
from tests.support.experiments import make_experiment, start
from tests.support.fake_workload import curve
from tests.support.in_process import trials_folder, without_ray
from tests.support.record_kinds import written_kinds
from tests.support.snapshots import JOURNAL, Snapshot, simulated_disk, snapshots
from trainables.errors import UserError

LOG = "trained.jsonl"


@dataclass(frozen=True)
class Scenario:
    """A search and the machine that it runs on, of whose records ``kinds`` must be written."""

    experiment: Experiment
    workload: Callable[[Path], TroubledWorkload]
    kinds: frozenset[str]
    places: int = 1
    gpus: int = 0

    def run(self, output: Path, order: int = 0) -> None:
        with without_ray(self.places, self.gpus, order):
            run_search(self.experiment, self.workload(output / LOG), output, quiet=True)


@dataclass(frozen=True)
class Undisturbed:
    """A search that came to its end, and the disk at each of its records."""

    scenario: Scenario
    records: list[Record]
    snapshots: list[Snapshot]

    @cached_property
    def history(self) -> History:
        return History.of(self.records)


def write_past(output: Path) -> None:
    """Write an experiment whose trials a search can start from."""
    experiment = make_experiment(training={"epochs": 3})
    (output / "past").mkdir()
    with closing(Ledger(output / "past" / "journal.jsonl")) as ledger:
        start(ledger, experiment)
        for number, cell in enumerate(experiment.cells() * 4):
            (name,) = cell.space.bounds()
            params = {name: 0.05 + 0.1 * number}
            trial = ledger.create(cell.name, number, params, experiment.trial_config(cell, params))
            for epoch, state in enumerate([TrialState.RUNNING] * 2 + [TrialState.FINISHED], start=1):
                ledger.report(trial, epoch, {"val/rsum": 90.0 - number}, state)


ALWAYS = {"experiment_started", "trial_created", "trial_started", "epoch", "experiment_ended"}
AT_THE_END = {"test_opened", "test_evaluated"}

ONE_BY_ONE = Scenario(
    make_experiment(
        training={"epochs": 3},
        search={"sampler": "tpe", "trials": 6, "seed": 3, "warm_start_from": ["past"], "prior": "auto"},
        budget={"plateau": 2},
        confirm={"top": 1, "seeds": 2},
    ),
    # The first of each loss is the published one: a temperature of 0.1, a margin of 0.2.
    lambda log: TroubledWorkload(log=log, troubles={0.1: Trouble("error")}, diverges_above=0.19),
    frozenset(
        ALWAYS | AT_THE_END | {"warm_started", "prior_read", "trial_retried", "trial_ended", "confirmation_planned"}
    ),
)
"""What comes next depends on all that came before: on sampler, scheduler, retries and budget alike."""

SIDE_BY_SIDE = Scenario(
    make_experiment(
        training={"epochs": 3},
        search={
            "sampler": "random",
            "trials": 4,
            "enqueue": {"nt_xent": [{"temperature": 0.3}, {"temperature": 0.05}]},
            "warm_start_from": ["past"],
        },
        scheduler={"name": "none"},
        resources={"cpus": 1, "gpus": "auto", "fuse": "auto"},
    ),
    # The second time that memory is short there is a retry, but nothing left to lower.
    lambda log: TroubledWorkload(log=log, untimed="triplet_sh", troubles={0.3: Trouble("memory", times=2)}),
    frozenset(
        ALWAYS
        | AT_THE_END
        | {"warm_started", "fusion_measured", "memory_measured", "limit_noted", "trial_retried", "concurrency_lowered"}
    ),
    places=3,
    gpus=1,
)
"""The order of events differs after a kill, and nothing else may."""

SCENARIOS = {"one by one": ONE_BY_ONE, "side by side": SIDE_BY_SIDE}


@pytest.fixture(scope="module", params=SCENARIOS)
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return run_undisturbed(SCENARIOS[request.param], tmp_path_factory.mktemp("undisturbed"))


def run_undisturbed(scenario: Scenario, folder: Path, lag: float = 0.0) -> Undisturbed:
    """Run a scenario from its beginning, or resume what lies in ``folder/runs``."""
    output, copies = folder / "runs", folder / "copies"
    if not output.exists():
        output.mkdir(parents=True)
        write_past(output)
    with snapshots(output, copies, lag=lag) as taken:
        scenario.run(output)
    return Undisturbed(scenario, read_journal(output / JOURNAL), taken)


@dataclass(frozen=True)
class Crash:
    """How a search dies at a record: how many bytes of the journal are lost, given the length of the record's line and
    its number; whether there was power all the time; whether the newest checkpoints were damaged."""

    lost: Callable[[int, int], int]
    power: bool = True
    damage: bool = False


CUTS = (lambda length: 1, lambda length: length // 2, lambda length: length - 1, lambda length: length)
"""How many bytes of a record's line are lost: its newline, half of it, all but its first byte, all."""

CRASHES = {
    "killed after it": Crash(lambda length, number: 0),
    "power lost while it is written": Crash(lambda length, number: CUTS[number % 4](length), power=False),
    "checkpoints damaged": Crash(lambda length, number: 0, damage=True),
}


FIRST = ("one by one-", "side by side-killed")
"""How the names of those cases begin that are crashed in every run; a process needs two seconds for each."""
EVERY = 5
"""One record in five is crashed at in every run; five is no multiple of 4, so that each of ``CUTS`` has its turn."""
CASES = [
    pytest.param(scenario, crash, every, id=name, marks=[pytest.mark.proof] if every == 1 else [])
    for scenario in SCENARIOS
    for death, crash in CRASHES.items()
    for every, name in ((EVERY, f"{scenario}-{death}"), (1, f"every record-{scenario}-{death}"))
    if every == 1 or name.startswith(FIRST)
]


def of_each_kind(snapshots: list[Snapshot], every: int) -> list[tuple[int, Snapshot]]:
    """Return the first snapshot of each kind of record and one in ``every`` of all, with their numbers."""
    kinds = [snapshot.record.kind for snapshot in snapshots]
    return [(i, one) for i, one in enumerate(snapshots) if i % every == every - 1 or kinds.index(kinds[i]) == i]


@pytest.mark.parametrize(("undisturbed", "crash", "every"), CASES, indirect=["undisturbed"])
def test_it_resumes_to_the_same_end_from_a_record_of_each_kind(
    undisturbed: Undisturbed, crash: Crash, every: int, tmp_path: Path
) -> None:
    for number, snapshot in of_each_kind(undisturbed.snapshots, every):
        assert snapshot.is_forced, f"{snapshot.record}: acted upon before it was forced to the disk"
        output = tmp_path / f"{number}-{snapshot.record.kind}"
        snapshot.restore(output, crash.lost(snapshot.length, number), power=crash.power)
        resume(undisturbed, output, order=number, damage=crash.damage)


@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.proof)])
def test_it_resumes_from_the_records_of_a_start_that_resumes(every: int, tmp_path: Path) -> None:
    first = run_undisturbed(ONE_BY_ONE, tmp_path / "first")
    late = first.snapshots[len(first.snapshots) // 2 :]
    crashed = next(snapshot for snapshot in late if getattr(snapshot.record, "state", None) is TrialState.RUNNING)
    output = tmp_path / "again" / "runs"
    crashed.restore(output)
    damaged = damage_newest(output, History.of(read_journal(output / JOURNAL)))
    assert damaged == 1
    again = run_undisturbed(ONE_BY_ONE, tmp_path / "again")
    assert "checkpoint_damaged" in {snapshot.record.kind for snapshot in again.snapshots}
    for number, snapshot in of_each_kind(again.snapshots, every):
        output = tmp_path / f"{number}-{snapshot.record.kind}"
        snapshot.restore(output, CUTS[number % 4](snapshot.length))
        resume(first, output, order=number, repeated=damaged)


@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.proof)])
def test_epochs_that_a_loss_of_power_takes_from_the_journal_are_trained_again(every: int, tmp_path: Path) -> None:
    """Those after which their trials go on, and nothing else: every other record forces all before it."""
    first = run_undisturbed(ONE_BY_ONE, tmp_path / "first", lag=math.inf)
    late = [snapshot for snapshot in first.snapshots if not snapshot.is_forced]
    states = {(snapshot.record.kind, getattr(snapshot.record, "state", None)) for snapshot in late}
    assert states == {("epoch", TrialState.RUNNING)}
    for number, snapshot in enumerate(late[::every]):
        output = tmp_path / str(number)
        snapshot.restore(output, power=False)
        journal = output / JOURNAL
        lost = journal.read_bytes()[snapshot.forced :].count(b"\n")
        assert lost >= 1
        os.truncate(journal, snapshot.forced)
        resume(first, output, order=number, repeated=lost)


def test_the_searches_write_the_records_at_which_they_are_to_be_killed(undisturbed: Undisturbed) -> None:
    scenario = undisturbed.scenario
    assert {record.kind for record in undisturbed.records} == scenario.kinds
    assert len(undisturbed.snapshots) == len(undisturbed.records)
    assert any(undisturbed.history.warm.values()) == bool(scenario.experiment.search.warm_start_from)
    states = Counter(trial.state for trial in undisturbed.history.stage(Stage.SEARCH))
    if scenario is ONE_BY_ONE:
        assert set(states) == set(TrialState) - {TrialState.RUNNING}
        assert undisturbed.history.ended_by == "plateau"
        assert not undisturbed.history.running()
    if scenario is SIDE_BY_SIDE:
        assert states == {TrialState.FINISHED: 8}
        assert find_winners(undisturbed.history)["pets"].best_value == curve(0.05, 3)


NOWHERE = {"suite_started"}
"""Written by a regression rerun, which is no search, as the second record of a journal."""


def test_there_is_no_other_kind_of_record() -> None:
    known = {kind for scenario in SCENARIOS.values() for kind in scenario.kinds}
    assert written_kinds() == known | {"checkpoint_damaged"} | NOWHERE


def resume(undisturbed: Undisturbed, output: Path, *, order: int, damage: bool = False, repeated: int = 0) -> None:
    """Resume a search that has crashed, with steps in the ``order`` of this seed, and judge what it comes to.

    So many epochs as ``repeated`` may have been trained twice before the crash.
    """
    before = History.of(read_journal(output / JOURNAL))
    damaged = damage_newest(output, before) if damage else 0
    try:
        with simulated_disk():
            undisturbed.scenario.run(output, order)
        records = read_journal(output / JOURNAL)
    except UserError as error:
        raise AssertionError(f"the search does not resume: {error}") from error
    history = History.of(records)
    assert_same(undisturbed, records, history)
    assert_ended_once(records, history)
    assert_sound(output, history)
    assert_tidy(output)
    assert history.spending.seconds >= before.spending.seconds
    assert_kept(before, history)
    reported = sum(len(trial.epochs) for trial in history.trials.values())
    again = trained_epochs(output / LOG).total() - reported
    assert 0 <= again <= len(before.running()) + damaged + repeated, f"{again} epochs trained again"
    assert sum(bool(trial.damage) for trial in history.trials.values()) >= damaged


def assert_same(undisturbed: Undisturbed, records: list[Record], history: History) -> None:
    """Fail where a search ends otherwise than the undisturbed one, or writes what it decided in another order."""
    assert judged(history) == judged(undisturbed.history)
    if undisturbed.scenario.places == 1:
        assert decided(records) == decided(undisturbed.records)


def judged(history: History) -> dict[str, Any]:
    """Return all that a search comes to, whatever the order of events."""
    summary = summarise(history)
    return {
        "trials": {trial.id: (trial.state, trial.config, trial.epochs) for trial in history.trials.values()},
        "winners": summary["winners"],
        "verdicts": summary["verdicts"],
        "tests": history.tests,
        "openings": history.test_openings,
        "warm": history.warm,
        "prior": history.prior,
        "measured": (history.fusions, history.footprints),
        "ended": (history.outcome, history.ended_by),
    }


FACTS = ("kind", "trial", "epoch", "state", "params", "metrics", "error")
DECISIONS = ("trial_created", "epoch", "trial_ended", "test_opened", "test_evaluated")


def decided(records: list[Record]) -> list[dict[str, Any]]:
    """Return what a search decided, one thing after the other."""
    return [{fact: getattr(record, fact, None) for fact in FACTS} for record in records if record.kind in DECISIONS]


def damage_newest(output: Path, history: History) -> int:
    """Cut the newest checkpoint of each trial that runs; return how many there were."""
    newest = [max(trials_folder(output).glob(f"{trial.id}/epoch_*"), default=None) for trial in history.running()]
    for path in (path for path in newest if path is not None):
        (path / "state.pt").write_text("{")
    return sum(path is not None for path in newest)
