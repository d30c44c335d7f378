"""Too few CPUs or open files are refused before any work, and too little shared memory is a warning."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrator.doctor.machine import check_files, check_shared_memory
from orchestrator.experiment.sections import Resources
from orchestrator.machines import own_machine
from orchestrator.machines.own_machine import check_machine, store_folder, want_of_shared_memory
from tests.support.commands import CommandLine
from tests.support.precomputed_folder import write_precomputed
from trainables.errors import ConfigError

EXPERIMENT = "{name: few, datasets: [pets], models: [wsabie], losses: [nt_xent], search: {trials: 1}}"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give this process CPUs, open files and shared memory."""

    def give(cpus: int = 8, files: int | None = None, shared: int | None = None) -> None:
        for name, value in (("cpus", cpus), ("files", files), ("shared_memory", shared)):
            monkeypatch.setattr(own_machine, f"usable_{name}", lambda value=value: value)

    return give


def test_more_trials_at_a_time_need_more_files(given: Callable[..., None]) -> None:
    given(cpus=8, files=239)
    with pytest.raises(
        ConfigError, match=r"may open 239 files, and Ray with 8 workers needs some 240; .*ulimit -n 240"
    ):
        check_machine(Resources())
    check_machine(Resources(cpus=2))
    check_machine(Resources(max_concurrent=7))
    with pytest.raises(ConfigError, match="Ray with 16 workers"):
        check_machine(Resources(cpus=0.5))
    with pytest.raises(ConfigError, match=r"resources.cpus: a trial asks for 9, but there are 8"):
        check_machine(Resources(cpus=9))
    given(cpus=8, files=None)
    check_machine(Resources(cpus=0.01))
    given(cpus=8, files=64)
    found = check_files()
    assert found.state == "fail" and found.found.startswith("this process may open 64 files")


def test_ray_gets_a_folder_where_shared_memory_is_short(given: Callable[..., None], tmp_path: Path) -> None:
    given(shared=own_machine.OBJECT_STORE_BYTES)
    assert want_of_shared_memory() is None and store_folder(tmp_path) is None
    given(shared=64 * 2**20)
    assert store_folder(tmp_path) == str(tmp_path)
    found = check_shared_memory()
    assert (found.state, found.found) == (
        "warn",
        "/dev/shm has room for 64 of the 100 MiB of Ray's object store, which lies on the disk instead",
    )
    assert found.way_out == "give it 200 MiB (Docker: --shm-size=256m)"
    given(shared=None)
    assert store_folder(tmp_path) is None, "as on macOS"


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_search_is_refused_before_any_work(
    given: Callable[..., None], here: Path, cli: CommandLine, dry: tuple[str, ...]
) -> None:
    write_precomputed(here / "data" / "pets")
    (here / "few.yaml").write_text(EXPERIMENT)
    given(cpus=2, files=100)
    code, _, err = cli.run("search", "few.yaml", *dry)
    assert code == 2 and err.startswith("error: this process may open 100 files") and err.count("\n") == 1
    assert not (here / "runs").exists()


@pytest.mark.proof
def test_a_ray_with_the_least_files_and_without_shared_memory_works(tmp_path: Path) -> None:
    """The limit of files is the kernel's."""
    program = dedent("""
        import json, pathlib, resource, sys
        from orchestrator.machines import own_machine
        files = own_machine.FILES + own_machine.FILES_OF_ACTOR * 2
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        own_machine.usable_shared_memory = lambda: 0
        assert own_machine.want_of_files(2) is None and own_machine.want_of_files(3)
        from orchestrator.journal.lock import make_scratch
        from orchestrator.tuner.runtime import ray_runtime
        import ray

        def square(number):
            import time
            time.sleep(0.5)
            return number**2

        with make_scratch() as scratch, ray_runtime(scratch):
            work = ray.remote(square)
            print(json.dumps(ray.get([work.remote(n) for n in range(8)])))
            mapped = pathlib.Path("/proc/self/maps").read_text()
            print(json.dumps([f"{scratch}/plasma" in mapped, "/dev/shm/plasma" in mapped]))
    """)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    squares, places = map(json.loads, done.stdout.splitlines())
    assert squares == [n**2 for n in range(8)]
    assert places == [True, False], "the object store lies in the scratch directory"
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 210, "the limit is that of the other process"
