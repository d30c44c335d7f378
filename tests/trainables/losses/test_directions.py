"""The k hardest negatives of a query: which are chosen, and what equals other losses."""

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.trainables.losses import oracle
from tests.trainables.losses.batches import LABELS, STRUCTURES, Drawn, batches, five_each, one_to_one, random_cosines
from tests.trainables.losses.test_losses import assert_same
from trainables.losses import build_loss
from trainables.losses.directions import ConstantCandidates, directions, with_hardest

WITH_NEGATIVES: dict[str, dict[str, Any]] = {
    "triplet": {},
    "polynomial_self": {**oracle.SELF, "gate": 0.3},
    "polynomial_relative": oracle.CUBIC,
    "gradient_weights": {"pair_weight": "linear"},
    "meta_weights": {"margin": 0.6},
}


@settings(max_examples=60, deadline=None)
@given(batch=batches(), count=st.integers(1, 6))
@example(batch=(torch.zeros(4, 4), one_to_one(4), torch.zeros(4, 4, dtype=torch.bool)), count=2)
def test_exactly_k_are_chosen_the_hardest_first_and_of_ties_the_first(batch: Drawn, count: int) -> None:
    for direction in directions(*batch):
        chosen = with_hardest(direction, count).negatives
        for query, row in enumerate(direction.scores):
            own = direction.negatives[query].nonzero().flatten().tolist()
            assert chosen[query].nonzero().flatten().tolist() == sorted(oracle.hardest_of(row, own, count))


LARGE = (random_cosines(128, 640, seed=3) * 20).round() / 20, five_each(128), torch.zeros(128, 640, dtype=torch.bool)


@settings(max_examples=60, deadline=None)
@given(batch=batches(), margin=st.sampled_from([0.0, 0.2, 0.25, 1.0]), is_float32=st.booleans())
@example(batch=LARGE, margin=0.2, is_float32=True)
def test_the_one_hardest_is_triplet_sh_to_the_last_bit(batch: Drawn, margin: float, is_float32: bool) -> None:
    similarity, positives, ignore = batch
    scores = similarity.float() if is_float32 else similarity
    one, hardest = build_loss("triplet", margin=margin, negatives=1), build_loss("triplet_sh", margin=margin)
    assert_same(one, hardest, scores, positives, ignore, rtol=0, atol=0)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", WITH_NEGATIVES)
def test_more_than_there_are_is_all(name: str, structure: str) -> None:
    positives = STRUCTURES[structure]
    scores = random_cosines(*positives.shape, seed=21)
    many, every = (build_loss(name, **WITH_NEGATIVES[name], negatives=count) for count in (64, "all"))
    assert_same(many, every, scores, positives, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", WITH_NEGATIVES)
def test_a_number_that_is_none_reaches_the_loss_without_the_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches on an accelerator are not checked, and a loss that hides a NaN would hide a diverged training."""
    monkeypatch.setattr("trainables.losses.directions._check_numbers", lambda similarity: None)
    scores = random_cosines(4, 4, seed=24).fill_diagonal_(0.1)
    scores[1, 2] = torch.nan
    for count in (1, 2, "all"):
        assert build_loss(name, **WITH_NEGATIVES[name], negatives=count)(scores, one_to_one(4)).isnan()


@pytest.mark.parametrize("name", WITH_NEGATIVES)
def test_a_whole_number_may_be_written_with_a_point(name: str) -> None:
    scores = random_cosines(6, 6, seed=3)
    whole, point = (build_loss(name, **WITH_NEGATIVES[name], negatives=count) for count in (3, 3.0))
    assert point(scores, one_to_one(6)) == whole(scores, one_to_one(6))


def test_a_label_of_no_image_is_a_candidate_and_no_query() -> None:
    """Also beside the candidates of a bank, three images and four labels here."""
    images, labels = LABELS.shape
    scores, asked = random_cosines(images, labels, seed=5), [0, 2, 3]
    i2t, t2i = directions(scores, LABELS)
    assert i2t.scores.equal(scores) and i2t.negatives.equal(~LABELS)
    assert t2i.scores.equal(scores.T[asked]) and t2i.negatives.equal(~LABELS.T[asked])
    of_images = ConstantCandidates(random_cosines(images, labels + 4), torch.ones(images, 4, dtype=torch.bool))
    of_labels = ConstantCandidates(random_cosines(labels, images + 3), torch.arange(labels * 3).view(-1, 3) % 2 == 0)
    _, t2i = directions(scores, LABELS, None, (of_images, of_labels))
    assert t2i.scores.equal(of_labels.scores[asked]) and t2i.negatives[:, images:].equal(of_labels.negatives[asked])
    pairs = [(label, image) for label in asked for image in range(images) if LABELS[image, label]]
    assert t2i.positive.tolist() == [float(of_labels.scores[pair]) for pair in pairs]
