"""The next epoch trains while a report is read: the same numbers and files, errors where they belong, nothing after."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.support.waiting import PATIENCE, wait_until
from tests.trainables.runs import numbers
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.checkpoint import BEST, STATE, EpochReport, read_file, run_ahead, save_epoch
from trainables.config import Change, TrialConfig
from trainables.errors import DivergedError
from trainables.trial import run_trial

DATA = tiny_dataset(images=24)
STEPS = 8
"""An epoch of 120 pairs, 16 a step."""

RICH = replace(
    tiny_config(epochs=4, weight_average=0.9, learning_rate_schedule="cosine"),
    loss_parameters={"temperature": "learned"},
)


def ahead_of(
    config: TrialConfig, resume: Path | None = None, on_step: Callable[[int], None] = lambda step: None
) -> Generator[EpochReport, None, None]:
    return run_ahead(partial(run_trial, config, DATA, resume, device="cpu"), on_step)


def saved(checkpoint: Path) -> list[tuple[str, object]]:
    """Return all values of a checkpoint's files, tensors as lists, but for what the clock decides."""

    def values(place: str, value: object) -> Iterator[tuple[str, object]]:
        if isinstance(value, dict):
            for key, each in value.items():
                yield from values(f"{place}/{key}", each)
        elif not place.startswith("/state/metrics/time"):
            yield place, value.tolist() if isinstance(value, torch.Tensor) else value

    return [*values("/state", read_file(checkpoint, STATE)), *values("/best", read_file(checkpoint, BEST))]


@pytest.mark.parametrize("config", [tiny_config(epochs=4), RICH], ids=["plain", "average, schedule, learned"])
def test_files_that_are_written_after_the_next_epoch_are_those_of_their_own(
    tmp_path: Path, config: TrialConfig
) -> None:
    # Before the others begin: two epochs at once would draw from the random numbers of one process.
    plain = [
        (numbers(report), saved(save_epoch(tmp_path / "plain", report)))
        for report in run_trial(config, DATA, device="cpu")
    ]
    taken: list[int] = []
    with closing(ahead_of(config, on_step=taken.append)) as ahead:
        for epoch, alone in enumerate(plain, start=1):
            report = next(ahead)
            wait_until(lambda: len(taken) == STEPS * min(4, epoch + 1), "the next epoch")  # noqa: B023  # called at once
            assert (numbers(report), saved(save_epoch(tmp_path / "ahead", report))) == alone
        assert next(ahead, None) is None


def test_trials_of_one_process_draw_their_own_random_numbers() -> None:
    configs = [tiny_config(loss="warp", epochs=6, seed=seed) for seed in (1, 2)]
    alone = [[numbers(report) for report in run_trial(config, DATA, device="cpu")] for config in configs]
    streams = [ahead_of(config) for config in configs]
    together = [[numbers(report) for report in reports] for reports in zip(*zip(*streams, strict=True), strict=True)]
    assert together == alone


@pytest.mark.parametrize("stop", [1, 3])
def test_a_checkpoint_that_was_written_beside_training_resumes_to_the_same_bits(tmp_path: Path, stop: int) -> None:
    *_, whole = ahead_of(RICH)
    stream = ahead_of(RICH)
    checkpoint = [save_epoch(tmp_path, next(stream)) for _ in range(stop)][-1]
    stream.close()
    *_, last = ahead_of(RICH, checkpoint)
    assert saved(save_epoch(tmp_path / "whole", whole)) == saved(save_epoch(tmp_path / "resumed", last))


def test_at_most_one_epoch_is_trained_ahead() -> None:
    taken: list[int] = []
    with closing(ahead_of(tiny_config(epochs=5), on_step=taken.append)) as ahead:
        next(ahead)
        wait_until(lambda: len(taken) == 2 * STEPS, "the second epoch")
        [thread] = training_threads()
        next(ahead)
        wait_until(lambda: len(taken) == 3 * STEPS, "the third epoch")
    assert not thread.is_alive() and len(taken) == 3 * STEPS


def test_an_epoch_that_nobody_wants_ends_with_its_step() -> None:
    taken: list[int] = []
    may_go_on = threading.Event()

    def hold(step: int) -> None:
        taken.append(step)
        if len(taken) == STEPS + 2:
            assert may_go_on.wait(PATIENCE)

    ahead = ahead_of(tiny_config(epochs=5), on_step=hold)
    next(ahead)
    wait_until(lambda: len(taken) == STEPS + 2, "the second step of the second epoch")
    [thread] = training_threads()
    ended = threading.Thread(target=ahead.close)
    ended.start()
    wait_until(lambda: ahead.gi_frame.f_locals["is_closed"].is_set(), "the end")
    may_go_on.set()
    ended.join()
    assert not thread.is_alive() and len(taken) == STEPS + 2


def test_an_epoch_that_diverges_ends_the_trial_after_the_report_before_it(tmp_path: Path) -> None:
    too_fast = Change(epoch=2, training={"learning_rate": 1e38})
    config = replace(tiny_config(epochs=3, gradient_clip=None), schedule=(too_fast,))
    ahead = ahead_of(config)
    save_epoch(tmp_path, next(ahead))
    with pytest.raises(DivergedError, match="in epoch 2"):
        next(ahead)
    assert not training_threads()


@contextmanager
def full_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*ignored: object, **options: object) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(torch, "save", refuse)
        yield


def test_a_writer_without_room_raises_its_own_error_and_leaves_the_last_whole_one(tmp_path: Path) -> None:
    ahead = ahead_of(tiny_config(epochs=3))
    kept = save_epoch(tmp_path, next(ahead))
    second = next(ahead)
    with full_disk(), pytest.raises(OSError, match="No space left"):
        save_epoch(tmp_path, second)
    assert sorted(tmp_path.iterdir()) == [kept]
    # With room again, the same snapshot is written whole.
    assert read_file(save_epoch(tmp_path, second), STATE)["epoch"] == 2
    ahead.close()


def training_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "training"]


def test_threads_of_pytorch_are_those_of_the_process() -> None:
    found, before = set(), torch.get_num_threads()

    def note(step: int) -> None:
        found.add(torch.get_num_threads())

    torch.set_num_threads(before + 1)
    try:
        list(ahead_of(tiny_config(epochs=1), on_step=note))
    finally:
        torch.set_num_threads(before)
    assert found == {before + 1}


def test_reports_of_a_resumed_trial_begin_with_that_of_its_checkpoint(tmp_path: Path) -> None:
    reports: list[EpochReport] = []
    for report in ahead_of(tiny_config(epochs=3)):
        reports.append(report)
        save_epoch(tmp_path / str(report.epoch), report)
    again = list(ahead_of(tiny_config(epochs=3), tmp_path / "2" / "epoch_0002"))
    assert [numbers(report) for report in again] == [numbers(report) for report in reports[1:]]
