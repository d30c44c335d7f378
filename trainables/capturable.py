"""Which trainings have steps of fixed shapes, which a CUDA graph can replay, and why others do not.

A graph repeats operations with their shapes and addresses. So nothing of a step may depend on what Python reads of a
batch, and nothing may lie on the CPU. Each row of ``OBSTACLES`` says what cannot be captured, and why.
"""

from collections.abc import Callable
from typing import NamedTuple

from trainables.config import TrainingConfig
from trainables.data.batches import ResidentSplit
from trainables.losses import Loss
from trainables.losses.meta_weights import MetaWeights
from trainables.losses.plugin_loss import place_of_loss
from trainables.models.retrieval_model import RetrievalModel


class Parts(NamedTuple):
    """What decides whether the steps of a training can be captured."""

    model: RetrievalModel
    loss: Loss
    split: ResidentSplit
    training: TrainingConfig


class Obstacle(NamedTuple):
    """A row of the table.

    Attributes:
        what: What cannot be captured, with the names of an experiment file.
        reason: Why not, in a clause that fits after "because".
        applies: Whether a training has it.
    """

    what: str
    reason: str
    applies: Callable[[Parts], bool]


OBSTACLES = (
    Obstacle(
        "a model or loss of a plug-in",
        "the code of a plug-in may read values of a batch",
        lambda parts: not _is_ours(parts.model) or bool(place_of_loss(parts.loss)),
    ),
    Obstacle(
        "`finetune`, and the model `clip`",
        "pixels are decoded by the CPU",
        lambda parts: parts.model.reading.view is not None,
    ),
    Obstacle(
        "the models `scan`, `gsmn`, `hgr` and `ce`, and `vsepp` with `pooling: gpo`",
        "the model cuts or groups captions by lengths that Python reads",
        lambda parts: not parts.model.has_static_shapes,
    ),
    Obstacle(
        "a dataset with classes or labels",
        "the number of positives differs from batch to batch",
        lambda parts: parts.split.labels is not None or parts.split.caption_labels is not None,
    ),
    Obstacle(
        "`length_buckets` above 1",
        "batches of similar lengths have no common profile of lengths",
        lambda parts: parts.training.length_buckets > 1,
    ),
    Obstacle(
        "`batches: images` where some images have fewer captions than `captions_per_image`",
        "the number of captions differs from batch to batch",
        lambda parts: _is_ragged(parts),
    ),
    Obstacle(
        "features that are no plain vectors, or do not fit the memory of the device",
        "the CPU gathers the features of a batch",
        lambda parts: not parts.split.is_gathered_on_device,
    ),
    Obstacle(
        "`micro_batch`",
        "Python draws the random numbers of a micro-batch twice",
        lambda parts: parts.training.micro_batch is not None,
    ),
    Obstacle(
        "the loss `meta_weights`",
        "its meta-step takes a gradient of a gradient",
        lambda parts: isinstance(parts.loss, MetaWeights),
    ),
    Obstacle("a train split without a full batch", "no batch is full", lambda parts: not _has_full_batch(parts)),
)
"""What cannot be captured; the first row that applies gives the reason."""


def find_obstacle(parts: Parts) -> str | None:
    """Return why the steps of a training cannot be captured, or ``None`` where they can."""
    return next((obstacle.reason for obstacle in OBSTACLES if obstacle.applies(parts)), None)


def _is_ours(model: RetrievalModel) -> bool:
    return type(model).__module__.startswith("trainables.models.")


def _is_ragged(parts: Parts) -> bool:
    if parts.training.batches != "images":
        return False
    captions = parts.split.image_of_caption.bincount(minlength=parts.split.image_count)
    return int(captions.min()) < parts.training.captions_per_image


def _has_full_batch(parts: Parts) -> bool:
    count = parts.split.image_count if parts.training.batches == "images" else len(parts.split.lengths)
    return count >= parts.training.batch_size
