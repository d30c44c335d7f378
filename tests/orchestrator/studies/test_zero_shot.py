"""The first trial of a study of a pretrained model evaluates it as it was published; no sampler learns from it."""

from typing import Any

import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import best_points, differing
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.confirmation_plan import choose_candidates, published_default, wanted_plans
from orchestrator.studies.study import Studies
from tests.support.experiments import make_experiment, reopened, start
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
