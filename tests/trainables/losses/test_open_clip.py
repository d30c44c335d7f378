"""Agreement with open_clip, where that library has the loss and is installed: one caption for each image."""

from collections.abc import Mapping

import pytest
import torch
from torch.nn.functional import normalize

from trainables.losses import build_loss


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("nt_xent", {"temperature": 0.07}),
        ("nt_xent", {"temperature": 1.0}),
        ("sigmoid", {"temperature": 0.1, "bias": -10.0}),
        ("sigmoid", {"temperature": 0.5, "bias": 0.3}),
    ],
)
def test_value_and_gradients_are_those_of_the_library(name: str, parameters: Mapping[str, float], seed: int) -> None:
    # Here and not above: open_clip takes seconds to import, which every process of the tests would spend.
    library = pytest.importorskip("open_clip.loss", reason="open_clip is not installed: pip install open-clip-torch")
    generator = torch.Generator().manual_seed(seed)
    images, captions = (torch.randn(7, 5, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    loss = library.ClipLoss() if name == "nt_xent" else library.SigLipLoss()
    theirs = loss(normalize(images), normalize(captions), 1 / parameters["temperature"], parameters.get("bias"))
    expected = torch.autograd.grad(theirs, (images, captions))
    ours = build_loss(name, **parameters)(normalize(images) @ normalize(captions).T, torch.eye(7, dtype=torch.bool))
    found = torch.autograd.grad(ours, (images, captions))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
