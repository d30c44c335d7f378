"""A small search on disk, and a folder that stands for an installation: what hosts of the tests share."""

import json
import sys
from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from tests.deploy.files import DEPLOY
from tests.support.precomputed_folder import write_precomputed

TRIALS = 4
EXPERIMENT = f"""
name: tiny
datasets: [tiny]
models: [wsabie]
losses: [triplet_sh]
training: {{epochs: %d, batch_size: %d, learning_rate: 1.0e-2, embedding_size: 8, word_size: 8}}
search: {{sampler: random, trials: {TRIALS}, metric: val/rsum}}
scheduler: {{name: none}}
resources: {{cpus: 1, gpus: 0}}
"""


def write_tiny_search(folder: Path, *, epochs: int, batch_size: int) -> None:
    """Write ``data``, ``tiny.yaml`` and ``home``, which is a checkout with its .venv, wherever Python has its own."""
    write_precomputed(folder / "data" / "tiny")
    (folder / "tiny.yaml").write_text(EXPERIMENT % (epochs, batch_size))
    (folder / "home").mkdir()
    (folder / "home" / ".venv").symlink_to(Path(sys.prefix))
    (folder / "home" / "deploy").symlink_to(DEPLOY)


def assert_finished(output: Path, said: str = "") -> None:
    """Check that the search has ended well; ``said`` is shown where it has not."""
    history = History.of(read_journal(output / "tiny" / "journal.jsonl"))
    assert history.finished and len(history.trials) == TRIALS, said
    assert json.loads((output / "tiny" / "summary.json").read_text())["winners"]
