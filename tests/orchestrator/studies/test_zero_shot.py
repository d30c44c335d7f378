"""The first trial of a study of a pretrained model evaluates it as it was published; no sampler learns from it."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import best_points, differing
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.answers import Summary
from orchestrator.results.confirmation import current_plans, race_names, trainings_of
from orchestrator.results.confirmation_plan import best_of_searches, choose_candidates, published_default, wanted_plans
from orchestrator.results.luck import variance_of_best
from orchestrator.results.questions import answer_questions
from orchestrator.results.race import Race
from orchestrator.studies.study import Studies
from tests.support.experiments import make_experiment, open_test, reopened, start
from trainables.errors import ConfigError

ZERO_SHOT = {"model.trained": "none"}
STUDY = "pets-clip-nt_xent"


def experiment_of(sampler: str = "tpe", **changes: Any) -> Experiment:
    search = {"sampler": sampler, "trials": 6, "model_parameters": {"rank": {"values": [4, 8]}}}
    if sampler == "grid":
        search |= {"space": {"nt_xent": {"temperature": {"values": [0.05, 0.1, 0.2]}}}, "trials": 100}
    parameters = {"encoder": "/models/clip", **changes.pop("model_parameters", {})}
    plain = {"models": ["clip"], "losses": ["nt_xent"], "model_parameters": parameters, "search": search}
    return make_experiment(**{**plain, "scheduler": {"name": "none"}, "confirm": {"top": 1, "seeds": 2}, **changes})


def finish(ledger: Ledger, studies: Studies, trial: Trial, rsum: float) -> None:
    epochs = trial.config.training.epochs
    for epoch in range(1, epochs + 1):
        ledger.report(trial, epoch, {"val/rsum": rsum}, TrialState.FINISHED if epoch == epochs else TrialState.RUNNING)
    studies.observe(trial)


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
def test_it_comes_first_is_not_trained_and_no_sampler_sees_it(ledger: Ledger, sampler: str) -> None:
    studies = Studies(experiment_of(sampler), ledger)
    assert studies.outstanding == (7 if sampler == "grid" else 6)
    first, second = studies.next(), studies.next()
    assert first is not None and second is not None
    assert first.params == first.parameters == ZERO_SHOT and first.is_zero_shot and not second.is_zero_shot
    assert first.config.training.epochs == 1 and first.config.model_parameters["trained"] == "none"
    assert second.params.keys() == {"temperature", "model.rank"} and second.config.training.epochs == 6
    assert "trained" not in second.config.model_parameters
    named = race_names(ledger.history, Race((), {first.id: 1, second.id: 1}, None, 2))
    assert named[first.id].startswith("Zero-shot") and named[second.id].startswith("NT-Xent")
    finish(ledger, studies, first, 300.0)
    known = studies._studies[STUDY].known()
    assert [trial.params for trial in known.all()] == [second.params]


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "gp"])
def test_a_restart_suggests_what_an_undisturbed_search_would(ledger: Ledger, sampler: str) -> None:
    experiment = experiment_of(sampler)
    start(ledger, experiment)
    studies = Studies(experiment, ledger)
    for rsum in (300.0, 310.0, 305.0):
        trial = studies.next()
        assert trial is not None
        finish(ledger, studies, trial, rsum)
    with reopened(ledger) as again:
        expected = Studies(experiment, again).next()
        assert expected is not None
    following = studies._studies[STUDY].draw(lambda suggestion: experiment.suggested(experiment.cells()[0], suggestion))
    assert following.params == expected.params


@pytest.mark.parametrize(("rsum", "candidates"), [(300.0, 2), (900.0, 1)])
def test_it_is_the_baseline_of_the_verdict_whether_it_wins_or_not(ledger: Ledger, rsum: float, candidates: int) -> None:
    experiment = experiment_of("random")
    start(ledger, experiment)
    studies = Studies(experiment, ledger)
    trials = list(iter(studies.next, None))
    for number, trial in enumerate(trials):
        finish(ledger, studies, trial, 400.0 + number if number else rsum)
    zero_shot = trials[0]
    default = published_default(ledger.history, "pets")
    assert default is not None and default.id == zero_shot.id
    (plan,) = wanted_plans(experiment, ledger.history)
    assert plan.baseline == zero_shot.id and zero_shot.id in plan.candidates and len(plan.candidates) == candidates
    assert {trial.id for trial in choose_candidates(ledger.history, 1)} == {*plan.candidates}
    # Analyses of the searched parameters leave it out: it has none of them.
    points = best_points(ledger.history.study(STUDY))
    assert set(differing([point.first for point in points])) == {"temperature", "model.rank"}


def repeated_history(ledger: Ledger, zero_shot: float) -> tuple[Experiment, History]:
    """Return a history of three searches of two losses, confirmed and evaluated on test."""
    search = {"sampler": "random", "trials": 3, "repeats": 3}
    experiment = experiment_of(losses=["nt_xent", "sigmoid"], search=search, confirm={"seeds": 2})
    start(ledger, experiment)
    studies = Studies(experiment, ledger)
    for number, trial in enumerate(iter(studies.next, None)):
        finish(ledger, studies, trial, zero_shot if trial.is_zero_shot else 400.0 + number)
    for plan in current_plans(experiment, ledger.history):
        ledger.append(plan)
    for planned in trainings_of(list(ledger.history.plans.values()), ledger.history):
        training = ledger.begin(planned)
        luck = 0.0 if training.is_zero_shot else (5.0 if training.config.loss == "nt_xent" else 0.0) + training.search
        rsum = zero_shot if training.is_zero_shot else 400.0 + luck
        ledger.report(training, 1, {"val/rsum": rsum}, TrialState.FINISHED)
    open_test(ledger, ledger.history.stage(Stage.CONFIRM))
    return experiment, ledger.history


def test_repeated_searches_are_compared_with_one_evaluation_of_it(ledger: Ledger) -> None:
    experiment, history = repeated_history(ledger, 390.0)
    (plan,) = history.plans.values()
    repeats = history.stage(Stage.CONFIRM)
    first = history.study("pets-clip-nt_xent")[0]
    assert first.is_zero_shot and plan.baseline == first.id and plan.candidates.count(first.id) == 1
    assert [trial.candidate for trial in repeats if trial.is_zero_shot] == [first.id], "nothing of it varies"
    assert len(repeats) == 2 * 3 * 2 + 1 == sum(experiment.most_confirmations().values())
    verdict = Summary(history).verdicts["pets"]
    names = [candidate.loss for candidate in verdict.candidates]
    assert names == ["nt_xent", "sigmoid", "zero_shot"] and verdict.baseline == first.id
    assert [candidate.count for candidate in verdict.candidates] == [3, 3, 1]
    # The oracle: a value for each search, the mean of its seeds, against one value.
    tests = {
        search: [
            history.tests[trial.id]["rsum"]
            for trial in repeats
            if trial.compared_loss == "nt_xent" and trial.search == search
        ]
        for search in (1, 2, 3)
    }
    (value,) = (history.tests[trial.id]["rsum"] for trial in repeats if trial.is_zero_shot)
    means = np.array([np.mean(of) for of in tests.values()])
    pair = verdict.pair_of[first.id]
    assert pair.difference == pytest.approx(means.mean() - value)
    variance = max(means.var(ddof=1), verdict.candidates[0].luck["test/rsum"]) / 3
    statistic = (means.mean() - value) / np.sqrt(variance)
    assert pair.comparison.p == pytest.approx(2 * scipy.stats.t.sf(abs(statistic), 2))


@pytest.mark.parametrize(("zero_shot", "verb"), [(390.0, "beats"), (430.0, "win")])
def test_the_page_says_which_side_varies(ledger: Ledger, zero_shot: float, verb: str) -> None:
    _, history = repeated_history(ledger, zero_shot)
    verdict = Summary(history).verdicts["pets"]
    assert verdict.decided_by == "searches", "also where it wins"
    answers = {answer.key: answer for answer in answer_questions(verdict)}
    published = answers["published"]
    assert f"{verb} " in published.headline.replace(".", " ") and "Zero-shot, trained = none" in published.headline
    said = "It has one value: the test is a one-sample test over the searches of the other side."
    assert said in published.notes
    loss = answers["loss"]
    assert loss.table is not None
    rows = loss.table.to_dict()["rows"]
    assert {row["loss"]: row["seeds"] for row in rows} == {"nt_xent": 3, "sigmoid": 3, "zero_shot": None}
    assert "(3 searches of 3 trials each)" in loss.headline or "(3 searches of 3 trials)" in loss.headline
    ahead = "Zero-shot was ahead of NT-Xent in 3 of 3 searches." if verb == "win" else "ahead of Sigmoid in"
    assert any(ahead in note for note in loss.notes)


def test_it_counts_in_no_search_as_a_trial_that_was_found(ledger: Ledger) -> None:
    _, history = repeated_history(ledger, 900.0)
    best = best_of_searches(history)
    assert len(best) == 6 and not any(trial.is_zero_shot for trial in best)
    # The luck of a search is that of its trained trials.
    searches = [[trial.best_value for trial in history.study(trial.study)[1:]] for trial in best[:3]]
    (candidate,) = (one for one in Summary(history).verdicts["pets"].candidates if one.loss == "nt_xent")
    assert candidate.luck["test/rsum"] == pytest.approx(variance_of_best(searches))


def test_what_is_never_trained_has_no_such_trial() -> None:
    (cell,) = experiment_of(model_parameters={"trained": "none"}, search={"trials": 2}).cells()
    assert cell.space.zero_shot == {} and cell.space.published_points() == [{"temperature": 0.1}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_parameters": {"trained": "blocks"}},
            "search.model_parameters: model_parameters.rank: goes with trained",
        ),
        ({"search": {"model_parameters": {"trained": {"values": ["lora", "whole"]}}}}, "trained cannot be searched"),
        ({"search": {"model_parameters": {"encoder": {"values": ["/a", "/b"]}}}}, "encoder cannot be searched"),
    ],
)
def test_what_its_trials_cannot_have_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        experiment_of(**changes)
