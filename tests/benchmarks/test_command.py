"""Every benchmark runs at a tiny size and gives rows that can be true; what they are is the machine's business."""

import argparse
import json
import math
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.benchmarks import command, gpu, graph_steps, verdicts
from tests.benchmarks.closed_form import Pairs
from tests.benchmarks.command import BENCHMARKS, GPU_ALONE, main
from tests.benchmarks.rows import Row
from tests.support.simulated_gpu import simulated_gpu

ROOT = Path(__file__).parent.parent.parent

TINY = {
    "bands": "--searches 2 --trials 16 --only '1 peaked, noise 2.5, tpe'",
    "collapse": "--studies 20",
    "claims": "--pages 4 --shuffles 2 --cells 10",
    "gate": "--streams 10 --proposals 5 --studies 20 --effects 3 --positions 1",
    "judge": "--studies 4",
    "graphs": "--batch-size 4 --sizes 2:3:16 --steps 1",
    "cross_attention": "--batch-size 4 --sizes 2:3:4 --steps 1 --images 3",
    "driver": "--actors 2 --seconds 2 --replayed 20 --reports 2",
    "epoch": "--images 60 --embedding-size 8 --steps 2 --threads 1",
    "evaluation": "--sizes 20",
    "fused": "--images 60 --cases wsabie:4:warp vsrn:4:nt_xent --trials 1 2 --steps 2 "
    "--search-trials 2 --search-epochs 2",
    "installed": "--times 1",
    "regress": "--suites 2 --cells 20",
    "repeats": "--studies 20",
    "twins": "--searches 2",
    "heads": "--trials 2 --batch-sizes 8 --inputs 6 4 --embedding-size 4 --rounds 1",
    "many_trials": "--trials 20 --workers 2 --seconds 0.01 --only ours",
    "pages": "--trials 12 --repeats 1",
    "needed": "--studies 5",
    "prior": "--images 60 --settings 6 --seeds 2",
    "questions": "--studies 20 --seeds 3 --likeness",
    "race": "--studies 60 --candidates 2 4 --leads 1.5",
    "throughput": "--trials 30 --only ours",
    "verdicts": "--studies 4 --splits 0",
}
MEMORY = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason=f"{sys.platform} has no smaps_rollup")
NEEDS = {"many_trials": MEMORY, "throughput": MEMORY}


def test_every_benchmark_has_a_tiny_size() -> None:
    assert TINY.keys() | set(GPU_ALONE) == set(BENCHMARKS)


def test_what_needs_a_gpu_runs_on_a_simulated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = ["--cases", "vsepp:8:triplet_sh", "wsabie:8:warp", "--images", "24", "--steps", "2"]
    parser = argparse.ArgumentParser()
    gpu.add_options(parser)
    with simulated_gpu():
        rows = list(gpu.run(parser.parse_args(cases)))
    assert [row.unit for row in rows] == ["ms", "ms", "ms", "MiB"] * 2
    assert all("twice the same: yes" in row.note for row in rows[::4])
    assert command.names_on("cpu") == [name for name in BENCHMARKS if name != "gpu"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(SystemExit, match="this machine has 0 GPUs"):
        command.names_on("cuda")


@pytest.mark.proof
def test_what_a_gpu_shows_of_graphs_can_be_taken_on_a_cpu(tmp_path: Path) -> None:
    run_apart(f"gpu --graphs --smoke --json {tmp_path}/report.json")
    listed = json.loads((tmp_path / "report.json").read_text())["rows"]
    rows = {row["case"].strip(): row for row in listed}
    none = ("bits that differ", "other weights", "that failed")
    assert all(row["ours"] == 0.0 for case, row in rows.items() if any(word in case for word in none))
    assert "replays" in rows["vsepp:4:triplet_sh: a step"]["note"]
    assert "out of memory" in rows["lack of memory, trials that failed"]["note"]
    assert len(listed) == 4 * len(graph_steps.AIMS) + 1 + len(graph_steps.SMOKE.stacked) + 3


@pytest.mark.proof
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, [])) for name in TINY])
def test_rows_are_sane(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    printed = run_apart(f"{name} {TINY[name]} --json {tmp_path}/report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["versions"]["python"] and report["machine"]["cpus"] and len(report["load"]) == 2
    assert report["rows"]
    for values in report["rows"]:
        row = Row(**{key: value for key, value in values.items() if key not in ("benchmark", "ratio")})
        assert values == row.to_dict(name) and row.line() in printed
        assert math.isfinite(row.ours) and row.unit and row.case
        assert row.other is None or (math.isfinite(row.other) and row.against)


def run_apart(words: str) -> str:
    """Run a benchmark in a process of its own: what some start (Ray, a fork server) would be there for later tests."""
    command = [sys.executable, "-m", "tests.benchmarks", *shlex.split(words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ratio_says_how_much_more_the_other_costs() -> None:
    row = Row("a step", "ms", 50.0, 170.0, "the published loop", needed=1.8)
    assert row.ratio == pytest.approx(3.4)
    assert "3.40" in row.line() and "BELOW" not in row.line()
    assert "BELOW WHAT IS NEEDED" in replace(row, ours=100.0).line()
    alone = Row("a step", "ms", 100.0, None, "", note="not run")
    assert alone.ratio is None and "not run" in alone.line()


def test_all_are_run_though_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("a step", "ms", 50.0, 170.0, "the published loop").to_dict("epoch")
    reports = {"epoch": {"rows": [row], "seconds": {"epoch": 3.0}}, "heads": None}
    monkeypatch.setattr(command, "BENCHMARKS", ("heads", "epoch", "gpu"))
    monkeypatch.setattr(command, "run_apart", lambda name, device: reports[name])
    with pytest.raises(SystemExit, match="heads failed"):
        main(["--json", str(tmp_path / "all.json")])
    report = json.loads((tmp_path / "all.json").read_text())
    assert report["rows"] == [row] and report["seconds"] == {"epoch": 3.0} and len(report["load"]) == 3


def test_intervals_on_sets_of_images_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    monkeypatch.setattr(verdicts, "FITTED", 60)
    monkeypatch.setattr(verdicts, "SET", 20)
    pairs = Pairs(*(draw.normal(size=(count, 70)).astype(np.float32) for count in (100, 500)))
    seeds, alone, model = verdicts.flickr8k_rows(pairs, 1)
    assert all(0 <= row.ours <= 100 for row in (seeds, alone, model))
    assert seeds.other is not None and seeds.other >= seeds.ours, "seeds alone promise too much"


@pytest.mark.proof
def test_what_fails_in_its_own_process_has_no_report() -> None:
    assert command.run_apart("nothing", "cpu") is None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SystemExit) as refused:
        main(["nothing"])
    assert f"there are {BENCHMARKS[0]}, " in str(refused.value)
