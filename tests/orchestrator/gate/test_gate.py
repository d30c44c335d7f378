"""``orchestrator gate``: verdicts, exit codes, identical proposals, and a state file that outlives kills."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from orchestrator.gate import gate as gates
from orchestrator.gate.runs import RunError, entry_of, score_of
from orchestrator.gate.stream import holding, read_stream
from tests.support.commands import CommandLine
from tests.support.waiting import wait_until

RUN = "python {proposal} --seed {seed}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lift in {"old.py": 0.0, "new.py": 3.0, "worse.py": -1.0, "edited.py": 0.0}.items():
        Path(name).write_text(f"{name}: {lift}")
    return tmp_path


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Runs without a process: a score is what the file says, with noise of its seed."""
    done: list[tuple[str, int]] = []

    def run(state: Path, entry: object, command: str, seed: int) -> float:
        name, _, lift = (state.parent / str(entry.copy)).read_text().partition(": ")  # type: ignore[attr-defined]
        done.append((name, seed))
        return 70 + float(lift) + float(np.random.default_rng([seed, len(name)]).normal())

    monkeypatch.setattr(gates, "run_entry", run)
    return done


def test_a_better_proposal_becomes_the_champion_and_exit_codes_say_so(
    here: Path, line: CommandLine, runs: list[tuple[str, int]]
) -> None:
    code, out, _ = line.run("gate", "gate.json", "new.py", "--champion", "old.py", "--run", RUN, "--json")
    said = json.loads(out)
    assert code == said["exit_code"] == 0 and said["verdict"] == "keep" and said["champion"] == "old.py"
    assert said["e_value"] >= said["needed"] and said["interval"][0] > 0
    assert {name for name, _ in runs} == {"old.py", "new.py"}
    seeds = [seed for _, seed in runs]
    assert len(set(seeds)) == len(seeds) / 2 == said["pairs"]
    code, out, _ = line.run("gate", "gate.json", "worse.py")
    assert code == 10 and out.startswith("discard: worse.py") and "against new.py" in out
    shown = line.json("gate", "gate.json")
    assert shown["champion"] == "new.py" and [one["decision"] for one in shown["proposals"]] == ["keep", "discard"]


def test_a_byte_identical_proposal_is_never_run(here: Path, line: CommandLine, runs: list[tuple[str, int]]) -> None:
    line.run("gate", "gate.json", "worse.py", "--champion", "old.py", "--run", RUN)
    before = len(runs)
    Path("copy.py").write_bytes(Path("old.py").read_bytes())
    for name, words in {"copy.py": "champion", "worse.py": "proposal 1", "old.py": "champion"}.items():
        code, out, _ = line.run("gate", "gate.json", name)
        assert code == 10 and out.startswith("identical:") and words in out
    line.run("gate", "gate.json", "new.py")
    after = len(runs)
    code, out, _ = line.run("gate", "gate.json", "old.py", "--json")
    assert (code, json.loads(out)["identical_to"]) == (10, "the first champion")
    assert len(runs) == after > before
    assert len(line.json("gate", "gate.json")["proposals"]) == 2


def test_pairs_from_elsewhere_are_asked_for_by_seed_until_decided(here: Path, line: CommandLine) -> None:
    code, out, _ = line.run("gate", "gate.json", "new.py", "--champion", "old.py", "--json")
    seeds = [json.loads(out)["next_seed"]]
    assert code == 11
    for score in (73.1, 72.8, 73.3, 72.9, 73.0):
        code, out, _ = line.run("gate", "gate.json", "new.py", "--pair", f"70.{len(seeds)},{score}", "--json")
        seeds.append(json.loads(out)["next_seed"])
        if code != 11:
            break
    assert code == 0 and seeds[-1] is None and len(set(seeds)) == len(seeds)
    assert [pair.seed for pair in read_stream(Path("gate.json")).proposals[0].pairs] == seeds[:-1]  # type: ignore[union-attr]


def test_a_smaller_score_can_be_better(here: Path, line: CommandLine) -> None:
    pairs = [f"--pair=1.{n},0.5{n}" for n in range(8)]
    code, out, _ = line.run("gate", "g.json", "new.py", "--champion", "old.py", "--smaller-is-better", *pairs)
    assert code == 0 and "is better: −0." in out


def test_a_budget_that_ends_leaves_the_proposal_undecided_and_a_larger_budget_goes_on(
    here: Path, line: CommandLine, runs: list[tuple[str, int]]
) -> None:
    code, out, _ = line.run("gate", "g.json", "new.py", "--champion", "old.py", "--run", RUN, "--pairs", 3)
    assert code == 11 and "the budget of pairs is spent" in out
    done = list(runs)
    code, _, _ = line.run("gate", "g.json", "new.py")
    assert code == 0 and runs[: len(done)] == done
    assert len({seed for _, seed in runs}) == len(runs) / 2
    code, out, _ = line.run("gate", "h.json", "new.py", "--champion", "old.py", "--run", RUN, "--minutes", 0)
    assert code == 11 and "no pair yet" in out


def test_scores_that_no_seed_changes_decide_nothing(here: Path, line: CommandLine) -> None:
    code, out, _ = line.run("gate", "g.json", "new.py", "--champion", "old.py", *["--pair=70,71"] * 4)
    assert code == 11 and "No seed changes a score" in out
    code, out, _ = line.run(
        "gate", "h.json", "new.py", "--champion", "old.py", "--pair=1,1", "--pair=2,2", "--pair=3,3"
    )
    assert code == 10 and "no effect" in out


def test_the_copy_is_run_whatever_becomes_of_the_file(
    here: Path, line: CommandLine, runs: list[tuple[str, int]]
) -> None:
    line.run("gate", "gate.json", "new.py", "--champion", "old.py", "--run", RUN, "--pairs", 2)
    Path("old.py").write_text("other.py: 50.0")
    line.run("gate", "gate.json", "new.py")
    assert {name for name, _ in runs} == {"old.py", "new.py"}
    Path("third.py").write_text("third.py: 0.0")
    next(Path("gate.json.files").rglob("new.py")).write_text("forged.py: 0.0")
    assert "differs from what was proposed" in line.refuses("gate", "gate.json", "third.py")


def test_two_writers_and_other_mistakes_are_refused(here: Path, line: CommandLine) -> None:
    new = ("gate", "gate.json", "new.py")
    assert "--champion FILE begins one" in line.refuses(*new)
    assert "there is no such stream" in line.refuses("gate", "gate.json")
    assert "no such file" in line.refuses(*new, "--champion", "gone.py")
    assert "must have {seed}" in line.refuses(*new, "--champion", "old.py", "--run", "python {proposal}")
    assert "two numbers" in line.refuses(*new, "--champion", "old.py", "--pair", "70")
    assert "two finite numbers" in line.refuses(*new, "--champion", "old.py", "--pair", "70,nan")
    assert not Path("gate.json").exists()
    line.run(*new, "--champion", "old.py")
    before = Path("gate.json").read_bytes()
    assert "--champion, --smaller-is-better differs" in line.refuses(
        *new, "--champion", "new.py", "--smaller-is-better"
    )
    with holding(Path("gate.json")):
        assert "another gate" in line.refuses(*new, "--pair", "70,71", code=3)
    assert Path("gate.json").read_bytes() == before
    Path("gate.json").write_text('{"champion": 3}')
    assert "is no state of a gate" in line.refuses(*new)
    assert Path("gate.json").read_text() == '{"champion": 3}'


def test_a_folder_is_its_files_by_name_and_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "a.py").write_text("x")
        (folder / ".git").mkdir()
        (folder / ".git" / "HEAD").write_text(folder.name)
    assert entry_of(str(one)).digest == entry_of(str(two)).digest
    (two / "sub" / "a.py").rename(two / "sub" / "b.py")
    assert entry_of(str(one)).digest != entry_of(str(two)).digest
    assert entry_of("text:a").digest != entry_of("text:b").digest


@pytest.mark.parametrize(
    ("output", "score"), [("1\nloss 0.5 acc 71.2\n", 71.2), ("-3e-2", -0.03), ("a: .5 \n \n", 0.5)]
)
def test_the_score_is_the_last_number_of_the_last_line(output: str, score: float) -> None:
    assert score_of(output, "x") == score


@pytest.mark.parametrize("output", ["", "done", "3\ndone", "loss nan", "acc 3 loss inf"])
def test_an_output_without_a_score_decides_nothing(output: str) -> None:
    with pytest.raises(RunError, match="finite number"):
        score_of(output, "x")


SLOW = """import pathlib, random, sys, time
seed = int(sys.argv[sys.argv.index("--seed") + 1])
with open("runs.txt", "a") as file: print(seed, pathlib.Path(__file__).name, file=file)
while not pathlib.Path("go").exists() and sum(1 for _ in open("runs.txt")) > 3: time.sleep(0.05)
print("score:", random.Random(f"{seed}{LIFT}").gauss(70 + LIFT, 1))
"""


@pytest.mark.proof
def test_a_killed_gate_goes_on_and_loses_no_score(here: Path, line: CommandLine) -> None:
    for name, lift in {"old.py": 0, "new.py": 4}.items():
        Path(name).write_text(f"LIFT = {lift}\n{SLOW}")
    command = [sys.executable, "-m", "orchestrator.cli", "gate", "gate.json", "new.py", "--champion", "old.py"]
    command = [str(Path(sys.executable).parent / "orchestrator"), *command[3:]]
    run = f"{sys.executable} {{proposal}} --seed {{seed}}"
    process = subprocess.Popen([*command, "--run", run], start_new_session=True)
    try:
        wait_until(lambda: Path("runs.txt").exists() and len(Path("runs.txt").read_text().splitlines()) == 4)
        os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.wait()
    before = json.loads(Path("gate.json").read_text())["proposals"][0]["pairs"]
    assert [sum(pair[side] is not None for side in ("champion", "proposal")) for pair in before] == [2, 1]
    Path("go").touch()
    code, out, _ = line.run("gate", "gate.json", "new.py")
    assert code == 0 and out.startswith("keep:")
    after = json.loads(Path("gate.json").read_text())["proposals"][0]["pairs"]
    kept = [{key: value for key, value in pair.items() if value is not None} for pair in before]
    assert [dict(pair, **known) for pair, known in zip(after[:2], kept, strict=True)] == after[:2]
    started = Path("runs.txt").read_text().splitlines()
    # The run that was killed is the only one that began twice.
    assert len(started) - len(set(started)) == 1


@pytest.mark.proof
def test_a_run_that_fails_decides_nothing(here: Path, line: CommandLine) -> None:
    Path("new.py").write_text("import sys; sys.exit(7)")
    Path("old.py").write_text("print('score 1')")
    run = f"{sys.executable} {{proposal}} --seed {{seed}}"
    said = line.refuses("gate", "g.json", "new.py", "--champion", "old.py", "--run", run, code=1)
    assert "exit code 7" in said
    Path("h.json").unlink(missing_ok=True)
    said = line.refuses(
        "gate", "h.json", "old.py", "--champion", "text:x", "--run", "no-such-program {proposal} {seed}", code=1
    )
    assert "cannot be started" in said
    assert line.json("gate", "g.json")["proposals"][0]["decision"] == "undecided"
