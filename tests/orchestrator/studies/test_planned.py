"""Trials that are planned: in their order, once each, and resumed after a restart."""

from pathlib import Path

from msgspec import structs

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import TrialCreated
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.studies.source import PlannedTrials
from orchestrator.studies.study import Studies
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import RecordingScheduler
from tests.support.experiments import make_experiment, start
from trainables.config import TrainingConfig, TrialConfig


def plan(count: int = 3) -> list[TrialCreated]:
    config = TrialConfig(dataset="pets", training=TrainingConfig(epochs=2)).to_dict()
    planned = TrialCreated(
        trial="", stage=Stage.CONFIRM, candidate=None, study="pets-vsepp-nt_xent", number=0, params={}, config=config
    )
    return [structs.replace(planned, trial=f"best-seed{seed}", number=seed) for seed in range(count)]


def test_planned_trials_come_once_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    ledger = Ledger(path)
    start(ledger, make_experiment())
    source, judge = PlannedTrials(plan, ledger), RecordingScheduler(ledger)
    assert source.outstanding == 3
    first, second = source.next(), source.next()
    assert first is not None and second is not None
    assert [judge.judge(first, Step(epoch, {"val/rsum": 5.0 - epoch})) for epoch in (1, 2)] == ["running", "finished"]
    assert judge.judge(second, Step(1, {"val/rsum": 1.0})) is TrialState.RUNNING
    ledger.close()

    again = Ledger(path)
    source = PlannedTrials(plan, again)
    assert source.outstanding == 2
    issued = [source.next(), source.next(), source.next()]
    assert [trial and trial.id for trial in issued] == ["best-seed1", "best-seed2", None]
    assert len(again.history.trials) == 3
    again.close()


def test_the_search_knows_nothing_of_planned_trials(ledger: Ledger) -> None:
    experiment = make_experiment()
    start(ledger, experiment)
    PlannedTrials(plan, ledger).next()
    studies = Studies(experiment, ledger)
    assert studies.outstanding == 8
    first = studies.next()
    assert first is not None and (first.id, first.stage) == ("pets-vsepp-nt_xent-0000", Stage.SEARCH)
    assert ledger.history.study("pets-vsepp-nt_xent") == [first]
