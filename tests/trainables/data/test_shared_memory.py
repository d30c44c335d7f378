"""A trial that trains on a file of features grows by less than the file, whatever its size; trials share its pages."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LIMIT = 400
"""Megabytes that a trial may grow by."""

FEATURE_SIZE, VAL_IMAGES, WORDS = 4096, 1000, 5000


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


PROGRAM = """
import sys
from pathlib import Path

import torch

def megabytes(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))

torch.set_num_threads(1)
before, root = megabytes("VmRSS"), Path(sys.argv[1])
from trainables.checkpoint import save_epoch
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.dataset import open_dataset
from trainables.trial import run_trial

config = TrialConfig(dataset="features", training=TrainingConfig(epochs=1, embedding_size=64))
data = open_dataset(config, root)
if len(sys.argv) > 2:
    for report in run_trial(config, data, device="cpu"):
        save_epoch(root / "trial", report)
print(megabytes("VmHWM") - before)
"""


@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason=f"{sys.platform} has no /proc/self/status")
def test_a_trial_grows_by_less_than_its_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch reads all of a file that is larger than what a trial may grow by."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    size = write_features(tmp_path / "features", gigabytes=0.75)
    assert size / 2**20 > 1.5 * LIMIT
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    # The first process prepares the captions alone.
    subprocess.run(command, check=True, capture_output=True)
    grown = subprocess.run([*command, "train"], check=True, capture_output=True, text=True).stdout
    assert 0 < float(grown) <= LIMIT
