"""The epochs of a trial give back what was put in, in the order in which it came, and take a fifth of the memory."""

import json
import tracemalloc
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.epochs import Epochs

NAMES = st.sampled_from(["val/rsum", "train/loss", "val/mAP", "cocos/i2t_gradient_queries", "time/epoch_seconds"])
ROWS = st.dictionaries(NAMES, st.floats(allow_nan=False) | st.integers(-9, 9).map(float), max_size=5)


@given(st.lists(st.tuples(st.integers(1, 6), ROWS), max_size=12))
def test_they_are_what_a_dictionary_of_dictionaries_is(came: list[tuple[int, dict[str, float]]]) -> None:
    epochs, plain = Epochs(), dict[int, dict[str, float]]()
    for epoch, metrics in came:
        epochs[epoch] = plain[epoch] = metrics
    assert epochs == plain and list(epochs) == list(plain) and len(epochs) == len(plain)
    assert [list(metrics.items()) for metrics in epochs.values()] == [list(each.items()) for each in plain.values()]
    for name in ("val/rsum", "train/loss"):
        assert epochs.values_of(name) == {epoch: each[name] for epoch, each in plain.items() if name in each}
    assert Epochs(plain) == epochs
    for epoch in list(plain)[:1]:
        del epochs[epoch]
        assert epoch not in epochs


def test_metrics_are_the_readers_own() -> None:
    epochs = Epochs({1: {"val/rsum": 1.5}})
    metrics: Any = epochs[1]
    metrics["val/rsum"] = 9.0
    assert epochs == {1: {"val/rsum": 1.5}}


def test_an_epoch_takes_a_fifth_of_a_dictionary() -> None:
    line = json.dumps(
        {f"val/{way}_metric_with_a_long_name_{number}": 0.5 for way in ("i2t", "t2i") for number in range(15)}
    )

    def size(kept: Any) -> int:
        tracemalloc.start()
        for epoch in range(1, 301):
            # Each record is read from its own line.
            metrics: Mapping[str, float] = json.loads(line)
            kept[epoch] = metrics
            del metrics
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return taken

    Epochs({1: json.loads(line)})
    assert 5 * size(Epochs()) < size({})
