"""What a search takes, by hand: epochs of halving, hours of trials side by side, the limit that is reached first."""

import dataclasses

import pytest

from orchestrator.experiment.sections import Resources, Scheduler
from orchestrator.searches.dry_run import Concurrency, forecast, limit_concurrency
from orchestrator.searches.time_left import expected_epochs
from tests.support.experiments import make_experiment

NONE = Scheduler(name="none")
ASHA = Scheduler(name="asha", grace_epochs=1, reduction_factor=3)
SETTING, TRIALS, FUSED = "resources.max_concurrent", "the number of trials", {"fuse": 16}


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


def test_hours_are_those_of_all_studies_side_by_side() -> None:
    experiment = make_experiment(
        training={"epochs": 9},
        search={"sampler": "random", "trials": 10},
        scheduler={"name": "asha", "grace_epochs": 1, "reduction_factor": 3},
        overrides=[{"losses": ["triplet_sh"], "training": {"epochs": 5}}],
        confirm={"top": 2, "seeds": 2, "published": "best"},
        budget={"hours": 0.001},
    )
    found = forecast(
        experiment, {"pets-vsepp-nt_xent": 36.0, "pets-vsepp-triplet_sh": 72.0}, 90.0, Concurrency(2, "CPUs", 0.25)
    )
    # Two of each study and the baseline, which is counted with the first study, with two seeds each.
    search = (10 * expected_epochs(9, ASHA) * 36 + 10 * expected_epochs(5, ASHA) * 72) / 3600 / 2
    confirm = (6 * 9 * 36 + 4 * 5 * 72) / 3600 / 2
    test = 10 * 90 / 3600
    assert (found.trials, found.confirmations, found.evaluated, found.epochs_at_most) == (20, 10, 10, 16 * 9 + 14 * 5)
    assert found.epochs == round(10 * expected_epochs(9, ASHA) + 10 * expected_epochs(5, ASHA) + 6 * 9 + 4 * 5)
    assert found.stages == pytest.approx({"search": search, "confirm": confirm, "test": test})
    assert found.hours == pytest.approx(search + confirm + test)
    assert found.hours_at_most == pytest.approx((16 * 9 * 36 + 14 * 5 * 72) / 3600 / 2 + test)
    assert found.gpu_hours == pytest.approx((search + confirm) * 2 * 0.25)
    assert found.gpu_hours_at_most == pytest.approx((found.hours_at_most - test) * 2 * 0.25)
    assert found.search_gpu_hours == pytest.approx(search * 2 * 0.25)


@pytest.mark.parametrize(
    ("wanted", "gpus", "trials", "expected"),
    [
        pytest.param({"cpus": 1}, 0.0, 100, (8, "CPUs"), id="CPUs"),
        pytest.param({"cpus": 3}, 0.0, 100, (2, "CPUs"), id="what is left over helps nobody"),
        pytest.param({"cpus": 0.5}, 0.3333, 100, (6, "GPUs"), id="GPUs, a rounded third"),
        pytest.param({"cpus": 4}, 0.25, 100, (2, "CPUs"), id="CPUs before GPUs"),
        pytest.param({"cpus": 1, "max_concurrent": 3}, 0.0, 100, (3, SETTING), id="a setting"),
        pytest.param({"cpus": 1}, 0.0, 5, (5, TRIALS), id="few trials"),
        pytest.param({"cpus": 4, **FUSED}, 0.0, 100, (32, "CPUs", 0.0, 16, 16), id="full"),
        pytest.param({"cpus": 1, **FUSED}, 1.0, 100, (32, "GPUs", 1 / 16, 16, 16), id="fused on GPUs"),
        pytest.param(
            {"cpus": 4, "max_concurrent": 4, **FUSED}, 1.0, 100, (4, SETTING, 1 / 16, 16, 4), id="below a GPU's"
        ),
        pytest.param({"cpus": 1, **FUSED}, 1.0, 20, (20, TRIALS, 1 / 16, 16, 16), id="a GPU first"),
        pytest.param({"cpus": 4, "max_concurrent": 5, **FUSED}, 0.0, 100, (5, SETTING, 0.0, 16, 3), id="two stacks"),
        pytest.param({"cpus": 8, **FUSED}, 0.0, 4, (4, TRIALS, 0.0, 16, 4), id="fused, few trials"),
    ],
)
def test_the_limit_that_is_reached_first(wanted: dict[str, float], gpus: float, trials: int, expected: tuple) -> None:
    available = {"CPU": 8.0, "GPU": 2.0}
    found = limit_concurrency(Resources(**wanted), gpus, available, trials, int(wanted.get("fuse", 1)))
    assert dataclasses.astuple(found)[: len(expected)] == expected
