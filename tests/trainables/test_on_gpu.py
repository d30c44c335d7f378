"""Everything of a trial on a GPU, or as far as a CPU can show it: each tensor is where its operation needs it.

The GPU is this machine's; see ``tests/support/simulated_gpu.py`` for what stays open where it has none.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.simulated_gpu import any_gpu
from tests.trainables.tiny import PLAIN_LOSSES, suited, tiny_config, tiny_dataset
from trainables.checkpoint import EpochReport, save_epoch
from trainables.cocos import Convention, count_contributions
from trainables.config import PIXELS, Change, TrialConfig
from trainables.evaluation import evaluate_checkpoint, rank_checkpoint
from trainables.fused import FusedTrials
from trainables.losses import LOSSES, build_loss
from trainables.losses.plugin_loss import make_loss
from trainables.model_parameters import FEATURES, further_inputs
from trainables.models import MODELS
from trainables.plugins.offers import Offer
from trainables.seeding import choose_device, make_deterministic
from trainables.trial import run_trial

DATA = tiny_dataset(images=9)

LEARNED = {name: "learned" for name in ("temperature", "bias")}

CHANGE = Change(epoch=2, loss_parameters={"temperature": 0.2}, training={"batch_size": 8})

SETTINGS: dict[str, dict[str, Any]] = {
    "sgd without a clip": {"optimizer": "sgd", "gradient_clip": None, "learning_rate": 1e-3},
    "weight decay and warm-up": {"weight_decay": 0.1, "warmup_epochs": 2},
    "buckets": {"length_buckets": 3},
    "images": {"batches": "images", "batch_size": 3},
}


def config(loss: str = "nt_xent", model: str = "vsepp", *, epochs: int = 1, **rest: Any) -> TrialConfig:
    parts = {name: rest.pop(name) for name in ("loss_parameters", "model_parameters", "schedule") if name in rest}
    made = tiny_config(loss=loss, epochs=epochs, embedding_size=8, word_size=8, **rest)
    return replace(made, model=model, **parts)


def train(each: TrialConfig, resume: Path | None = None) -> list[EpochReport]:
    return list(run_trial(each, suited(DATA, each), resume, device="cuda"))


def tolerance(each: TrialConfig) -> float:
    """Return by how much a loss may differ, as a share: a real GPU draws WARP's negatives by a generator of its own."""
    return 0.2 if each.loss == "warp" and torch.cuda.is_available() else 1e-3


def expected(each: TrialConfig) -> list[EpochReport]:
    """Train on the CPU; called outside of the GPU's life."""
    return list(run_trial(each, suited(DATA, each), device="cpu"))


ON_FEATURES = tuple(model for model in MODELS if not further_inputs(model, {}) and FEATURES[model] != PIXELS)
"""Models of features without further inputs; tests in ``models`` train the others."""
HERE = ("nt_xent", "warp")
"""Losses whose trial is trained in every run: one that draws and one that does not; all are stacked below."""
TRIALS = (
    [pytest.param(config(loss), id=loss, marks=[] if loss in HERE else pytest.mark.proof) for loss in PLAIN_LOSSES]
    + [pytest.param(config("warp", model), id=model) for model in ON_FEATURES if model != "vsepp"]
    + [pytest.param(config(**settings), id=name) for name, settings in SETTINGS.items()]
    + [
        pytest.param(config("sigmoid", loss_parameters=LEARNED), id="learned"),
        pytest.param(config(epochs=2, schedule=(CHANGE,)), id="schedule"),
    ]
)


@pytest.mark.parametrize("each", TRIALS)
def test_a_trial_on_the_gpu_gives_the_numbers_of_the_cpu(each: TrialConfig) -> None:
    wanted = expected(each)
    with any_gpu():
        reports = train(each)
    for got, other in zip(reports, wanted, strict=True):
        assert got.metrics.keys() == other.metrics.keys() and any(name.startswith("cocos/") for name in got.metrics)
        # The GPU's GRU is PyTorch's and the CPU's is ours: their sums round differently.
        assert got.metrics["train/loss"] == pytest.approx(other.metrics["train/loss"], rel=tolerance(each))
        assert got.metrics["val/rsum"] == pytest.approx(other.metrics["val/rsum"], abs=60)


@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=[] if name in ("vsepp", "head") else pytest.mark.proof) for name in ON_FEATURES]
)
def test_a_checkpoint_of_the_gpu_is_resumed_and_evaluated_on_either(model: str, tmp_path: Path) -> None:
    each = config(model=model, epochs=2, loss_parameters={"temperature": "learned"})
    data = suited(DATA, each)
    with any_gpu():
        trial = run_trial(each, data, device="cuda")
        first = save_epoch(tmp_path, next(trial))
        undisturbed = next(trial).metrics
        _, resumed = train(each, first)
        on_gpu = evaluate_checkpoint(first, data, "test", device="cuda")
        ranks = rank_checkpoint(first, data, ["val", "test"], device="cuda")
    _, moved = run_trial(each, data, first, device="cpu")
    assert resumed.metrics["train/loss"] == pytest.approx(undisturbed["train/loss"], rel=1e-6)
    assert moved.metrics["train/loss"] == pytest.approx(undisturbed["train/loss"], rel=1e-3)
    assert ranks["test"].metrics == on_gpu
    assert on_gpu["rsum"] == pytest.approx(evaluate_checkpoint(first, data, "test", device="cpu")["rsum"], abs=30)


STACKS = {
    "temperatures": [config(loss_parameters={"temperature": value}) for value in (0.1, "learned")],
    "losses": [config(loss) for loss in PLAIN_LOSSES],
    "seeds": [replace(config("warp"), seed=seed) for seed in (0, 1)],
    **{model: [config("warp", model, learning_rate=rate) for rate in (1e-3, 5e-3)] for model in ON_FEATURES},
}


@pytest.mark.parametrize("configs", [pytest.param(value, id=name) for name, value in STACKS.items()])
def test_stacked_trials_on_the_gpu_give_the_numbers_of_each_alone(configs: list[TrialConfig]) -> None:
    wanted = [expected(each)[0] for each in configs]
    data = suited(DATA, configs[0])
    with any_gpu():
        together = FusedTrials("cuda")
        for place, each in enumerate(configs):
            together.add(str(place), each, data)
        outcomes = together.run_epoch([str(place) for place in range(len(configs))])
    for place, other in enumerate(wanted):
        got = outcomes[str(place)]
        assert isinstance(got, EpochReport)
        loss = other.metrics["train/loss"]
        assert got.metrics["train/loss"] == pytest.approx(loss, rel=tolerance(configs[place]))


COUNTED = [(loss, "paper") for loss in LOSSES] + [(loss, "published") for loss in ("triplet", "nt_xent", "smooth_ap")]


@pytest.mark.parametrize(("loss", "convention"), COUNTED)
def test_contributions_are_counted_on_the_gpu(loss: str, convention: Convention) -> None:
    similarity = torch.linspace(-0.9, 0.9, 200)[torch.randperm(200, generator=torch.Generator().manual_seed(0))]
    # The published counters of SmoothAP are those of five captions an image.
    images, captions = (10, 20) if convention == "paper" else (10, 50)
    similarity = similarity.repeat(3)[: images * captions].reshape(images, captions)
    positives = torch.arange(captions) // (captions // images) == torch.arange(images)[:, None]
    made = build_loss(loss)
    torch.manual_seed(1)
    here = count_contributions(made, similarity, positives, convention=convention)
    torch.manual_seed(1)
    with any_gpu() as gpu:
        there = count_contributions(made, similarity.to(gpu), positives.to(gpu), convention=convention)
        assert all(value.device == gpu for value in there.values()), "nothing waits for the GPU"
    assert {name: value.tolist() for name, value in there.items()} == pytest.approx(
        {name: value.tolist() for name, value in here.items()}, rel=1e-5, nan_ok=True
    )


def test_a_loop_over_stacked_trials_lets_each_draw_what_it_draws_alone() -> None:
    offer = Offer("losses", "noisy", noisy, {})
    loss = make_loss(offer, "noisy.py:1", build_loss)(weight=torch.tensor([1.0, 1.0]))
    with any_gpu() as gpu:
        scores = torch.eye(4).expand(2, 4, 4).contiguous().to(gpu).requires_grad_()
        first, second = loss(scores, torch.eye(4, dtype=torch.bool).to(gpu)).tolist()
    assert first == second != 0.0


def noisy(similarity: Tensor, positives: Tensor, ignore: Tensor | None, weight: float = 1.0) -> Tensor:
    return weight * (similarity * torch.rand(similarity.shape, device=similarity.device)).sum()


WRONG: dict[str, Callable[[Tensor], Tensor]] = {
    "a tensor of the CPU": lambda similarity: (similarity * torch.eye(4)).sum(),
    "NumPy": lambda similarity: torch.from_numpy(similarity.detach().numpy()),
    "a layer of the CPU": lambda similarity: torch.nn.Linear(4, 1)(similarity),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_a_gpu_refuses_is_refused(wrong: Callable[[Tensor], Tensor]) -> None:
    wrong(torch.eye(4))
    with any_gpu() as gpu, pytest.raises((RuntimeError, TypeError), match=r"(one|same) device|to numpy"):
        wrong(torch.eye(4).to(gpu))


def test_what_a_gpu_takes_is_taken() -> None:
    there_is_one = torch.cuda.is_available()
    with any_gpu() as gpu:
        found = torch.eye(4).to(gpu)[torch.arange(2)[:, None], torch.arange(2)] * 2.0
        assert found.is_cuda and found.device == torch.device("cuda", 0)
        assert found.cpu().tolist() == [[2.0, 0.0], [0.0, 2.0]]
        assert torch.zeros(2, device=gpu).add_(1.0).sum().item() == 2.0
    assert torch.cuda.is_available() == there_is_one


@pytest.mark.parametrize("prepare", [make_deterministic, lambda device: choose_device("auto")], ids=["train", "ask"])
def test_a_gpu_computes_float32_in_full(prepare: Callable[[torch.device], object]) -> None:
    with any_gpu() as gpu:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        prepare(gpu)
        assert not torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            pass  # as a plug-in may
        torch.manual_seed(0)
        gru = torch.nn.GRU(256, 256, batch_first=True)
        inputs = torch.randn(8, 12, 256)
        exact = gru.double()(inputs.double())[0].float()
        with torch.no_grad():
            assert (gru.float().to(gpu)(inputs.to(gpu))[0].cpu() - exact).abs().max() < 1e-5
