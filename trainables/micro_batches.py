"""Gradients of a large batch from parts of it: memory of a part's activations, the gradient of the whole batch.

A loss that compares all pairs of a batch cannot be summed over parts of it. Its gradient can [Gao2021]: with E(theta)
the vectors of the batch,

    dL/dtheta  =  sum over parts p of  (dE_p/dtheta)^T  dL/dE_p

First all parts are encoded without gradients. The loss of all vectors gives dL/dE. Then each part is encoded again, and
its share of dL/dE is passed on; the gradients of the parts add up. Random numbers are drawn alike both times, so that
dropout drops the same numbers. Batch norms are refused: their statistics are of the whole batch.

References:
    [Gao2021] Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup (GradCache), eq. 5 to
        8. arXiv:2101.06983
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainables.config import NO_MICRO_BATCHES
from trainables.data.batches import Batch
from trainables.errors import ConfigError
from trainables.models.retrieval_model import RetrievalModel
from trainables.representations import Sets, joined, part_of
from trainables.seeding import random_state, set_random_state


class _Part(NamedTuple):
    """A part of a batch that was encoded without gradients.

    Attributes:
        encode: Encodes the part.
        state: State of the device's generator before it was encoded.
        vectors: Its vectors; their gradient is that of the loss.
    """

    encode: Callable[[], Tensor | Sets]
    state: Tensor
    vectors: Tensor


class MicroBatches:
    """Encodes batches in parts, and passes the gradient of a loss of all parts on to the model."""

    def __init__(self, model: RetrievalModel, size: int) -> None:
        """Take a model in training mode, and the number of images, and of captions, that are encoded at a time.

        Raises:
            ConfigError: If the model has batch norms in training mode.
        """
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training for module in model.modules()):
            raise ConfigError(NO_MICRO_BATCHES.format(type(model).__name__))
        self._model, self._size = model, size
        self._device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        self._parts: list[_Part] = []

    def encode(self, batch: Batch) -> tuple[Any, Any]:
        """Return the images and captions of a batch, which take the gradient of a loss; ``backward`` passes it on."""
        self._parts.clear()
        model = self._model
        images = [partial(model.encode_images, part_of(batch.images, part)) for part in self._cut(batch.image_groups)]
        captions = [
            partial(model.encode_captions, part_of(batch.tokens, part), part_of(batch.lengths, part))
            for part in self._cut(batch.caption_groups)
        ]
        return joined(list(map(self._encoded, images))), joined(list(map(self._encoded, captions)))

    def backward(self) -> None:
        """Add the gradients of the model's parameters, after ``backward`` of the loss."""
        after = random_state(self._device)
        for part in self._parts:
            gradient = part.vectors.grad
            if gradient is None:
                continue
            set_random_state(self._device, part.state)
            with self._model.computing():
                vectors = _vectors_of(part.encode())
            if vectors.requires_grad:
                vectors.backward(gradient)
        self._parts.clear()
        set_random_state(self._device, after)

    def _cut(self, items: Tensor) -> Iterator[slice]:
        return (slice(first, first + self._size) for first in range(0, len(items), self._size))

    def _encoded(self, encode: Callable[[], Any]) -> Tensor | Sets:
        state = random_state(self._device)
        with torch.no_grad(), self._model.computing():
            encoded = encode()
        vectors = _vectors_of(encoded).detach().requires_grad_()
        self._parts.append(_Part(encode, state, vectors))
        return Sets(vectors, encoded.lengths) if isinstance(encoded, Sets) else vectors


def _vectors_of(encoded: Tensor | Sets) -> Tensor:
    return encoded.vectors if isinstance(encoded, Sets) else encoded
