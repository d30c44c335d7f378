"""Features of clips from features of their frames: the mean, and some frames as a set.

A clip has a file ``ID.npy`` of shape (frames, D). Of F frames, the R frames at (r + 1/2) F / R, rounded down, are
taken: the middles of R equal parts. Where F < R some frames are taken again. The mean is over all F frames.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainables.data.corpus import Image
from trainables.data.npy_files import map_array
from trainables.errors import DataError


def pick_frames(frames: int, count: int) -> np.ndarray:
    """Return the numbers of the frames that are taken, shape (count,), int64, ascending.

    Example:
        >>> pick_frames(9, 3).tolist(), pick_frames(2, 4).tolist()
        ([1, 4, 7], [0, 0, 1, 1])
    """
    return ((np.arange(count) + 0.5) * frames / count).astype(np.int64)


def pool_clips(images: Sequence[Image], folder: Path, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each clip's frames, (clips, D), and ``count`` of its frames, (clips, count, D), float32.

    Args:
        images: The clips, in the order of the rows.
        folder: Folder with ``ID.npy`` of each clip.
        count: Frames of a clip that are kept, >= 1.

    Raises:
        DataError: If files are missing, damaged, or of another width; the message names each file.
    """
    means, sets, problems = [], [], []
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
        means.append(frames.mean(0, dtype=np.float32))
        sets.append(frames[pick_frames(len(frames), count)].astype(np.float32))
    if problems:
        raise DataError(problems)
    return np.stack(means), np.stack(sets)
