"""bf16 on the CPU: what is to stay float32 does, what is learnt is nearly the same, and resuming is exact."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.data.batches import ResidentSplit, epoch_batches
from trainables.evaluation import similarities
from trainables.models import build_model
from trainables.models.retrieval_model import computing, computing_in_full, in_full
from trainables.seeding import generator
from trainables.trial import run_trial

CPU = torch.device("cpu")


@pytest.mark.parametrize(("precision", "dtype"), [("float32", "float32"), ("bf16", "bfloat16"), ("auto", "float32")])
def test_products_are_of_the_precision(precision: str, dtype: str) -> None:
    linear = torch.nn.Linear(4, 3)
    with computing(precision, CPU):  # type: ignore[arg-type]
        assert linear(torch.ones(2, 4)).dtype == getattr(torch, dtype)
        with computing_in_full(CPU):
            assert linear(torch.ones(2, 4)).dtype == torch.float32


@pytest.mark.parametrize(("given", "kept"), [("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")])
def test_in_full_never_loses(given: str, kept: str) -> None:
    assert in_full(torch.ones(2, dtype=getattr(torch, given))).dtype == getattr(torch, kept)


@pytest.mark.parametrize("model", ["vsepp", "wsabie", "scan"])
def test_similarities_and_gradients_are_float32_and_near(model: str) -> None:
    data, found = suited(tiny_dataset(), replace(tiny_config(), model=model)), {}
    for precision in ("float32", "bf16"):
        config = replace(tiny_config(precision=precision), model=model)
        torch.manual_seed(0)
        built = build_model(config, data)
        split = ResidentSplit(data.splits["train"], CPU)
        matrix = similarities(built, next(epoch_batches(split, config.training, generator(0, "batches"))))
        matrix.square().sum().backward()
        assert matrix.dtype == torch.float32
        assert all(one.grad is not None and one.grad.dtype == torch.float32 for one in built.parameters())
        found[precision] = matrix.detach()
    difference = (found["bf16"] - found["float32"]).abs().max()
    assert 0 < difference < 0.02


def test_it_learns_and_resumes_in_bf16(tmp_path: Path) -> None:
    data, config = tiny_dataset(), tiny_config(precision="bf16", epochs=4)
    reports = run_trial(config, data, device="cpu")
    first = next(reports)
    checkpoint = save_epoch(tmp_path, first)
    *_, last = reports
    *_, resumed = run_trial(config, data, checkpoint, device="cpu")
    assert last.metrics["val/rsum"] == resumed.metrics["val/rsum"] > first.metrics["val/rsum"]
    *_, full = run_trial(tiny_config(epochs=4), data, device="cpu")
    assert last.metrics["train/loss"] == pytest.approx(full.metrics["train/loss"], rel=0.05)
    assert last.metrics["train/loss"] != full.metrics["train/loss"]
