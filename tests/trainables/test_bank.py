"""Negatives of earlier batches: each loss and its gradients by loops over pairs, drift, counts, stacks and refusals."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.trainables.losses import oracle
from tests.trainables.losses.oracle import CASES, EXPECTED_WARP, Case
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.bank import Bank, make_bank
from trainables.checkpoint import EpochReport
from trainables.cocos import count_contributions
from trainables.config import TrialConfig
from trainables.data.batches import Batch
from trainables.data.dataset import Dataset
from trainables.errors import ConfigError, DivergedError
from trainables.evaluation import measure_contributions
from trainables.fused import FusedTrials, stack_shape
from trainables.losses import build_loss
from trainables.losses.directions import Candidates, ConstantCandidates
from trainables.models.retrieval_model import RetrievalModel
from trainables.training_steps import finish, train_epoch
from trainables.trial import COCOS_BATCHES, Trial, run_trial

CPU = torch.device("cpu")
DATA = tiny_dataset()

OWNERS = np.arange(12) // 3
"""Image of each caption: four images with three captions each."""

STEPS = [
    ([0, 1, 2, 3], [2, 4, 7, 9]),
    ([3, 1, 1, 0], [10, 3, 5, 1]),
    ([2, 0], [6, 7, 8, 0, 1, 2]),
    ([0, 2, 3, 1], [1, 8, 11, 4]),
]
"""Images and captions of four batches: pairs, of which one batch has an image twice, and images with their captions."""


class Table(RetrievalModel):
    """Looks up the vector of each image and caption by its number; the vectors are the parameters."""

    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(3)
        self.images = nn.Parameter(torch.randn(4, 3, generator=random, dtype=torch.float64))
        self.captions = nn.Parameter(torch.randn(12, 3, generator=random, dtype=torch.float64))

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        raise NotImplementedError

    def encode_images(self, features: Tensor) -> Tensor:
        return self.images[features]

    def encode_captions(self, captions: Tensor, lengths: Tensor) -> Tensor:
        return self.captions[captions]


def bank_batches() -> list[Batch]:
    batches = []
    for images, captions in STEPS:
        own, other = torch.tensor(images), torch.from_numpy(OWNERS[captions])
        same = own[:, None] == other
        # In a batch of pairs the diagonal alone is positive.
        positives = torch.eye(len(images), dtype=torch.bool) if len(images) == len(captions) else same
        lengths = torch.ones(len(captions), dtype=torch.int64)
        batches.append(Batch(own, torch.tensor(captions), lengths, positives, same & ~positives, own, other))
    return batches


def warp_with_bank(vectors: dict[str, np.ndarray], size: int, margin: float, rate: float) -> tuple[list[float], int]:
    """Train ``vectors`` in place, pair by pair; return the losses of the steps, and how often the bank is drawn from.

    WARP draws two numbers a pair: the first is turned into the number of draws, the second chooses the violator.
    """
    bank: dict[str, list[tuple[int, np.ndarray]]] = {"images": [], "captions": []}
    losses, from_bank = [], 0
    for images, captions in STEPS:
        numbers = {"images": images, "captions": captions}
        owners = {"images": images, "captions": [int(OWNERS[caption]) for caption in captions]}
        slopes = {side: np.zeros_like(vectors[side]) for side in vectors}
        loss = 0.0
        for side, facing in (("images", "captions"), ("captions", "images")):
            pairs = [
                (q, c)
                for q, owner in enumerate(owners[side])
                for c, other in enumerate(owners[facing])
                if (q == c if len(images) == len(captions) else owner == other)
            ]
            uniform = torch.rand(2, len(pairs), dtype=torch.float64).numpy()
            for (q, c), first, second in zip(pairs, *uniform, strict=True):
                query, positive = vectors[side][numbers[side][q]], vectors[facing][numbers[facing][c]]
                own = list(zip(owners[facing], vectors[facing][numbers[facing]], strict=True))
                # Of the batch, the captions of the query's image are positives or ignored; the bank has others' alone.
                candidates = [vector for owner, vector in own + bank[facing] if owner != owners[side][q]]
                violators = [n for n, vector in enumerate(candidates) if query @ vector > query @ positive - margin]
                chance = len(violators) / len(candidates)
                found = [n for n in range(1, len(candidates) + 1) if (1 - chance) ** n < 1 - first]
                if not found:
                    continue
                chosen = violators[int(second * len(violators))]
                weight = sum(1 / j for j in range(1, len(candidates) // found[0] + 1)) / len(pairs)
                loss += weight * (margin - query @ positive + query @ candidates[chosen])
                # The query alone moves.
                slopes[side][numbers[side][q]] += weight * (candidates[chosen] - positive)
                from_bank += chosen >= sum(owner != owners[side][q] for owner, _ in own)
        losses.append(loss)
        for side, table in vectors.items():
            seen = [(owner, table[n].copy()) for owner, n in zip(owners[side], numbers[side], strict=True)]
            bank[side] = (bank[side] + seen)[-size:]
            table -= rate * slopes[side]
    return losses, from_bank


@pytest.mark.parametrize("size", [1, 5, 100])
def test_warp_draws_from_the_bank_what_a_double_loop_draws(size: int) -> None:
    model = Table()
    vectors = {name: values.detach().numpy().copy() for name, values in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in (1, 2):
        torch.manual_seed(epoch)
        losses, from_bank = warp_with_bank(vectors, size, margin=0.7, rate=0.2)
        torch.manual_seed(epoch)
        loss = finish(
            train_epoch(model, build_loss("warp", margin=0.7), optimizer, bank_batches(), None, epoch, bank=Bank(size))
        )
        assert from_bank > 0
        assert loss == pytest.approx(np.mean(losses))
        for name, values in model.named_parameters():
            np.testing.assert_allclose(values.detach().numpy(), vectors[name], atol=1e-12)


Kept = list[tuple[int, Tensor]]


def step_by_pairs(case: Case, model: "Table", batch: Batch, bank: dict[str, Kept], size: int) -> Tensor:
    """Return the loss of a step with the product's bank, as sums over single pairs; the bank takes the batch."""
    vectors = {"images": model.images[batch.images], "captions": model.captions[batch.tokens]}
    owners = {"images": batch.image_groups.tolist(), "captions": batch.caption_groups.tolist()}
    ignore = torch.zeros_like(batch.positives) if batch.ignore is None else batch.ignore
    total = torch.zeros((), dtype=torch.float64)
    for side, facing, positives, ignored in (
        ("images", "captions", batch.positives, ignore),
        ("captions", "images", batch.positives.T, ignore.T),
    ):
        for query in range(len(vectors[side])):
            candidates = [vector.detach() for vector in vectors[facing]] + [vector for _, vector in bank[facing]]
            row = torch.stack([(vectors[side][query] * vector).sum() for vector in candidates])
            own = [j for j in range(len(vectors[facing])) if positives[query, j]]
            negatives = [j for j in range(len(vectors[facing])) if not positives[query, j] and not ignored[query, j]]
            first = len(vectors[facing])
            negatives += [first + n for n, (owner, _) in enumerate(bank[facing]) if owner != owners[side][query]]
            terms = sum(case.term(oracle.Pair(row, p, own, negatives)) for p in own)
            total = total + (terms / (2 * len(own) * len(vectors[side])) if case.reduction == "means" else terms)
    for side in bank:
        seen = [(owner, vector.detach().clone()) for owner, vector in zip(owners[side], vectors[side], strict=True)]
        bank[side] = (bank[side] + seen)[-size:]
    return total / batch.positives.sum() if case.reduction == "per_pair" else total


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [3, 100])
def test_every_loss_has_the_gradients_of_a_loop_over_pairs(name: str, size: int) -> None:
    case, model, other = CASES[name], Table(), Table()
    loss, bank = build_loss(case.name, **case.parameters), {"images": Kept(), "captions": Kept()}
    # Cosines, for which the cases are made.
    for table in (model, other):
        for values in table.parameters():
            values.data /= values.data.norm(dim=1, keepdim=True)
    expected = []
    for batch in bank_batches():
        value = step_by_pairs(case, other, batch, bank, size)
        gradients = torch.autograd.grad(value, list(other.parameters()))
        expected.append(float(value))
        for values, gradient in zip(other.parameters(), gradients, strict=True):
            values.data -= 0.02 * gradient
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    found = finish(train_epoch(model, loss, optimizer, bank_batches(), None, 1, bank=Bank(size)))
    assert found == pytest.approx(np.mean(expected), abs=1e-10)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("size", "steps"), [(3, 1), (5, 2), (100, 4)])
def test_drift_is_that_of_the_first_batch_when_the_bank_is_full_or_the_epoch_ends(size: int, steps: int) -> None:
    model, batches, bank = Table(), bank_batches(), Bank(size)
    images, captions = batches[0].images, batches[0].tokens
    before = [model.images[images].detach().clone(), model.captions[captions].detach().clone()]
    loss, optimizer = build_loss("triplet", margin=0.7), torch.optim.SGD(model.parameters(), lr=0.2)
    finish(train_epoch(model, loss, optimizer, batches[:steps], None, 1, bank=Bank(100)))
    after = [model.images[images].detach(), model.captions[captions].detach()]
    cosines = [
        np.mean([float(a @ b / (a.norm() * b.norm())) for a, b in zip(old, new, strict=True)])
        for old, new in zip(before, after, strict=True)
    ]
    again = Table()
    finish(train_epoch(again, loss, torch.optim.SGD(again.parameters(), lr=0.2), batches, None, 1, bank=bank))
    drift = {name: float(value) for name, value in bank.drift.values.items()}
    if size == 3:
        # With other negatives, but none in the first step.
        assert drift == pytest.approx({"image_drift": 1 - cosines[0], "caption_drift": 1 - cosines[1]})
    assert 0 < drift["image_drift"] < 1 and 0 < drift["caption_drift"] < 1
    bank.clear()
    assert not bank.drift.values and not bank.is_full


def two_sides(positives: Tensor, ignore: Tensor, negatives: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield positives and ignored pairs of each direction, with the candidates of a bank at the end of each row."""
    for own, ignored, others in zip((positives, positives.T), (ignore, ignore.T), negatives, strict=True):
        yield torch.cat([own, torch.zeros_like(others)], 1), torch.cat([ignored, ~others], 1)


@pytest.mark.parametrize("name", [*CASES, *EXPECTED_WARP])
def test_counters_count_the_negatives_of_the_bank(name: str) -> None:
    case = {**CASES, **EXPECTED_WARP}[name]
    random = torch.Generator().manual_seed(5)
    vectors = torch.nn.functional.normalize(torch.randn(24, 4, generator=random, dtype=torch.float64), dim=1)
    images, captions, old_images, old_captions = vectors.split([4, 8, 7, 5])
    positives = torch.eye(4, dtype=torch.bool).repeat_interleave(2, 1)
    ignore = (torch.rand(4, 8, generator=random) > 0.7) & ~positives
    others = [torch.rand(4, 5, generator=random) > 0.3, torch.rand(8, 7, generator=random) > 0.3]
    scores = [images @ torch.cat([captions, old_captions]).T, captions @ torch.cat([images, old_images]).T]
    sides: Candidates = (ConstantCandidates(scores[0], others[0]), ConstantCandidates(scores[1], others[1]))
    loss = build_loss(case.name, **case.parameters)
    counts = count_contributions(loss, images @ captions.T, positives, ignore, sides, epsilon=0.02)
    for way, row, (own, ignored) in zip(("i2t", "t2i"), scores, two_sides(positives, ignore, others), strict=True):
        expected = oracle.counters(case, row, own, ignored, 0.02)
        got = {counter: counts[f"{way}_{counter}"].item() for counter in expected}
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


def test_pairs_with_the_bank_are_counted_by_their_gradients() -> None:
    similarity, positives = torch.tensor([[0.5, 0.4], [0.1, 0.6]]), torch.eye(2, dtype=torch.bool)
    scores = torch.tensor([[0.5, 0.4, 0.45, 0.9], [0.1, 0.6, 0.3, 0.2]])
    sides = (
        ConstantCandidates(scores, torch.tensor([[True, False], [True, True]])),
        ConstantCandidates(similarity.T, torch.zeros(2, 0, dtype=torch.bool)),
    )
    counts = count_contributions(build_loss("triplet", margin=0.2), similarity, positives, None, sides)
    # Within the margin are image 0 with caption 1, and with the first old caption; the other is of its own image.
    assert counts["gradient_negatives"] == 2
    assert counts["gradient_positives"] == 1


def test_statistics_of_an_epoch_are_of_a_bank_that_earlier_batches_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def note(loss: Any, similarity: Tensor, positives: Tensor, ignore: Any, candidates: Candidates, **_: Any) -> Any:
        seen.append(candidates[0].negatives.shape[1])
        return {"count": torch.tensor(1.0)}

    monkeypatch.setattr("trainables.evaluation.count_contributions", note)
    trial = Trial(tiny_config(bank=40), DATA, CPU)
    trial.begin_epoch()
    trial.count_contributions()
    assert seen == [40] * COCOS_BATCHES
    seen.clear()
    measure_contributions(trial.model, trial.loss, trial.batches(), bank=make_bank(10_000, trial.model))
    assert seen == [288], "where the batches do not fill the bank, the last is counted"


LOSSES = ("nt_xent", "triplet_sh", "sigmoid", "polynomial_relative", "smooth_ap", "warp")


def config(loss: str, *, bank: int = 40, seed: int = 0, **rest: Any) -> TrialConfig:
    parameters = {"loss_parameters": rest.pop("loss_parameters", {})}
    return replace(tiny_config(loss=loss, bank=bank, seed=seed, epochs=2, **rest), **parameters)


@pytest.mark.parametrize("loss", LOSSES)
def test_stacked_trials_with_a_bank_are_those_alone(loss: str) -> None:
    configs = [config(loss), config(loss, seed=1), config(loss, bank=8), config(loss, learning_rate=1e-3)]
    group, alone = FusedTrials("cpu"), [list(run_trial(one, DATA, device="cpu")) for one in configs]
    for place, one in enumerate(configs):
        group.add(str(place), one, DATA)
    for epoch in range(2):
        outcomes = group.run_epoch("0123")
        for place, reports in enumerate(alone):
            report, expected = outcomes[str(place)], reports[epoch].metrics
            assert isinstance(report, EpochReport)
            for name in ("train/loss", "bank/image_drift", "bank/caption_drift"):
                assert report.metrics[name] == pytest.approx(expected[name], rel=1e-3), name
    trials = list(group._trials.values())
    for trial in trials:
        trial.begin_epoch()
    assert len({stack_shape(trial) for trial in trials}) == 2


def test_a_trial_that_diverges_takes_no_embeddings_of_the_others_with_it() -> None:
    plain = {"optimizer": "sgd", "gradient_clip": None}
    configs = [
        config("triplet", learning_rate=rate, loss_parameters={"margin": margin}, **plain)
        for rate, margin in ((1e-2, 0.2), (1e38, 0.2), (1e-2, 0.4))
    ]
    group = FusedTrials("cpu")
    for place, one in enumerate(configs):
        group.add(str(place), one, DATA)
    outcomes = group.run_epoch("012")
    assert isinstance(outcomes["1"], DivergedError)
    for place in (0, 2):
        report, expected = outcomes[str(place)], next(run_trial(configs[place], DATA, device="cpu")).metrics
        assert isinstance(report, EpochReport)
        for name in ("train/loss", "bank/image_drift", "bank/caption_drift"):
            assert report.metrics[name] == pytest.approx(expected[name], rel=1e-3)


def test_a_model_of_sets_and_a_loss_of_a_plug_in_have_no_bank() -> None:
    regions = suited(DATA, replace(tiny_config(), model="scan"))
    model = Trial(replace(tiny_config(), model="scan"), regions, CPU).model
    with pytest.raises(ConfigError, match="training.bank: SCAN compares sets"):
        make_bank(8, model)
    assert make_bank(0, model) is None
    with pytest.raises(ConfigError, match="training.bank: scan compares sets"):
        replace(tiny_config(bank=8), model="scan")
    with pytest.raises(ConfigError, match="training.bank: mine is a plug-in's loss"):
        replace(tiny_config(bank=8), loss="mine")


def test_published_counters_have_no_bank() -> None:
    side = ConstantCandidates(torch.eye(2), torch.zeros(2, 0, dtype=torch.bool))
    batch = torch.eye(2), torch.eye(2, dtype=torch.bool), None, (side, side)
    with pytest.raises(ConfigError, match="without a bank"):
        count_contributions(build_loss("triplet"), *batch, convention="published")
