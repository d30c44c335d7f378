"""Repeated searches: independent searches of each study, of which the best of each is trained again, compare losses."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.experiment.experiment import Experiment, changed_keys
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.answers import Summary
from orchestrator.results.comparison import compare
from orchestrator.results.confirmation import current_plans, trainings_of
from orchestrator.results.luck import variance_of_best
from orchestrator.results.search_designs import USUAL, measured_luck
from orchestrator.results.statistics import welch_test
from orchestrator.searches.dry_run import Concurrency, describe_dry_run, dry_run, forecast
from orchestrator.searches.resuming import confirm_experiment, extend_experiment
from orchestrator.searches.search import describe_start, run_search
from orchestrator.studies.study import Studies
from orchestrator.text.wording import number_text
from orchestrator.workload.training import TrainablesWorkload
from tests.support.experiments import begun, make_experiment, open_test
from tests.support.fake_workload import FakeWorkload
from tests.support.in_process import without_ray
from trainables.cost import Pace
from trainables.errors import ConfigError


def repeated(repeats: int = 3, confirm: Mapping[str, Any] | None = None, **search: Any) -> Experiment:
    """Return an experiment of two losses with two trials in each search, and a confirmation."""
    return make_experiment(
        training={"epochs": 2},
        search={"sampler": "random", "trials": 2, "repeats": repeats, **search},
        scheduler={"name": "none"},
        confirm=confirm or {},
    )


def test_each_search_of_a_study_has_its_own_name_seeds_and_suggestions(tmp_path: Path) -> None:
    experiment = repeated()
    cells = {cell.name: cell for cell in experiment.cells()}
    names = ["pets-vsepp-nt_xent", "pets-vsepp-nt_xent-search2", "pets-vsepp-nt_xent-search3"]
    assert list(cells)[:3] == names
    assert cells[names[0]] == repeated(1).cells()[0], "the first is the search of an experiment without repeats"
    assert len({cell.seed for cell in cells.values()}) == 6
    seeds = {name: experiment.trial_config(cell, {}).seed for name, cell in cells.items()}
    assert len(set(seeds.values())) == 3 and seeds[names[0]] == experiment.search.seed
    other = [name.replace("nt_xent", "triplet_sh") for name in names]
    assert [seeds[name] for name in other] == [seeds[name] for name in names], "whatever the loss"
    with begun(tmp_path, experiment) as ledger:
        studies = Studies(experiment, ledger)
        while studies.next() is not None:
            pass
        history = ledger.history
    drawn = {name: [trial.params["temperature"] for trial in history.study(name)] for name in names}
    assert {values[0] for values in drawn.values()} == {0.1}, "published settings are a point of each search"
    assert len({values[1] for values in drawn.values()}) == 3
    assert [history.study(name)[0].search for name in names] == [1, 2, 3]


def test_a_journal_without_searches_is_one_search(tmp_path: Path) -> None:
    with begun(tmp_path, repeated(1)) as ledger:
        studies = Studies(repeated(1), ledger)
        while studies.next() is not None:
            pass
        assert {trial.search for trial in ledger.history.trials.values()} == {1}
    _, *created = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert created and all('"search":' not in line for line in created)


REFUSED = [
    ({"loss": "choose"}, {}, "search.repeats: compares losses"),
    ({"prior": "auto"}, {}, "search.prior: searches that begin from the same trials are not independent"),
    ({"warm_start_from": ["past"]}, {}, "search.warm_start_from: searches that begin from the same trials"),
    ({}, {"top": 2}, "confirm.top: 2 settings of a search are not independent"),
    ({}, {"trainings": 40}, "confirm.trainings: a race gives seeds"),
    ({}, {"published": "each"}, "confirm.published: published settings are a point of each search"),
    ({}, {"surface": True}, "confirm.surface: belongs to a single search"),
    ({"repeats": 1}, {"seeds": 1}, "confirm.seeds: must be at least 2, got 1"),
    ({"repeats": 0}, {}, "search.repeats: should be greater than or equal to 1"),
]


@pytest.mark.parametrize(("search", "confirm", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_what_does_not_go_with_repeats_is_refused(search: dict, confirm: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        repeated(**{"repeats": 2, **search}, confirm=confirm)


def test_the_best_of_each_search_gets_one_fresh_seed_by_default_and_the_cost_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = repeated()
    assert experiment.confirm is not None
    assert (experiment.confirm.top, experiment.confirm.seeds) == (1, 1)
    lengths = {cell.name: 10.0 for cell in experiment.cells()}
    found = forecast(experiment, lengths, 5.0, Concurrency(1, "CPUs", 0.0))
    assert (found.trials, found.confirmations, found.evaluated) == (12, 6, 6)
    assert found.hours == pytest.approx((12 * 2 * 10 + 6 * 2 * 10 + 6 * 5) / 3600)
    timed: list[str] = []

    def pace(self: TrainablesWorkload, config: Any) -> Pace:
        timed.append(config.loss)
        return Pace("cpu", 10, 1.0, 2.5)

    monkeypatch.setattr(TrainablesWorkload, "check", lambda self, experiment: {})
    monkeypatch.setattr(TrainablesWorkload, "pace", pace)
    plan = dry_run(experiment, TrainablesWorkload("data", 1, "cpu"))
    assert timed == ["nt_xent", "triplet_sh"], "searches of one study take equally long"
    assert [(study.searches, study.trials) for study in plan.studies] == [(3, 2), (3, 2)]
    assert "12 trials and up to 6 trainings that confirm" in describe_dry_run(plan)[0]
    (lead,) = [note for note in plan.notes if "detect a lead" in note]
    assert lead.startswith("3 searches of 2 trials of two losses detect a lead of ")
    (own,) = [design for design in plan.designs if design.is_own]
    assert (own.searches, own.trials) == (3, 2) and all(number_text(of, "val/rsum") in lead for of in own.leads)
    assert "2 studies searched 3 times, 12 trials" in describe_start(experiment, History(), Path("x"))


def run(experiment: Experiment, output: Path, workload: FakeWorkload) -> History:
    """Run a search to its end without Ray, and return its history."""
    with without_ray(2):
        run_search(experiment, workload, output, quiet=True)
    return History.of(read_journal(output / experiment.name / "journal.jsonl"))


def test_the_luck_of_a_design_is_that_of_earlier_searches_where_they_were_repeated(tmp_path: Path) -> None:
    history = run(repeated(), tmp_path, FakeWorkload(noise=1.0))
    assert measured_luck(History()) == USUAL
    luck = measured_luck(history)
    values: dict[str, list[list[float | None]]] = {}
    for cell in repeated().cells():
        values.setdefault(cell.loss, []).append([trial.best_value for trial in history.study(cell.name)])
    variances = [variance_of_best(searches) for searches in values.values()]
    assert luck.is_measured and luck.trials == 2
    assert luck.deviations[0] ** 2 == pytest.approx(float(np.median([one for one in variances if one])))


def test_a_search_ends_in_one_training_of_the_best_of_each_search_and_test_is_opened_once(tmp_path: Path) -> None:
    history = run(repeated(confirm={"seeds": 2}), tmp_path, FakeWorkload(noise=1.0))
    repeats = history.stage(Stage.CONFIRM)
    assert len(repeats) == 2 * 3 * 2 and history.test_openings == {"pets": 1}
    for study in {trial.study for trial in history.stage(Stage.SEARCH)}:
        best = max(history.study(study), key=lambda trial: trial.best_value or 0.0)
        assert {trial.candidate for trial in repeats if trial.study == study} == {best.id}
    seeds = {search: {trial.config.seed for trial in repeats if trial.search == search} for search in (1, 2, 3)}
    assert [len(of) for of in seeds.values()] == [2, 2, 2]
    assert len(set.union(*seeds.values())) == 6, "trainings of different searches are independent"
    verdict = Summary(history).verdicts["pets"]
    assert [candidate.count for candidate in verdict.candidates] == [3, 3]
    # The oracle: a value for each search, the mean of its seeds, by Welch's test.
    means = {
        loss: [
            np.mean([history.tests[trial.id]["rsum"] for trial in repeats if key(trial) == (loss, search)])
            for search in (1, 2, 3)
        ]
        for loss in ("nt_xent", "triplet_sh")
    }
    winner, other = (np.array(means[candidate.loss]) for candidate in verdict.candidates)
    expected = welch_test(winner, other)
    (pair,) = verdict.pairs
    alone = [replace(candidate, luck={}) for candidate in verdict.candidates]
    assert expected is not None and compare(*alone, "test/rsum").p == pytest.approx(expected.p)
    # All trials of a loss say how far its best setting moves; here that is far further for one of the losses.
    assert all(candidate.luck["test/rsum"] >= 0 for candidate in verdict.candidates)
    assert pair.comparison.p is not None and pair.comparison.p > expected.p
    assert pair.comparison.varies == "searches"
    assert pair.difference == pytest.approx(winner.mean() - other.mean())


def key(trial: Trial) -> tuple[str, int]:
    return trial.config.loss, trial.search


def test_a_setting_that_two_searches_found_is_a_candidate_of_both(tmp_path: Path) -> None:
    # The published temperature 0.1 is best wherever the other trial is far away.
    space = {"nt_xent": {"temperature": [0.1, 1.0]}, "triplet_sh": {"margin": [0.2, 1.0]}}
    history = run(repeated(space=space), tmp_path, FakeWorkload())
    settings = [history.trials[str(trial.candidate)].config.setting for trial in history.stage(Stage.CONFIRM)]
    assert len(settings) == 6 and len(set(settings)) == 2


def test_more_searches_can_follow_and_fewer_are_refused(tmp_path: Path) -> None:
    first = run(repeated(2), tmp_path, FakeWorkload(noise=1.0))
    extended = extend_experiment(tmp_path / "tiny", first, None, None, ["search.repeats=3"])
    history = run(extended, tmp_path, FakeWorkload(noise=1.0))
    before = {trial.id: trial.params for trial in first.stage(Stage.SEARCH)}
    assert {trial.id: trial.params for trial in history.stage(Stage.SEARCH) if trial.id in before} == before
    assert [candidate.count for candidate in Summary(history).verdicts["pets"].candidates] == [3, 3]
    assert Summary(history).verdicts["pets"].level < 0.035, "the values of the first two had been seen"
    assert changed_keys(extended.to_dict(), repeated(2).to_dict()) == {"search.repeats": (3, 2)}


def test_a_search_that_lost_its_training_counts_as_lost(tmp_path: Path) -> None:
    experiment = repeated(confirm={"seeds": 2})
    with begun(tmp_path, experiment) as ledger:
        search_all(ledger, experiment)
        for plan in current_plans(experiment, ledger.history):
            ledger.append(plan)
        for planned in trainings_of(list(ledger.history.plans.values()), ledger.history):
            training = ledger.begin(planned)
            if training.id == "pets-vsepp-nt_xent-search2-0000-seed1":
                ledger.end(training, TrialState.DIVERGED, "loss is nan")
            else:
                ledger.report(training, 1, {"val/rsum": 50.0 + training.search}, TrialState.FINISHED)
        open_test(ledger, [trial for trial in ledger.history.stage(Stage.CONFIRM) if trial.epochs])
        verdict = Summary(ledger.history).verdicts["pets"]
    lost = next(candidate for candidate in verdict.candidates if candidate.loss == "nt_xent")
    assert {run.search for run in lost.values} == {1, 3}
    assert {run.search: reason for run, reason in lost.missing.items()} == {2: "diverged"}
    assert verdict.winner is not None and verdict.winner.loss == "triplet_sh"
    assert any("has 2 of 3 searches: search 2 diverged" in warning for warning in verdict.warnings)


def search_all(ledger: Ledger, experiment: Experiment) -> None:
    """Write down one finished trial of each search."""
    for cell in experiment.cells():
        (name,) = cell.space.bounds()
        trial = ledger.create(cell.name, 0, {name: 0.1}, experiment.trial_config(cell, {name: 0.1}), None, cell.search)
        ledger.report(trial, 1, {"val/rsum": 50.0 + cell.search}, TrialState.FINISHED)


def test_a_confirmation_of_repeated_searches_can_get_more_seeds(tmp_path: Path) -> None:
    history = run(repeated(), tmp_path, FakeWorkload(noise=1.0))
    wanted = confirm_experiment(tmp_path / "tiny", history, {"seeds": 2})
    again = run(wanted, tmp_path, FakeWorkload(noise=1.0))
    before = {trial.id for trial in history.stage(Stage.CONFIRM)}
    assert before < {trial.id for trial in again.stage(Stage.CONFIRM)} and len(again.stage(Stage.CONFIRM)) == 12
