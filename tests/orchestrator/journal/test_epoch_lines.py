"""An epoch that is read without making its numbers is the epoch that JSON makes of the line."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.records import Metrics, parse, read_record

NAMES = st.sampled_from(["val/rsum", "val/rsum_best", "rsum", 'a","val/rsum', 'a{"rsum', "é", "", "train/loss"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)

EPOCH = {"n": 7, "time": 5.25, "elapsed": 0.5, "kind": "epoch", "trial": "a-0001", "epoch": 3}


def made(text: dict[str, float]) -> Metrics:
    return Metrics(json.dumps(text, separators=(",", ":")).encode())


@given(metrics=st.dictionaries(NAMES, NUMBERS, max_size=6), asked=NAMES)
def test_metrics_are_those_of_the_text(metrics: dict[str, float], asked: str) -> None:
    assert made(metrics).get(asked, "absent") == metrics.get(asked, "absent")
    assert type(made(metrics).get(asked)) is type(metrics.get(asked))
    assert (asked in made(metrics)) is (asked in metrics)
    whole = made(metrics)
    assert whole == metrics and list(whole.items()) == list(metrics.items())
    assert whole.get(asked, "absent") == metrics.get(asked, "absent"), "after all numbers were made"
    assert pickle.loads(pickle.dumps(made(metrics))) == metrics


def test_a_metric_that_is_not_there_is_an_error() -> None:
    metrics = made({"val/rsum": 1.5})
    with pytest.raises(KeyError):
        metrics["rsum"]
    assert len(metrics) == 1
    with pytest.raises(KeyError):
        metrics["rsum"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="as written today"),
        pytest.param({"elapsed": None}, id="by a version that knew no elapsed time"),
        pytest.param({"time": 5, "elapsed": 0}, id="whole seconds"),
        pytest.param({"time": 1e-7}, id="an exponent"),
        pytest.param({"trial": "é"}, id="escaped"),
        pytest.param({"further": 1}, id="a field of a newer version"),
    ],
)
@pytest.mark.parametrize("state", ["running", "finished", "stopped_early"])
def test_a_line_gives_the_record_that_its_values_give(changes: dict[str, Any], state: str) -> None:
    line = {name: value for name, value in {**EPOCH, **changes}.items() if value is not None}
    line |= {"metrics": {"val/rsum": 8.5, "train/loss": 1e-9, "val/i2t_medr": 3}, "state": state}
    assert read_record(json.dumps(line, separators=(",", ":")).encode()) == parse(line)


@pytest.mark.parametrize("inside", [{"val/rsum": 1}, [1], {"x": 0, "val/rsum": 1}])
def test_numbers_inside_other_values_are_no_metrics(inside: Any) -> None:
    line = {**EPOCH, "metrics": {"train/loss": 2.0, "later": inside}, "state": "running"}
    metrics = read_record(json.dumps(line, separators=(",", ":")).encode())["metrics"]
    assert (metrics.get("val/rsum"), metrics["train/loss"], metrics["later"]) == (None, 2.0, inside)
