"""Trainings from beginning to end: what they report, and where they are stopped."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from trainables.checkpoint import EpochReport, save_epoch
from trainables.config import TrialConfig
from trainables.data.dataset import Dataset, Split
from trainables.models import RetrievalModel
from trainables.trial import run_trial


def numbers(report: EpochReport) -> dict[str, float]:
    """Return the metrics of a report without those that depend on the clock."""
    return {name: value for name, value in report.metrics.items() if not name.startswith("time/")}


def trained(config: TrialConfig, data: Dataset, resume: Path | None = None) -> list[dict[str, float]]:
    """Train on the CPU, and return the numbers of each epoch."""
    return [numbers(report) for report in run_trial(config, data, resume, device="cpu")]


def stopped(config: TrialConfig, data: Dataset, root: Path, epoch: int) -> Path:
    """Train on the CPU up to an epoch, and return its checkpoint."""
    for report in run_trial(config, data, device="cpu"):
        checkpoint = save_epoch(root, report)
        if report.epoch == epoch:
            return checkpoint
    raise AssertionError(f"the training ends before epoch {epoch}")


def encoded_alone(model: RetrievalModel, split: Split) -> tuple[Any, list[Any]]:
    """Return the encoded images of a split, and its captions, encoded one at a time."""
    captions = []
    for start, stop in pairwise(split.offsets):
        tokens = torch.from_numpy(split.tokens[start:stop]).long()
        captions.append(model.encode_captions(tokens[None], torch.tensor([len(tokens)])))
    return model.encode_images(torch.from_numpy(split.features[split.image_rows]).float()), captions


def resumed(config: TrialConfig, data: Dataset, root: Path, stop: int) -> list[dict[str, float]]:
    """Stop and resume a training, which must end like an undisturbed one, whose numbers are returned."""
    straight, checkpoint = trained(config, data), stopped(config, data, root, stop)
    torch.manual_seed(12345)  # A process that did something else in between.
    assert trained(config, data, checkpoint) == straight[stop - 1 :]
    return straight
