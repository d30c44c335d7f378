"""The files of clips, and their frames.

A clip is a picture that moves, a video, or a folder of pictures in the order of their names. It has no file name in its
dataset, but is looked up by its id: ``clips/ID.gif``, ``clips/ID.mp4``, or ``clips/ID/0001.png``. A picture that does
not move is one frame.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainables.allotment import usable_cpus
from trainables.data.foreign_features import pick_frames
from trainables.data.pictures import count_frames, decode, image_folders, link_problem
from trainables.data.videos import VIDEOS, count_video_frames, decode_video
from trainables.errors import DataError

if TYPE_CHECKING:
    import PIL.Image

CLIPS = (".gif", ".webp", ".png", *VIDEOS)
"""Endings of the files that are looked up, in this order."""

STILL = (".png", ".jpg", ".jpeg", ".webp")
"""Endings of the pictures in a clip's own folder."""


class Frame(NamedTuple):
    """A frame: the file, and its number in the file, from 0."""

    path: Path
    number: int


def decode_frame(frame: Frame) -> "PIL.Image.Image":
    """Return the pixels of a frame, or of a picture as its frame 0, as ``pictures.decode`` does."""
    return (decode_video if _is_video(frame.path) else decode)(*frame)


def spaced_frames(paths: Sequence[Path], most: int) -> list[Frame]:
    """Return at most ``most`` >= 1 frames at equal distances of a clip, whose files are those of ``find_clip``.

    Raises:
        DataError: If a file cannot be decoded.
        MissingExtraError: If a video is among them, and the extra ``video`` is not installed.
    """
    counts = [count_video_frames(path) if _is_video(path) else count_frames(path) for path in paths]
    frames = [(path, number) for path, count in zip(paths, counts, strict=True) for number in range(count)]
    return [Frame(*frames[place]) for place in pick_frames(len(frames), most)]


def _is_video(path: Path) -> bool:
    return path.suffix in VIDEOS


def find_clip(folders: Sequence[Path], clip: str) -> list[Path]:
    """Return the one file of a clip, or the pictures of its folder by their names; nothing where it has neither.

    ``folders`` are those of ``image_folders``. An id with a part of a path names nothing.
    """
    if not clip or Path(clip).name != clip:
        return []
    for folder in folders:
        if found := next((path for suffix in CLIPS if (path := folder / f"{clip}{suffix}").is_file()), None):
            return [found]
        if (inner := folder / clip).is_dir():
            return sorted(path for path in inner.iterdir() if path.suffix.lower() in STILL and path.is_file())
    return []


def find_frames(
    folder: Path, clips: Iterable[str], roots: Sequence[Path], most: int
) -> tuple[dict[str, list[Frame]], list[str]]:
    """Return at most ``most`` frames of each clip that is found under a dataset's folder, and all problems.

    A link out of the resolved roots is a problem, and so is a file that cannot be decoded.

    Raises:
        MissingExtraError: As ``spaced_frames``.
    """
    folders, problems = image_folders(folder), []
    files = {clip: paths for clip in clips if (paths := find_clip(folders, clip))}
    outside = {clip: [link_problem(path, roots) for path in paths] for clip, paths in files.items()}

    def frames_of(clip: str) -> list[Frame] | list[str]:
        if left := [problem for problem in outside[clip] if problem]:
            return left
        try:
            return spaced_frames(files[clip], most)
        except DataError as error:
            return error.problems

    frames: dict[str, list[Frame]] = {}
    # Decoders let other threads run.
    with ThreadPoolExecutor(usable_cpus()) as pool:
        for clip, found in zip(files, pool.map(frames_of, files), strict=True):
            frames[clip] = [frame for frame in found if isinstance(frame, Frame)]
            problems += [problem for problem in found if isinstance(problem, str)]
    return {clip: kept for clip, kept in frames.items() if kept}, problems
