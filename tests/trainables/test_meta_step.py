"""Weights that a meta-step learns: its gradient, the step that follows, its split, checkpoints, counts and refusals."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainables.losses.batches import STRUCTURES, random_cosines
from tests.trainables.runs import numbers, resumed, trained
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import BEST, STATE, EpochReport, read_file, save_epoch
from trainables.cocos import count_contributions
from trainables.config import Change, TrialConfig
from trainables.data.batches import Batch, epoch_batches
from trainables.data.dataset import Dataset, Split
from trainables.data.meta_split import set_aside
from trainables.errors import ConfigError
from trainables.evaluation import measure_contributions, similarities
from trainables.fused import FusedTrials
from trainables.losses import build_loss
from trainables.losses.directions import directions
from trainables.losses.meta_weights import NETWORK, MetaWeights, WeightNetwork, with_network
from trainables.losses.parameters import with_values
from trainables.meta_step import MetaStep
from trainables.models import MODELS
from trainables.models.head import HeadModel
from trainables.seeding import generator
from trainables.trial import COCOS_BATCHES, Trial, run_trial

CPU = torch.device("cpu")
RATE = 0.3


def head_config(
    seed: int = 0, loss: str = "meta_weights", *, about: dict[str, Any] | None = None, **training: Any
) -> TrialConfig:
    config = tiny_config(seed=seed, **{"epochs": 3, "learning_rate": 2e-2, **training})
    return replace(config, model="head", loss=loss, loss_parameters=about or {})


DATA = suited(tiny_dataset(), head_config())


def drawn(seed: int) -> WeightNetwork:
    """A network in float64 whose weights differ from pair to pair."""
    torch.manual_seed(seed)
    network = WeightNetwork(7).double()
    torch.nn.init.normal_(network.out.weight)
    torch.nn.init.normal_(network.out.bias)
    return network


def pairs(count: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    images, captions = (torch.randn(count, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    groups = torch.arange(count)
    lengths = torch.ones(count, dtype=torch.int64)
    return Batch(images, captions, lengths, torch.eye(count, dtype=torch.bool), None, groups, groups)


def cosines(weights: list[Tensor], batch: Batch) -> Tensor:
    """The similarities of linear heads, written out: image weight and bias, caption weight and bias."""
    images, captions = batch.images @ weights[0].T + weights[1], batch.tokens @ weights[2].T + weights[3]
    lengths = (images**2).sum(1, keepdim=True).sqrt(), (captions**2).sum(1, keepdim=True).sqrt()
    return (images / lengths[0]) @ (captions / lengths[1]).T


def terms(similarity: Tensor, margin: float) -> Iterator[tuple[Tensor, Tensor]]:
    """The positive and the hardest negative of each query within the margin, both ways, one by one."""
    for scores in (similarity, similarity.T):
        for query, row in enumerate(scores):
            others = [place for place in range(len(row)) if place != query]
            hardest = max(others, key=lambda place: float(row[place].detach()))
            if margin + float(row[hardest].detach()) - float(row[query].detach()) > 0:
                yield row[query], row[hardest]


def judged(model: list[Tensor], phi: list[Tensor], batch: Batch, meta: Batch, margin: float) -> Tensor:
    """The plain loss on the meta batch of the model after an explicit step of the weighted loss."""
    value = torch.zeros((), dtype=torch.float64)
    for positive, negative in terms(cosines(model, batch), margin):
        seen = torch.stack([positive.detach(), negative.detach()])
        weights = 1 / (1 + torch.exp(-(phi[2] @ torch.clamp(phi[0] @ seen + phi[1], min=0) + phi[3])))
        value = value + (weights[1] * negative - weights[0] * positive) / len(batch.positives)
    moves = torch.autograd.grad(value, model, create_graph=True)
    moved = [weight - RATE * move for weight, move in zip(model, moves, strict=True)]
    after = (margin + negative - positive for positive, negative in terms(cosines(moved, meta), margin))
    return sum(after, torch.zeros((), dtype=torch.float64)) / len(meta.positives)


@pytest.mark.parametrize("seed", range(4))
def test_the_meta_gradient_is_that_of_an_explicit_virtual_step(seed: int) -> None:
    torch.manual_seed(seed)
    model = HeadModel(5, 5, 3).double()
    step = MetaStep(model, MetaWeights(hidden_size=7), Trial(head_config(), DATA, CPU).train_split)
    step.network = drawn(seed)
    batch, meta = pairs(6, seed), pairs(5, seed + 50)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    gradients = step.gradients(MetaWeights(margin=0.4), optimizer, cosines_of(model, batch), batch, meta)
    weights, phi = leaves(parts(model)), leaves(step.network.parameters())
    expected = torch.autograd.grad(judged(weights, phi, batch, meta, 0.4), phi)
    assert max(float(one.abs().max()) for one in expected) > 1e-4
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    for place in range(len(phi)):
        ends = []
        for change in (1e-5, -1e-5):
            moved = [other.detach().clone() for other in phi]
            moved[place].view(-1)[0] += change
            ends.append(float(judged(weights, moved, batch, meta, 0.4).detach()))
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(gradients[place].reshape(-1)[0]), rel=1e-5, abs=1e-9)


def leaves(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


def cosines_of(model: HeadModel, batch: Batch) -> Tensor:
    return model.compare(model.encode_images(batch.images), model.encode_captions(batch.tokens, batch.lengths))


def parts(model: HeadModel) -> list[Tensor]:
    assert model.captions is not None
    return [part for head in (model.images, model.captions) for part in (head.projection.weight, head.projection.bias)]


def weighted_gradient(network: WeightNetwork, similarity: Tensor, positives: Tensor, margin: float, k: int) -> Tensor:
    """-w+ / N at positives and w- / N at negatives, pair by pair in plain numbers."""
    gradient, total = torch.zeros_like(similarity), float(positives.sum())
    for scores, own, into in ((similarity, positives, gradient), (similarity.T, positives.T, gradient.T)):
        for query, row in enumerate(scores.tolist()):
            negatives = [place for place in range(len(row)) if not own[query, place]]
            for p in (place for place in range(len(row)) if own[query, place]):
                for n in sorted(negatives, key=lambda place: -row[place])[:k]:
                    if margin + row[n] - row[p] > 0:
                        both = [torch.tensor(value, dtype=torch.float64) for value in (row[p], row[n])]
                        w_positive, w_negative = network.constant(*both)
                        into[query, p] -= w_positive / total
                        into[query, n] += w_negative / total
    return gradient


@pytest.mark.parametrize("negatives", [1, 2])
@pytest.mark.parametrize("name", STRUCTURES)
def test_the_real_step_has_the_gradient_of_the_weights(name: str, negatives: int) -> None:
    positives, network = STRUCTURES[name], drawn(3)
    similarity = random_cosines(*positives.shape, seed=5).requires_grad_()
    loss = with_values(MetaWeights(margin=0.5, negatives=negatives), {NETWORK: network.constant})
    loss(similarity, positives).backward()
    expected = weighted_gradient(network, similarity.detach(), positives, 0.5, negatives)
    torch.testing.assert_close(similarity.grad, expected, rtol=1e-12, atol=1e-12)
    assert all(parameter.grad is None for parameter in network.parameters())
    weights = [loss.contributions(direction) for direction in directions(similarity.detach(), positives)]
    assert all(bool((each.candidates >= 0).all() and (each.candidates <= 1).all()) for each in weights)
    counts = count_contributions(loss, similarity.detach(), positives, epsilon=1e-9)
    counted = sum(float(counts[f"{way}_negatives_per_batch"]) for way in ("i2t", "t2i"))
    pairs_of = positives.sum(1).max(), positives.sum(0).max()
    if negatives == 1 and max(pairs_of) == 1:
        assert counted == sum(1 for _ in terms_of(similarity.detach(), positives))


def terms_of(similarity: Tensor, positives: Tensor) -> Iterator[None]:
    for scores, own in ((similarity, positives), (similarity.T, positives.T)):
        for row, mine in zip(scores, own, strict=True):
            if 0.5 + float(row[~mine].max()) - float(row[mine].max()) > 0:
                yield None


def test_a_rate_of_zero_leaves_the_network_and_takes_the_steps_of_half_the_triplet_loss() -> None:
    """Steps of plain gradient descent, whose size is that of the gradient; Adam's is the same for each scale."""
    about = {"meta_learning_rate": 0.0, "negatives": 3}
    trial = Trial(head_config(about=about, optimizer="sgd", learning_rate=1.0, gradient_clip=None), DATA, CPU)
    assert trial.meta is not None
    before = {name: value.clone() for name, value in trial.meta.network.state_dict().items()}
    plain = Trial(trial.config, DATA, CPU)
    metrics = trial.run_epoch().metrics
    assert all(torch.equal(value, before[name]) for name, value in trial.meta.network.state_dict().items())
    assert {value for name, value in metrics.items() if name.startswith("loss/")} == {0.5}
    plain.begin_epoch()
    for batch in plain.batches():
        value = build_loss("triplet", negatives=3)(similarities(plain.model, batch), batch.positives, batch.ignore)
        gradients = torch.autograd.grad(value / (2 * batch.positives.sum()), list(plain.model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(plain.model.parameters(), gradients, strict=True):
                parameter -= gradient
    for ours, theirs in zip(trial.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_weights_are_learned_and_reported() -> None:
    reports = trained(head_config(about={"meta_learning_rate": 0.01}), DATA)
    names = [f"loss/{side}_weight_{at}" for side in ("positive", "negative") for at in ("25", "50", "75")]
    for name in names:
        values = [report[name] for report in reports]
        assert len(set(values)) == len(reports)
        assert all(0 < value < 1 for value in values)


@pytest.mark.parametrize("stop", [1, 2])
def test_a_resumed_trial_resumes_to_the_bit(tmp_path: Path, stop: int) -> None:
    resumed(head_config(), DATA, tmp_path, stop)


def test_a_checkpoint_holds_the_network_of_the_best_epoch(tmp_path: Path) -> None:
    trial = Trial(head_config(about={"meta_learning_rate": 0.01}), DATA, CPU)
    report = trial.run_epoch()
    folder = save_epoch(tmp_path, report)
    kept = trial.meta.in_force(trial.loss) if trial.meta else None
    loss = with_network(build_loss("meta_weights"), read_file(folder, BEST)[NETWORK])
    similarity, positives = random_cosines(6, 6, dtype=torch.float32), torch.eye(6) > 0
    assert torch.equal(loss(similarity, positives), kept(similarity, positives))
    assert not torch.equal(loss(similarity, positives), build_loss("meta_weights")(similarity, positives))
    batches = epoch_batches(trial.train_split, trial.config.training, generator(0, "cocos"))
    counted = measure_contributions(trial.model, loss, batches, count=COCOS_BATCHES)["i2t_negative_weight"]
    assert report.metrics["cocos/i2t_negative_weight"] == counted.mean
    assert read_file(folder, STATE)["meta"].keys() == {"network", "optimizer"}
    assert read_file(folder, BEST)["learned"]["positive_weight_50"] == report.metrics["loss/positive_weight_50"]


def test_fused_trials_have_the_bits_of_each_alone() -> None:
    """They are not stacked; a stacked neighbour and one with another meta split share their process."""
    plain = [head_config(seed, "triplet_sh") for seed in (0, 2)]
    configs = [head_config(), head_config(1), *plain, head_config(about={"meta_fraction": 0.3})]
    group = FusedTrials("cpu")
    for place, config in enumerate(configs):
        group.add(str(place), config, DATA)
    alone = [run_trial(config, DATA, device="cpu") for config in configs]
    for _ in range(2):
        reports = group.run_epoch(map(str, range(len(configs))))
        for place in (0, 1, 4):
            mine = reports[str(place)]
            assert isinstance(mine, EpochReport)
            assert numbers(mine) == numbers(next(alone[place]))


def batch_captions(trial: Trial) -> set[tuple[float, ...]]:
    return {tuple(row) for batch in trial.batches() for row in batch.images.tolist()}


def words_of(split: Split) -> list[list[int]]:
    return [split.tokens[start:stop].tolist() for start, stop in pairwise(split.offsets)]


def test_the_meta_split_is_of_whole_images_of_train_and_is_not_trained_on() -> None:
    config = head_config(about={"meta_fraction": 0.25})
    train, meta = set_aside(config, DATA)
    whole = DATA.splits["train"]
    assert (len(train.image_rows), len(meta.image_rows)) == (45, 15)
    assert sorted([*train.image_ids, *meta.image_ids]) == sorted(whole.image_ids)
    for part in (train, meta):
        for image, name in enumerate(part.image_ids):
            place = list(whole.image_ids).index(name)
            own = [part.captions[int(c)] for c in np.flatnonzero(part.image_of_caption == image)]
            assert own == [whole.captions[int(c)] for c in np.flatnonzero(whole.image_of_caption == place)]
        words = dict(zip(whole.captions, words_of(whole), strict=True))
        assert words_of(part) == [words[caption] for caption in part.captions]
    trial = Trial(config, DATA, CPU)
    trial.begin_epoch()
    set_apart = {tuple(whole.features[row].astype(np.float32).tolist()) for row in meta.image_rows}
    kept = {tuple(whole.features[row].astype(np.float32).tolist()) for row in train.image_rows}
    assert batch_captions(trial) <= kept
    assert len(kept - set_apart) > 0
    again, _ = set_aside(replace(config, seed=5), DATA)
    assert list(again.image_ids) == list(train.image_ids)
    other, _ = set_aside(config, replace(DATA, digest="other"))
    assert list(other.image_ids) != list(train.image_ids)


def test_neither_val_nor_test_decides_the_training() -> None:
    """With other images in val and test a training has the same weights after its epochs."""
    other = tiny_dataset(seed=1)
    swapped: Dataset = replace(DATA, splits={**suited(other, head_config()).splits, "train": DATA.splits["train"]})
    states = []
    for data in (DATA, swapped):
        trial = Trial(head_config(), data, CPU)
        trial.run_epoch()
        assert trial.meta is not None
        states.append([*trial.model.state_dict().values(), *trial.meta.network.state_dict().values()])
    assert all(torch.equal(one, two) for one, two in zip(*states, strict=True))


@pytest.mark.parametrize("model", [name for name in MODELS if name not in ("head", "clip")])
def test_other_models_are_refused_before_any_work(model: str) -> None:
    with pytest.raises(ConfigError, match=f"meta_weights has a meta-step.*take the model head, not {model}"):
        TrialConfig(dataset="tiny", model=model, loss="meta_weights")


def test_what_cannot_have_a_meta_step_is_refused_with_the_place() -> None:
    with pytest.raises(ConfigError, match=r"training.bank: meta_weights has a meta-step"):
        head_config(bank=32)
    with pytest.raises(ConfigError, match=r"training.micro_batch: meta_weights has a meta-step"):
        head_config(micro_batch=4)
    with pytest.raises(ConfigError, match="schedule: meta_fraction of meta_weights holds for the whole training"):
        replace(head_config(), schedule=(Change(epoch=2, loss_parameters={"meta_fraction": 0.3}),))
    with pytest.raises(ConfigError, match="meta_fraction must be a number above 0, at most 0.5, got 0.7"):
        build_loss("meta_weights", meta_fraction=0.7)
    with pytest.raises(ConfigError, match="0.01 of the 60 train images of tiny are 1, and each part needs two"):
        Trial(head_config(about={"meta_fraction": 0.01}), DATA, CPU)
    heads = {"image_head": "identity", "caption_head": "identity"}
    identity = replace(head_config(embedding_size=24), model_parameters=heads)
    with pytest.raises(ConfigError, match="nothing to train"):
        Trial(identity, DATA, CPU)


def test_a_rate_may_change_by_the_schedule() -> None:
    changed = replace(head_config(), schedule=(Change(epoch=2, loss_parameters={"meta_learning_rate": 0.0}),))
    reports = trained(changed, DATA)
    values = [report["loss/positive_weight_50"] for report in reports]
    assert values[0] == values[1] == values[2] != 0.5
