"""Folders of transformers as encoders: CLIP and SigLIP of both sides, DINOv2 of pictures alone.

Captions are padded to the length that the text tower was trained with, which SigLIP needs. SigLIP reads the padding as
words, as in its training, so that no mask is given.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

from trainables.encoders.pretrained import (
    CAPTIONS,
    IMAGES,
    NoEncoderError,
    PretrainedEncoder,
    getting,
    offline,
    tensor_files,
    text_files,
    unit,
)
from trainables.errors import reason_of
from trainables.files import parse_state

SIDES = {
    "clip": (IMAGES, CAPTIONS),
    "siglip": (IMAGES, CAPTIONS),
    "dinov2": (IMAGES,),
    "dinov2_with_registers": (IMAGES,),
}
"""``model_type`` of a ``config.json`` that is read -> the sides of the model."""

WITHOUT_MASK = ("siglip",)

PREPARATION = ("preprocessor_config.json", "processor_config.json")
TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model")
"""Files of which a folder needs one."""


class TransformersEncoder(PretrainedEncoder):
    """A model of transformers."""

    libraries = ("transformers",)

    def __init__(self, folder: Path, device: str) -> None:
        """Read a folder, see ``read_encoder``; code that the folder brings along is not run."""
        self._folder, self._device = folder, device
        self._kind = _kind_of(folder)
        self.sides, self.name = SIDES[self._kind], f"{self._kind}:{folder.resolve().name}"
        tensors = tensor_files(folder, "model*.safetensors", "pytorch_model*.bin")
        needed = {
            "weights": (bool(tensors), "model.safetensors"),
            "preparation of pictures": (_has(folder, PREPARATION), PREPARATION[0]),
            # Without one, transformers would make a tokenizer that knows no words.
            "tokenizer": (CAPTIONS not in self.sides or _has(folder, TOKENIZERS), TOKENIZERS[0]),
        }
        for what, (is_there, file) in needed.items():
            if not is_there:
                raise NoEncoderError(
                    f"{folder}: holds no {what}; put {file} of the same model there; {getting('REPOSITORY', file)}"
                )
        self._files, self.weights = [*text_files(folder), *tensors], tensors[0].name
        try:
            with offline():
                self._read()
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, pickle.UnpicklingError, SafetensorError) as no:
            raise NoEncoderError(f"{folder}: cannot be read by transformers: {reason_of(no):.300}") from None

    def _read(self) -> None:
        folder, options = str(self._folder), {"local_files_only": True, "trust_remote_code": False}
        model, loaded = AutoModel.from_pretrained(folder, dtype=torch.float32, output_loading_info=True, **options)
        # Weights that the files lack would be drawn at random, with a warning alone.
        if lacking := sorted([*loaded["missing_keys"], *map(str, loaded["mismatched_keys"])]):
            raise ValueError(f"its weights lack {len(lacking)} tensors of the model, e.g. {lacking[0]}")
        self.network = model.eval().requires_grad_(False).to(self._device)
        self._processor = AutoImageProcessor.from_pretrained(folder, **options)
        self.transform = json.dumps(self._processor.to_dict(), sort_keys=True, default=str)
        if CAPTIONS in self.sides:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            self.context_length = int(model.config.text_config.max_position_embeddings)
            self.padding = int(self._tokenizer.pad_token_id or 0)

    def prepare(self, picture: Any) -> np.ndarray:
        """See ``PretrainedEncoder``."""
        pixels: np.ndarray = self._processor(images=picture, return_tensors="pt")["pixel_values"][0].numpy()
        return pixels

    def image_vectors(self, pixels: Tensor) -> Tensor:
        """See ``PretrainedEncoder``."""
        # Of a model with captions, the vectors of its joint space.
        encode = self.network.get_image_features if CAPTIONS in self.sides else self.network
        return unit(encode(pixel_values=pixels).pooler_output)

    def number(self, captions: Sequence[str]) -> list[np.ndarray]:
        """See ``PretrainedEncoder``."""
        numbered = self._tokenizer(list(captions), max_length=self.context_length, truncation=True)
        return [np.array(ids, dtype=np.int64) for ids in numbered["input_ids"]]

    def _vectors_of(self, tokens: Tensor, inside: Tensor) -> Tensor:
        mask = {} if self._kind in WITHOUT_MASK else {"attention_mask": inside.long()}
        return unit(self.network.get_text_features(input_ids=tokens, **mask).pooler_output)

    def files(self) -> Mapping[str, Path | str]:
        """See ``PretrainedEncoder``."""
        return {path.name: path for path in self._files}


def _has(folder: Path, names: Sequence[str]) -> bool:
    return any((folder / name).is_file() for name in names)


def _kind_of(folder: Path) -> str:
    try:
        kind = str(parse_state((folder / "config.json").read_bytes())["model_type"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoEncoderError(f"{folder / 'config.json'}: names no model_type: {reason_of(error)}") from None
    if kind not in SIDES:
        raise NoEncoderError(f"{folder}: is a {kind}; of transformers {', '.join(SIDES)} are read")
    return kind
