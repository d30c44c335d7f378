"""What deploy/compose starts, started for real without containers: its commands, its environment, its secrets.

PostgreSQL, an S3 server, the tracking server and a Ray head run on ports of this machine; a search and a rerun go
through them. What differs from the compose file is where things listen, and that Ray has no dashboard.
"""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import boto3
import psutil
import psycopg2
import pytest
import yaml

from orchestrator.journal.directory import read_history
from orchestrator.journal.history import History
from orchestrator.storage.bucket import ObjectStore
from orchestrator.tracking.server import DRIVER
from tests.servers.postgres import postgres_server
from tests.support.bucket import CREDENTIALS, free_port, keys, s3_server
from tests.support.precomputed_folder import write_precomputed
from tests.support.waiting import wait_until
from trainables.config import TrialConfig

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parent.parent.parent
IMAGE = ROOT / "deploy" / "image"
COMPOSE = ROOT / "deploy" / "compose"
SERVICES: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]

SETTINGS = ["datasets=[pets]", "name=pets", "training.epochs=2", "training.batch_size=16", "training.embedding_size=32"]
SETTINGS += ["search.trials=1", "confirm=null"]
SEARCH = ["search", "scenes-smoke", *(part for setting in SETTINGS for part in ("--set", setting))]
DATA = ["--data-root", "s3://searches/data"]
ON_CLUSTER = ["--address", "auto", "--storage", "s3://searches", *DATA]

SUITE = """
name: quick
seeds: 2
max_seeds: 2
matters: 200
gradients_matter: 0.5
training: {epochs: 2, batch_size: 16, embedding_size: 32}
resources: {cpus: 1, gpus: 0}
cells:
  - {dataset: pets, loss: nt_xent}
"""


class Stack:
    """The services of the compose file, with addresses and folders of this machine in place of those of containers.

    Attributes:
        endpoint: Of the S3 server.
        database: Address of PostgreSQL, as libpq reads it.
    """

    def __init__(self, folder: Path, endpoint: str, database: str) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.database = database.replace("+psycopg2", "")
        secrets = folder / "secrets"
        subprocess.run([COMPOSE / "make-secrets.sh", secrets], check=True, capture_output=True)
        auth = (ROOT / "deploy" / "basic_auth.ini").read_text()
        (folder / "basic_auth.ini").write_text(auth.replace("postgresql+psycopg2://mlflow@postgres/mlflow", database))
        mlflow, self.ray = free_port(), free_port()
        self.mlflow = f"http://127.0.0.1:{mlflow}"
        self._here = {
            "postgresql+psycopg2://mlflow@postgres/mlflow": database,
            "http://s3:8333": endpoint,
            "http://mlflow:5000": self.mlflow,
            "127.0.0.1:5000": f"127.0.0.1:{mlflow}",
            "ray:6379": f"127.0.0.1:{self.ray}",
            "--port=5000": f"--port={mlflow}",
            "--port=6379": f"--port={self.ray}",
            "0.0.0.0": "127.0.0.1",
            "/run/secrets": str(secrets),
            "/etc/mlflow": str(folder),
            "${ICR_WEBHOOK_URL:-}": "",
        }

    def translate(self, text: str) -> str:
        for there, here in self._here.items():
            text = text.replace(there, here)
        return text

    def environment(self, service: str) -> dict[str, str]:
        """Return the environment of a service: nothing of the caller's but what finds the programs."""
        path = os.pathsep.join([str(Path(sys.executable).parent), str(IMAGE), "/usr/bin", "/bin"])
        base = {"PATH": path, "HOME": str(self.folder), "MLFLOW_DISABLE_TELEMETRY": "true"}
        base["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        base |= {"PYTHONDONTWRITEBYTECODE": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "OMP_NUM_THREADS": "1"}
        return base | {name: self.translate(value) for name, value in SERVICES[service]["environment"].items()}

    def command(self, service: str) -> list[str]:
        return ["entrypoint.sh", *map(self.translate, SERVICES[service]["command"])]

    @contextmanager
    def started(self, service: str, command: list[str]) -> Iterator[Path]:
        """Yield the log of a service that runs; all of its processes end with it."""
        log = self.folder / f"{service}.log"
        command = [str(IMAGE / "entrypoint.sh"), *command[1:]]
        with log.open("w") as output:
            process = subprocess.Popen(command, env=self.environment(service), stdout=output, stderr=output)
        try:
            yield log
        finally:
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            process.terminate()
            _, alive = psutil.wait_procs(family, timeout=120)
            for left in alive:
                left.kill()
            process.wait()

    def run_once(self, service: str) -> None:
        """Run a service that ends by itself."""
        program, *words = self.command(service)[1:]
        found = shutil.which(program, path=self.environment(service)["PATH"])
        assert found is not None, program
        # Scripts of Python would look for the system's.
        command = [sys.executable, found] if found.endswith(".py") else [found]
        done = subprocess.run(
            [IMAGE / "entrypoint.sh", *command, *words],
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr

    def drive(self, *words: str, ends: int = 0, **variables: str) -> str:
        """Run a command of the product as the service ``driver`` would; return what it prints, or why it failed."""
        command = [str(IMAGE / "entrypoint.sh"), sys.executable, "-c", "from orchestrator.cli import main; main()"]
        command += [*words, "--output", str(self.folder / "runs")]
        environment = self.environment("driver") | variables
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == ends, done.stderr
        return done.stderr if ends else done.stdout

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(self.database)) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Everything that the compose file starts, up and healthy."""
    with postgres_server() as postgres, s3_server("127.0.0.1", free_port()) as endpoint:
        stack = Stack(tmp_path, endpoint, postgres.address)
        for service in ("buckets", "migrate"):
            stack.run_once(service)
        serve = stack.command("mlflow")
        # Short, because Ray makes sockets under it.
        ray = Path(f"/tmp/icr-s-{os.getpid()}")
        here = ["--node-ip-address=127.0.0.1", f"--temp-dir={ray}", "--num-cpus=2", "--num-gpus=0"]
        here += [f"--object-store-memory={100 * 2**20}", "--include-dashboard=false"]
        try:
            with stack.started("mlflow", serve) as served, stack.started("ray", [*stack.command("ray"), *here]) as head:
                wait_until(lambda: is_healthy(stack, "mlflow"), "the tracking server answers", served)
                wait_until(lambda: "Ray runtime started" in head.read_text(), "the head starts", head)
                yield stack
        finally:
            shutil.rmtree(ray, ignore_errors=True)


def is_healthy(stack: Stack, service: str) -> bool:
    """Ask what the container's health check asks."""
    return subprocess.run([str(IMAGE / "healthy.sh")], env=stack.environment(service)).returncode == 0


def refusal(stack: Stack, path: str, account: str = "", sent: bytes | None = None) -> int:
    """Return the status with which the tracking server refuses a request of an account, ``NAME:PASSWORD``."""
    authorization = {"Authorization": f"Basic {b64encode(account.encode()).decode()}"} if account else {}
    request = urllib.request.Request(
        f"{stack.mlflow}{path}", sent, headers={"Content-Type": "application/json", **authorization}
    )
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(request, timeout=120)
    return refused.value.code


def test_a_search_and_a_rerun(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    write_precomputed(stack.folder / "pets")
    ObjectStore.parse(f"s3://searches/data?endpoint_override={stack.endpoint}").put(stack.folder / "pets", "pets")
    refused = stack.drive(*SEARCH, *ON_CLUSTER, ends=2, RAY_AUTH_TOKEN="another")
    assert ": refuses our token, or wants one" in refused
    summary = json.loads(stack.drive(*SEARCH, *ON_CLUSTER, "--json"))
    assert summary["tracking_problem"] is None and summary["winners"]["pets"]["test"]["rsum"] > 0
    assert "was started with --storage s3://searches" in stack.drive(*SEARCH, *DATA, ends=2)
    history = read_history(stack.folder / "runs" / "pets")
    # An object that is removed may leave an empty one that stands for its folder.
    kept = [key for key in keys(stack.endpoint, "searches") if key.startswith("pets/") and not key.endswith("/")]
    assert {key.split("/")[2] for key in kept} == set(history.trials)
    check_tracked(stack, history)
    check_accounts(stack)
    check_rerun(stack)


def check_tracked(stack: Stack, history: History) -> None:
    """PostgreSQL has each trial and each epoch once, the bucket has what was sent, and nothing is sent again."""
    tracked = "from runs join tags using (run_uuid) where tags.key = 'trial' and lifecycle_stage = 'active'"
    runs = {trial: (run, status) for trial, run, status in stack.rows(f"select value, run_uuid, status {tracked}")}
    assert {trial: status for trial, (_, status) in runs.items()} == dict.fromkeys(history.trials, "FINISHED")
    steps = "select run_uuid, step from metrics where key = 'val/rsum' order by step"
    for trial, (run, _) in runs.items():
        assert [step for of, step in stack.rows(steps) if of == run] == sorted(history.trials[trial].epochs)
    sent, bucket = keys(stack.endpoint, "mlflow"), boto3.client("s3", endpoint_url=stack.endpoint)
    for trial, (run, _) in runs.items():
        (config,) = [key for key in sent if f"/{run}/" in key and key.endswith("/config.yaml")]
        content = bucket.get_object(Bucket="mlflow", Key=config)["Body"].read()
        assert TrialConfig.from_dict(yaml.safe_load(content)) == history.trials[trial].config
    assert any(key.endswith(".safetensors") for key in sent)
    assert not (stack.folder / "runs" / "mlflow.db").exists() and not (stack.folder / "runs" / "artifacts").exists()
    assert [name for (name,) in stack.rows("select name from registered_models")] == ["icr-pets"]
    agreed = {"experiment": "pets", "runs": len(runs), "running": False, "duplicates": 0, "sent": True}
    assert json.loads(stack.drive("sync", "pets", "--json"))["experiments"] == [agreed]
    assert sorted(keys(stack.endpoint, "mlflow")) == sorted(sent)
    compared = stack.drive("compare", *runs)
    assert f"{stack.mlflow}/#/compare-runs" in compared and all(run in compared for run, _ in runs.values())


def check_accounts(stack: Stack) -> None:
    """Nothing is open without a password, and a search may neither make accounts nor reach what is turned off."""
    experiments = "/api/2.0/mlflow/experiments/search?max_results=1"
    assert refusal(stack, experiments) == 401
    guessed = stack.folder / "secrets" / "mlflow_admin_password"
    assert "You are not authenticated" in stack.drive("sync", ends=2, MLFLOW_TRACKING_PASSWORD_FILE=str(guessed))
    driver = f"{DRIVER}:{guessed.with_name('mlflow_driver_password').read_text()}"
    friend = b'{"username": "friend", "password": "with a long password"}'
    assert refusal(stack, "/api/2.0/mlflow/users/create", driver, friend) == 403
    for path in ("/ajax-api/3.0/mlflow/assistant/config", "/api/3.0/mlflow/gateway/secrets/list"):
        assert refusal(stack, path, driver) == 404


def check_rerun(stack: Stack) -> None:
    """A rerun is trained once a day; its checkpoints go, and its runs stay."""
    (before,) = stack.rows("select count(*) from runs where lifecycle_stage = 'active'")[0]
    suite = stack.folder / "quick.yaml"
    suite.write_text(SUITE)
    due = ["regress", str(suite), *ON_CLUSTER, "--if-due", "24h", "--json"]
    assert json.loads(stack.drive(*due))["due"] is True
    stack.drive("regress", "accept", str(suite), "--why", "the first")
    assert json.loads(stack.drive(*due))["due"] is False
    rerun = [key for key in keys(stack.endpoint, "searches") if "-seed" in key]
    assert all(key.startswith("quick/") and "/epoch_" not in key for key in rerun)
    assert ("quick",) in stack.rows("select name from experiments")
    after = stack.rows("select status from runs where lifecycle_stage = 'active'")
    assert after == [("FINISHED",)] * (before + 3)
