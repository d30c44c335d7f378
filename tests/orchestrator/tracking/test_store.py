"""What a store holds: requests as large as MLflow takes, artifacts in their place, and curves that grow."""

import random
from collections import defaultdict
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import cast
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.utils.validation import MAX_ENTITIES_PER_BATCH

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.tracking.store import CurvePoint, StudyCurves, find_or_make, send
from tests.support.experiments import begun, make_experiment


class Requests:
    def __init__(self) -> None:
        self.sent: list[tuple[list[Metric], list[Param], list[RunTag]]] = []

    def log_batch(self, run_id: str, metrics: list[Metric], params: list[Param], tags: list[RunTag]) -> None:
        self.sent.append((metrics, params, tags))


def test_a_trial_that_began_and_ended_is_one_request() -> None:
    requests = Requests()
    client = cast(MlflowClient, requests)
    epochs = [CurvePoint({"val/rsum": float(epoch), "epoch": float(epoch)}, 5.0 + epoch, epoch) for epoch in (1, 2)]
    points = [*epochs, CurvePoint({"test/rsum": 9.0}, 8.0, 2)]
    send(client, "r1", params={"temperature": 0.1, "layers": [1, 2]}, points=points, tags={"state": "finished"})
    send(client, "r1")
    ((metrics, params, tags),) = requests.sent
    assert [(one.key, one.value, one.step, one.timestamp) for one in metrics] == [
        ("val/rsum", 1.0, 1, 6000),
        ("epoch", 1.0, 1, 6000),
        ("val/rsum", 2.0, 2, 7000),
        ("epoch", 2.0, 2, 7000),
        ("test/rsum", 9.0, 2, 8000),
    ]
    assert {one.key: one.value for one in params} == {"temperature": "0.1", "layers": "[1, 2]"}
    assert {one.key: one.value for one in tags} == {"state": "finished"}


@pytest.mark.parametrize(("width", "steps"), [(300, 10), (998, 3), (1000, 2), (7, 400)])
def test_no_request_is_too_long_no_step_is_torn_and_tags_come_last(width: int, steps: int) -> None:
    requests = Requests()
    values = {f"m{number}": 1.0 for number in range(width)}
    points = [CurvePoint(values, 1.0, step) for step in range(1, steps + 1)]
    tags = {} if width == 1000 else {"state": "finished"}
    send(cast(MlflowClient, requests), "r1", params={"seed": 0}, points=points, tags=tags)
    assert all(sum(map(len, parts)) <= MAX_ENTITIES_PER_BATCH for parts in requests.sent)
    found = [sorted({one.step for one in metrics}) for metrics, _, _ in requests.sent]
    assert list(chain.from_iterable(found)) == list(range(1, steps + 1)), "each step is in one request"
    assert sum(len(metrics) for metrics, _, _ in requests.sent) == width * steps
    assert [len(params) for _, params, _ in requests.sent] == [1] + [0] * (len(found) - 1)
    assert [len(sent) for _, _, sent in requests.sent] == [0] * (len(found) - 1) + [len(tags)]


@pytest.mark.parametrize(
    ("uri", "is_ours"),
    [
        ("sqlite:////runs/mlflow.db", True),
        ("postgresql://me@host/db", True),
        ("postgresql+psycopg2://me@host/db", True),
        ("https://mlflow.example", False),
        ("databricks://profile", False),
    ],
)
def test_artifacts_of_a_database_are_in_the_output_folder(tmp_path: Path, uri: str, is_ours: bool) -> None:
    client = Mock(**{"get_experiment_by_name.return_value": None, "create_experiment.return_value": "7"})
    assert find_or_make(client, "tiny", uri, tmp_path) == "7"
    folder = tmp_path / "artifacts" / "tiny"
    location = {"artifact_location": folder.as_uri()} if is_ours else {}
    client.create_experiment.assert_called_once_with("tiny", **location)
    assert folder.is_dir() == is_ours


Curve = list[tuple[int, float | None]]
"""The number of ended trials and the best mean of a setting after each."""


def whole_curve(history: History, study: str) -> Curve:
    """Return the curve of a study, made from nothing for each point."""
    own = [trial for trial in history.ended if trial.study == study and trial.stage is Stage.SEARCH]
    found: Curve = []
    for count in range(1, len(own) + 1):
        values: dict[str, list[float]] = {}
        for trial in own[:count]:
            if trial.state is TrialState.FINISHED:
                values.setdefault(trial.candidate or trial.id, []).append(trial.best_value or 0.0)
        found.append((count, max(map(fmean, values.values())) if values else None))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_curve_that_grew_is_the_curve_of_all_trials(tmp_path: Path, seed: int) -> None:
    """Thirty trials of two studies end in another order than they began; a third of them repeat a setting."""
    experiment, chance, curves = make_experiment(), random.Random(seed), StudyCurves()
    live: list[Trial] = []
    firsts: list[str] = []
    grown: dict[str, Curve] = defaultdict(list)
    with begun(tmp_path, experiment) as ledger:
        for number in range(30):
            cell = experiment.cells()[number % 2]
            params = {name: 0.1 for name in cell.space.bounds()}
            repeated = chance.choice(firsts) if firsts and chance.random() < 0.3 else ""
            first = repeated if repeated.startswith(cell.name) else None
            trial = ledger.create(cell.name, number, params, experiment.trial_config(cell, {}), first or None)
            firsts += [] if first else [trial.id]
            live.append(trial)
            if len(live) > 3:
                ended = live.pop(chance.randrange(4))
                if (state := chance.choice([*TrialState][1:4])) is TrialState.DIVERGED:
                    ledger.end(ended, state, "not finite")
                else:
                    ledger.report(ended, 1, {"val/rsum": chance.random()}, state)
            if chance.random() < 0.3 or number == 29:
                for study, (values, _, count) in curves.grow(ledger.history):
                    assert values["trials_ended"] == count
                    grown[study].append((count, values.get("val/rsum_best")))
    assert {cell.name: whole_curve(ledger.history, cell.name) for cell in experiment.cells()} == grown
