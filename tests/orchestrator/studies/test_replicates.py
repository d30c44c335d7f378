"""Settings that are suggested again: trained with other seeds, rarely, and seen by the sampler once with their mean."""

import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState as OptunaState

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.studies.study import Studies
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import StudyScheduler
from tests.support.experiments import make_experiment, start

STUDY = "pets-vsepp-nt_xent"
LISTED = {"nt_xent": {"temperature": {"values": [0.02, 0.05, 0.1, 0.2, 0.4]}}}


def listed(trials: int, sampler: str = "tpe", **changes: Any) -> Experiment:
    """Return a search among five temperatures, of which TPE alone would try the best over and over."""
    search = {"sampler": sampler, "trials": trials, "space": LISTED, "replicates": 1, **changes}
    return make_experiment(losses=["nt_xent"], search=search)


def value(trial: Trial, epoch: int) -> float:
    """Return what a training reaches: highest for a temperature of 0.1, and different for each seed."""
    luck = random.Random(f"{trial.config.seed} {trial.params} {epoch}").gauss(0, 1)
    return 10.0 * epoch - 100 * abs(float(trial.params["temperature"]) - 0.1) + luck


def run(ledger: Ledger, experiment: Experiment, records: int | None = None, concurrent: int = 2) -> None:
    """Search, epoch by epoch and some trials at a time, until the journal has so many records."""
    studies, scheduler = Studies(experiment, ledger), StudyScheduler(experiment, ledger)
    live: list[Trial] = []
    while True:
        while len(live) < concurrent and (trial := studies.next()) is not None:
            live.append(trial)
            if records is not None and len(ledger.past) + count(ledger) >= records:
                return
        if not live:
            return
        # The trial with the fewest epochs is next: an order that a restart does not change.
        trial = min(live, key=lambda one: (one.last_epoch, one.number))
        scheduler.judge(trial, Step(trial.last_epoch + 1, {"val/rsum": value(trial, trial.last_epoch + 1)}))
        studies.observe(trial)
        live = [one for one in live if not one.has_ended]
        if records is not None and len(ledger.past) + count(ledger) >= records:
            return


def count(ledger: Ledger) -> int:
    return len(read_journal(ledger.path)) - len(ledger.past)


def search(path: Path, experiment: Experiment, records: int | None = None) -> History:
    """Begin or resume a search, and return what the journal says."""
    with closing(Ledger(path)) as ledger:
        if not ledger.past:
            start(ledger, experiment)
        run(ledger, experiment, records)
    return History.of(read_journal(path))


def trainings(history: History) -> Counter[float]:
    return Counter(float(trial.params["temperature"]) for trial in history.study(STUDY))


@pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
@pytest.mark.parametrize(("replicates", "trials"), [(0, 5), (1, 10), (2, 15)])
def test_no_setting_is_trained_more_often_than_allowed(
    tmp_path: Path, sampler: str, replicates: int, trials: int
) -> None:
    history = search(tmp_path / "journal.jsonl", listed(trials - 1, sampler, replicates=replicates))
    assert max(trainings(history).values()) <= replicates + 1


def test_where_all_settings_were_trained_often_enough_the_search_continues(tmp_path: Path) -> None:
    history = search(tmp_path / "journal.jsonl", listed(8, replicates=0))
    assert (len(trainings(history)), len(history.trials)) == (5, 8)


def test_a_replicate_names_the_first_trial_of_its_setting_and_has_a_seed_of_its_own(tmp_path: Path) -> None:
    history = search(tmp_path / "journal.jsonl", listed(15, replicates=3))
    firsts: dict[Any, Trial] = {}
    seeds: set[tuple[Any, int]] = set()
    for trial in history.study(STUDY):
        setting = trial.params["temperature"]
        first = firsts.setdefault(setting, trial)
        assert trial.candidate == (None if trial is first else first.id)
        assert (trial.config.seed == 0) is (trial is first)
        seeds.add((setting, trial.config.seed))
    assert len(seeds) == 15 > len(firsts)


def test_optuna_sees_each_setting_once_with_the_mean_of_its_finished_trainings(tmp_path: Path) -> None:
    experiment = listed(12)
    history = search(tmp_path / "journal.jsonl", experiment)
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger:
        shown = Studies(experiment, ledger)._studies[STUDY].known().shown()
    told = {trial.params["temperature"]: trial for trial in shown}
    assert len(told) == len(trainings(history)) < 12
    for setting, seen in told.items():
        own = [trial for trial in history.study(STUDY) if trial.params["temperature"] == setting]
        finished = [trial.best_value or 0.0 for trial in own if trial.state is TrialState.FINISHED]
        assert seen.state is (OptunaState.COMPLETE if finished else OptunaState.PRUNED)
        if finished:
            assert seen.value == pytest.approx(sum(finished) / len(finished))


def test_a_kill_after_any_record_changes_nothing(tmp_path: Path) -> None:
    experiment = listed(9)
    whole = search(tmp_path / "whole.jsonl", experiment)
    records = len(read_journal(tmp_path / "whole.jsonl"))
    assert any(trial.candidate for trial in whole.trials.values())
    for stop in range(2, records):
        path = tmp_path / f"{stop}.jsonl"
        search(path, experiment, stop)
        resumed = search(path, experiment)
        assert told(resumed) == told(whole), f"stopped after {stop} records"


def told(history: History) -> list[tuple[Any, ...]]:
    trials = history.trials.values()
    return [(trial.id, trial.candidate, trial.config, trial.state, trial.epochs) for trial in trials]


def test_what_a_person_asks_for_is_never_drawn_anew(tmp_path: Path) -> None:
    enqueued = {"nt_xent": [{"temperature": 0.2}] * 3}
    history = search(tmp_path / "journal.jsonl", listed(4, replicates=0, enqueue=enqueued))
    assert [trial.params["temperature"] for trial in history.study(STUDY)] == [0.1, 0.2, 0.2, 0.2]
    assert len({trial.config.seed for trial in history.study(STUDY)[1:]}) == 3
