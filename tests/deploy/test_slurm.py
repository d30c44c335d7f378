"""The Slurm script in front of programs that write down what they were told: Slurm's own, Ray and the search.

``test_real_slurm.py`` does so under a real Slurm.
"""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

SCRIPT = DEPLOY / "slurm" / "search.sbatch"
JOB = str(1_000_000 + os.getpid())
"""Of this process alone, because the job's folder under /tmp bears the number."""

PORT = 20000 + int(JOB) % 10000

PROGRAMS = {
    # Runs what follows its own options, as a step of the job would.
    "srun": """echo "srun $SRUN_CPUS_PER_TASK $*" >> said; while [ "${1#--}" != "$1" ]; do shift; done; exec "$@" """,
    "scontrol": """echo "scontrol $*" >> said; [ "$1" = show ] && printf '%s\\n' $NODES; true""",
    "getent": """[ "$KNOWN" = no ] || printf '%s\n' "10.0.0.1 STREAM $2" "10.0.0.1 DGRAM" """,
    # The head answers when its step runs, however late that is.
    "ray": """echo "ray $* $RAY_AUTH_MODE $RAY_health_check_period_ms" >> said
      if [ "$1" = health-check ]; then
        [ "$HEAD" = well ] || exit 1
        for _ in {1..600}; do grep -q '^ray start --head' said && exit; sleep 0.1; done
        exit 1
      fi
      for argument in "$@"; do case "$argument" in --temp-dir=*) mkdir -p "${argument#--temp-dir=}";; esac; done
      trap 'kill $!; exit 0' TERM; sleep 600 & wait $!""",
    # Other nodes join when their step runs, however late that is.
    "python": """echo x >> counted; [ "$(wc -l < counted)" -ge 3 ] || { echo 1; exit; }
      case "$NODES" in *" "*)
        for _ in {1..600}; do grep -q '^ray start --block' said && break; sleep 0.1; done;;
      esac; echo "$JOINED" """,
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


def start(job: Path, **given: object) -> "subprocess.Popen[str]":
    environment = {"PATH": "/usr/bin:/bin", "SLURM_SUBMIT_DIR": str(job), "SLURM_JOB_ID": JOB, "ICR_PAUSE": "0"}
    environment |= {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_CPUS_PER_TASK": "16"}
    usual = {"nodes": "one two three", "tenths": 1, "code": 0, "head": "well", "known": "yes", "joined": 3}
    environment |= {name.upper(): str(value) for name, value in (usual | given).items()}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [str(SCRIPT), "flickr8k-losses"]
    return subprocess.Popen(command, cwd=job, env=environment, text=True, start_new_session=True, **pipes)


def end(process: "subprocess.Popen[str]") -> int:
    """Wait for the script, then end its steps as Slurm does."""
    code = process.wait()
    # Steps that have ended by themselves are gone with their group.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return code


@pytest.mark.parametrize("code", [0, 5])
def test_a_search_runs_on_all_nodes_and_its_exit_code_is_the_jobs(job: Path, code: int) -> None:
    process = start(job, code=code)
    assert end(process) == code
    assert process.stdout is not None and "3 of 3 nodes have joined Ray" in process.stdout.read()
    assert len((job / "counted").read_text().split()) == 3
    assert len((job / "token").read_text()) == 48 and not list((job / "runs").glob(".ray-token-*"))
    said = (job / "said").read_text().splitlines()
    [head] = [line for line in said if line.startswith("ray start --head")]
    assert f"--node-ip-address=10.0.0.1 --port={PORT} " in head and head.endswith(" token 1000")
    assert any(line.startswith(f"ray start --block --address=10.0.0.1:{PORT}") for line in said)
    [search] = [line for line in said if line.startswith("orchestrator")]
    assert search == (
        f"orchestrator search flickr8k-losses --address 10.0.0.1:{PORT} --data-root {job}/data "
        f"--output {job}/runs --storage {job}/runs/checkpoints"
    )
    assert "requeue" not in " ".join(said)
    steps = [line for line in said if line.startswith("srun")]
    assert len(steps) == 4 and all(step.startswith("srun 16 ") for step in steps)
    assert steps[-1].endswith(f"rm -rf /tmp/ray-{JOB}") and "--nodes=3 --ntasks=3" in steps[-1]
    # Another node is asked for the address of the head.
    assert any("getent ahostsv4 one" in line and "--exclude=one" in line for line in said)


def test_one_node_has_no_workers(job: Path) -> None:
    assert end(start(job, nodes="one")) == 0
    said = (job / "said").read_text()
    assert sum(line.startswith("ray start") for line in said.splitlines()) == 1 and "--exclude" not in said


def test_an_interrupted_job_is_queued_again_when_rays_folders_are_gone(job: Path) -> None:
    # A shell that started the tests in the background lets them ignore INT, and so would their scripts.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    process, said = start(job, tenths=6000), job / "said"
    signal.signal(signal.SIGINT, former)
    # The worker as well: what it says would come in between.
    words = ("searching", f"--block --address=10.0.0.1:{PORT} ")
    wait_until(lambda: said.exists() and all(word in said.read_text() for word in words), "all search")
    process.send_signal(signal.SIGINT)
    assert end(process) == 130
    lines = said.read_text().splitlines()
    assert lines[-3] == "told" and "rm -rf" in lines[-2] and lines[-1] == f"scontrol requeue {JOB}"


@pytest.mark.parametrize("broken", [{"head": "dead"}, {"known": "no"}], ids=["no head", "no address"])
def test_without_a_head_or_its_address_the_job_ends_before_a_search(job: Path, broken: dict[str, str]) -> None:
    process = start(job, **broken)
    assert end(process) == 1
    assert "orchestrator" not in (job / "said").read_text()
    assert process.stdout is not None
    assert ("no node knows the IPv4 address of one" in process.stdout.read()) == ("known" in broken)


def test_the_job_says_how_many_nodes_have_joined_and_waits_for_all_though_not_for_ever(job: Path) -> None:
    process = start(job, joined=2)
    assert end(process) == 0
    assert process.stdout is not None and "2 of 3 nodes have joined Ray" in process.stdout.read()
    assert len((job / "counted").read_text().split()) == 36
