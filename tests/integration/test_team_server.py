"""What a team has: a tracking server on PostgreSQL with artifacts in a bucket; a search, sync and compare on it."""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.searches.search import run_search
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.server import DRIVER, DRIVER_PASSWORD
from tests.faults.invariants import assert_tracked_once
from tests.servers.mlflow_server import MlflowServer
from tests.servers.postgres import postgres_server
from tests.support.bucket import CREDENTIALS, free_port, keys, make_bucket, s3_server
from tests.support.commands import run_command
from tests.support.experiments import add_trial, begun, make_experiment
from tests.support.fake_workload import FakeWorkload
from tests.support.records import append
from trainables.config import TrialConfig

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3_server("127.0.0.1", free_port()) as endpoint:
        make_bucket(endpoint)
        yield endpoint


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, bucket: str) -> Iterator[MlflowServer]:
    folder = tmp_path_factory.mktemp("server")
    environment = {**CREDENTIALS, "MLFLOW_S3_ENDPOINT_URL": bucket}
    with (
        postgres_server() as database,
        MlflowServer(database, folder, "s3://bucket/mlflow", environment=environment) as running,
    ):
        yield running


def experiment_of(uri: str, name: str) -> str:
    found = MlflowClient(tracking_uri=uri).get_experiment_by_name(name)
    return str(found.experiment_id)


def test_search_sync_and_compare_on_postgresql_with_artifacts_in_a_bucket(
    server: MlflowServer, bucket: str, ray_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, uri = tmp_path / "runs", server.uri
    experiment = make_experiment(search={"sampler": "random", "trials": 2}, training={"epochs": 3})
    result = run_search(experiment, FakeWorkload(), output, tracking_uri=uri, quiet=True)
    assert result.tracking_problem is None
    history = History.of(read_journal(output / "tiny" / "journal.jsonl"))
    assert_tracked_once(uri, history)
    assert not (output / "mlflow.db").exists()
    assert not (output / "artifacts").exists()

    client = MlflowClient(tracking_uri=uri)
    runs = client.search_runs([experiment_of(uri, "tiny")], "tags.kind = 'trial'")
    for run in runs:
        held = {key.rpartition("/")[2] for key in keys(bucket) if f"/{run.info.run_id}/" in key}
        assert "config.yaml" in held
        config = Path(client.download_artifacts(run.info.run_id, "config.yaml", str(tmp_path)))
        assert (
            TrialConfig.from_dict(yaml.safe_load(config.read_text())) == history.trials[run.data.tags["trial"]].config
        )

    there = sorted(keys(bucket))
    place = ["--output", str(output), "--tracking-uri", uri]
    assert run_command(["sync", "tiny", *place, "--json"]) == 0
    delivered = json.loads(capsys.readouterr().out)
    agreed = {"experiment": "tiny", "runs": len(history.trials), "running": False, "duplicates": 0, "sent": True}
    assert delivered["experiments"] == [agreed]
    assert_tracked_once(uri, history)
    assert sorted(keys(bucket)) == there

    first, second = list(history.trials)[:2]
    assert run_command(["compare", first, second, *place]) == 0
    said = capsys.readouterr().out
    by_trial = {run.data.tags["trial"]: run.info.run_id for run in runs}
    assert f"{uri}/#/compare-runs" in said
    assert by_trial[first] in said
    assert by_trial[second] in said


def test_a_server_with_passwords_takes_what_comes_with_one(
    tmp_path: Path, store_template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(store_template, tmp_path / "mlflow.db")
    output = tmp_path / "runs"
    with begun(output / "tiny") as ledger:
        add_trial(ledger, [1.0, 2.0])
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    account, environment = ("admin", "not the usual one"), {DRIVER_PASSWORD: "of the searches"}
    with MlflowServer(default_uri(tmp_path), tmp_path, account=account, environment=environment) as server:
        place = ["--output", str(output), "--tracking-uri", server.uri]
        assert run_command(["sync", *place]) == 2
        assert "You are not authenticated" in capsys.readouterr().err
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", DRIVER)
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "of the searches")
        assert run_command(["sync", *place]) == 0
        assert_tracked_once(server.uri, ledger.history)
        assert run_command(["compare", "tiny", "tiny", *place]) == 0
        said = capsys.readouterr()
        assert f"{server.uri}/#/compare-runs" in said.out
        assert "of the searches" not in said.out + said.err
        # Flask comes with it, which takes each process of the tests a second to import.
        from mlflow.server import get_app_client

        accounts = get_app_client("basic-auth", tracking_uri=server.uri)
        with pytest.raises(MlflowException, match="PERMISSION_DENIED|Permission denied|403"):
            accounts.create_user("friend", "with a long password")
        for path in ("/ajax-api/3.0/mlflow/assistant/config", "/api/3.0/mlflow/gateway/secrets/list"):
            with pytest.raises(HTTPError, match="404"):
                urllib.request.urlopen(f"{server.uri}{path}", timeout=30)
