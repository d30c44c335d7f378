"""The folder of a trained model that is packed with the encoded images and captions of a split.

A folder holds ``model.safetensors``, ``gallery.safetensors`` and ``retriever.json``. The gallery has ``images`` (I, E)
and ``captions`` (C, E), float16; of a model that compares sets, the vectors of all sets and ``images.lengths`` and
``captions.lengths``. An encoder that made the features has a folder of its own. The JSON has the config, values of
learned hyper-parameters of the loss, vocabulary, tokenizer and names. Nothing in it can run code, but for the model of
a plug-in. The text of the plug-ins that a training depended on lies under ``plugins/``. The text of a model's plug-in
runs only if the user trusts it.
"""

import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save, save_file

from trainables.checkpoint import BEST, read_file
from trainables.config import TrialConfig
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import Dataset, Split
from trainables.data.features import description_of
from trainables.data.inputs import ImageColumn
from trainables.data.text_features import extractor_file
from trainables.data.text_files import Strings
from trainables.data.tokenizers import ENGLISH, Tokenizer, Vocabulary
from trainables.encoders import kept_folder, libraries_of
from trainables.errors import CheckpointError, ConfigError, reason_of
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
from trainables.files import read_state, write_whole
from trainables.models import build_model
from trainables.models.retrieval_model import RetrievalModel
from trainables.parameter_values import LEARNED
from trainables.plugins.in_use import in_use, use
from trainables.plugins.plugin import Plugin
from trainables.representations import converted, to_tensors

FOLDER = "plugins"


def write_plugins(folder: Path, config: TrialConfig) -> list[dict[str, Any]]:
    """Write the text of the plug-ins that a training depended on, and return their descriptions."""
    known = [plugin for plugin in in_use().values() if plugin.reference in config.plugins]
    for plugin in known:
        for path, text in plugin.files.items():
            file = folder / FOLDER / plugin.name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return [{**asdict(plugin), "files": list(plugin.files)} for plugin in known]


def use_packed(folder: Path, about: Mapping[str, Any], *, trust: bool) -> None:
    """Take the packed plug-in of the model into use; for a model of ours, nothing runs.

    ``about`` is the content of ``retriever.json``; ``trust`` says whether the code may run.

    Raises:
        CheckpointError: If the code may not run, or has changed since it was packed.
    """
    model = about["config"]["model"]
    offering = [
        description for description in about.get("plugins", ()) if model in description["offers"].get("models", {})
    ]
    for description in offering:
        plugin = _read(folder, description)
        loaded = in_use().get(plugin.name)
        if loaded is not None and loaded.digest == plugin.digest:
            continue
        note = f"the model {model} of {folder} is code of the plug-in {plugin}, under {folder / FOLDER / plugin.name}"
        if not trust:
            raise CheckpointError(
                f"{note}; it would run with your rights: read it, then say that you trust it (--trust-plugins, or "
                f"trust_plugins=True in Python)"
            )
        warnings.warn(f"{note}; it runs now", stacklevel=3)
        use([plugin])


def _read(folder: Path, description: Mapping[str, Any]) -> Plugin:
    """Return a packed plug-in; its text must not have changed."""
    root = (folder / FOLDER).resolve()
    try:
        files = {}
        for path in description["files"]:
            file = (root / description["name"] / path).resolve()
            if not file.is_relative_to(root):
                raise CheckpointError(f"{folder}: its plug-in {description['name']} names a file outside: {path}")
            files[path] = file.read_text(encoding="utf-8")
        return Plugin(**{**description, "files": files})
    except (OSError, KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(f"{folder}: damaged: {reason_of(error)}; register the model again") from None


FORMAT = 1
MODEL, GALLERY, ABOUT = "model.safetensors", "gallery.safetensors", "retriever.json"
TEXT_EXTRACTOR = "text_extractor.safetensors"
"""File of the extractor of caption features, for a model that reads such features."""

ENCODER = "encoder"
"""Key of ``retriever.json``: the folder of the encoder from which the model was trained, or empty; and the parameter of
the model that names that folder."""

TEXT_ORIGIN = "text_origin"
"""Key of ``retriever.json``: the JSON beside the features of captions; ``None`` where there is none."""


def write_retriever(
    folder: Path,
    checkpoint: Path,
    data: Dataset,
    split: str,
    *,
    pictures: Path | None = None,
    texts: Path | None = None,
) -> None:
    """Pack the best model of a checkpoint with the images and captions of a split.

    Args:
        folder: A new folder, which is made here.
        checkpoint: An ``epoch_NNNN`` directory.
        data: The dataset of the training.
        split: Split whose images and captions are the answers.
        pictures: File of the images' features, if there is one. The JSON beside it says how features are made of a
            picture, and names an encoder, which is packed too; else a new picture can only be queried by its features.
        texts: File of the captions' features, for a model that reads them. What made them is packed; without it,
            captions outside the gallery cannot be queried.

    Raises:
        CheckpointError: If the checkpoint is damaged, or of other data.
        DataError: If an extractor beside the features did not make them.
    """
    origin, text_origin = (None if path is None else description_of(path) for path in (pictures, texts))
    extractor = None if texts is None else extractor_file(texts)
    encoders = {kept_folder(path) for path in (pictures, texts) if path is not None}
    model, config = load_best(checkpoint, data)
    part = data.splits[split]
    with evaluating(model):
        resident = ResidentSplit(part, torch.device("cpu"), model.reading)
        gallery = {"images": encode_images(model, resident), "captions": encode_captions(model, resident)}
        candidates = None if part.caption_labels is None else resident.candidates().tolist()
    folder.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, folder / MODEL)
    kept = {name: converted(value, lambda numbers: numbers.half().contiguous()) for name, value in gallery.items()}
    save_file({name: value for kind in kept for name, value in to_tensors(kind, kept[kind]).items()}, folder / GALLERY)
    if extractor is not None:
        write_whole(folder / TEXT_EXTRACTOR, extractor.read_bytes())
    for encoder in filter(None, encoders):
        shutil.copytree(encoder, folder / encoder.name)
    caption_features = data.splits["train"].caption_features
    about = {
        "format": FORMAT,
        "config": config.to_dict(),
        "learned": read_file(checkpoint, BEST).get(LEARNED, {}),
        ENCODER: model.pack_origin(folder),
        "dataset": data.name,
        "digest": data.digest,
        "split": split,
        "feature_shape": list(data.splits["train"].features.shape[1:]),
        "has_lengths": part.feature_lengths is not None,
        "columns": {key: list(column.values.shape[1:]) for key, column in part.columns.items()},
        "caption_size": None if caption_features is None else caption_features.shape[-1],
        "origin": origin,
        TEXT_ORIGIN: text_origin,
        "vocabulary": data.vocabulary.words,
        "tokenizer": [data.vocabulary.tokenizer.name, data.vocabulary.tokenizer.content],
        "images": list(part.image_ids),
        "filenames": list(part.filenames),
        "captions": list(part.captions),
        "image_of_caption": part.image_of_caption.tolist(),
        "has_one_modality": part.labels is not None,
        # Of labels, which images share, the caption that stands for each.
        "candidates": candidates,
        "plugins": write_plugins(folder, config),
    }
    write_whole(folder / ABOUT, json.dumps(about, ensure_ascii=False))


REQUIREMENTS = ["torch", "torchvision", "numpy", "pandas", "safetensors", "pillow", "nltk"]
"""Packages that the packed code imports; without versions, because all versions that can train also serve."""


def requirements_of(folder: Path) -> list[str]:
    """Return the packages, by their names for ``pip``, that a packed model needs, with those of its encoders."""
    return [*REQUIREMENTS, *libraries_of(folder)]


def packed_config(folder: Path, about: Mapping[str, Any]) -> TrialConfig:
    """Return the config of a packed model; an encoder that it trains from is the one in the folder.

    Raises:
        ConfigError: If this version refuses the config.
        KeyError: If there is none.
    """
    config = TrialConfig.from_dict(about["config"])
    if not (name := about.get(ENCODER)):
        return config
    # A name alone, so that a folder from elsewhere reads nothing outside itself.
    encoder = str((folder / Path(str(name)).name).resolve())
    return replace(config, model_parameters={**config.model_parameters, ENCODER: encoder})


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
    """Return the vocabulary of a packed model, with the tokenizer of its training; ``KeyError`` without words."""
    # Folders of older versions do not name a tokenizer; theirs is that of English.
    tokenizer = Tokenizer(*about["tokenizer"]) if "tokenizer" in about else ENGLISH
    return Vocabulary(tuple(about["vocabulary"]), tokenizer)


def build_unloaded(config: TrialConfig, vocabulary: Vocabulary, about: Mapping[str, Any]) -> RetrievalModel:
    """Return a model of the sizes in ``retriever.json``, without its parameters; ``KeyError`` if sizes are missing."""
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
        columns={
            key: ImageColumn(np.zeros((1, *shape), dtype=np.float32), np.zeros(0, dtype=np.int64))
            for key, shape in about.get("columns", {}).items()
        },
    )
    return build_model(config, Dataset(config.dataset, "", vocabulary, {"train": empty}), pretrained=False)


def write_weights(checkpoint: Path, path: Path) -> None:
    """Write the tensors of a checkpoint's best model, by their names in the model.

    The file's metadata holds ``config`` (JSON of the ``TrialConfig``), ``digest`` of the data, ``epoch`` and ``value``
    of the metric that selected it, and ``learned`` (JSON) where the loss learned hyper-parameters: the values that the
    best model was trained with.

    ``checkpoint`` is an ``epoch_NNNN`` directory. The file appears whole or not at all, in a folder that exists.

    Raises:
        CheckpointError: If the checkpoint is damaged.
    """
    payload = read_file(checkpoint, BEST)
    metadata = {
        "config": json.dumps(payload["config"]),
        **{name: str(payload[name]) for name in ("digest", "epoch", "value")},
    }
    if LEARNED in payload:
        metadata[LEARNED] = json.dumps(payload[LEARNED])
    tensors = {name: tensor.contiguous() for name, tensor in payload["model"].items()}
    write_whole(path, save(tensors, metadata=metadata))
