"""Agreement with the authors' published code: values, gradients, and small batches small enough to read."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.reference_values.archive import NOISES, reference_values
from tests.trainables.losses.batches import five_each, one_to_one
from tests.trainables.losses.oracle import PUBLISHED_SELF
from trainables.losses import build_loss


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("case", "key", "name", "parameters"),
    [
        ("pairs", "triplet_m0.2", "triplet", {"margin": 0.2}),
        ("pairs", "triplet_sh_m0.2", "triplet_sh", {"margin": 0.2}),
        ("pairs", "triplet_sh_m0.05", "triplet_sh", {"margin": 0.05}),
        ("pairs", "nt_xent_t0.1", "nt_xent", {"temperature": 0.1}),
        ("pairs", "nt_xent_t0.05", "nt_xent", {"temperature": 0.05}),
        ("five", "smooth_ap_t0.01", "smooth_ap", {"temperature": 0.01}),
        ("five", "smooth_ap_t0.1", "smooth_ap", {"temperature": 0.1}),
        ("pairs", "polynomial_self_two_hinge", "polynomial_self", PUBLISHED_SELF),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_published_values_and_gradients(noise: str, case: str, key: str, name: str, parameters: dict[str, Any]) -> None:
    prefix, values = f"{case}_s1_n{noise}", reference_values()
    similarity = values[f"{prefix}|similarity"].clone().requires_grad_()
    value = build_loss(name, **parameters)(similarity, one_to_one(24) if case == "pairs" else five_each(24))
    value.backward()
    torch.testing.assert_close(value, values[f"{prefix}|{key}|loss"], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(similarity.grad, values[f"{prefix}|{key}|grad_similarity"], rtol=1e-9, atol=1e-9)


THREE = torch.tensor([[0.90, 0.20, 0.75], [0.10, 0.40, 0.45], [0.30, 0.35, 0.60]], dtype=torch.float64)
TWO_EACH = torch.tensor([[0.62, 0.58, 0.60, 0.10], [0.20, 0.57, 0.55, 0.70]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "parameters", "similarity", "positives", "expected"),
    [
        ("triplet", {}, THREE, one_to_one(3), 0.85),
        ("triplet_sh", {}, THREE, one_to_one(3), 0.80),
        ("nt_xent", {}, THREE, one_to_one(3), 0.6029681870),
        ("polynomial_self", PUBLISHED_SELF, THREE, one_to_one(3), 0.3976666667),
        ("polynomial_relative", {"coefficients": (0.2, 1.0, 0.0)}, THREE, one_to_one(3), 0.2666666667),
        ("smooth_ap", {}, TWO_EACH, five_each(2, 2), 0.1785629708),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_to_read(
    name: str, parameters: dict[str, Any], similarity: Tensor, positives: Tensor, expected: float
) -> None:
    assert build_loss(name, **parameters)(similarity, positives).item() == pytest.approx(expected, abs=1e-10)
