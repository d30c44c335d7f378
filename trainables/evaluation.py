"""Evaluation of a model: encode a split, compare every image with every caption, count ranks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.bank import Bank
from trainables.checkpoint import BEST, read_file
from trainables.cocos import Convention, Spread, count_contributions, spreads
from trainables.config import TrialConfig
from trainables.data.batches import Batch, ResidentSplit
from trainables.data.dataset import Dataset, Split
from trainables.data.tokenizers import ENGLISH
from trainables.errors import CheckpointError
from trainables.judged_ranks import JudgedRanks, JudgedSplit
from trainables.losses import Loss, NotANumberError
from trainables.metric_values import Values, values_of_plugins
from trainables.metrics import (
    class_metrics,
    metrics_in_folds,
    metrics_of_ranks,
    rank_classmates,
    rank_labels,
    values_of_similarities,
)
from trainables.models import build_model
from trainables.models.retrieval_model import RetrievalModel, encode
from trainables.positive_ranks import Scores, rank_by_scores
from trainables.ranks import Ranks, chance_rsum
from trainables.representations import Gallery, is_finite
from trainables.seeding import choose_device

CHUNK = 512
"""Number of images or captions encoded at a time; limits memory and changes no result."""

CROPS = 32
"""Number of images encoded at a time by a backbone, which takes some 50 MB for each image."""


def evaluate(model: RetrievalModel, split: ResidentSplit, *, folds: int = 1) -> dict[str, float]:
    """Return the metrics of a split by name (``i2t_r1`` ... ``rsum``), computed in eval mode without gradients.

    For ``folds`` see ``metrics_in_folds``.

    Raises:
        NotANumberError: If an embedding or a similarity is not finite.
        ValueError: If ``folds`` does not divide the number of images.
    """
    with evaluating(model):
        images, captions, owners = _encode(model, split)
        if split.labels is not None:
            return class_metrics(rank_classmates(model.scores(images, captions), split.labels))
        if split.caption_labels is not None:
            scores = model.scores(images, captions)
            return metrics_of_ranks(*rank_labels(scores, owners, split.caption_labels), owners)
        return metrics_in_folds(model.scores, images, captions, owners, folds=folds)


def _encode(model: RetrievalModel, split: ResidentSplit) -> tuple[Gallery, Gallery, Tensor]:
    """Return all images and captions of a split, encoded, and the image of each caption, on one device."""
    images, captions = encode_images(model, split), encode_captions(model, split)
    if not (is_finite(images) and is_finite(captions)):
        raise NotANumberError("embeddings must be finite; the model has diverged")
    return images, captions, split.image_of_caption.to(split.device)


def evaluate_checkpoint(
    directory: Path, data: Dataset, split: str, *, device: str = "auto", folds: int = 1
) -> dict[str, float]:
    """Return the metrics of a checkpoint's best model on ``val`` or ``test`` of the dataset of its training.

    Raises:
        ValueError: If ``folds`` does not divide the number of images.
        CheckpointError: If the checkpoint is damaged, or was trained on another dataset.
    """
    model, _ = load_best(directory, data)
    where = choose_device(device)
    return evaluate(model.to(where), ResidentSplit(data.splits[split], where, model.reading), folds=folds)


@dataclass(frozen=True)
class RankedSplit:
    """Result of a model on a split, query by query.

    The metrics, see ``evaluate``, are computed from the ranks; ``judged`` has ranks for each source of judgements.
    ``values`` are those of each image, (I,), in the metrics of plug-ins, by metric of one direction.
    """

    metrics: Mapping[str, float]
    ranks: Ranks
    judged: tuple[JudgedRanks, ...] = ()
    values: Mapping[str, Values] = field(default_factory=dict)


def rank_checkpoint(
    directory: Path,
    data: Dataset,
    splits: Sequence[str],
    *,
    judgements: Mapping[str, Sequence[JudgedSplit]] | None = None,
    device: str = "auto",
) -> dict[str, RankedSplit]:
    """Return split -> result of a checkpoint's best model.

    Judgements are given by split, see ``judgement_files``.

    Raises:
        CheckpointError: If the checkpoint is damaged, or was trained on another dataset.
    """
    model, _ = load_best(directory, data)
    where = choose_device(device)
    model.to(where)
    ranked = {}
    with evaluating(model):
        for name in splits:
            images, captions, _ = _encode(model, ResidentSplit(data.splits[name], where, model.reading))
            scores = model.scores(images, captions)
            ranked[name] = rank_split(data.splits[name], scores, (judgements or {}).get(name, ()))
    return ranked


def rank_split(split: Split, scores: Scores, judgements: Sequence[JudgedSplit] = ()) -> RankedSplit:
    """Return the result of the scores of a split's images and captions."""
    if split.labels is not None:
        ranks = rank_classmates(scores, torch.from_numpy(split.labels.astype(np.int64))).cpu()
        return RankedSplit(class_metrics(ranks), ranks_of(split, ranks, ranks))
    # ``astype`` copies: arrays mapped from the disk are read-only, and torch has no read-only tensors.
    owners = torch.from_numpy(split.image_of_caption.astype(np.int64)).to(scores.device)
    if split.caption_labels is not None:
        pairs = rank_labels(scores, owners, torch.from_numpy(split.caption_labels))
        of_labels = ranks_of(split, *(part.cpu() for part in pairs))
        return RankedSplit(metrics_of_ranks(*pairs, owners), of_labels, values=values_of_plugins(of_labels, {}))
    i2t, t2i = (ranks.cpu() for ranks in rank_by_scores(scores, owners))
    of_similarities = values_of_similarities(scores, owners)
    metrics = metrics_of_ranks(i2t, t2i, owners.cpu(), of_similarities=of_similarities)
    kept = ranks_of(split, i2t, t2i)
    judged = tuple(judgement_set.rank(scores) for judgement_set in judgements)
    return RankedSplit(metrics, kept, judged, values_of_plugins(kept, of_similarities))


def ranks_of(split: Split, i2t: Tensor, t2i: Tensor) -> Ranks:
    """Return the ranks of a split's positives, on the CPU, with the names and the digest of their queries.

    Where images retrieve images, both ranks of a query are the rank of its best positive.
    """
    i2t_ranks, t2i_ranks, owners = (
        array.astype(np.int32) for array in (i2t.numpy(), t2i.numpy(), split.image_of_caption)
    )
    chance = None
    if split.labels is not None or split.caption_labels is not None:
        chance = chance_rsum(split.image_of_caption, split.labels, split.caption_labels)
    return Ranks(i2t_ranks, t2i_ranks, owners, split.queries_digest(), split.name, tuple(split.image_ids), chance)


def load_best(directory: Path, data: Dataset) -> tuple[RetrievalModel, TrialConfig]:
    """Return the best model of a checkpoint, on the CPU, and its config."""
    payload = read_file(directory, BEST)
    check_tokenizer_of(directory, payload, data)
    if payload["digest"] != data.digest:
        raise CheckpointError(
            f"{directory}: trained on {payload['config']['dataset']} with digest {payload['digest'][:12]}, "
            f"but {data.name} here has {data.digest[:12]}; evaluate it with the data it was trained on"
        )
    config = TrialConfig.from_dict(payload["config"])
    model = build_model(config, data, pretrained=False)
    check_encoder_of(directory, payload, model)
    model.load_state_dict(payload["model"])
    return model, config


def check_tokenizer_of(directory: Path, payload: Mapping[str, Any], data: Dataset) -> None:
    """Refuse a checkpoint whose captions were cut by another tokenizer (``CheckpointError``)."""
    # Checkpoints of older versions name none; theirs is that of English.
    trained, here = payload.get("tokenizer", ENGLISH.identity), data.vocabulary.tokenizer.identity
    if trained != here:
        raise CheckpointError(
            f"{directory}: trained with the tokenizer {trained}, but the captions of {data.name} are cut by {here} "
            f"here; evaluate or resume it with tokenizer {trained.split()[0]}"
        )


def check_encoder_of(directory: Path, payload: Mapping[str, Any], model: RetrievalModel) -> None:
    """Refuse a checkpoint of an encoder whose files have changed since (``CheckpointError``)."""
    if payload.get("encoder", "") != model.origin_digest:
        folder = payload["config"]["model_parameters"].get("encoder")
        raise CheckpointError(
            f"{directory}: trained from other files than {folder} holds now; put the files of its training there again"
        )


def measure_contributions(
    model: RetrievalModel,
    loss: Loss,
    batches: Iterable[Batch],
    *,
    epsilon: float = 0.01,
    convention: Convention = "paper",
    curve: Sequence[float] = (),
    count: int | None = None,
    bank: Bank | None = None,
) -> dict[str, Spread]:
    """Return the mean and standard deviation of each COCOS counter over batches, in eval mode.

    The first batches fill an empty ``bank``, which then has no old embeddings, and are not counted. Where the batches
    do not fill it, the last is counted. At most ``count`` batches are counted. For ``epsilon``, ``convention`` and
    ``curve`` see ``count_contributions``.
    """
    counters = partial(count_contributions, loss, epsilon=epsilon, convention=convention, curve=curve)
    counted: list[dict[str, Tensor]] = []
    last: Callable[[], dict[str, Tensor]] | None = None
    with evaluating(model):
        for batch in batches:
            is_counted = bank is None or bank.is_full
            images, captions = encode(model, batch)
            candidates = None if bank is None else bank.candidates(model, images, captions, batch)
            last = partial(counters, model.compare(images, captions), batch.positives, batch.ignore, candidates)
            if is_counted:
                counted.append(last())
            if len(counted) == count:
                break
        return spreads(counted or ([] if last is None else [last()]))


def similarities(model: RetrievalModel, batch: Batch) -> Tensor:
    """Return the similarity of each image to each caption of a batch, shape (I, C), or (K, I, C) of stacked models."""
    return model.compare(*encode(model, batch))


@contextmanager
def evaluating(model: RetrievalModel) -> Iterator[None]:
    """Put a model in eval mode without gradients during a ``with`` block."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def encode_images(model: RetrievalModel, split: ResidentSplit) -> Any:
    """Return the encoded images of a split, a ``Gallery``, in the order of the split."""
    chunks = split.image_chunks(CROPS if model.reading.view else CHUNK)
    with model.computing():
        return model.gather(model.encode_images(images) for images in chunks)


def encode_captions(model: RetrievalModel, split: ResidentSplit) -> Any:
    """Return the encoded captions of a split, a ``Gallery``, in the order of its candidates.

    Captions are encoded longest first, so that a chunk holds captions of similar lengths and little padding.
    """
    candidates = split.candidates()
    order = split.lengths[candidates].argsort(descending=True, stable=True)
    with model.computing():
        encoded = model.gather(model.encode_captions(*split.captions(part)) for part in candidates[order].split(CHUNK))
    return encoded[order.argsort().to(split.device)]
