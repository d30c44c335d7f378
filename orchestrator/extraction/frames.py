"""Pools the features of video frames, a file for each clip, into the feature files of a dataset."""

from pathlib import Path

from orchestrator.extraction.feature_files import open_corpus, write_features
from trainables.data.features import images_digest
from trainables.data.foreign_features import pool_clips
from trainables.errors import ConfigError


def pool_frames(
    dataset: str, data_root: Path, frames: Path, *, count: int, out: Path | None
) -> tuple[int, int, tuple[Path, ...]]:
    """Write ``features_global.npy`` and ``features_regions.npy`` of the clips of a dataset.

    Args:
        dataset: Name of a folder under ``data_root``, or a path.
        data_root: Where datasets lie.
        frames: Folder with a file ``ID.npy`` for each clip, shape (frames, D).
        count: Frames of each clip in ``features_regions.npy``, >= 1.
        out: Where the features go; ``None`` for the dataset's own folder.

    Returns:
        Number of clips, features of a frame, and all files that were written.

    Raises:
        ConfigError: If the count or a folder is refused.
        DataError: If the dataset or a file is missing or damaged.
    """
    if count < 1:
        raise ConfigError(f"--count must be at least 1, got {count}")
    if not frames.is_dir():
        raise ConfigError(f"{frames}: no such folder; it must hold ID.npy of each clip")
    corpus, targets = open_corpus(dataset, data_root, out, ["global", "regions"])
    pooled = pool_clips(corpus.images, frames, count)
    origin = {"images_digest": images_digest(corpus.images), "frames": frames.name}
    for target, rows in zip(targets, pooled, strict=True):
        write_features(target, rows, origin)
    written = (*targets, *(target.with_suffix(".json") for target in targets))
    return len(pooled[0]), pooled[0].shape[1], written
