"""Pareto fronts against the definition, pair by pair: best in no objective is no reason to be left out, beaten is."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.experiment.sections import Objective
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.analyses import pareto_fronts
from tests.support.experiments import make_experiment
from trainables.config import TrialConfig

GOALS = (Objective(metric="val/rsum"), Objective(metric="cocos/gradient_negatives", direction="minimize"))
POINTS = st.tuples(st.sampled_from(["pets", "birds"]), st.integers(0, 3), st.integers(0, 3))


def history_of(points: list[tuple[str, int, int]], state: TrialState = TrialState.FINISHED) -> History:
    """Return trials of one epoch with a value to maximise and a value to minimise."""
    history = History(experiment=BegunExperiment.of(make_experiment().to_dict()))
    for number, (dataset, rsum, negatives) in enumerate(points):
        trial = Trial(str(number), dataset, number, {}, TrialConfig(dataset=dataset), 0.0, state=state)
        trial.epochs[1] = {"val/rsum": float(rsum), "cocos/gradient_negatives": float(negatives)}
        history.trials[trial.id] = trial
    return history


@given(points=st.lists(POINTS, max_size=9))
def test_a_front_holds_the_trials_that_nobody_of_their_dataset_beats(points: list[tuple[str, int, int]]) -> None:
    expected: dict[str, set[str]] = {}
    for number, (dataset, rsum, negatives) in enumerate(points):
        rivals = [(one[1], one[2]) for one in points if one[0] == dataset]
        beaten = any(
            (other > rsum and count <= negatives) or (other >= rsum and count < negatives) for other, count in rivals
        )
        if not beaten:
            expected.setdefault(dataset, set()).add(str(number))
    fronts = pareto_fronts(history_of(points), GOALS)
    assert {dataset: {point.first.id for point in front} for dataset, front in fronts.items()} == expected
    for front in fronts.values():
        values = [point.value for point in front]
        assert values == sorted(values, reverse=True)


def test_trials_that_did_not_finish_are_on_no_front() -> None:
    assert pareto_fronts(history_of([("pets", 3, 0)], TrialState.STOPPED_EARLY), GOALS) == {}
