"""Confirmations: after the search, and on their own; ``tests/faults`` kills them in the middle."""

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from mlflow import MlflowClient

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.results.confirmation_plan import fresh_seeds
from orchestrator.results.race import LEVEL
from orchestrator.searches.resuming import confirm_experiment
from orchestrator.searches.search import SearchResult, run_search
from orchestrator.tracking.address import default_uri
from tests.faults.invariants import assert_recorded_once
from tests.faults.searches import grid
from tests.integration.test_search import read
from tests.support.fake_workload import FakeWorkload

STUDY = "pets-vsepp-nt_xent"
NOISY = FakeWorkload(noise=1.0)


def confirming(**confirm: int) -> Experiment:
    """A search of three temperatures, the published one among them, far apart."""
    return grid([0.1, 0.05, 0.4], confirm=confirm or None)


def run(
    experiment: Experiment, output: Path, workload: FakeWorkload = NOISY, *, confirm_alone: bool = False
) -> SearchResult:
    return run_search(experiment, workload, output, quiet=True, confirm_alone=confirm_alone)


def assert_confirmed(output: Path, history: History, numbers: tuple[int, ...], seeds: int) -> None:
    """Every candidate with every seed, all finished; test opened once, before it was looked at, for them alone."""
    repeats = history.stage(Stage.CONFIRM)
    expected = {f"{STUDY}-{number:04d}-seed{index}" for number in numbers for index in range(seeds)}
    assert {trial.id for trial in repeats} == expected == set(history.tests) == set(history.tests_opened["pets"])
    for number in numbers:
        own = [trial.config.seed for trial in repeats if trial.candidate == f"{STUDY}-{number:04d}"]
        assert own == fresh_seeds(0, seeds)
    assert {(trial.state, trial.last_epoch) for trial in repeats} == {(TrialState.FINISHED, 5)}
    kinds = [record.kind for record in read_journal(output / "tiny" / "journal.jsonl")]
    assert kinds.count("test_opened") == 1
    assert kinds.index("test_opened") < kinds.index("test_evaluated")
    assert_recorded_once(output)


def assert_judged_on_test(history: History, verdict: Mapping[str, Any]) -> None:
    """The winner's lead is that of the means on test, which the means on val differ from."""
    means = {
        split: {
            one["label"]: mean(
                values[trial.id] for trial in history.stage(Stage.CONFIRM) if trial.candidate == one["label"]
            )
            for one in verdict["standings"]
        }
        for split, values in {
            "test": {name: metrics["rsum"] for name, metrics in history.tests.items()},
            "val": {trial.id: trial.best_value for trial in history.trials.values()},
        }.items()
    }
    (comparison,) = verdict["comparisons"]
    leads = {split: of[verdict["winner"]] - of[comparison["label"]] for split, of in means.items()}
    assert abs(leads["test"] - leads["val"]) > 0.1
    assert comparison["difference"] == pytest.approx(leads["test"])


def tags(output: Path) -> dict[str, dict[str, str]]:
    client = MlflowClient(tracking_uri=default_uri(output))
    experiment = client.get_experiment_by_name("tiny")
    return {
        run.data.tags["trial"]: run.data.tags
        for run in client.search_runs([experiment.experiment_id])
        if "trial" in run.data.tags
    }


def test_a_search_ends_with_its_best_confirmed(trials_run: None, output: Path) -> None:
    result = run(confirming(top=1, seeds=3), output)
    # The published temperature is the baseline, and so is confirmed although it is not the best.
    assert_confirmed(output, read(output), (1, 0), 3)
    (verdict,) = result.summary["verdicts"]
    assert (verdict["winner"], verdict["verdict"]) == (f"{STUDY}-0001", "better")
    assert result.summary["datasets"]["pets"]["baseline"] == f"{STUDY}-0000"
    assert_judged_on_test(read(output), verdict)
    sent = {name for name, own in tags(output).items() if own.get("weights") == "best.safetensors"}
    assert sent == set(read(output).tests)
    winner = result.summary["winners"]["pets"]
    assert (winner["trial"], winner["confirmed"], winner["seeds"]) == (f"{STUDY}-0001", True, 3)
    told = tags(output)
    assert [name for name, found in told.items() if found.get("winner") == "true"] == [winner["model_of"]]
    assert {told[name]["confirmed"] for name in told if "-seed" in name} == {"true"}
    assert (told[winner["model_of"]]["stage"], told[winner["model_of"]]["candidate"]) == ("confirm", winner["trial"])
    before = (output / "tiny" / "journal.jsonl").read_text().splitlines()
    assert run(confirming(top=1, seeds=3), output).summary == result.summary
    assert len((output / "tiny" / "journal.jsonl").read_text().splitlines()) == len(before) + 2


def test_a_search_without_a_confirmation_gets_one(trials_run: None, output: Path) -> None:
    first = run(confirming(), output)
    assert (first.summary["winners"]["pets"]["confirmed"], first.summary["verdicts"]) == (False, [])
    chosen = confirm_experiment(output / "tiny", read(output), {"top": 2, "seeds": 2, "baseline": None})
    result = run(chosen, output, confirm_alone=True)
    assert result.summary["winners"]["pets"]["confirmed"]
    assert result.summary["test_openings"] == {"pets": 2}, "for the search's winner, and for the confirmed"
    assert len(read(output).stage(Stage.SEARCH)) == 3
    more = confirm_experiment(output / "tiny", read(output), {"top": None, "seeds": 3, "baseline": None})
    assert (more.confirm.top, more.confirm.seeds) == (2, 3)
    run(more, output, confirm_alone=True)
    assert len(read(output).stage(Stage.CONFIRM)) == 6, "four were there, and two are new"
    assert_recorded_once(output)


def test_a_race_ends_with_a_clear_lead_and_its_winner_is_judged_at_its_level(trials_run: None, output: Path) -> None:
    result = run(confirming(top=2, trainings=12), output)
    race = result.summary["races"]["pets"]
    history = read(output)
    repeats = history.stage(Stage.CONFIRM)
    assert race["used"] == len(repeats) < 12, "a lead of many standard deviations decides the race before"
    assert race["ended"] == "its leader is ahead of every candidate on val, p ≤ 0.001"
    assert race["rounds"][-1]["leader"] == f"{STUDY}-0001"
    assert {trial.id for trial in repeats} == set(history.tests), "all that were trained, and test opened once"
    assert result.summary["test_openings"] == {"pets": 1}
    (verdict,) = result.summary["verdicts"]
    assert (verdict["winner"], verdict["verdict"], verdict["level"]) == (f"{STUDY}-0001", "better", LEVEL)
    told = {name: own.get("race") for name, own in tags(output).items()}
    assert told[f"{STUDY}-0001-seed0"] == f"{race['seeds'][STUDY + '-0001']} seeds, leader"
    assert told[f"{STUDY}-0000-seed0"] == f"{race['seeds'][STUDY + '-0000']} seeds, closest"
    assert told[STUDY + "-0001"] is None, "a trial of the search did not race"
    assert_recorded_once(output)
    before = len(read_journal(output / "tiny" / "journal.jsonl"))
    assert run(confirming(top=2, trainings=12), output).summary == result.summary
    assert len(read_journal(output / "tiny" / "journal.jsonl")) == before + 2
