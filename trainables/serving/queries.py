"""What becomes of a new caption or picture before a packed model reads it: features made as those of its dataset were.

Captions go through a fitted extractor, or through the encoder that is packed with the model; pictures through that
encoder, or through a backbone of torchvision.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.data.pictures import center_crop, decode
from trainables.data.text_features import TfidfSvd, read_extractor
from trainables.encoders import KEPT, read_kept
from trainables.encoders.pretrained import PretrainedEncoder, weights_digest
from trainables.errors import DataError
from trainables.models.backbones import build_backbone, make_encoder
from trainables.serving.packed import TEXT_EXTRACTOR, TEXT_ORIGIN


class CaptionEncoder:
    """The encoder of captions that is packed with a model; it is read when the first caption is asked."""

    def __init__(self, packed: Path, origin: Mapping[str, Any], device: str) -> None:
        """Take the record of the features that it made."""
        self._packed, self._origin, self._device = packed, dict(origin), device

    def transform(self, captions: Sequence[str]) -> np.ndarray:
        """Return the features of some captions, shape (len(captions), D), float32."""
        return _encoder(self._packed, self._origin, self._device).encode_captions(captions)


def caption_extractor(packed: Path, about: Mapping[str, Any], device: str) -> TfidfSvd | CaptionEncoder | None:
    """Return what makes features of new captions for a packed model; ``None`` where nothing is packed."""
    if (packed / TEXT_EXTRACTOR).exists():
        return read_extractor(packed / TEXT_EXTRACTOR)
    origin = about.get(TEXT_ORIGIN) or {}
    return CaptionEncoder(packed, origin, device) if _is_packed(packed, origin) else None


def missing_origin(origin: Mapping[str, Any] | None, packed: Path | None = None) -> str | None:
    """Return why no features can be made of a new picture like those of the dataset; ``None`` where they can.

    ``origin`` is the JSON beside the dataset's features, ``packed`` the folder of the model.
    """
    if origin is not None and "encoder" in origin:
        if packed is not None and _is_packed(packed, origin):
            return None
        return f"the features come from {origin['encoder']}, which is not packed with the model"
    if origin is None or "backbone" not in origin:
        return "it is not known how the dataset's features were made"
    if (weights := str(origin["weights"])) not in ("DEFAULT", "none"):
        made_by = f"{origin['backbone']} with weights {weights}"
        return f"the features come from {made_by}, which are not packed with the model"
    return None


def features_of_picture(
    path: Path, origin: Mapping[str, Any] | None, kind: str, packed: Path | None = None
) -> np.ndarray:
    """Return the features of a picture by what made a dataset's features, float32.

    ``origin`` is the JSON beside the dataset's features; ``kind`` is ``global``, shape (D,), or ``regions``, shape (R,
    D); ``packed`` is the folder of the model, which may hold an encoder.

    Raises:
        DataError: If the file is no picture, or the network is unknown, missing or changed.
    """
    problem = missing_origin(origin, packed)
    if origin is None or problem is not None:
        raise DataError(f"{path}: {problem}; ask with an image's id")
    if packed is not None and "encoder" in origin:
        encoder = _encoder(packed, dict(origin), "cpu")
        return encoder.encode_images(encoder.prepare(decode(path))[None])[0]
    name, weights = str(origin["backbone"]), str(origin["weights"])
    backbone = build_backbone(name, weights, seed=int(origin.get("seed", 0)))
    if weights_digest(backbone) != origin.get("weights_digest"):
        raise DataError(f"{path}: {name} with weights {weights} is not what it was when the features were made")
    crop = center_crop(decode(path), backbone.image_size).copy()
    encode = make_encoder(backbone, (kind,), torch.device("cpu"))
    return encode(crop[None])[kind][0].astype(np.float32)


def _is_packed(packed: Path, origin: Mapping[str, Any] | None) -> bool:
    name = str((origin or {}).get(KEPT) or "")
    # A name alone, so that a folder from elsewhere reads nothing outside itself.
    return bool(name) and Path(name).name == name and (packed / name).is_dir()


def _encoder(packed: Path, origin: dict[str, Any], device: str) -> PretrainedEncoder:
    """Return the packed encoder, which both sides share."""
    return _read_once(packed / str(origin[KEPT]), str(origin.get("encoder")), str(origin.get("weights_digest")), device)


@lru_cache(maxsize=2)
def _read_once(folder: Path, name: str, digest: str, device: str) -> PretrainedEncoder:
    return read_kept(folder, name, digest, device)
