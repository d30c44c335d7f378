"""How an error ends a command: one line, the exit code, and where it has to be, the process at once."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import cli
from orchestrator.journal.journal import JournalReader
from orchestrator.journal.ledger import Ledger
from orchestrator.tuner.runtime import RayLostError
from trainables.errors import ConfigError


def fail_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def app(args: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", app)


def test_a_lost_ray_ends_the_process_before_ray_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(cli.os, "_exit", codes.append)
    fail_with(monkeypatch, RayLostError(Path("runs/x"), ["its head at h:6379 has ended"], "nothing is lost"))
    with pytest.raises(SystemExit):
        cli.main([])
    assert codes == [1]
    assert capsys.readouterr().err.startswith("error: runs/x: Ray is gone (its head at h:6379 has ended)")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        pytest.param(ConfigError("lower it"), 2, "error: lower it", id="refused"),
        pytest.param(MemoryError(), 1, "error: out of memory (MemoryError)", id="Python"),
        pytest.param(
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 8 TB"),
            1,
            "error: out of memory (RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory",
            id="PyTorch",
        ),
    ],
)
def test_other_errors_end_as_python_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int, said: str
) -> None:
    fail_with(monkeypatch, error)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == code
    assert " ".join(capsys.readouterr().err.split()).startswith(said)


def test_a_disk_that_fails_is_no_error_of_the_software(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_on(reader: JournalReader) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(JournalReader, "read_on", read_on)
    with pytest.raises(OSError, match="Input/output error") as failed:
        Ledger(tmp_path / "journal.jsonl")
    fail_with(monkeypatch, failed.value)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith(f"error: {tmp_path}/journal.jsonl: Input/output error: its disk fails or is gone")


def test_an_error_of_the_software_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main([])


@pytest.mark.proof
def test_libraries_print_nothing_at_the_end_of_a_command() -> None:
    # As a command does that computes features: torchvision loads torch._dynamo, and that Triton where it is installed.
    program = "import torch._dynamo.utils; from orchestrator.cli import main; main(['list', 'losses'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_of_commands_says_what_the_commands_say() -> None:
    """``--help`` imports no command, so the table repeats the first paragraph of each command's help."""
    helps = {name: cli.load_command(name).help for name in cli.COMMANDS}
    told = {name: " ".join(text.split("\n\n")[0].split()) for name, text in helps.items()}
    assert told == {name: summary for name, (_, summary) in cli.COMMANDS.items()}


@pytest.mark.proof
def test_a_command_imports_no_other_command() -> None:
    program = (
        "import sys\nfrom orchestrator.cli import main\n"
        "try:\n    main(['list', 'models', '--hlp'])\n"
        "finally:\n    print(*sorted(m for m in sys.modules if m.startswith('orchestrator.commands.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert done.returncode == 2
    assert "list_names" in loaded
    assert not loaded & (cli.COMMANDS.keys() - {"list"})


@pytest.mark.proof
@pytest.mark.parametrize(
    ("command", "given", "threads"),
    [("summarise", {}, "1"), ("status", {}, "1"), ("report", {"OPENBLAS_NUM_THREADS": "3"}, "3")],
)
def test_a_command_of_results_computes_in_one_thread_or_as_told(
    command: str, given: dict[str, str], threads: str
) -> None:
    """Two threads on the small matrices of a surface take several times the CPU time of one."""
    program = (
        "import os, sys\nfrom orchestrator.cli import app\n"
        f"try:\n    app(['{command}', 'nothing', '--output', '.'])\n"
        "except Exception:\n    print('numpy' in sys.modules, os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | given
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout.split() == ["True", threads], done.stderr


@pytest.mark.proof
@pytest.mark.parametrize("module", ["orchestrator", "orchestrator.cli"])
def test_python_runs_the_command_line_as_a_module(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", module, "status", "none"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: none: no experiment of that name under runs")
