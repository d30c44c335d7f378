"""Settings from elsewhere: which are taken, in which order they are tried, and that a journal keeps them."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.directory import read_history
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.caveats import search_remarks
from orchestrator.searches.dry_run import sample_points
from orchestrator.studies.past_searches import read_prior, start_from_prior
from orchestrator.studies.study import Studies
from tests.support.experiments import begun, make_experiment

PUBLISHED = {"temperature": 0.1, "training.learning_rate": 2e-4}


def make(name: str, dataset: str, epochs: int = 1, **search: Any) -> Experiment:
    space = {"space": {"nt_xent": {"temperature": [0.01, 0.4]}}, "training": {"learning_rate": [1e-5, 1e-2]}}
    training, search = {"epochs": epochs, "learning_rate": 2e-4}, {"trials": 12, **space, **search}
    return make_experiment(name=name, datasets=[dataset], losses=["nt_xent"], training=training, search=search)


def search(experiment: Experiment, output: Path, count: int, best: float = 0.05) -> list[Trial]:
    prior = read_prior(experiment, output)
    with begun(output / experiment.name, experiment) as ledger:
        start_from_prior(prior, ledger)
        studies, trials = Studies(experiment, ledger), []
        for _ in range(count):
            trial = studies.next()
            ledger.report(
                trial, trial.total_epochs, {"val/rsum": -abs(trial.params["temperature"] - best)}, TrialState.FINISHED
            )
            studies.observe(trial)
            trials.append(trial)
    return trials


def best_params(output: Path, name: str) -> dict[str, Any]:
    trials = read_history(output / name).stage(Stage.SEARCH)
    return dict(max(trials, key=lambda trial: trial.best_value or 0).params)


def test_the_best_of_other_datasets_come_right_after_the_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, dataset in (("first", "birds"), ("second", "cars"), ("third", "birds"), ("own", "pets")):
        search(make(name, dataset, sampler="random", seed=len(name)), tmp_path, 6)
    search(make("other-metric", "boats", metric="val/i2t_r1"), tmp_path, 0)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "journal.jsonl").write_text("{}\nno record\n{}\n")
    experiment = make("new", "pets", prior="auto", enqueue={"nt_xent": [{"temperature": 0.2}]})
    (points,) = read_prior(experiment, tmp_path).values()
    assert capsys.readouterr().err.startswith("search.prior: torn is left out, its journal is damaged")
    # The newest search of each other dataset, the newest first.
    assert [point.source for point in points] == ["birds-vsepp-nt_xent", "cars-vsepp-nt_xent"]
    assert [point.params for point in points] == [best_params(tmp_path, "third"), best_params(tmp_path, "second")]
    tried = [dict(trial.params) for trial in search(experiment, tmp_path, 4)]
    assert tried[0] == PUBLISHED
    assert tried[1]["temperature"] == 0.2
    assert tried[2:] == [point.params for point in points]
    (sentence,) = search_remarks(read_history(tmp_path / "new"), "pets")
    assert sentence.endswith("another dataset: pets-vsepp-nt_xent-0002 and pets-vsepp-nt_xent-0003.")


def test_an_interrupted_search_suggests_the_points_of_an_undisturbed_one_when_all_else_is_gone(tmp_path: Path) -> None:
    search(make("past", "birds", sampler="random"), tmp_path, 6)
    undisturbed, interrupted = make("undisturbed", "pets", prior="auto"), make("interrupted", "pets", prior="auto")
    expected = [dict(trial.params) for trial in search(undisturbed, tmp_path, 8)]
    first = [dict(trial.params) for trial in search(interrupted, tmp_path, 1)]
    (tmp_path / "past" / "journal.jsonl").unlink()
    (tmp_path / "undisturbed" / "journal.jsonl").unlink()
    search(make("later", "cars", sampler="random"), tmp_path, 6)
    rest = [dict(trial.params) for trial in search(interrupted, tmp_path, 7)]
    assert first + rest == expected


def test_another_dataset_gives_the_best_setting_of_its_newest_search_alone(tmp_path: Path) -> None:
    for name, best in (("older", 0.3), ("newer", 0.05)):
        search(make(name, "dogs", sampler="random", seed=len(name) + int(100 * best)), tmp_path, 6, best)
    search(make("birds", "birds", sampler="random", seed=9), tmp_path, 6)
    (points,) = read_prior(make("new", "pets", prior="auto"), tmp_path).values()
    assert [point.source for point in points] == ["birds-vsepp-nt_xent", "dogs-vsepp-nt_xent"]
    assert points[1].params == best_params(tmp_path, "newer")


def test_a_setting_that_does_not_fit_is_left_out_and_a_quarter_of_the_trials_is_the_most(tmp_path: Path) -> None:
    for name, dataset, search_ in (
        ("long", "boats", {"epochs": 2}),
        ("wide", "cars", {"space": {"nt_xent": {"temperature": [0.45, 0.9]}}}),
        ("good", "birds", {}),
        ("best", "dogs", {}),
    ):
        search(make(name, dataset, sampler="random", **search_), tmp_path, 6)
    (points,) = read_prior(make("new", "pets", prior="auto"), tmp_path).values()
    assert [point.source for point in points] == ["dogs-vsepp-nt_xent", "birds-vsepp-nt_xent"]
    few = make("few", "pets", prior="auto", trials=4)
    (found,) = read_prior(few, tmp_path).values()
    assert found == points[:1]
    (cell,) = few.cells()
    shown = sample_points(few, cell, 4, found)
    assert [point.get("source") for point in shown] == [None, "dogs-vsepp-nt_xent", None, None]
    assert shown[0]["params"] == PUBLISHED
    assert read_prior(make("none", "pets"), tmp_path) == {}
