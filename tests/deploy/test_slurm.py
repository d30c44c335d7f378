"""The Slurm script in front of programs that write down what they were told: Slurm's own, Ray and the search."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY

SCRIPT = DEPLOY / "slurm" / "search.sbatch"

PROGRAMS = {
    # Runs what follows its own options, as a step of the job would.
    "srun": """echo "srun $SRUN_CPUS_PER_TASK" >> said; while [ "${1#--}" != "$1" ]; do shift; done; exec "$@" """,
    "scontrol": """echo "scontrol $*" >> said; [ "$1" = show ] && printf '%s\\n' $NODES; true""",
    "hostname": "echo 10.0.0.1 10.0.0.2",
    "ray": """echo "ray $* $RAY_AUTH_MODE $RAY_health_check_period_ms" >> said
      [ "$1" = health-check ] || exec sleep 60; [ "$HEAD" = well ]""",
    "orchestrator": """echo "orchestrator $*" >> said; cat "$RAY_AUTH_TOKEN_PATH" > token
      trap 'echo told >> said; exit 130' TERM; echo searching >> said
      for _ in $(seq "$TENTHS"); do sleep 0.1; done; exit "$CODE" """,
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with a checkout's programs."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, body in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}\n")
        (programs / name).chmod(0o755)
    return tmp_path


def start(
    job: Path, *, nodes: str = "one two three", tenths: int = 1, code: int = 0, head: str = "well"
) -> "subprocess.Popen[str]":
    environment = {
        "PATH": "/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": str(job),
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_CPUS_PER_TASK": "16",
        "NODES": nodes,
        "TENTHS": str(tenths),
        "CODE": str(code),
        "HEAD": head,
        "ICR_PAUSE": "0",
    }
    return subprocess.Popen(
        [str(SCRIPT), "flickr8k-losses"], cwd=job, env=environment, text=True, start_new_session=True
    )


def end(process: "subprocess.Popen[str]") -> int:
    """Wait for the script, then end its steps as Slurm does."""
    code = process.wait(60)
    os.killpg(process.pid, signal.SIGKILL)
    return code


@pytest.mark.parametrize("code", [0, 4, 5])
def test_a_search_runs_on_all_nodes_and_its_exit_code_is_the_jobs(job: Path, code: int) -> None:
    assert end(start(job, code=code)) == code
    said = (job / "said").read_text().splitlines()
    [head] = [line for line in said if line.startswith("ray start --head")]
    assert "--node-ip-address=10.0.0.1 --port=24711 --num-cpus=16" in head and head.endswith(" token 1000")
    assert any(line.startswith("ray start --block --address=10.0.0.1:24711") for line in said)
    [search] = [line for line in said if line.startswith("orchestrator")]
    assert search == (
        f"orchestrator search flickr8k-losses --address 10.0.0.1:24711 --data-root {job}/data "
        f"--output {job}/runs --storage {job}/runs/checkpoints"
    )
    assert "requeue" not in " ".join(said)
    assert "srun 16" in said and "srun " not in said


def test_a_head_that_does_not_start_ends_the_job(job: Path) -> None:
    assert end(start(job, head="dead")) == 1
    assert "orchestrator" not in (job / "said").read_text()


def test_one_node_has_no_workers(job: Path) -> None:
    assert end(start(job, nodes="one")) == 0
    assert "--block --address" not in (job / "said").read_text()


def test_the_token_lives_as_long_as_the_job(job: Path) -> None:
    process = start(job)
    assert end(process) == 0
    assert len((job / "token").read_text()) == 48
    assert not list((job / "runs").glob(".ray-token-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_told_to_end_is_queued_again(job: Path, number: signal.Signals) -> None:
    process = start(job, tenths=600)
    deadline = time.monotonic() + 60
    said = job / "said"
    # The worker as well: what it says would come in between.
    while not said.exists() or not all(word in said.read_text() for word in ("searching", "--block --address")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    assert end(process) == 130
    assert said.read_text().splitlines()[-2:] == ["told", "scontrol requeue 4711"]
