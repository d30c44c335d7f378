"""The contract that every loss keeps."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from tests.trainables.losses import oracle
from tests.trainables.losses.batches import LABELS, STRUCTURES, batches, five_each, one_to_one, random_cosines
from trainables.errors import ConfigError
from trainables.loss_parameters import LOSS_TABLE
from trainables.losses import LOSSES, Loss, NotANumberError, build_loss

STACKED: dict[str, dict[str, Any]] = {
    "triplet": {"margin": torch.tensor([0.1, 0.2, 0.7]), "negatives": torch.tensor([1, 2, 64])},
    "triplet_sh": {"margin": torch.tensor([0.1, 0.2, 0.7])},
    "nt_xent": {"temperature": torch.tensor([0.05, 0.1, 1.0]), "hardness": torch.tensor([0.0, 9.0, 2.0])},
    "smooth_ap": {"temperature": torch.tensor([0.01, 0.1, 1.0])},
    "polynomial_self": {
        "positive_coefficients": torch.tensor([[0.2, -1.0, 0.0], [0.5, -0.9, 0.2], [0.3, -1.0, -0.5]]),
        "negative_coefficients": torch.tensor([[0.0, 1.0], [0.1, 0.5], [-0.2, 2.0]]),
        "gate": torch.tensor([0.3, 1.0, 2.0]),
        "negatives": torch.tensor([1, 3, 2]),
    },
    "polynomial_relative": {
        "coefficients": torch.tensor([[0.2, 1.0, 0.0], [0.2, 1.0, 0.5], [0.1, 2.0, -0.5]]),
        "negatives": torch.tensor([2, 1, 64]),
    },
    "warp": {"margin": torch.tensor([0.1, 0.5, 1.0]), "top": torch.tensor([1, 3, 10])},
    "sigmoid": {"temperature": torch.tensor([0.05, 0.1, 1.0]), "bias": torch.tensor([-10.0, -1.0, 0.5])},
    "decoupled": {"temperature": torch.tensor([0.05, 0.1, 1.0]), "hardness": torch.tensor([5.0, 0.0, 1.0])},
    "multi_similarity": {
        "alpha": torch.tensor([1.0, 2.0, 5.0]),
        "beta": torch.tensor([40.0, 10.0, 1.0]),
        "base": torch.tensor([0.5, 0.0, -0.5]),
        "epsilon": torch.tensor([0.0, 0.1, 1.0]),
    },
    "circle": {"margin": torch.tensor([0.0, 0.25, 0.4]), "scale": torch.tensor([1.0, 8.0, 80.0])},
    "triplet_selhn": {"margin": torch.tensor([0.1, 0.2, 0.7]), "epsilon": torch.tensor([0.0, 0.1, 1.0])},
    "meta_weights": {"margin": torch.tensor([0.1, 0.2, 0.7]), "negatives": torch.tensor([1, 2, 64])},
    "gradient_weights": {
        "scale": torch.tensor([0.01, 1.0, 4.0]),
        "temperature": torch.tensor([0.05, 0.1, 1.0]),
        "balance": torch.tensor([1.0, 0.5, 2.0]),
        "alpha": torch.tensor([1.0, 2.0, 5.0]),
        "beta": torch.tensor([40.0, 10.0, 1.0]),
        "base": torch.tensor([0.5, 0.0, -0.5]),
        "negatives": torch.tensor([1, 2, 3]),
    },
}


def test_every_loss_has_a_formula_and_is_stacked() -> None:
    """Tests of gradients, banks and micro-batches take the cases of ``oracle``."""
    cases = [*oracle.CASES.values(), *oracle.EXPECTED_WARP.values()]
    assert {case.name for case in cases} == LOSS_TABLE.keys() == STACKED.keys()


SEED = 7


def seeded(loss: Loss, similarity: Tensor, positives: Tensor, ignore: Tensor | None = None) -> Tensor:
    """Call a loss after one seed, so that random ones repeat themselves."""
    torch.manual_seed(SEED)
    return loss(similarity, positives, ignore)


def value_and_gradient(loss: Loss, similarity: Tensor, *masks: Any) -> tuple[Tensor, Tensor]:
    """Return both, of positives and, where there are any, ignored pairs."""
    leaf = similarity.clone().requires_grad_()
    value = seeded(loss, leaf, *masks)
    return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]


def assert_same(ours: Loss, theirs: Loss, *batch: Any, **tolerance: float) -> None:
    """Compare values and gradients of two losses on one batch."""
    torch.testing.assert_close(value_and_gradient(ours, *batch), value_and_gradient(theirs, *batch), **tolerance)


@pytest.mark.parametrize("case", oracle.CASES.values(), ids=oracle.CASES)
@settings(max_examples=20, deadline=None)
@given(batch=batches())
def test_value_is_the_sum_over_pairs_of_the_formula(case: oracle.Case, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    similarity, positives, ignore = batch
    value = build_loss(case.name, **case.parameters)(similarity, positives, ignore)
    torch.testing.assert_close(value, oracle.loss(case, *batch), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", oracle.CASES.values(), ids=oracle.CASES)
def test_gradient_is_that_of_the_formula(case: oracle.Case) -> None:
    for positives in (*STRUCTURES.values(), LABELS):
        similarity = random_cosines(*positives.shape, seed=3)
        ignore = (random_cosines(*positives.shape, seed=4) > 0.7) & ~positives
        value, gradient = value_and_gradient(build_loss(case.name, **case.parameters), similarity, positives, ignore)
        leaf = similarity.clone().requires_grad_()
        expected = oracle.loss(case, leaf, positives, ignore)
        torch.testing.assert_close(value, expected.detach(), rtol=1e-10, atol=1e-10)
        (expected + 0 * leaf.sum()).backward()
        torch.testing.assert_close(gradient, leaf.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_collapsed_scores_have_finite_gradients(name: str) -> None:
    for positives in (*STRUCTURES.values(), LABELS):
        for score in (1.0, -1.0, 0.0):
            value, gradient = value_and_gradient(build_loss(name), torch.full(positives.shape, score), positives)
            assert value.isfinite() and gradient.isfinite().all()


@pytest.mark.parametrize("case", oracle.CASES.values(), ids=oracle.CASES)
def test_similarities_without_bounds_have_finite_gradients(case: oracle.Case) -> None:
    loss = build_loss(case.name, **case.parameters)
    for positives in (*STRUCTURES.values(), LABELS):
        value, gradient = value_and_gradient(loss, 200 * random_cosines(*positives.shape, seed=3).float(), positives)
        assert value.isfinite() and gradient.isfinite().all()


@pytest.mark.parametrize("structure", ["captions", "many_to_many", "labels"])
@pytest.mark.parametrize("name", STACKED)
def test_stacked_trials_are_separate_trials(name: str, structure: str) -> None:
    positives = {**STRUCTURES, "labels": LABELS}[structure]
    similarity = random_cosines(3, *positives.shape, seed=6, dtype=torch.float32)
    value, gradient = value_and_gradient(build_loss(name, **STACKED[name]), similarity, positives)
    assert value.shape == (3,)
    for trial in range(3):
        alone = build_loss(name, **{key: tensor[trial] for key, tensor in STACKED[name].items()})
        expected = value_and_gradient(alone, similarity[trial], positives)
        torch.testing.assert_close((value[trial], gradient[trial]), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", STACKED)
def test_trials_can_share_one_matrix_and_have_two_leading_dimensions(name: str) -> None:
    positives = five_each(3, 2)
    similarity = random_cosines(3, 6, seed=8)
    shared = seeded(build_loss(name, **STACKED[name]), similarity, positives)
    copies = seeded(build_loss(name, **STACKED[name]), similarity.expand(2, 3, 3, 6), positives)
    torch.testing.assert_close(copies, shared.expand(2, 3))


@pytest.mark.parametrize("name", LOSSES)
def test_bfloat16_autocast_computes_in_float32(name: str) -> None:
    images = torch.nn.functional.normalize(random_cosines(6, 32, dtype=torch.float32), dim=-1).requires_grad_()
    captions = torch.nn.functional.normalize(random_cosines(6, 32, seed=1, dtype=torch.float32), dim=-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        similarity = images @ captions.T
        assert similarity.dtype == torch.bfloat16
        value = seeded(build_loss(name), similarity, one_to_one(6))
    value.backward()
    assert value.dtype == torch.float32
    assert images.grad is not None
    assert images.grad.isfinite().all()
    torch.testing.assert_close(value, seeded(build_loss(name), similarity.detach().float(), one_to_one(6)))


# The graph is what can break; code for it is made for one loss, which takes longer than all graphs.
COMPILED = [*((name, "aot_eager") for name in LOSSES), ("smooth_ap", "inductor")]


@pytest.mark.proof
@pytest.mark.parametrize(("name", "backend"), COMPILED)
def test_compiles_to_one_graph(name: str, backend: str) -> None:
    torch.compiler.reset()
    loss = build_loss(name)
    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    positives, similarity = five_each(4, 2), random_cosines(4, 8, dtype=torch.float32)
    ignore = torch.zeros_like(positives)
    ignore[0, 5] = True
    assert_same(compiled, loss, similarity, positives, ignore)
    # What eager mode refuses cannot be refused in a graph, but must not look like a loss.
    assert seeded(compiled, similarity, torch.zeros_like(positives), ignore).isnan()


ONE = one_to_one(3)
SCORES = random_cosines(3, 3)
REFUSED_BATCHES = {
    "similarity has one dimension": (SCORES[0], ONE, None, r"similarity must be .* got torch.float64 of shape \(3,\)"),
    "similarity of integers": (SCORES.long(), ONE, None, "similarity must be a floating tensor .* got torch.int64"),
    "positives of another shape": (SCORES, one_to_one(4), None, r"positives must be bool of shape \(3, 3\).*\(4, 4\)"),
    "positives of numbers": (SCORES, ONE.float(), None, r"positives must be bool .* got torch.float32"),
    "positives per trial": (SCORES[None], ONE[None], None, r"positives must be bool of shape \(3, 3\).*\(1, 3, 3\)"),
    "ignore of another shape": (SCORES, ONE, one_to_one(2), r"ignore must be bool of shape \(3, 3\).*\(2, 2\)"),
    "image without positive": (SCORES, ONE & (torch.arange(3) != 1)[:, None], None, r"image .* got none for \[1\]"),
    "NaN": (SCORES.clone().fill_diagonal_(torch.nan), ONE, None, "similarity must hold no NaN, got 3 of 9"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_bad_batches_are_refused(name: str) -> None:
    loss = build_loss(name)
    for *batch, message in REFUSED_BATCHES.values():
        with pytest.raises(ValueError, match=message) as refused:
            loss(*batch)
        assert (refused.type is NotANumberError) == ("NaN" in message)


def test_positives_are_checked_again_when_they_change() -> None:
    positives = one_to_one(3)
    loss = build_loss("smooth_ap")
    loss(SCORES, positives)
    positives[0, 0] = False
    with pytest.raises(ValueError, match="got none"):
        loss(SCORES, positives)
    positives[0, 1] = positives[1, 0] = True
    formula = oracle.Case("smooth_ap", "means", {"temperature": 0.01})
    torch.testing.assert_close(loss(SCORES, positives), oracle.loss(formula, SCORES, positives))


FALLS_IN_ONE, PUBLISHED = torch.tensor([[0.2, 1.0], [0.2, -1.0]]), (0.03, -0.4, 0.9)
REFUSED_PARAMETERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "margin below 0": ("triplet", {"margin": -0.1}, "margin must be a number of at least 0, got -0.1"),
    "margin NaN": ("triplet_sh", {"margin": float("nan")}, "margin must be .* got nan"),
    "margin of a word": ("triplet", {"margin": "wide"}, "margin must be a number .* got 'wide'"),
    "margin that is learned": ("triplet", {"margin": "learned"}, "margin must be a number .* got 'learned'"),
    "margin of one trial": ("warp", {"margin": torch.tensor([0.1, -1.0])}, "margin must be .* got -1.0"),
    "top of none": ("warp", {"top": 0}, "top must be a whole number of at least 1, got 0"),
    "unknown rank weight": ("warp", {"rank_weight": "top"}, "rank_weight must be one of 'harmonic', .* got 'top'"),
    "no negatives": ("triplet", {"negatives": 0}, "negatives must be a whole number of at least 1, or 'all', got 0"),
    "half a negative": ("polynomial_self", {"negatives": 1.5}, "negatives must be a whole number .* got 1.5"),
    "some negatives": ("polynomial_relative", {"negatives": "some"}, "negatives must be .* or 'all', got 'some'"),
    "semi-hard negatives": ("gradient_weights", {"negatives": "semi"}, "negatives .* 'hardest' or 'all', got 'semi'"),
    "temperature 0": ("nt_xent", {"temperature": 0}, "temperature must be a number above 0, or 'learned', got 0"),
    "temperature below 0": ("smooth_ap", {"temperature": -1}, "temperature must be .* got -1"),
    "temperature infinite": ("smooth_ap", {"temperature": torch.tensor(torch.inf)}, "temperature must be .* got inf"),
    "hardness below 0": ("nt_xent", {"hardness": -1.0}, "hardness must be a number of at least 0, got -1.0"),
    "unknown mode": (
        "decoupled",
        {"hardness_mode": "hard"},
        "hardness_mode must be one of 'all', 'hardest', got 'hard'",
    ),
    "hardness of words": ("sigmoid", {"hardness": "learned"}, "hardness must be a number .* got 'learned'"),
    "unknown loss": ("tripelt", {}, "loss must be one of triplet, .* got 'tripelt'"),
    "unknown parameter": ("triplet", {"temperature": 1}, "triplet has .* margin, negatives, got temperature"),
    "no coefficients": ("polynomial_relative", {"coefficients": ()}, "coefficients must be one or more finite numbers"),
    "NaN coefficient": ("polynomial_relative", {"coefficients": (0.2, float("nan"))}, "coefficients must be .* nan"),
    "not coefficients": ("polynomial_relative", {"coefficients": 0.2}, "coefficients must be a sequence .* got 0.2"),
    "falls with Delta": ("polynomial_relative", {"coefficients": (0.2, -1.0)}, r"must rise .* \(0.2, -1.0\)"),
    "falls in one trial": ("polynomial_relative", {"coefficients": FALLS_IN_ONE}, "must rise .*-1.0"),
    "rises with s+": ("polynomial_self", {"positive_coefficients": (0, 1)}, "positive_coefficients must fall"),
    "published, joint": ("polynomial_self", {"negative_coefficients": PUBLISHED}, "must rise .*slope of -2.2 at -1"),
    "unknown hinge": ("polynomial_self", {"hinge": "soft"}, "hinge must be one of 'joint', 'separate', got 'soft'"),
    "gate below 0": ("polynomial_self", {"gate": -1.0}, "gate must be a number of at least 0, or null, got -1.0"),
    "unknown direction": ("warp", {"direction": "up"}, "direction must be one of 'both', 'i2t', 't2i', got 'up'"),
}


@pytest.mark.parametrize(("name", "parameters", "message"), REFUSED_PARAMETERS.values(), ids=REFUSED_PARAMETERS)
def test_bad_parameters_are_refused(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_loss(name, **parameters)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_values(name: str) -> None:
    assert build_loss(name) == build_loss(name)
    assert hash(build_loss(name)) == hash(build_loss(name))
    assert eval(repr(build_loss(name)), {type(build_loss(name)).__name__: LOSSES[name]}) == build_loss(name)


def test_infinities_of_both_signs_are_no_nan() -> None:
    """Their sum is, which is what is looked at first."""
    scores = SCORES.clone()
    scores[0, 1], scores[1, 0] = torch.inf, -torch.inf
    assert build_loss("triplet", margin=0.2)(scores, ONE) == torch.inf
