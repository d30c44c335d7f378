"""What an epoch of a trial is made of: batches, draws, gradients and clipping, and which epoch is the best."""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables import trial as trial_module
from trainables.config import Change
from trainables.data.batches import Batch
from trainables.errors import DivergedError
from trainables.evaluation import evaluate, similarities
from trainables.fused import FusedTrials
from trainables.losses import NotANumberError, build_loss
from trainables.models import build_model
from trainables.optimizers import SGD, AdamW, build_optimizer
from trainables.training_steps import StepLosses, Steps, finish, train_epoch
from trainables.trial import COCOS_BATCHES, Trial

CPU = torch.device("cpu")


DATA = tiny_dataset()


def captions_of(batches: Iterable[Batch]) -> tuple[tuple[int, ...], ...]:
    """Return the token ids of a stream of batches, which tell its order."""
    return tuple(tuple(batch.tokens.flatten().tolist()) for batch in batches)


@pytest.mark.parametrize(
    "settings",
    [{}, {"length_buckets": 4}, {"batches": "images"}, {"batches": "images", "captions_per_image": 1}],
    ids=str,
)
def test_each_epoch_and_each_seed_has_an_order_of_its_own(settings: dict[str, Any]) -> None:
    orders, images = set(), set()
    for seed in (0, 1):
        trial = Trial(tiny_config(seed=seed, **settings), DATA, CPU)
        for _ in range(3):
            trial.begin_epoch()
            batches = list(trial.batches())
            assert captions_of(batches) == captions_of(trial.batches()), "the order is a function of seed and epoch"
            orders.add(captions_of(batches))
            images.add(tuple(torch.cat([batch.images for batch in batches]).nonzero()[:, 1].tolist()))
    assert len(orders) == len(images) == 6


def test_each_epoch_and_each_seed_draws_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that samples, as WARP does, draws from torch's generator."""

    def drawing(*arguments: object) -> Steps:
        yield
        return float(torch.rand(()))

    monkeypatch.setattr(trial_module, "train_epoch", drawing)
    drawn = []
    for seed in (0, 1, 0):
        trial = Trial(tiny_config(seed=seed), DATA, CPU)
        for _ in range(3):
            trial.begin_epoch()
            drawn.append(trial.train())
    assert len(set(drawn[:6])) == 6
    assert drawn[6:] == drawn[:3]


def test_each_seed_starts_from_other_weights() -> None:
    first, other, again = (Trial(tiny_config(seed=seed), DATA, CPU).model.state_dict() for seed in (0, 1, 0))
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not torch.equal(first["image_projection.weight"], other["image_projection.weight"])


def test_statistics_are_counted_on_the_same_batches_always(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[tuple[int, ...], ...]] = []

    def note(model: Any, loss: Any, batches: Iterable[Batch], *, count: int, **_: Any) -> dict[str, Any]:
        seen.append(captions_of(islice(batches, count)))
        return {}

    monkeypatch.setattr(trial_module, "measure_contributions", note)
    for seed in (0, 1):
        trial = Trial(tiny_config(seed=seed, cocos_every=1), DATA, CPU)
        for _ in range(2):
            trial.run_epoch()
    assert len(seen) == 4
    assert len(set(seen)) == 1
    assert len(seen[0]) == COCOS_BATCHES


def test_a_scheduled_clipping_holds_from_its_epoch_on(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []
    monkeypatch.setattr(AdamW, "step", lambda self: norms.append(float(norm_of(self.param_groups[0]["params"]))))
    change = Change(epoch=2, training={"gradient_clip": 0.25})
    trial = Trial(replace(tiny_config(loss="triplet", gradient_clip=0.5), schedule=(change,)), DATA, CPU)
    largest = []
    for _ in range(2):
        trial.run_epoch()
        largest.append(max(norms))
        norms.clear()
    assert largest == pytest.approx([0.5, 0.25], rel=1e-3)


def norm_of(parameters: Iterable[Tensor]) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in parameters]).norm()


REGIONS = suited(DATA, replace(tiny_config(), model="vsrn"))


def test_a_step_takes_the_gradient_of_its_own_batch_in_training_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of VSRN, whose batch norms are others in training, beside those that are computed batch by batch."""
    config = replace(tiny_config(optimizer="sgd", gradient_clip=None), model="vsrn")
    trial = Trial(config, REGIONS, CPU)
    trial.begin_epoch()
    batches, loss = list(trial.batches())[:3], build_loss("nt_xent", temperature=0.1)
    torch.manual_seed(0)
    model = build_model(config, REGIONS)
    parameters = list(model.parameters())

    def gradients(batch: Batch) -> Tensor:
        value = loss(similarities(model, batch), batch.positives, batch.ignore)
        return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(value, parameters)])

    model.train()
    expected = [gradients(batch) for batch in batches]
    assert not torch.allclose(gradients(batches[0]), gradients(batches[1]))
    taken: list[Tensor] = []
    # Steps of nothing: the weights stay those that the expected gradients are of.
    monkeypatch.setattr(SGD, "step", lambda self: taken.append(torch.cat([p.grad.flatten() for p in parameters])))
    finish(
        train_epoch(model.eval(), loss, build_optimizer(model.parameters(), config.training), batches, None, epoch=1)
    )
    assert model.training
    torch.testing.assert_close(taken, expected)


RSUM, R1 = [10.0, 30.0, 20.0, 30.0], [4.0, 2.0, 9.0, 9.0]


@pytest.mark.parametrize(("metric", "best"), [("val/rsum", 2), ("val/i2t_r1", 3), ("val/r1_r5_sum", 1)])
def test_the_metric_that_was_asked_for_selects_the_first_of_the_best_epochs(
    monkeypatch: pytest.MonkeyPatch, metric: str, best: int
) -> None:
    recalls = {"i2t_r1": R1, "i2t_r5": [40.0, 1.0, 1.0, 2.0], "t2i_r1": [1.0] * 4, "t2i_r5": [1.0] * 4}
    others = {"i2t_r10": [1.0, 1.0, 1.0, 99.0], "r1_r5_sum": [46.0, 5.0, 12.0, 13.0]}
    values = {"rsum": RSUM, **recalls, **others}
    scripted = [{name: each[epoch] for name, each in values.items()} for epoch in range(4)]
    monkeypatch.setattr(trial_module, "evaluate", lambda model, split: dict(scripted.pop(0)))
    trial = Trial(replace(tiny_config(), metric=metric), DATA, CPU)
    reports = [trial.run_epoch() for _ in range(4)]
    found = [report.metrics[metric] for report in reports]
    so_far = [max(found[: n + 1]) for n in range(4)]
    assert trial.best_epoch == best
    assert [report.is_best for report in reports] == [so_far[n] not in so_far[:n] for n in range(4)]
    assert [report.metrics[f"{metric}_best"] for report in reports] == so_far


def test_embeddings_that_are_not_finite_are_a_divergence() -> None:
    trial = Trial(tiny_config(), DATA, CPU)
    trial.model.text.words.weight.data.fill_(math.nan)
    with pytest.raises(ValueError) as caught:
        evaluate(trial.model, trial.val_split)
    assert caught.type is NotANumberError
    trial.epoch = 7
    with pytest.raises(DivergedError, match="val/similarity is nan in epoch 7"):
        trial.end_epoch(1.0, 1.0)


def test_trials_that_share_a_process_train_each_on_its_own_data() -> None:
    other = tiny_dataset(seed=1, digest="other")
    trials = FusedTrials("cpu")
    for name, own in (("first", DATA), ("other", other), ("again", DATA)):
        trials.add(name, tiny_config(loss="warp"), own)
    reports = trials.run_epoch(["first"]) | trials.run_epoch(["other"]) | trials.run_epoch(["again"])
    found = {name: (report.metrics["train/loss"], report.metrics["val/rsum"]) for name, report in reports.items()}
    alone = [Trial(tiny_config(loss="warp"), own, CPU).run_epoch().metrics for own in (DATA, other)]
    expected = [(metrics["train/loss"], metrics["val/rsum"]) for metrics in alone]
    assert expected[0] != expected[1]
    assert [found[name] for name in ("first", "other", "again")] == [expected[0], expected[1], expected[0]]


LOSSES = [3.0, 1.5, 0.25, 7.0, 2.0]


@pytest.mark.parametrize("unread", [None, 1, 2, 5, 100])
def test_mean_is_that_of_all_steps(unread: int | None) -> None:
    losses = StepLosses(epoch=1, unread=unread)
    for value in LOSSES:
        losses.add(torch.tensor(value, requires_grad=True))
    assert losses.mean() == sum(LOSSES) / len(LOSSES)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(("unread", "seen_at"), [(None, 3), (1, 3), (2, 4), (5, 5), (100, None)])
def test_the_first_step_that_is_not_finite_is_named(bad: float, unread: int | None, seen_at: int | None) -> None:
    losses = StepLosses(epoch=7, unread=unread)
    with pytest.raises(DivergedError) as raised:
        for step, value in enumerate([3.0, 1.5, bad, bad, 2.0], start=1):
            current = step
            losses.add(torch.tensor(value))
        current = None
        losses.mean()
    assert (raised.value.epoch, current) == (7, seen_at)
    assert "step 3" in str(raised.value)
