"""What a run holds arrives in as few requests as MLflow allows, and a step arrives whole."""

from dataclasses import dataclass, field
from itertools import chain
from typing import cast

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from orchestrator.tracking.runs import LIMIT, Run, RunBatch


@dataclass
class Requests:
    """Stands for MLflow's client: keeps each request instead of sending it, or refuses from some request on."""

    refused_from: int = 10**9
    sent: list[tuple[list[Metric], list[Param], list[RunTag]]] = field(default_factory=list)

    def log_batch(self, run_id: str, metrics: list[Metric], params: list[Param], tags: list[RunTag]) -> None:
        if len(self.sent) >= self.refused_from:
            raise ConnectionError(run_id)
        self.sent.append((metrics, params, tags))


def batch_of(requests: Requests, step: int = 0) -> tuple[RunBatch, Run]:
    run = Run("r1", "file:///nowhere", step=step)
    return RunBatch(cast("MlflowClient", requests), run), run


def test_a_trial_that_began_and_ended_is_one_request() -> None:
    requests = Requests()
    batch, run = batch_of(requests)
    batch.add_params({"temperature": 0.1, "layers": [1, 2]})
    for epoch in (1, 2, 3):
        batch.add_metrics({"val/rsum": float(epoch), "epoch": float(epoch)}, 5.0 + epoch, epoch, ends_step=True)
    batch.add_metrics({"test/rsum": 9.0}, 8.0, 2)
    batch.add_tags({"state": "finished"})
    assert run.step == 0, "nothing was sent yet"
    batch.send()
    ((metrics, params, tags),) = requests.sent
    assert [(one.key, one.value, one.step, one.timestamp) for one in metrics] == [
        ("val/rsum", 1.0, 1, 6000),
        ("epoch", 1.0, 1, 6000),
        ("val/rsum", 2.0, 2, 7000),
        ("epoch", 2.0, 2, 7000),
        ("val/rsum", 3.0, 3, 8000),
        ("epoch", 3.0, 3, 8000),
        ("test/rsum", 9.0, 2, 8000),
    ]
    assert {one.key: one.value for one in params} == {"temperature": "0.1", "layers": "[1, 2]"}
    assert {one.key: one.value for one in tags} == {"state": "finished"}
    assert run.step == 3


def test_what_was_sent_is_not_sent_again_and_nothing_makes_no_request() -> None:
    requests = Requests()
    batch, run = batch_of(requests, step=4)
    batch.send()
    assert requests.sent == []
    batch.add_tags({"state": "running"})
    batch.send()
    batch.send()
    assert (len(requests.sent), run.step) == (1, 4)


@pytest.mark.parametrize(("width", "steps"), [(300, 10), (999, 3), (1000, 2), (7, 400)])
def test_no_request_is_too_long_and_no_step_is_torn(width: int, steps: int) -> None:
    requests = Requests()
    batch, run = batch_of(requests)
    batch.add_params({"seed": 0})
    for step in range(1, steps + 1):
        batch.add_metrics({f"m{number}": float(step) for number in range(width)}, 1.0, step, ends_step=True)
    batch.send()
    assert all(sum(map(len, parts)) <= LIMIT for parts in requests.sent)
    found = [sorted({one.step for one in metrics}) for metrics, _, _ in requests.sent]
    assert list(chain.from_iterable(found)) == list(range(1, steps + 1)), "each step is in one request"
    assert sum(len(metrics) for metrics, _, _ in requests.sent) == width * steps
    assert run.step == steps


def test_after_a_refusal_the_run_knows_the_last_whole_step() -> None:
    requests = Requests(refused_from=1)
    batch, run = batch_of(requests)
    for step in (1, 2):
        batch.add_metrics({f"m{number}": 1.0 for number in range(600)}, 1.0, step, ends_step=True)
    with pytest.raises(ConnectionError):
        batch.send()
    assert run.step == 1
