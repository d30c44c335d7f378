"""The folder of a trained model that is packed with the encoded images and captions of a split.

A folder holds ``model.safetensors``, ``gallery.safetensors`` (``images`` (I, E) and ``captions`` (C, E), float16; of a
model that compares sets, the vectors of all sets and ``images.lengths`` and ``captions.lengths``) and
``retriever.json`` (config, values of learned hyper-parameters of the loss, vocabulary, tokenizer, names). Nothing in it
can run code, but for the model of a plug-in: the text of the plug-ins that a training depended on lies under
``plugins/``, and the text of a model's plug-in runs only for who trusts it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from trainables.checkpoint import BEST, read_file
from trainables.config import LEARNED, TrialConfig
from trainables.data.dataset import Dataset, Split
from trainables.data.resident import ResidentSplit
from trainables.data.strings import Strings
from trainables.data.tokenizers import ENGLISH, Tokenizer
from trainables.data.vocabulary import Vocabulary
from trainables.errors import CheckpointError
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
from trainables.files import write_whole
from trainables.json_files import read_state
from trainables.models import build_model
from trainables.models.retrieval_model import RetrievalModel
from trainables.representations import converted, to_tensors
from trainables.serving.packed_plugins import write_plugins

FORMAT = 1
MODEL, GALLERY, ABOUT = "model.safetensors", "gallery.safetensors", "retriever.json"
TEXT_EXTRACTOR = "text_extractor.safetensors"
"""File of the extractor of caption features, for a model that reads such features."""


def write_retriever(
    folder: Path,
    checkpoint: Path,
    data: Dataset,
    split: str,
    *,
    origin: Mapping[str, Any] | None = None,
    text_extractor: Path | None = None,
) -> None:
    """Pack the best model of a checkpoint with the images and captions of a split.

    Args:
        folder: A new folder, which is made here.
        checkpoint: An ``epoch_NNNN`` directory.
        data: The dataset of the training.
        split: Split whose images and captions are the answers.
        origin: How features are made from a picture (the JSON that an extraction writes beside them), if known; without
            it, a new picture can only be queried by its features.
        text_extractor: Extractor of the captions' features, for a model that reads such features; without it, captions
            outside the gallery cannot be queried.

    Raises:
        CheckpointError: If the checkpoint is damaged, or of other data.
    """
    model, config = load_best(checkpoint, data)
    part = data.splits[split]
    with evaluating(model):
        resident = ResidentSplit(part, torch.device("cpu"), model.crop_size)
        gallery = {"images": encode_images(model, resident), "captions": encode_captions(model, resident)}
    folder.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, folder / MODEL)
    kept = {name: converted(value, lambda numbers: numbers.half().contiguous()) for name, value in gallery.items()}
    save_file({name: value for each in kept for name, value in to_tensors(each, kept[each]).items()}, folder / GALLERY)
    if text_extractor is not None:
        write_whole(folder / TEXT_EXTRACTOR, text_extractor.read_bytes())
    caption_features = data.splits["train"].caption_features
    about = {
        "format": FORMAT,
        "config": config.to_dict(),
        "learned": read_file(checkpoint, BEST).get(LEARNED, {}),
        "dataset": data.name,
        "digest": data.digest,
        "split": split,
        "feature_shape": list(data.splits["train"].features.shape[1:]),
        "caption_size": None if caption_features is None else caption_features.shape[-1],
        "origin": None if origin is None else dict(origin),
        "vocabulary": data.vocabulary.words,
        "tokenizer": [data.vocabulary.tokenizer.name, data.vocabulary.tokenizer.content],
        "images": list(part.image_ids),
        "filenames": list(part.filenames),
        "captions": list(part.captions),
        "image_of_caption": part.image_of_caption.tolist(),
        "has_one_modality": part.labels is not None,
        "plugins": write_plugins(folder, config),
    }
    write_whole(folder / ABOUT, json.dumps(about, ensure_ascii=False))


def read_about(folder: Path) -> dict[str, Any]:
    """Return the content of ``retriever.json``.

    Raises:
        CheckpointError: If the file is missing, damaged, or of another format.
    """
    try:
        about = read_state(folder / ABOUT)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / ABOUT}: cannot be read: {error}; register the model again") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise CheckpointError(f"{folder / ABOUT}: not of format {FORMAT}; register the model again")
    return about


def vocabulary_of(about: Mapping[str, Any]) -> Vocabulary:
    """Return the vocabulary of a packed model, with the tokenizer of its training.

    Raises:
        KeyError: If the words are missing.
    """
    # Folders of older versions do not name a tokenizer; theirs is that of English.
    tokenizer = Tokenizer(*about["tokenizer"]) if "tokenizer" in about else ENGLISH
    return Vocabulary(tuple(about["vocabulary"]), tokenizer)


def build_unloaded(config: TrialConfig, vocabulary: Vocabulary, about: Mapping[str, Any]) -> RetrievalModel:
    """Return the model of a config as ``retriever.json`` tells its sizes, before its parameters are loaded.

    Raises:
        KeyError: If the sizes are missing.
    """
    nothing, caption_size = Strings.pack([]), about.get("caption_size")
    empty = Split(
        name="train",
        features=np.zeros((1, *about["feature_shape"]), dtype=np.float32),
        image_rows=np.zeros(0, dtype=np.int64),
        image_ids=nothing,
        filenames=nothing,
        tokens=np.zeros(0, dtype=np.int32),
        offsets=np.zeros(1, dtype=np.int64),
        image_of_caption=np.zeros(0, dtype=np.int64),
        captions=nothing,
        caption_features=None if caption_size is None else np.zeros((1, caption_size), dtype=np.float32),
        labels=np.zeros(0, dtype=np.int64) if about.get("has_one_modality") else None,
    )
    return build_model(config, Dataset(config.dataset, "", vocabulary, {"train": empty}), pretrained=False)
