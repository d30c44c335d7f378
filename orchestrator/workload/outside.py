"""Models that the orchestrator has not trained, as candidates: read from ranks, embeddings or similarities.

A folder holds the results of one run of such a model on val and on test, in one of three forms:

    ranks_val.npz, ranks_test.npz                                    ranks, as in ``trials/TRIAL``
    val_images.npy (I, D), val_captions.npy (C, D), and for test     embeddings, compared by dot products
    val_similarity.npy (I, C), test_similarity.npy                   similarities, larger is closer

Rows are in the order of the split: its images, and its captions image by image.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from trainables.data.dataset import Split
    from trainables.ranks import Ranks

SPLITS = ("val", "test")


@dataclass(frozen=True)
class OutsideRun:
    """One run of a model that was trained elsewhere.

    Attributes:
        metrics: ``val/rsum`` ..., ``test/rsum`` ...
        test: The ranks behind the metrics of test.
    """

    metrics: Mapping[str, float]
    test: "Ranks"


def read_outside_run(folder: Path, dataset: str, data_root: Path) -> OutsideRun:
    """Read the results of a run on val and test.

    Args:
        folder: The folder that this module describes.
        dataset: Dataset whose queries the run answers; read if the folder holds embeddings or similarities.
        data_root: Folder of the datasets.

    Raises:
        DataError: If a file is missing, damaged, or does not fit the split.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; a candidate is a folder with {_forms('val')}, and so for test")
    ranks = {split: _read_split(folder, split, dataset, data_root) for split in SPLITS}
    return OutsideRun(
        {f"{split}/{name}": value for split in SPLITS for name, value in _metrics(ranks[split]).items()}, ranks["test"]
    )


def _read_split(folder: Path, split: str, dataset: str, data_root: Path) -> "Ranks":
    from trainables.ranks import read_ranks

    kept = folder / f"ranks_{split}.npz"
    if not kept.exists():
        return _rank_vectors(folder, split, dataset, data_root)
    ranks = read_ranks(kept)
    if ranks.split != split:
        raise DataError(f"{kept}: holds ranks of {ranks.split}, not of {split}")
    return ranks


def _rank_vectors(folder: Path, split: str, dataset: str, data_root: Path) -> "Ranks":
    """Return the ranks of embeddings or similarities."""
    import numpy as np
    import torch

    from trainables.data.dataset import load_dataset
    from trainables.ranks import Ranks

    kind = next(
        (kind for kind, names in _FILES.items() if all(file.exists() for file in _paths(folder, split, names))), None
    )
    if kind is None:
        raise DataError(f"{folder}: holds nothing about {split}; it must have {_forms(split)}")
    part: Split = load_dataset(dataset, data_root, features=None).splits[split]
    if part.labels is not None:
        raise DataError(f"{dataset}: has images with classes; vectors of other programs are read of captions alone")
    owners = torch.from_numpy(part.image_of_caption.astype(np.int64))
    try:
        i2t, t2i = _positive_ranks(kind, _paths(folder, split, _FILES[kind]), len(part.image_rows), owners)
    except ValueError as error:
        raise DataError(f"{folder}: {split}: {error}") from None
    i2t_ranks, t2i_ranks, image_of_caption = (one.numpy().astype(np.int32) for one in (i2t, t2i, owners))
    return Ranks(i2t_ranks, t2i_ranks, image_of_caption, part.queries_digest(), split, tuple(part.image_ids))


def _positive_ranks(kind: str, files: list[Path], images: int, owners: "Tensor") -> tuple["Tensor", "Tensor"]:
    import torch

    from trainables.positive_ranks import rank_positives, rank_similarity

    if kind == "similarities":
        return rank_similarity(torch.from_numpy(_read(files[0], (images, len(owners)))), owners)
    of_images, of_captions = (
        torch.from_numpy(_read(file, (size, -1))) for file, size in zip(files, (images, len(owners)), strict=True)
    )
    return rank_positives(of_images, of_captions, owners)


_FILES = {"similarities": ("similarity",), "embeddings": ("images", "captions")}


def _paths(folder: Path, split: str, names: tuple[str, ...]) -> list[Path]:
    return [folder / f"{split}_{name}.npy" for name in names]


def _read(file: Path, shape: tuple[int, int]) -> "np.ndarray":
    """Return the array of a file, float32 or float64, after a check of its shape; -1 is any length."""
    import numpy as np

    try:
        # Mapped, so that a file of another shape is refused before its values are read.
        values = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: holds no array, or is damaged: {error}") from None
    if not isinstance(values, np.ndarray):
        raise DataError(f"{file}: must be one array as numpy.save writes it, got an archive")
    expected = " x ".join("any" if size < 0 else f"{size:,}" for size in shape)
    if values.ndim != 2 or any(size not in (-1, found) for size, found in zip(shape, values.shape, strict=True)):
        raise DataError(f"{file}: must have the shape {expected} of the split, got {values.shape}")
    if values.dtype.kind != "f":
        raise DataError(f"{file}: must hold floating-point numbers, got {values.dtype}")
    return values.astype(np.float64 if values.dtype.itemsize == 8 else np.float32)


def _metrics(ranks: "Ranks") -> dict[str, float]:
    import torch

    from trainables.metrics import metrics_of_ranks

    arrays = (ranks.i2t, ranks.t2i, ranks.image_of_caption)
    return metrics_of_ranks(*(torch.from_numpy(one.astype("int64")) for one in arrays))


def _forms(split: str) -> str:
    return f"ranks_{split}.npz, or {split}_images.npy and {split}_captions.npy (embeddings), or {split}_similarity.npy"
