"""The interface of models, and linear maps and batch norms of one model or of K stacked models.

Parameters of shape (K, ...) map the inputs of each model by its own parameters. Inputs with a leading dimension of 1
are shared by all models.

The precision is float32, or mixed with bfloat16. In mixed precision, matrix products and convolutions run in bf16;
weights, optimiser, GRUs, lengths of vectors, similarities and losses stay float32. GRUs are excluded, because autocast
would run cuDNN's GRU in float16, which would need scaled gradients.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from trainables.config import Precision, TrialConfig
from trainables.data.batches import Batch
from trainables.data.dataset import Dataset
from trainables.data.reading import Reading
from trainables.errors import Blaming
from trainables.positive_ranks import BlockScores, Scores
from trainables.representations import Sets


def linear(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """Map inputs (..., D) to (..., E); with stacked parameters (K, ..., D) or (1, ..., D) to (K, ..., E)."""
    if layer.weight.dim() == 2:
        mapped: Tensor = layer(inputs)
        return mapped
    rows = inputs.flatten(1, -2).expand(len(layer.weight), -1, -1)
    if len(inputs) == 1 or (inputs.dim() == 3 and not inputs.requires_grad):
        # With W x^T instead of x W^T the gradient of W has the layout of W and is not copied. A copy takes as long as
        # the product (64 heads of 1,024 x 256 on batches of 128: backward 137 ms with the copy, 67 ms without). For
        # activations, and for sets of regions, the layout of the output matters more.
        mapped = torch.baddbmm(layer.bias[..., None], layer.weight, rows.mT).mT
    else:
        mapped = affine(rows, layer.weight, layer.bias)
    return mapped.unflatten(1, inputs.shape[1:-1])


def draw_projection(layer: nn.Linear) -> None:
    """Draw weights from the distribution of VSE++'s image projection, and set biases to 0."""
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return W x + b of inputs (K, N, D), with weights (K, E, D) and biases (K, E), shape (K, N, E)."""
    return torch.baddbmm(bias[:, None], inputs, weight.mT)


def batch_norm(layer: nn.BatchNorm1d, inputs: Tensor) -> Tensor:
    """Normalise inputs (N, D), or (K, N, D) with stacked parameters, by statistics over the N inputs of each model."""
    if layer.weight.dim() == 1:
        normed: Tensor = layer(inputs)
        return normed
    models, rows, _ = inputs.shape
    mean, variance = layer.running_mean, layer.running_var
    assert mean is not None and variance is not None and layer.num_batches_tracked is not None
    if layer.training:
        layer.num_batches_tracked.add_(1)
    # The features of all models are laid side by side, so that each feature has its own statistics.
    normed = nn.functional.batch_norm(
        inputs.transpose(0, 1).reshape(rows, -1),
        mean.view(-1),
        variance.view(-1),
        layer.weight.view(-1),
        layer.bias.view(-1),
        layer.training,
        layer.momentum or 0.0,
        layer.eps,
    )
    return normed.view(rows, models, -1).transpose(0, 1)


def computing(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Return the context in which a model computes its vectors on a device; ``auto`` is bf16 on a GPU that has it."""
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    is_low = precision == "bf16" or (precision == "auto" and has_bf16)
    return torch.autocast(device.type, torch.bfloat16, enabled=is_low)


def computing_in_full(device: torch.device) -> AbstractContextManager[None]:
    """Return a context in which autocast is off, for computations that are always float32."""
    return torch.autocast(device.type, enabled=False)


def in_full(values: Tensor) -> Tensor:
    """Return values as float32; values of higher precision are returned as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class RetrievalModel(nn.Module, ABC):
    """Turns images and captions into vectors whose dot product is their similarity.

    A model that compares an image with a caption in another way is a ``trainables.models.pair_model.PairModel``. It
    turns images and captions into sets of vectors, and defines the similarity of two sets. Code that trains, evaluates
    or queries a model calls ``compare``, ``gather`` and ``scores`` for both kinds of models.

    Attributes:
        reading: How the model reads pictures and captions.
        precision: Precision of ``computing``.
        can_stack: Whether the model also works with parameters of shape (K, ...) of K stacked models
            (``trainables.fused``). Features, captions and vectors then have a leading dimension too: K, or 1
            where all models share them.
        has_static_shapes: Whether the shapes of a step depend on the sizes of the batch alone, where captions are laid
            out by a profile (``trainables.data.length_profile``): no code reads a value of the batch.
        stacked_settings: Attributes that may differ between stacked models: numbers, which become tensors (K, 1, 1).
        initial_values: Hyper-parameter of a loss -> value from which it is learned, instead of that of the table.
        origin_digest: Digest of the files on which the model depends beside its parameters; empty for most models.
        quick_pairs: Number of pairs of an image and a caption that are compared in about a second.
    """

    quick_pairs = 1 << 30
    reading = Reading()
    initial_values: Mapping[str, float] = {}
    origin_digest = ""
    precision: Precision = "float32"
    can_stack = False
    has_static_shapes = False
    stacked_settings: tuple[str, ...] = ()

    @classmethod
    def build(cls, config: TrialConfig, data: Dataset, *, pretrained: bool = True) -> Self:
        """Make an untrained model for the dataset's features and vocabulary.

        By default the constructor gets the numbers of features (D), of words, of dimensions of the joint space and of a
        word embedding, then ``model_parameters``.
        """
        sizes, size = config.training, data.splits["train"].features.shape[-1]
        return cls(size, len(data.vocabulary), sizes.embedding_size, sizes.word_size, **config.model_parameters)

    @abstractmethod
    def encode_images(self, features: Any) -> Tensor | Sets:
        """Map image features, (I, D) or (I, R, D), or views of pictures, (I, ...), to vectors (I, E).

        Of images of different numbers of regions they are sets; of a model with further inputs a mapping
        (``trainables.representations.ImageInputs``).
        """

    @abstractmethod
    def encode_captions(self, captions: Any, lengths: Any) -> Tensor | Sets:
        """Map captions to vectors (C, E).

        Args:
            captions: Token ids (C, T), int64, zero-padded; or features (C, D), float32, for models in
                ``trainables.config.TEXT_MODELS``; or ``Captions`` for models with further inputs.
            lengths: Number of tokens of each caption, (C,), on the CPU; or ``ProfiledLengths`` for models with
                static shapes.
        """

    def compare(self, images: Any, captions: Any) -> Tensor:
        """Return the similarity of each image to each caption, (I, C), or (K, I, C) of stacked models, float32.

        Both are results of ``encode_images`` and ``encode_captions``, or of ``gather``.
        """
        # The steps of bf16 near a cosine of 1 are too coarse for a temperature of 0.01.
        matrix: Tensor = in_full(images) @ in_full(captions).mT
        return matrix

    def gather(self, parts: Iterable[Any]) -> Any:
        """Join encoded parts to a ``trainables.representations.Gallery``, in float32 or higher precision."""
        return in_full(torch.cat(list(parts)))

    def scores(self, images: Any, captions: Any) -> Scores:
        """Return the scores of two galleries, from which ranks are counted."""
        return BlockScores(images, captions)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in ``precision`` during a ``with`` block; an error of a plug-in's model names the plug-in's line."""
        # A model without parameters has no matrix products, so the device does not matter.
        device = next((parameter.device for parameter in self.parameters()), torch.device("cpu"))
        with Blaming(), computing(self.precision, device):
            yield

    def backbone_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the backbone that is trained along; most models have none."""
        yield from ()

    def train_backbone(self, trained: bool) -> None:
        """Train the backbone or freeze it; called before each epoch. Models without a backbone do nothing."""

    def pack_origin(self, folder: Path) -> str:
        """Put what the model needs beside its parameters into a packed folder, and return the name of that.

        Most models need nothing, and return an empty text.
        """
        return ""

    def constrain(self) -> None:
        """Project the parameters onto their allowed set; called after each optimiser step.

        Most models have no constraints and do nothing.
        """


def encode(model: RetrievalModel, batch: Batch) -> tuple[Any, Any]:
    """Return the encoded images and captions of a batch, as ``RetrievalModel.compare`` takes them."""
    with model.computing():
        return model.encode_images(batch.images), model.encode_captions(batch.tokens, batch.lengths)
