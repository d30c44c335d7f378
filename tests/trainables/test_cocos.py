"""Counts of contributing samples: against autograd on the formulas, the published code, and values to read."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.reference_values.archive import NOISES, reference_values
from tests.trainables.losses import oracle
from tests.trainables.losses.batches import LABELS, STRUCTURES, Drawn, batches, five_each, one_to_one, random_cosines
from tests.trainables.losses.test_losses import SEED, STACKED, value_and_gradient
from trainables.cocos import Convention, Spread, count_contributions, spreads
from trainables.errors import ConfigError
from trainables.losses import LOSSES, build_loss
from trainables.losses.directions import directions

pytestmark = pytest.mark.usefixtures("one_thread")

COUNTS = ("negatives_per_query", "negatives_per_batch", "queries_without_gradient")
THRESHOLDED = (*COUNTS, "negative_weight", "positive_weight")
PUBLISHED = ("triplet", "triplet_sh", "nt_xent", "smooth_ap")
"""Losses that the published code counts."""
THREE = torch.tensor([[0.90, 0.20, 0.75], [0.10, 0.40, 0.45], [0.30, 0.35, 0.60]], dtype=torch.float64)
TWO_EACH = torch.tensor([[0.62, 0.58, 0.60, 0.10], [0.20, 0.57, 0.55, 0.70]], dtype=torch.float64)


def counts_of(name: str, similarity: Tensor, positives: Tensor, convention: Convention = "paper") -> dict[str, float]:
    counts = count_contributions(build_loss(name), similarity, positives, convention=convention)
    return {key: value.item() for key, value in counts.items()}


EPSILONS = (1e-9, 0.0123, 0.31)
COUNTED = {**oracle.CASES, **oracle.EXPECTED_WARP}


def check_against_autograd(case: oracle.Case, batch: Drawn, epsilon: float) -> None:
    similarity, positives, ignore = batch
    counts = count_contributions(build_loss(case.name, **case.parameters), *batch, epsilon=epsilon)
    for direction, sides in (("i2t", batch), ("t2i", (similarity.T, positives.T, ignore.T))):
        expected = oracle.counters(case, *sides, epsilon)
        got = {name: counts[f"{direction}_{name}"].item() for name in expected}
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("case", COUNTED.values(), ids=COUNTED)
def test_counters_are_those_of_autograd(case: oracle.Case) -> None:
    """With several positives a query, and with duplicates that are ignored."""
    # The last structure has more candidates than the five hardest.
    for positives, epsilon in zip((*STRUCTURES.values(), LABELS, five_each(4, 3)), itertools.cycle(EPSILONS)):
        similarity = random_cosines(*positives.shape, seed=11)
        ignore = (random_cosines(*positives.shape, seed=12) > 0.5) & ~positives
        check_against_autograd(case, (similarity, positives, ignore), epsilon)


@pytest.mark.parametrize("name", LOSSES)
def test_a_curve_over_epsilon_is_the_counts_at_each_epsilon(name: str) -> None:
    batch = random_cosines(5, 25, seed=18), five_each(5, 5)
    conventions: list[Convention] = ["paper", "published"] if name in PUBLISHED else ["paper"]
    for convention in conventions:
        torch.manual_seed(6)
        at_once = count_contributions(build_loss(name), *batch, epsilon=0.02, convention=convention, curve=(0.001, 0.3))
        for epsilon, suffix in ((0.02, ""), (0.001, "@0.001"), (0.3, "@0.3")):
            torch.manual_seed(6)
            alone = count_contributions(build_loss(name), *batch, epsilon=epsilon, convention=convention)
            for counter, value in alone.items():
                if f"{counter}@0.3" in at_once:
                    torch.testing.assert_close(at_once[f"{counter}{suffix}"], value, equal_nan=True)
    assert {key.partition("@")[0] for key in at_once if "@" in key} == {
        f"{way}_{counter}" for way in ("i2t", "t2i") for counter in THRESHOLDED
    } | {"gradient_negatives", "gradient_positives"}


def test_effective_numbers_to_read() -> None:
    """Each query has weights 1, 1, 1, 0 of a triplet loss, and all weight on one negative with the hardest alone."""
    similarity = torch.full((5, 5), 0.5).fill_diagonal_(0.6)
    similarity[range(5), [1, 2, 3, 4, 0]] = -0.5
    for loss, number, share in (("triplet", 3, 1 / 3), ("triplet_sh", 1, 1)):
        counts = counts_of(loss, similarity, one_to_one(5))
        for way in ("i2t", "t2i"):
            assert counts[f"{way}_effective_negatives_entropy"] == pytest.approx(number)
            assert counts[f"{way}_effective_negatives_squares"] == pytest.approx(number)
            assert counts[f"{way}_gradient_share_hardest1"] == pytest.approx(share)
            assert counts[f"{way}_gradient_share_hardest5"] == pytest.approx(1)
    none = counts_of("triplet", torch.eye(5), one_to_one(5))
    assert math.isnan(none["i2t_effective_negatives_entropy"])


@settings(max_examples=12, deadline=None)
@pytest.mark.parametrize("case", COUNTED.values(), ids=COUNTED)
@given(batch=batches(), epsilon=st.sampled_from(EPSILONS))
def test_counters_are_those_of_autograd_at_ties(case: oracle.Case, batch: Drawn, epsilon: float) -> None:
    check_against_autograd(case, batch, epsilon)


@pytest.mark.parametrize("name", ["nt_xent", "smooth_ap"])
def test_a_solved_batch_of_several_positives_has_no_weights(name: str) -> None:
    positives = five_each(4, 5)
    similarity = torch.where(positives, 1.0, -1.0).double()
    loss = build_loss(name, temperature=0.1)
    assert value_and_gradient(loss, similarity, positives)[1].abs().max() < 1e-8
    counts = count_contributions(loss, similarity, positives)
    for direction in ("i2t", "t2i"):
        assert counts[f"{direction}_positive_weight"] < 1e-6
        assert counts[f"{direction}_negative_weight"] < 1e-6
    assert counts["gradient_positives"] == counts["gradient_negatives"] == 0


@pytest.mark.parametrize(
    ("name", "parameters", "epsilon"),
    [
        pytest.param("triplet", {"margin": 0.2}, 1.0, id="a weight of 1"),
        pytest.param("nt_xent", {"temperature": 1.0}, 0.5, id="a probability of a half"),
    ],
)
def test_what_equals_epsilon_does_not_count(name: str, parameters: dict[str, float], epsilon: float) -> None:
    """Two equal scores: every weight is the epsilon."""
    batch = (torch.zeros(2, 2, dtype=torch.float64), one_to_one(2))
    loss = build_loss(name, **parameters)
    at, below = (count_contributions(loss, *batch, epsilon=value) for value in (epsilon, epsilon * (1 - 1e-9)))
    for direction in ("i2t", "t2i"):
        assert (at[f"{direction}_negatives_per_batch"], at[f"{direction}_queries_without_gradient"]) == (0, 2)
        assert (below[f"{direction}_negatives_per_batch"], below[f"{direction}_queries_without_gradient"]) == (2, 0)


def test_a_gradient_that_equals_epsilon_does_not_count() -> None:
    """Each negative is pushed with 1 by its row and with 1 by its column."""
    batch = (torch.zeros(2, 2, dtype=torch.float64), one_to_one(2))
    at, below = (count_contributions(build_loss("triplet"), *batch, epsilon=value) for value in (2.0, 2 * (1 - 1e-9)))
    assert at["gradient_negatives"] == at["gradient_positives"] == 0
    assert below["gradient_negatives"] == below["gradient_positives"] == 2


@pytest.mark.parametrize("name", LOSSES)
def test_general_count_is_that_of_non_zero_gradients(name: str) -> None:
    similarity, positives = random_cosines(6, 12, seed=12), five_each(6, 2)
    _, gradient = value_and_gradient(build_loss(name), similarity, positives)
    torch.manual_seed(SEED)
    counts = count_contributions(build_loss(name), similarity, positives, epsilon=1e-12)
    assert counts["gradient_negatives"] == (gradient[~positives].abs() > 1e-12).sum()
    assert counts["gradient_positives"] == (gradient[positives].abs() > 1e-12).sum()


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_warp_weights_are_the_mean_of_its_random_gradients(direction: str) -> None:
    similarity, positives = random_cosines(7, 7, seed=13), one_to_one(7)
    loss = build_loss("warp", margin=0.5, direction=direction)
    # The draws of stacked trials are shared, so repeat the query instead: many calls.
    torch.manual_seed(4)
    total = torch.zeros_like(similarity)
    for _ in range(1200):
        leaf = similarity.clone().requires_grad_()
        total += torch.autograd.grad(loss(leaf, positives), leaf)[0]
    mean = total / 1200 * 7
    tasks = dict(zip(("i2t", "t2i"), directions(similarity, positives), strict=True))
    weights = loss.contributions(tasks[direction]).candidates
    scores = mean if direction == "i2t" else mean.T
    torch.testing.assert_close(scores.masked_fill(positives, 0), weights, rtol=0, atol=0.15)
    torch.testing.assert_close(-scores.diagonal(), weights.sum(-1), rtol=0, atol=0.15)
    counts = count_contributions(loss, similarity, positives)
    other = {"i2t": "t2i", "t2i": "i2t"}[direction]
    assert counts[f"{direction}_negatives_per_batch"] == (weights > 0.01).sum()
    assert counts[f"{other}_queries_without_gradient"] == 7


@pytest.mark.parametrize(
    ("name", "convention", "similarity", "positives", "expected"),
    [
        ("triplet", "paper", THREE, one_to_one(3), {"i2t": (1, 2, 1), "t2i": (1.5, 3, 1)}),
        ("triplet", "published", THREE, one_to_one(3), {"i2t": (1, 2, 1), "t2i": (1, 3, 0)}),
        ("triplet_sh", "paper", THREE, one_to_one(3), {"i2t": (1, 2, 1), "t2i": (1, 2, 1)}),
        ("triplet_sh", "published", THREE, one_to_one(3), {"i2t": (1, 2, 1), "t2i": (1, 2, 1)}),
        ("nt_xent", "paper", THREE, one_to_one(3), {"i2t": (5 / 3, 5, 0), "t2i": (4 / 3, 4, 1)}),
        ("smooth_ap", "paper", TWO_EACH, five_each(2, 2), {"i2t": (1, 2, 0), "t2i": (1, 1, 3)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_counts_to_read(
    name: str,
    convention: Convention,
    similarity: Tensor,
    positives: Tensor,
    expected: dict[str, tuple[float, float, float]],
) -> None:
    counts = counts_of(name, similarity, positives, convention)
    for direction, values in expected.items():
        assert tuple(counts[f"{direction}_{counter}"] for counter in COUNTS) == pytest.approx(values)


PUBLISHED_KEYS = {
    "i2t_grads_mean": "i2t_negatives_per_query",
    "i2t_grads_sum": "i2t_negatives_per_batch",
    "zeros_i2t": "i2t_queries_without_gradient",
    "t2i_grads_mean": "t2i_negatives_per_query",
    "t2i_grad_sum": "t2i_negatives_per_batch",
    "zeros_t2i": "t2i_queries_without_gradient",
    "1-s_i2t.diag.mean": "i2t_positive_weight",
    "1-s_t2i.diag.mean": "t2i_positive_weight",
    "i2t_high_grad": "i2t_negative_weight",
    "t2i_high_grad": "t2i_negative_weight",
    "i2t_n_high_grad": "i2t_negatives_per_query",
    "t2i_n_high_grad": "t2i_negatives_per_query",
    "sum_i2t": "i2t_negatives_per_query",
    "sum_t2i": "t2i_negatives_per_query",
}
"""Counter of the published code -> ours; each loss has some of them."""


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("case", "key", "name", "known"),
    [
        ("pairs", "triplet_m0.2", "triplet", 6),
        ("pairs", "triplet_sh_m0.2", "triplet_sh", 6),
        ("pairs", "nt_xent_t0.1", "nt_xent", 6),
        ("five", "smooth_ap_t0.01", "smooth_ap", 4),
    ],
)
def test_published_counts(noise: str, case: str, key: str, name: str, known: int) -> None:
    prefix, values = f"{case}_s1_n{noise}", reference_values()
    places = {f"{prefix}|cocos_as_coded|{key}|{theirs}": ours for theirs, ours in PUBLISHED_KEYS.items()}
    expected = {ours: values[place].item() for place, ours in places.items() if place in values}
    assert len(expected) == known
    positives = one_to_one(24) if case == "pairs" else five_each(24)
    counts = counts_of(name, values[f"{prefix}|similarity"], positives, "published")
    # NT-Xent's mean counts were computed in float32.
    assert {ours: counts[ours] for ours in expected} == pytest.approx(expected, rel=1e-7, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("shape", [(2, 3, 4, 8), (4, 8)], ids=["each its own matrix", "one matrix"])
@pytest.mark.parametrize("name", STACKED)
def test_stacked_trials_are_counted_alone(name: str, shape: tuple[int, ...]) -> None:
    similarity, positives = random_cosines(*shape, seed=14), five_each(4, 2)
    stacked = count_contributions(build_loss(name, **STACKED[name]), similarity, positives)
    for trial in range(3):
        loss = build_loss(name, **{key: values[trial] for key, values in STACKED[name].items()})
        own = similarity if len(shape) == 2 else similarity[1, trial]
        for key, value in count_contributions(loss, own, positives).items():
            assert stacked[key].shape == ((3,) if len(shape) == 2 else (2, 3))
            torch.testing.assert_close(stacked[key].reshape(-1, 3)[-1, trial], value, equal_nan=True)


def test_any_differentiable_loss_has_the_general_counts() -> None:
    def pull_only(similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
        return -(similarity * positives).sum((-2, -1))

    counts = count_contributions(pull_only, THREE, one_to_one(3))
    assert {key: value.item() for key, value in counts.items()} == {"gradient_negatives": 0, "gradient_positives": 3}


@pytest.mark.parametrize("name", LOSSES)
def test_counting_leaves_no_trace(name: str) -> None:
    similarity = THREE.clone().requires_grad_()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    count_contributions(build_loss(name), similarity, one_to_one(3))
    torch.testing.assert_close(torch.rand(3), expected)
    assert similarity.grad is None


def test_masks_of_an_evaluation_serve_a_loss_that_keeps_them_for_its_gradient() -> None:
    with torch.inference_mode():
        similarity, positives = torch.rand(3, 3), torch.eye(3, dtype=torch.bool)
        ignore = positives.roll(1, 0)
        counts = count_contributions(
            lambda scores, *masks: scores.masked_fill(masks[1], 0).sum(), similarity, positives, ignore
        )
    assert (float(counts["gradient_negatives"]), float(counts["gradient_positives"])) == (3, 3)


def test_statistics_over_batches_leave_out_what_cannot_be_computed() -> None:
    assert spreads([]) == {}
    batches = [
        {"mean": torch.tensor(mean), "total": torch.tensor(2.0), "never": torch.tensor(math.nan)}
        for mean in (1.0, math.nan, 4.0)
    ]
    assert spreads(batches) == {"mean": Spread(2.5, 1.5), "total": Spread(2.0, 0.0)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_code_takes_duplicates_for_negatives(name: str) -> None:
    """Captions 0 and 1 are of one image, which is twice in the batch."""
    similarity = torch.full((3, 3), -0.5, dtype=torch.float64).fill_diagonal_(0.5)
    similarity[0, 1] = similarity[1, 0] = 0.48
    ignore = torch.zeros(3, 3, dtype=torch.bool)
    ignore[0, 1] = ignore[1, 0] = True
    loss, positives = build_loss(name), one_to_one(3)
    as_published = count_contributions(loss, similarity, positives, ignore, convention="published")
    unmasked = count_contributions(loss, similarity, positives, convention="published")
    torch.testing.assert_close(as_published, unmasked, equal_nan=True)
    masked = count_contributions(loss, similarity, positives, ignore)
    assert masked["gradient_negatives"] == masked["i2t_negatives_per_batch"] == 0
    assert as_published["gradient_negatives"] == 2
    if name != "smooth_ap":
        assert as_published["i2t_negatives_per_batch"] == 2


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    *(
        ("triplet", {}, {"epsilon": epsilon}, f"epsilon must be a finite number above 0, got {epsilon}")
        for epsilon in (0, -0.01, math.nan, math.inf)
    ),
    *(
        (name, {}, {"convention": "published"}, r"published counters exist for triplet over .* use convention 'paper'")
        for name in LOSSES
        if name not in PUBLISHED
    ),
    ("triplet", {"negatives": 2}, {"convention": "published"}, "triplet over all negatives.*negatives=2"),
    ("triplet", {}, {"convention": "coded"}, "convention must be 'paper' or 'published', got 'coded'"),
]


@pytest.mark.parametrize(("name", "parameters", "asked", "message"), REFUSED)
def test_other_counts_are_refused(name: str, parameters: dict[str, Any], asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        count_contributions(build_loss(name, **parameters), THREE, one_to_one(3), **asked)
