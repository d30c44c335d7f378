"""Heads on frozen features of both sides: a small network for images, one for captions, cosine between them.

With x the D stored features of an image or a caption, and E dimensions of the joint space,

    linear      v = W x + b
    mlp         v = W2 gelu(W1 x + b1) + b2
    residual    v = x + W2 gelu(W1 x + b1) + b2 where D = E, else v = W x + b + W2 gelu(W1 x + b1) + b2
    identity    v = x

and the similarity is the cosine. W2 and b2 of ``residual`` are 0 at first, so an untrained ``residual`` head is the
identity where D = E. The adapters of [Gao2021] instead mix both terms in a fixed ratio, and have no bias. With
``identity`` on both sides the model has no parameters. Its rsum is the rsum of the features themselves (zero-shot),
also after a training, which only changes the loss's learned hyper-parameters. Where both sides are images (classes as
positives), both sides share the image head.

References:
    [Gao2021] Gao et al., CLIP-Adapter: Better Vision-Language Models with Feature Adapters, eq. 4-6. arXiv:2110.04544
    [Zhai2022] Zhai et al., LiT: Zero-Shot Transfer with Locked-image text Tuning. arXiv:2111.07991: frozen towers.
"""

from collections.abc import Callable
from typing import Any, Self

from torch import Tensor, nn
from torch.nn.functional import gelu, normalize

from trainables.config import TrialConfig
from trainables.data.dataset import Dataset
from trainables.errors import ConfigError
from trainables.model_parameters import MODEL_TABLE, check_identity
from trainables.models.retrieval_model import RetrievalModel, draw_projection, in_full, linear

PARAMETERS = MODEL_TABLE["head"].parameters


class HeadModel(RetrievalModel):
    """Images and captions, both as features, as unit vectors of one joint space."""

    can_stack = True
    has_static_shapes = True

    def __init__(
        self,
        image_size: int,
        caption_size: int,
        embedding_size: int,
        *,
        image_head: str = PARAMETERS["image_head"].default,
        caption_head: str = PARAMETERS["caption_head"].default,
        hidden_size: int | None = PARAMETERS["hidden_size"].default,
        is_shared: bool = False,
    ) -> None:
        """Make a head for each side.

        All sizes are >= 1. Heads are keys of ``HEADS``. ``hidden_size`` is that of ``mlp`` and ``residual``; ``None``
        is ``embedding_size``. With ``is_shared`` both sides are images and share the image head. ``identity`` is
        refused where it would not give ``embedding_size`` dimensions (``ConfigError``).
        """
        super().__init__()
        sizes = (embedding_size, hidden_size or embedding_size)
        self.images = _make_head("image", image_head, image_size, *sizes)
        # A shared head is one module under one name, so that its weights are saved once.
        self.captions = None if is_shared else _make_head("caption", caption_head, caption_size, *sizes)
        # A model without parameters cannot be stacked.
        self.can_stack = next(self.parameters(), None) is not None

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's features of images and of captions."""
        train, parameters = data.splits["train"], dict[str, Any](config.model_parameters)
        assert train.caption_features is not None, "the dataset was loaded without the features of its captions"
        sizes = train.features.shape[-1], train.caption_features.shape[-1]
        is_shared = train.labels is not None
        if is_shared and "caption_head" in parameters:
            raise ConfigError(
                f"model_parameters.caption_head: {data.name} has images on both sides, which share one head; set "
                "image_head alone"
            )
        return cls(*sizes, config.training.embedding_size, is_shared=is_shared, **parameters)

    def encode_images(self, features: Tensor) -> Tensor:
        """Map features (I, D) to unit vectors (I, embedding_size)."""
        return normalize(in_full(self.images(features)), dim=-1, eps=1e-12)

    def encode_captions(self, captions: Tensor, lengths: Any) -> Tensor:
        """Map features (C, D) to unit vectors (C, embedding_size); ``lengths`` is not read."""
        head = self.images if self.captions is None else self.captions
        return normalize(in_full(head(captions)), dim=-1, eps=1e-12)


class Linear(nn.Module):
    """W x + b."""

    def __init__(self, size: int, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.projection = nn.Linear(size, embedding_size)
        draw_projection(self.projection)

    def forward(self, features: Tensor) -> Tensor:
        """Map features (..., D) to (..., E); of stacked parameters (K, N, D), or (1, N, D), to (K, N, E)."""
        return linear(self.projection, features)


class Perceptron(nn.Module):
    """W2 gelu(W1 x + b1) + b2."""

    def __init__(self, size: int, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(size, hidden_size), nn.Linear(hidden_size, embedding_size)
        draw_projection(self.hidden)
        draw_projection(self.out)

    def forward(self, features: Tensor) -> Tensor:
        """See ``Linear.forward``."""
        return linear(self.out, gelu(linear(self.hidden, features)))


class Residual(nn.Module):
    """``Perceptron`` added to the features, or to a linear map of features of another size."""

    def __init__(self, size: int, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.straight = nn.Identity() if size == embedding_size else Linear(size, embedding_size, hidden_size)
        self.change = Perceptron(size, embedding_size, hidden_size)
        nn.init.zeros_(self.change.out.weight)

    def forward(self, features: Tensor) -> Tensor:
        """See ``Linear.forward``."""
        mapped: Tensor = self.straight(features) + self.change(features)
        return mapped


HEADS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "linear": Linear,
    "mlp": Perceptron,
    "residual": Residual,
    "identity": nn.Identity,
}
"""Name in ``model_parameters.image_head`` and ``.caption_head`` -> head of its sizes: features, vectors, hidden."""


def _make_head(side: str, name: str, size: int, embedding_size: int, hidden_size: int) -> nn.Module:
    check_identity(side, name, size, embedding_size)
    return HEADS[name](size, embedding_size, hidden_size)
