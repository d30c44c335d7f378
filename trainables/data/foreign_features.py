"""Features that other programs computed: in one file of both sides, or in a file for each clip.

A file of both sides, such as zero-shot features of open_clip, holds a dict of two matrices, saved by ``torch.save``,
``numpy.savez`` or safetensors:

    image_features   (I, D), also called image_embeds, image_embeddings or img_emb
    text_features    (C, D), also called text_embeds, text_embeddings or text_emb

and optionally ``image_ids`` (also ``filenames`` or ``image_paths``): I texts, which name the image of each row, and
``captions`` (also ``texts``): C texts, the caption of each row. Both are compared with the dataset. Other entries, such
as ``logit_scale`` or labels, are not read. Rows come in the order in which the dataset lists its images, or the images
of one split, and their captions. Loading a file runs no code.

A clip has a file ``ID.npy`` of the features of its frames, shape (frames, D), in their order. Clips keep their own
numbers of frames, up to a limit R. Of more frames, R are kept at equal distances: round(r (F - 1) / (R - 1)). The mean
is over all F frames.

References:
    [Chen2020] Chen et al., Fine-grained Video-Text Retrieval with Hierarchical Graph Reasoning. arXiv:2003.00392
    [Ilharco2021] Ilharco et al., OpenCLIP, https://github.com/mlfoundations/open_clip, README.md: ``encode_image`` and
        ``encode_text`` as ``image_features`` and ``text_features``.
    [Wolf2020] Hugging Face Transformers, ``CLIPOutput``: ``image_embeds`` and ``text_embeds``.
"""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from trainables.data.corpus import Image
from trainables.data.npy_files import map_array
from trainables.errors import DataError, reason_of

IMAGES = ("image_features", "image_embeds", "image_embeddings", "img_emb")
CAPTIONS = ("text_features", "text_embeds", "text_embeddings", "text_emb")
IDS = ("image_ids", "filenames", "image_paths")

TEXTS = ("captions", "texts")

SUFFIXES = (".npz", ".pt", ".pth", ".safetensors")

MOST_UNPACKED = 50
"""Most bytes of matrices that a byte of the file may unpack to. Features can hardly be compressed; zeros can, a
thousandfold."""

ALWAYS_UNPACKED = 256 << 20
"""Bytes of matrices that a file of any size may unpack to."""


class Dump(NamedTuple):
    """The features of one file.

    Features have the shapes (I, D) and (C, E), floating; there are no ids, and no texts, where the file has none.
    """

    path: Path
    images: np.ndarray
    captions: np.ndarray
    image_ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def misfits(self, images: Sequence[Image]) -> list[str]:
        """Return why the rows cannot be the features of some images and of all their captions."""
        captions = sum(len(image.captions) for image in images)
        problems = [
            f"{self.path}: {len(rows)} rows of {kind} features for {wanted} {kind}s of the dataset; there must be one "
            "row each, in its order"
            for kind, rows, wanted in (("image", self.images, len(images)), ("caption", self.captions, captions))
            if len(rows) != wanted
        ]
        if self.image_ids and not problems:
            problems += self._wrong_order(images)
        if self.texts and not problems:
            problems += self._wrong_captions([caption for image in images for caption in image.captions])
        return problems

    def _wrong_captions(self, captions: Sequence[str]) -> list[str]:
        if len(self.texts) != len(captions):
            return [f"{self.path}: {len(self.texts)} captions for {len(captions)} rows of caption features"]
        for row, (text, caption) in enumerate(zip(self.texts, captions, strict=True)):
            if " ".join(text.split()).casefold() != " ".join(caption.split()).casefold():
                return [
                    f"{self.path}: row {row} is the caption {text!r:.60}, the dataset has {caption!r:.60} there; save "
                    "the rows in the order in which the dataset lists its images and captions"
                ]
        return []

    def _wrong_order(self, images: Sequence[Image]) -> list[str]:
        if len(self.image_ids) != len(images):
            return [f"{self.path}: {len(self.image_ids)} ids for {len(images)} rows of image features"]
        for row, (image_id, image) in enumerate(zip(self.image_ids, images, strict=True)):
            if image_id != image.id and PurePath(image_id).name != PurePath(image.filename).name:
                known = image.filename or image.id
                return [
                    f"{self.path}: row {row} is image {image_id!r:.80}, the dataset has {known!r:.80} there; save the "
                    "rows in the order in which the dataset lists its images and captions"
                ]
        return []


def read_dump(path: Path) -> Dump:
    """Read a file of features.

    Raises:
        DataError: If the file is missing or damaged, needs code to be loaded, lacks one of the two matrices, or unpacks
            to many times its size.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: must be a file of {', '.join(SUFFIXES)}")
    try:
        entries = _entries(path)
        images, captions = (_matrix(path, entries, names) for names in (IMAGES, CAPTIONS))
        return Dump(path, images, captions, _listed(path, entries, IDS), _listed(path, entries, TEXTS))
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001  # of a damaged file NumPy, torch and safetensors raise any error
        reason = reason_of(error)
        raise DataError(f"{path}: cannot be read without running code of the file, or is damaged: {reason}") from None


def _entries(path: Path) -> Mapping[str, Any]:
    """Return the entries of a file by name; any error if the file is damaged."""
    refuse_unpacked(path)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    import torch

    content = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, dict):
        raise DataError(f"{path}: must hold a dict with {IMAGES[0]} and {CAPTIONS[0]}, got {type(content).__name__}")
    return {str(name): value for name, value in content.items()}


def refuse_unpacked(path: Path) -> None:
    """Refuse an archive, as ``.npz`` and ``.pt`` are, that would unpack to far more than its size (``DataError``)."""
    if path.suffix != ".safetensors" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            _refuse_unpacked(path, sum(entry.file_size for entry in archive.infolist()))


def _refuse_unpacked(path: Path, unpacked: int) -> None:
    size = path.stat().st_size
    if unpacked > max(ALWAYS_UNPACKED, MOST_UNPACKED * size):
        raise DataError(
            f"{path}: has {size:,} bytes and would unpack to {unpacked:,}; features unpack to at most {MOST_UNPACKED} "
            "times the size of their file: save them again"
        )


def _matrix(path: Path, entries: Mapping[str, Any], names: Sequence[str]) -> np.ndarray:
    """Return the entry that has one of some names, shape (rows, D), floating."""
    name = next((name for name in names if name in entries), None)
    if name is None:
        there = ", ".join(sorted(entries)[:8]) or "nothing"
        raise DataError(f"{path}: holds no {names[0]} (nor {', '.join(names[1:])}); there are: {there:.300}")
    value = entries[name]
    if not hasattr(value, "dtype"):
        raise DataError(f"{path}: {name} must be a matrix of numbers, got {type(value).__name__}; save it as an array")
    dtype, shape = str(value.dtype).removeprefix("torch."), tuple(value.shape)
    if len(shape) != 2 or not dtype.startswith(("float", "bfloat")) or 0 in shape:
        raise DataError(f"{path}: {name} must be a matrix of numbers, got {dtype} of shape {shape}")
    # A tensor whose rows are one row in the file has the size of its shape as soon as it is written.
    _refuse_unpacked(path, shape[0] * shape[1] * value.dtype.itemsize)
    # NumPy has no bfloat16, in which some encoders compute.
    return np.asarray(value.detach().float().numpy() if hasattr(value, "detach") else value)


def _listed(path: Path, entries: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return a list of texts of the file; empty where the file has none."""
    name = next((name for name in names if name in entries), None)
    if name is None:
        return ()
    value = entries[name]
    listed = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, list | tuple) or not all(isinstance(text, str | int) for text in listed):
        raise DataError(f"{path}: {name} must be a list of texts, got {value!r:.60}")
    return tuple(str(text) for text in listed)


def pick_frames(frames: int, most: int) -> np.ndarray:
    """Return the numbers of the frames that are kept, int64, ascending: all, or ``most`` at equal distances [Chen2020].

    Example:
        >>> pick_frames(9, 3).tolist(), pick_frames(2, 4).tolist()
        ([0, 4, 8], [0, 1])
    """
    if frames <= most:
        return np.arange(frames)
    return np.round(np.linspace(0, frames - 1, most)).astype(np.int64)


class Clips(NamedTuple):
    """Features of clips.

    Attributes:
        means: Mean over all frames of each clip, shape (clips, D), float32.
        frames: The frames that are kept, in their order, padded with zeros, shape (clips, F, D), float32.
        lengths: Number of frames that are kept of each clip, shape (clips,), int64, >= 1.
    """

    means: np.ndarray
    frames: np.ndarray
    lengths: np.ndarray


def pool_clips(images: Sequence[Image], folder: Path, most: int) -> Clips:
    """Return the features of clips, of whose frames at most ``most`` >= 1 are kept.

    ``folder`` has ``ID.npy`` of each clip; the clips come in the order of the rows.

    Raises:
        DataError: If files are missing, damaged, or of another width; the message names each file.
    """
    sets, problems = [], []
    width: int | None = None
    for image in images:
        path = folder / f"{image.id}.npy"
        try:
            frames = map_array(path)
        except DataError as error:
            problems += error.problems
            continue
        if frames.ndim != 2 or 0 in frames.shape or frames.shape[1] != (width or frames.shape[1]):
            wanted = f"(frames, {width})" if width else "(frames, D)"
            problems.append(f"{path}: features of frames must have shape {wanted}, got {frames.shape}")
            continue
        width = frames.shape[1]
        sets.append(frames)
    if problems:
        raise DataError(problems)
    return pool_sets(sets, most)


def pool_sets(sets: Sequence[np.ndarray], most: int) -> Clips:
    """Return the features of clips, of whose frames (frames, D) at most ``most`` >= 1 are kept."""
    means = np.stack([frames.mean(0, dtype=np.float32) for frames in sets])
    kept = [pick_frames(len(frames), most) for frames in sets]
    lengths = np.array([len(numbers) for numbers in kept], dtype=np.int64)
    padded = np.zeros((len(sets), lengths.max(), means.shape[1]), dtype=np.float32)
    for row, frames, numbers in zip(padded, sets, kept, strict=True):
        row[: len(numbers)] = frames[numbers]
    return Clips(means, padded, lengths)
