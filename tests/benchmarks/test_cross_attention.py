"""The loop that the benchmark measures computes what it stands for."""

import pytest
import torch

from tests.benchmarks.cross_attention import make_captions, make_model


@pytest.mark.parametrize("size", ["5:6:8"])
def test_the_loop_over_captions_gives_the_similarities_and_gradients_of_ours(size: str) -> None:
    images, (tokens, lengths), found = torch.randn(7, 5, 6), make_captions(40), []
    for kind in ("ours", "loop"):
        model = make_model(kind, size)
        similarity = model.compare(model.encode_images(images), model.encode_captions(tokens, lengths))
        (similarity * torch.linspace(-1, 1, 40)).sum().backward()
        found.append([similarity.detach(), *(one.grad for one in model.parameters() if one.grad is not None)])
    assert len(found[0]) == len(list(make_model("ours", size).parameters())) + 1
    for ours, loop in zip(*found, strict=True):
        torch.testing.assert_close(ours, loop, atol=1e-5, rtol=1e-4)
