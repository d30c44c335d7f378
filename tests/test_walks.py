"""The stories of ``docs/architecture.md`` walk through few rooms, and seldom up."""

from collections.abc import Callable, Generator

import pytest

from tests.walks import STORIES, Walk, is_above, walk
from trainables.checkpoint import EpochReport, run_ahead
from trainables.losses import build_loss

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("story", STORIES)
def test_a_story_walks_through_few_rooms_and_climbs_at_most_six_times(story: str) -> None:
    taken = walk(story)
    assert taken.steps, "nothing was noted"
    assert len(taken.rooms) <= 12, taken.rooms
    assert len(taken.climbs) <= 6, taken.climbs


@pytest.mark.parametrize(("ends", "is_step"), [((), True), (("trainables.checkpoint:run_ahead",), False)])
def test_what_a_thread_calls_is_called_by_who_started_the_thread(ends: tuple[str, ...], is_step: bool) -> None:
    """So that a story ends where another begins, whichever thread walks on."""

    def reports(on_step: Callable[[int], None]) -> Generator[EpochReport, None, None]:
        build_loss("nt_xent")
        yield EpochReport(1, {}, True, lambda folder: None)

    taken = Walk(ends=frozenset(ends))
    with taken.followed():
        list(run_ahead(reports))
    assert (("trainables.checkpoint:_answer", "trainables.losses:build_loss") in taken.steps) is is_step


def test_a_call_of_what_lies_above_is_a_climb() -> None:
    assert is_above("searches", "journal") and not is_above("journal", "searches")
    assert is_above("trial", "checkpoint") and is_above("storage", "checkpoint") and not is_above("data", "workload")
    steps = {("trainables.checkpoint:save_epoch", "trainables.trial:Trial.save"): None}
    assert list(Walk(steps=steps).climbs) == [("checkpoint", "trial")]
