"""The stories of ``docs/architecture.md`` walk through few rooms, and seldom up."""

import pytest

from tests.walks import STORIES, Walk, is_above, walk

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("story", STORIES)
def test_a_story_walks_through_few_rooms_and_climbs_at_most_six_times(story: str) -> None:
    taken = walk(story)
    assert taken.steps, "nothing was noted"
    # The last reads the results, trains, tests, packs and registers.
    assert len(taken.rooms) <= (13 if story == "from confirmation to registry" else 12), taken.rooms
    assert len(taken.climbs) <= 6, taken.climbs


def test_a_call_of_what_lies_above_is_a_climb() -> None:
    assert is_above("searches", "journal") and not is_above("journal", "searches")
    assert is_above("trial", "checkpoint") and is_above("storage", "checkpoint") and not is_above("data", "workload")
    steps = {("trainables.checkpoint:save_epoch", "trainables.trial:Trial.save"): None}
    assert list(Walk(steps=steps).climbs) == [("checkpoint", "trial")]
