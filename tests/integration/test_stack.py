"""What deploy/compose starts, started for real without containers: its commands, its environment, its secrets.

PostgreSQL, an S3 server, the tracking server and a Ray head run on ports of this machine; a search and a rerun go
through them. What differs from the compose file is where things listen, and that Ray has no dashboard.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psutil
import psycopg2
import pytest
import yaml

from tests.servers.postgres import postgres_server
from tests.support.bucket import free_port, keys, s3_server
from tests.support.precomputed_folder import write_precomputed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parent.parent.parent
IMAGE = ROOT / "deploy" / "image"
COMPOSE = ROOT / "deploy" / "compose"
SERVICES: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]

HAS_AUTH = importlib.util.find_spec("flask_wtf") is not None
"""MLflow's basic auth comes with the image, and with the tests only where ``mlflow[auth]`` is installed."""

SETTINGS = ["datasets=[pets]", "name=pets", "training.epochs=2", "training.batch_size=16", "training.embedding_size=32"]
SETTINGS += ["search.trials=1", "losses=[nt_xent]", "confirm=null"]
SEARCH = ["search", "scenes-smoke", *(part for setting in SETTINGS for part in ("--set", setting))]

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

    def drive(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the product as the service ``driver`` would."""
        command = [str(IMAGE / "entrypoint.sh"), sys.executable, "-c", "from orchestrator.cli import main; main()"]
        options = ["--address", "auto", "--storage", "s3://searches"] if words[1] != "accept" else []
        place = ["--output", str(self.folder / "runs")]
        place += ["--data-root", str(self.folder / "data")] if options else []
        environment = self.environment("driver")
        return subprocess.run(
            [*command, *words, *options, *place], env=environment, capture_output=True, text=True, timeout=600
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds in the tracking server's database."""
        with closing(psycopg2.connect(self.database)) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Everything that the compose file starts, up and healthy."""
    with postgres_server() as database, s3_server("127.0.0.1", free_port()) as endpoint:
        stack = Stack(tmp_path, endpoint, database)
        for service in ("buckets", "migrate"):
            stack.run_once(service)
        serve = [word for word in stack.command("mlflow") if HAS_AUTH or "basic-auth" not in word]
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


def status_without_password(stack: Stack) -> int:
    try:
        address = f"{stack.mlflow}/api/2.0/mlflow/experiments/search?max_results=1"
        with urllib.request.urlopen(address, timeout=120) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_a_search_and_a_rerun(stack: Stack) -> None:
    assert status_without_password(stack) == (401 if HAS_AUTH else 200)
    write_precomputed(stack.folder / "data" / "pets")

    done = stack.drive(*SEARCH, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["tracking_problem"] is None and summary["winners"]["pets"]["test"]["rsum"] > 0
    trials = {row["trial"] for row in summary["trials"]}
    active = "from runs join tags using (run_uuid) where key = 'trial' and lifecycle_stage = 'active'"
    tracked = dict(stack.rows(f"select value, status {active}"))
    assert trials == tracked.keys() and set(tracked.values()) == {"FINISHED"}
    (before,) = stack.rows("select count(*) from runs where lifecycle_stage = 'active'")[0]
    assert stack.rows("select count(*) from metrics where key = 'val/rsum'")[0][0] >= 2 * len(trials)
    assert any(key.endswith(".safetensors") for key in keys(stack.endpoint, "mlflow"))
    # An object that is removed may leave an empty one that stands for its folder.
    kept = [key for key in keys(stack.endpoint, "searches") if key.startswith("pets/") and not key.endswith("/")]
    assert {key.split("/")[2] for key in kept} == trials
    assert [name for (name,) in stack.rows("select name from registered_models")] == ["icr-pets"]

    suite = stack.folder / "quick.yaml"
    suite.write_text(SUITE)
    first = stack.drive("regress", str(suite), "--if-due", "24h", "--json")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["due"] is True
    accepted = stack.drive("regress", "accept", str(suite), "--why", "the first")
    assert accepted.returncode == 0, accepted.stderr
    again = stack.drive("regress", str(suite), "--if-due", "24h", "--json")
    assert (again.returncode, json.loads(again.stdout)["due"]) == (0, False), again.stderr
    rerun = [key for key in keys(stack.endpoint, "searches") if "-seed" in key]
    assert all(key.startswith("quick/") and "/epoch_" not in key for key in rerun)
    assert ("quick",) in stack.rows("select name from experiments")
    after = stack.rows("select status from runs where lifecycle_stage = 'active'")
    assert after == [("FINISHED",)] * (before + 3)
