"""The proofs outside `make test`: a change runs those that are about it, and what passed is not run again."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import proofs
from tests.proofs import PROOFS, ROOT, End, InTurn, Recorder, Run, about, files_with_proofs, touched


def test_every_file_with_proofs_is_about_something_there() -> None:
    assert PROOFS.keys() <= {*files_with_proofs()}
    places = [file for file in files_with_proofs() if not file.startswith(proofs.MIRRORED)]
    assert [file for file in places if file not in PROOFS] == []
    assert [place for file in files_with_proofs() for place in about(file) if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(
    ("changed", "chosen", "others"),
    [
        (["LICENSE"], [], ["tests/test_site.py", "tests/faults/test_drivers.py"]),
        (["orchestrator/journal/journal.py"], ["tests/faults/test_drivers.py"], ["tests/faults/test_engines.py"]),
        (["tests/faults/test_engines.py"], ["tests/faults/test_engines.py"], ["tests/faults/test_drivers.py"]),
        (["orchestrator/tuner/lockstep.py"], ["tests/faults/test_engines.py", "tests/integration/test_search.py"], []),
        (["orchestrator/watch/new.py"], ["tests/orchestrator/watch/test_watch_command.py"], []),
        (["deploy/slurm/README.md"], [], ["tests/deploy/test_real_slurm.py"]),
    ],
)
def test_a_change_runs_the_proofs_that_are_about_it(changed: list[str], chosen: list[str], others: list[str]) -> None:
    assert {*chosen} <= {*touched(changed)}
    assert {*others}.isdisjoint(touched(changed))


def order(run: Run) -> str:
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in "abcd"]
    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
    InTurn(run).pytest_collection_modifyitems(config, items)
    return "".join(item.nodeid for item in items)


def test_every_proof_has_its_turn_and_what_passed_has_none() -> None:
    assert [order(Run("tree", "proofs", turn=turn)) for turn in range(5)] == ["abcd", "bcda", "cdab", "dabc", "abcd"]
    assert order(Run("tree", "proofs", passed=["b", "c"])) == "ad"
    assert order(Run("tree", "proofs", passed=["a", "b", "c", "d"])) == ""


def test_no_proof_begins_late() -> None:
    InTurn(Run("tree", "proofs", limit=None)).pytest_runtest_setup()
    InTurn(Run("tree", "proofs", limit=600.0)).pytest_runtest_setup()
    with pytest.raises(pytest.skip.Exception, match="make proof"):
        InTurn(Run("tree", "proofs", limit=-1.0)).pytest_runtest_setup()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says how proofs ended, empty and of this test."""
    monkeypatch.setattr(proofs, "STATE", tmp_path / "build" / "proofs.jsonl")
    monkeypatch.setattr(proofs, "RUN", tmp_path / "build" / "proofs.run.json")
    return tmp_path / "build" / "proofs.jsonl"


def report(proof: str, when: Any, outcome: Any, text: str = "") -> pytest.TestReport:
    return pytest.TestReport(proof, ("file", 1, proof), {}, outcome, text or None, when, duration=0.5)


def test_how_a_test_ended_is_written_when_its_last_fixture_is_gone(state: Path) -> None:
    recorder = Recorder(Run("now", "examples"))
    phases = [("a", "passed", "passed"), ("b", "failed", "passed"), ("c", "passed", "failed")]
    for proof, call, teardown in phases:
        recorder.pytest_runtest_logreport(report(proof, "setup", "passed"))
        recorder.pytest_runtest_logreport(
            report(proof, "call", call, "E   Falsifying example: b(\nE       x=1,\nE   )")
        )
        assert ("examples", proof) not in proofs.read_ends("now")
        recorder.pytest_runtest_logreport(report(proof, "teardown", teardown))
    # The process that ran this one died: pytest-xdist reports it in a phase of its own.
    recorder.pytest_runtest_logreport(report("d", "???", "failed"))
    ends = proofs.read_ends("now")
    assert {proof: end.outcome for (_, proof), end in ends.items()} == dict.fromkeys("bcd", "failed") | {"a": "passed"}
    assert ends["examples", "b"].example == "x=1"
    assert proofs.read_ends("before") == {}
    with state.open("a") as file:
        file.write('{"tree": "now", "stage": "exam')
    assert proofs.read_ends("now") == ends, "a line that was cut short"


def ran_as(monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, list[str]]) -> list[list[str]]:
    """Let pytest end tests as they are to end at each try, and return what each run of it ran."""
    runs: list[list[str]] = []

    def run_pytest(run: Run, arguments: list[str]) -> int:
        asked = [arguments[-1]] if arguments[-1] in outcomes else outcomes
        chosen = [proof for proof in asked if proof not in run.passed]
        runs.append(chosen)
        for proof in chosen:
            proofs.note(End(run.tree, run.stage, proof, outcomes[proof].pop(0), 1.0))
        return 0

    monkeypatch.setattr(proofs, "run_pytest", run_pytest)
    return runs


def test_what_fails_runs_once_more_alone_and_what_passed_runs_no_more(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = {"sound": ["passed"], "unlucky": ["failed", "passed"], "broken": ["failed"] * 4}
    runs = ran_as(monkeypatch, outcomes)
    run = Run("now", "proofs")
    ends = proofs.run_stage(run, ["-m", "proof"])
    assert runs == [["sound", "unlucky", "broken"], ["unlucky"], ["broken"]]
    printed = capsys.readouterr().out
    assert "passed at the second try: unlucky" in printed and "second try: broken" not in printed
    assert proofs.print_failures(ends) == 1
    assert "failed: broken\n  OMP_NUM_THREADS=1 python -m pytest -n0 -m '' broken" in capsys.readouterr().out
    runs.clear()
    proofs.run_stage(run, ["-m", "proof"])
    assert runs == [["broken"], ["broken"]]


def test_pytest_that_breaks_off_is_no_success(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "run_pytest", lambda run, arguments: 4)
    with pytest.raises(SystemExit, match="pytest ended with 4"):
        proofs.run_stage(Run("now", "proofs"), [])


def test_the_table_has_a_line_for_a_file_and_one_for_all_examples(capsys: pytest.CaptureFixture[str]) -> None:
    here = str(Path(__file__).relative_to(ROOT))
    ends = [End("now", "proofs", f"{here}::{name}", "passed", 2.0) for name in "ab"]
    ends += [End("now", "examples", f"tests/{name}.py::a", "failed", 1.0, "x=1") for name in "ab"]
    proofs.print_table(ends)
    first, second = capsys.readouterr().out.splitlines()[2:]
    assert first.split()[:4] == ["2", "0", "0", "4"] and f"{here}: The proofs outside" in first
    assert second.split()[:4] == ["0", "2", "0", "2"] and "examples" in second
    assert proofs.print_failures(ends) == 1
    assert "@example(x=1)" in capsys.readouterr().out


@pytest.mark.proof
def test_the_tree_of_files_is_another_where_a_file_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("init --quiet --initial-branch=main", "commit --allow-empty --quiet -m first"):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *command.split()]
        subprocess.run(git, cwd=tmp_path, check=True)
    monkeypatch.setattr(proofs, "ROOT", tmp_path)
    empty = proofs.tree_of_files()
    (tmp_path / "new.py").write_text("pass\n")
    assert proofs.tree_of_files() != empty
    (tmp_path / "new.py").unlink()
    assert proofs.tree_of_files() == empty
    assert subprocess.run(["git", "status", "--short"], cwd=tmp_path, capture_output=True).stdout == b""


@pytest.mark.proof
def test_a_run_that_is_gone_on_with_runs_what_did_not_pass(
    state: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = state.parent / "tests"
    folder.mkdir(parents=True)
    (folder / "test_planted.py").write_text(
        "import os\ndef test_sound(): pass\ndef test_broken(): assert 'MENDED' in os.environ\n"
    )
    arguments = ["-n0", "-m", "", "--rootdir", str(ROOT), str(folder)]
    run = Run("now", "proofs")
    names = {end.proof.rpartition("::")[2]: end for end in proofs.run_stage(run, arguments)}
    assert {name: end.outcome for name, end in names.items()} == {"test_sound": "passed", "test_broken": "failed"}
    assert "once more, alone" in capfd.readouterr().out
    monkeypatch.setenv("MENDED", "yes")
    assert {end.outcome for end in proofs.run_stage(run, arguments)} == {"passed"}
    assert "1 passed, 1 deselected" in capfd.readouterr().out
