"""The pace of a training: its steps are counted as the loop takes them, and told apart from its evaluation."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.support.simulated_gpu import simulated_gpu
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables import cost
from trainables.cost import STEPS, Pace, choose_fusion, measure_pace, measure_rates, take_steps
from trainables.data.batches import ResidentSplit, count_steps, epoch_batches
from trainables.models.scan import SCAN
from trainables.models.vsepp import VSEPP
from trainables.trial import Trial

CPU = torch.device("cpu")


@pytest.mark.parametrize("batches", ["pairs", "images"])
@pytest.mark.parametrize("batch_size", [2, 7, 59, 60, 299, 300, 500])
def test_steps_are_those_of_an_epoch(batches: str, batch_size: int) -> None:
    data = tiny_dataset()
    training = tiny_config(batches=batches, batch_size=batch_size).training
    split = ResidentSplit(data.splits["train"], CPU)
    taken = list(epoch_batches(split, training, torch.Generator()))
    assert count_steps(data.splits["train"], training) == len(taken)


def test_steps_and_evaluation_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves 2 s a step, 1 s before the first, 5 s an evaluation of a third of val, 4 s for COCOS."""
    now = [0.0]

    def advance(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(cost, "Trial", lambda *ignored: None)
    monkeypatch.setattr(cost, "take_steps", lambda trial, steps: advance(2 * steps + 1))
    monkeypatch.setattr(cost, "shorten_val", lambda trial: 3.0)
    monkeypatch.setattr(cost, "evaluate", lambda trial: advance(5))
    monkeypatch.setattr(cost, "count", lambda trial: advance(4))
    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])
    found = measure_pace(tiny_config(batch_size=30), tiny_dataset(), CPU, steps=4)
    assert found == Pace("cpu", steps=10, step_seconds=2.0, evaluation_seconds=19.0)
    assert found.epoch_seconds == 39.0


@pytest.mark.parametrize(("quick", "images"), [(10_000, 20), (400, 8), (1, 2)])
def test_a_model_that_compares_pairs_is_evaluated_on_part_of_val(
    quick: int, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(tiny_config(batch_size=8), model="scan")
    data = suited(tiny_dataset(), config)
    val = data.splits["val"]
    assert (len(val.image_rows), len(val.captions)) == (20, 100)
    monkeypatch.setattr(SCAN, "quick_pairs", quick)
    trial = Trial(config, data, CPU)
    assert cost.shorten_val(trial) == 2_000 / (images * images * 5)
    assert trial.val_split.image_count == images
    cost.evaluate(trial)


@pytest.mark.parametrize(("seconds", "counts"), [(0.01, [1, 9]), (0.5, [1, 5]), (3.0, [1, 3])])
def test_fewer_of_long_steps_are_timed(seconds: float, counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [0.0], []

    def take(count: int) -> None:
        asked.append(count)
        now[0] += seconds * count

    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])
    assert cost.step_seconds(take) == pytest.approx(seconds)
    assert sorted({*asked}) == counts


@pytest.mark.parametrize(("seconds", "found", "times"), [([4.0, 1.0], 4.0, 1), ([0.9, 1.2], 1.2, 2)])
def test_long_work_is_no_rehearsal(
    seconds: list[float], found: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, left = [0.0], list(seconds)

    def work() -> None:
        now[0] += left.pop(0)

    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])
    assert cost.rehearsed(work) == pytest.approx(found)
    assert len(seconds) - len(left) == times


@pytest.mark.parametrize(
    ("seconds", "found", "times"),
    [([0.3, 0.1, 0.2, 0.15, 0.25], 0.1, 5), ([0.7, 0.6, 0.1], 0.6, 2), ([4.0, 1.0], 4.0, 1)],
    ids=["short", "longer", "long"],
)
def test_short_work_is_timed_again(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float], found: float, times: int
) -> None:
    now, left = [0.0], list(seconds)

    def work() -> None:
        now[0] += left.pop(0)

    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])
    assert cost.quickest(work) == pytest.approx(found)
    assert len(seconds) - len(left) == times


@pytest.mark.parametrize(
    ("seconds", "rates"),
    [
        ({2: 1.0, 4: 1.0, 8: 2.0, 16: 1.0}, {1: 1, 2: 2, 4: 4, 8: 4, 16: 16}),
        ({2: 2.0, 4: 4.0, 8: 1.0}, {1: 1, 2: 1, 4: 1}),
        ({2: 4.0, 4: 1.0}, {1: 1, 2: 0.5}),
    ],
    ids=["a step that does not pay", "two that do not", "one that costs"],
)
def test_more_trials_are_tried_while_they_pay(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], rates: dict[int, float]
) -> None:
    monkeypatch.setattr(cost, "measure_pace", lambda *ignored: Pace("cpu", 19, 1.0, 0.0))
    monkeypatch.setattr(cost, "_common_step_seconds", lambda trials, train: seconds[len(trials)])
    found = measure_rates(tiny_config(), tiny_dataset(), CPU, tuple(seconds))
    assert {trials: rate / found[1] for trials, rate in found.items()} == pytest.approx(rates)


def test_no_number_of_trials_is_taken_that_hardly_fits_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight take 0.64 of its memory, and nine 0.81; a study before in the same process has filled it."""
    peak = [1.0]

    def take_step(trials: list[Trial], train: object) -> float:
        peak[0] = max(peak[0], len(trials) ** 2 / 100)
        return 1.0

    with simulated_gpu() as gpu:
        free, _ = torch.cuda.mem_get_info(gpu)
        monkeypatch.setattr(cost, "measure_pace", lambda *ignored: Pace("cuda", 19, 1.0, 0.0))
        monkeypatch.setattr(cost, "_common_step_seconds", take_step)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda *ignored: peak.__setitem__(0, 0.0))
        monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda *ignored: int(peak[0] * free))
        assert list(measure_rates(tiny_config(), tiny_dataset(), gpu, (2, 8, 9))) == [1, 2, 8]


def test_a_step_of_stacked_trials_is_timed() -> None:
    rates = measure_rates(tiny_config(), tiny_dataset(), CPU, (2,))
    assert list(rates) == [1, 2]
    assert all(0 < rate < math.inf for rate in rates.values())


def test_what_cannot_be_stacked_is_tried_in_turns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VSEPP, "can_stack", False)
    assert list(measure_rates(tiny_config(), tiny_dataset(), CPU, (2,))) == [1]
    assert list(measure_rates(tiny_config(), tiny_dataset(), CPU, (2,), in_turns=True)) == [1, 2]


@pytest.mark.parametrize(
    ("rates", "chosen"),
    [
        ({1: 10.0}, 1),
        ({1: 10.0, 4: 9.0}, 1),
        ({1: 10.0, 4: 10.5, 16: 10.9}, 1),
        ({1: 10.0, 4: 30.0, 16: 90.0, 64: 91.0}, 16),
        ({1: 10.0, 4: 10.5, 16: 11.5}, 16),
    ],
    ids=["nothing to fuse", "slower", "hardly faster", "until it ends to pay", "in two small steps"],
)
def test_as_many_are_fused_as_gain_by_it(rates: dict[int, float], chosen: int) -> None:
    assert choose_fusion(rates) == chosen


@pytest.fixture
def taken() -> Iterator[list[None]]:
    """An entry for each step of an optimiser."""
    steps: list[None] = []
    hook = register_optimizer_step_post_hook(lambda *ignored: steps.append(None))
    yield steps
    hook.remove()


@pytest.mark.parametrize("steps", [1, 3])
def test_so_many_steps_are_measured(taken: list[None], steps: int) -> None:
    take_steps(Trial(tiny_config(batch_size=8), tiny_dataset(), CPU), steps)
    assert len(taken) == steps


def test_a_rehearsal_that_diverges_is_measured_all_the_same(taken: list[None]) -> None:
    data = tiny_dataset()
    data.splits["train"].features[:] = math.nan
    trial = Trial(tiny_config(batch_size=8), data, CPU)
    take_steps(trial, STEPS)
    cost.evaluate(trial)
    cost.count(trial)
    assert not taken
