"""What a search takes, by hand: epochs of halving, hours of trials side by side, the limit that is reached first."""

import pytest

from orchestrator.experiment.sections import Resources, Scheduler
from orchestrator.forecast.dry_run import Concurrency, StudyPlan, expected_epochs, forecast, limit_concurrency

NONE = Scheduler(name="none")
ASHA = Scheduler(name="asha", grace_epochs=1, reduction_factor=3)


@pytest.mark.parametrize(
    ("epochs", "rules", "mean"),
    [
        pytest.param(9, NONE, 9, id="nobody is stopped"),
        pytest.param(9, ASHA, 1 + 2 / 3 + 6 / 9, id="rungs at 1 and 3"),
        pytest.param(10, ASHA, 1 + 2 / 3 + 6 / 9 + 1 / 27, id="one more epoch for one in 27"),
        pytest.param(2, Scheduler(name="asha", grace_epochs=3), 2, id="shorter than the grace"),
        pytest.param(8, Scheduler(name="median"), 8, id="depends on the curves"),
    ],
)
def test_mean_epochs_of_a_trial(epochs: int, rules: Scheduler, mean: float) -> None:
    assert expected_epochs(epochs, rules) == pytest.approx(mean)


def simulated(epochs: int, grace: int, factor: int, trials: int) -> float:
    """Return the mean epochs where exactly one in ``factor`` passes each rung."""
    total, left, reached, rung = 0, trials, 0, grace
    while reached < epochs:
        total += left * (min(rung, epochs) - reached)
        reached, rung, left = min(rung, epochs), rung * factor, left // factor
    return total / trials


@pytest.mark.parametrize(("epochs", "grace", "factor"), [(27, 1, 3), (30, 3, 3), (12, 2, 2), (64, 4, 4)])
def test_mean_epochs_are_those_of_a_simulation(epochs: int, grace: int, factor: int) -> None:
    rules = Scheduler(name="asha", grace_epochs=grace, reduction_factor=factor)
    assert expected_epochs(epochs, rules) == pytest.approx(simulated(epochs, grace, factor, factor**8))


def planned(
    trials: int, confirmations: int, epochs: int, seconds: float, rules: Scheduler, test: tuple[int, float] = (0, 0.0)
) -> StudyPlan:
    return StudyPlan("any", trials, epochs, {}, (), seconds, expected_epochs(epochs, rules), confirmations, *test)


def test_hours_are_those_of_all_studies_side_by_side() -> None:
    plans = [planned(10, 6, 9, 36.0, ASHA), planned(4, 0, 5, 72.0, ASHA)]
    found = forecast(plans, Concurrency(2, "CPUs", 0.25))
    epochs = [10 * expected_epochs(9, ASHA) + 6 * 9, 4 * expected_epochs(5, ASHA)]
    assert (found.trials, found.confirmations, found.epochs_at_most) == (14, 6, 16 * 9 + 4 * 5)
    assert found.epochs == round(sum(epochs))
    assert found.hours == pytest.approx((epochs[0] * 36 + epochs[1] * 72) / 3600 / 2)
    assert found.gpu_hours == pytest.approx(found.hours * 2 * 0.25)
    assert found.hours_at_most == pytest.approx((16 * 9 * 36 + 4 * 5 * 72) / 3600 / 2)
    assert found.gpu_hours_at_most == pytest.approx(found.hours_at_most * 2 * 0.25)
    searched = [10 * expected_epochs(9, ASHA), 4 * expected_epochs(5, ASHA)]
    assert found.search_hours == pytest.approx((searched[0] * 36 + searched[1] * 72) / 3600 / 2)
    assert found.search_gpu_hours == pytest.approx(found.search_hours * 2 * 0.25)


@pytest.mark.parametrize(
    ("wanted", "gpus", "trials", "expected"),
    [
        pytest.param({"cpus": 1}, 0.0, 100, (8, "CPUs"), id="CPUs"),
        pytest.param({"cpus": 3}, 0.0, 100, (2, "CPUs"), id="what is left over helps nobody"),
        pytest.param({"cpus": 0.5}, 0.3333, 100, (6, "GPUs"), id="GPUs, a rounded third"),
        pytest.param({"cpus": 4}, 0.25, 100, (2, "CPUs"), id="CPUs before GPUs"),
        pytest.param({"cpus": 1, "max_concurrent": 3}, 0.0, 100, (3, "resources.max_concurrent"), id="a setting"),
        pytest.param({"cpus": 1}, 0.0, 5, (5, "the number of trials"), id="few trials"),
    ],
)
def test_the_limit_that_is_reached_first(
    wanted: dict[str, float], gpus: float, trials: int, expected: tuple[int, str]
) -> None:
    found = limit_concurrency(Resources(**wanted), gpus, {"CPU": 8.0, "GPU": 2.0}, trials)
    assert (found.trials, found.limited_by) == expected


def test_fused_trials_share_what_one_would_have() -> None:
    available = {"CPU": 8.0, "GPU": 2.0}
    assert limit_concurrency(Resources(cpus=2), 0.0, available, 100, fuse=4) == Concurrency(16, "CPUs", 0.0, 4, 4)
    assert limit_concurrency(Resources(cpus=1), 1.0, available, 100, fuse=16) == Concurrency(32, "GPUs", 1 / 16, 16, 16)
    assert limit_concurrency(Resources(cpus=1), 1.0, available, 20, fuse=16).trials == 20


@pytest.mark.parametrize(
    ("wanted", "gpus", "trials", "together"),
    [
        pytest.param({"cpus": 4}, 0.0, 100, 16, id="full"),
        pytest.param({"cpus": 4, "max_concurrent": 4}, 1.0, 100, 4, id="a limit below a GPU's"),
        pytest.param({"cpus": 4, "max_concurrent": 20}, 1.0, 100, 16, id="Ray fills a GPU first"),
        pytest.param({"cpus": 4, "max_concurrent": 5}, 0.0, 100, 3, id="over two stacks on CPUs"),
        pytest.param({"cpus": 8}, 0.0, 4, 4, id="few trials"),
    ],
)
def test_so_many_train_together_as_run_at_once(
    wanted: dict[str, float], gpus: float, trials: int, together: int
) -> None:
    found = limit_concurrency(Resources(**wanted), gpus, {"CPU": 8.0, "GPU": 2.0}, trials, fuse=16)
    assert (found.fuse, found.together) == (16, together)


def test_the_evaluation_on_test_counts_model_after_model() -> None:
    plans = [planned(10, 6, 9, 36.0, NONE, (6, 120.0)), planned(4, 4, 5, 72.0, NONE, (4, 60.0))]
    found = forecast(plans, Concurrency(2, "CPUs", 0.0))
    assert (found.evaluated, found.test_hours) == (10, pytest.approx((6 * 120 + 4 * 60) / 3600))
    assert found.search_hours == pytest.approx((10 * 9 * 36 + 4 * 5 * 72) / 3600 / 2)
    assert found.confirm_hours == pytest.approx((6 * 9 * 36 + 4 * 5 * 72) / 3600 / 2)
    assert (
        found.hours == found.hours_at_most == pytest.approx(found.search_hours + found.confirm_hours + found.test_hours)
    )
