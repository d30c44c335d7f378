"""Input of a model for a new picture: its pixels, or features made like those of the model's dataset."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.data.pictures.pixels import center_crop, decode
from trainables.errors import DataError
from trainables.models.backbones import build_backbone, make_encoder, weights_digest


def pixels_of_picture(path: Path, size: int) -> np.ndarray:
    """Return the centre of a picture, shape (size, size, 3), uint8.

    Raises:
        DataError: If the file is no picture.
    """
    return center_crop(decode(path), size)


def missing_origin(origin: Mapping[str, Any] | None) -> str | None:
    """Return why no features can be made of a new picture like those of the dataset; ``None`` where they can.

    Args:
        origin: The JSON beside the dataset's features.
    """
    if origin is None or "backbone" not in origin:
        return "it is not known how the dataset's features were made"
    if (weights := str(origin["weights"])) not in ("DEFAULT", "none"):
        made_by = f"{origin['backbone']} with weights {weights}"
        return f"the features come from {made_by}, which are not packed with the model"
    return None


def features_of_picture(path: Path, origin: Mapping[str, Any] | None, kind: str) -> np.ndarray:
    """Return the features of a picture by the backbone that made a dataset's features, float32.

    Args:
        path: A picture.
        origin: The JSON beside the dataset's features.
        kind: ``global``, shape (D,), or ``regions``, shape (R, D).

    Raises:
        DataError: If the file is no picture, or the backbone is unknown, missing or changed.
    """
    problem = missing_origin(origin)
    if origin is None or problem is not None:
        raise DataError(f"{path}: {problem}; ask with an image's id")
    name, weights = str(origin["backbone"]), str(origin["weights"])
    backbone = build_backbone(name, weights, seed=int(origin.get("seed", 0)))
    if weights_digest(backbone) != origin.get("weights_digest"):
        raise DataError(f"{path}: {name} with weights {weights} is not what it was when the features were made")
    crop = pixels_of_picture(path, backbone.image_size).copy()
    encode = make_encoder(backbone, (kind,), torch.device("cpu"))
    return encode(crop[None])[kind][0].astype(np.float32)
