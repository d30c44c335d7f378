"""Agreement with the authors' published code: values and gradients."""

from typing import Any

import pytest
import torch

from tests.reference_values.archive import NOISES, reference_values
from tests.trainables.losses.batches import five_each, one_to_one
from tests.trainables.losses.oracle import PUBLISHED_SELF
from tests.trainables.losses.test_losses import value_and_gradient
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
    positives = one_to_one(24) if case == "pairs" else five_each(24)
    found = value_and_gradient(build_loss(name, **parameters), values[f"{prefix}|similarity"], positives)
    expected = values[f"{prefix}|{key}|loss"], values[f"{prefix}|{key}|grad_similarity"]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
