"""Trials that train at once on one file of features grow by less than the file, whatever its size."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from trainables.config import TrainingConfig, TrialConfig
from trainables.data.dataset import open_dataset

LIMIT = 400
"""Megabytes that a trial may grow by."""

FEATURE_SIZE = 4096
VAL_IMAGES = 1000
WORDS = 5000
KINDS = ("Rss", "Pss")


def write_features(folder: Path, gigabytes: float) -> int:
    """Write a dataset of about so many gigabytes of float32 features, a caption an image, and return the bytes."""
    folder.mkdir(parents=True)
    rows = round(gigabytes * 2**30 / (4 * FEATURE_SIZE))
    block = np.random.default_rng(0).standard_normal((1024, FEATURE_SIZE), dtype=np.float32)
    path = folder / "features_global.npy"
    features = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, FEATURE_SIZE))
    for start in range(0, rows, len(block)):
        features[start : start + len(block)] = block[: rows - start] + start / rows
    features.flush()
    words = np.random.default_rng(1).integers(0, WORDS, (rows, 3))
    images = [
        {
            "filename": f"{row}.jpg",
            "imgid": row,
            "split": "val" if row < VAL_IMAGES else "test" if row == VAL_IMAGES else "train",
            "sentences": [{"raw": " ".join(f"word{word}" for word in words[row])}],
        }
        for row in range(rows)
    ]
    (folder / "dataset_features.json").write_text(json.dumps({"images": images}))
    return path.stat().st_size


def make_config(embedding_size: int) -> TrialConfig:
    """Return VSE++ with its published settings but the size of the joint space, for one epoch."""
    return TrialConfig(dataset="features", training=TrainingConfig(epochs=1, embedding_size=embedding_size))


def train(root: Path, embedding_size: int, checkpoints: Path) -> None:
    """Import torch, say so, wait for a line, and train."""
    import torch

    torch.set_num_threads(1)
    print("ready", flush=True)
    sys.stdin.readline()
    from trainables.checkpoint import save_epoch
    from trainables.trial import run_trial

    config = make_config(embedding_size)
    for report in run_trial(config, open_dataset(config, root), device="cpu"):
        save_epoch(checkpoints, report)


def measure(root: Path, trials: int, embedding_size: int) -> list[dict[str, float]]:
    """Train several times at once, and return by how many MB each process grew at most, by kind of memory.

    PSS counts a page that several processes have mapped in parts, RSS in full for each.
    """
    open_dataset(make_config(embedding_size), root)
    processes = [_start(root, embedding_size, root / f"trial{number}") for number in range(trials)]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        before = [_memory(process.pid) for process in processes]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.close()
        peaks = _watch(processes, before)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [{kind: peak[kind] - was[kind] for kind in KINDS} for peak, was in zip(peaks, before, strict=True)]


def _watch(processes: "list[subprocess.Popen[str]]", before: list[Mapping[str, float]]) -> list[Mapping[str, float]]:
    """Sample until all have ended and return the largest values of each."""
    peaks = list(before)
    while any(process.poll() is None for process in processes):
        for number, process in enumerate(processes):
            if process.poll() is None and (now := _memory(process.pid)):
                peaks[number] = {kind: max(now[kind], peaks[number][kind]) for kind in KINDS}
        time.sleep(0.2)
    if failed := [process.returncode for process in processes if process.returncode]:
        raise RuntimeError(f"{len(failed)} trials failed, exit codes {failed}")
    return peaks


def _start(root: Path, embedding_size: int, checkpoints: Path) -> "subprocess.Popen[str]":
    arguments = f"Path({str(root)!r}), {embedding_size}, Path({str(checkpoints)!r})"
    program = (
        f"from pathlib import Path; from tests.trainables.data.test_shared_memory import train; train({arguments})"
    )
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _memory(pid: int) -> dict[str, float]:
    """Return the megabytes of a process by kind; nothing if it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: int(rest.split()[0]) / 1024 for name, rest in (line.split(":") for line in lines)}


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason=f"{sys.platform} has no smaps_rollup")
def test_trials_grow_by_less_than_their_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch reads all of a file that is larger than what a trial may grow by."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    size = write_features(tmp_path / "features", gigabytes=0.75)
    assert size / 2**20 > 1.5 * LIMIT
    for grown in measure(tmp_path, trials=2, embedding_size=64):
        assert 0 < grown["Pss"] <= LIMIT and grown["Rss"] <= LIMIT
