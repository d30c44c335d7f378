"""The rows of feature files: the images of a dataset in their order, with their files, or the frames of its clips."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainables.data.clip_files import CLIPS, Frame, find_frames
from trainables.data.corpus import Corpus, Image, check_corpus
from trainables.data.pictures import check_links, find_images
from trainables.data.source import Source, find_source
from trainables.errors import ConfigError, DataError


@dataclass(frozen=True)
class Rows:
    """The images, or clips, whose features are written."""

    source: Source
    corpus: Corpus
    images: Sequence[Image]

    def captions(self) -> Iterator[tuple[str, str]]:
        """Yield each caption with the place of its image, in row order."""
        return ((caption, image.place) for image in self.images for caption in image.captions)


@dataclass(frozen=True)
class Pictures:
    """What features of images are extracted from.

    Attributes:
        files, places: Each picture or frame, and its place in the source.
        counts: Number of frames of each clip; empty for pictures.
    """

    files: tuple[Frame, ...]
    places: tuple[str, ...]
    counts: tuple[int, ...] = ()


def read_rows(dataset: str, data_root: Path, split: str | None) -> Rows:
    """Return the images of a dataset, or of a split of it; raise all problems of its captions as one ``DataError``."""
    source = find_source(dataset, data_root)
    corpus = source.read()
    if problems := check_corpus(corpus):
        raise DataError(problems)
    return Rows(source, corpus, corpus.split(split) if split else list(corpus.images))


def find_pictures(rows: Rows, frames: int, *, augmented: bool) -> Pictures:
    """Return the picture of each image, or of each clip at most as many frames as asked for.

    Raises:
        ConfigError: If random crops are asked for of a dataset of clips.
        DataError: If pictures are missing; it has all problems.
    """
    source, images = rows.source, rows.images
    if problems := check_links(rows.corpus, source.folder, source.roots):
        raise DataError(problems)
    if not any(image.filename for image in images):
        return _find_clips(rows, frames, augmented=augmented)
    files = find_images(source.folder, (image.filename for image in images))
    missing = [image for image in images if image.filename not in files]
    if missing:
        where = f"is missing from {source.folder} and the folders in it"
        raise DataError([f"{image.place}: image {image.filename!r} {where}" for image in missing])
    found = tuple(Frame(Path(files[image.filename].path), 0) for image in images)
    return Pictures(found, tuple(image.place for image in images))


def _find_clips(rows: Rows, most: int, *, augmented: bool) -> Pictures:
    source, images = rows.source, rows.images
    found, problems = find_frames(source.folder, (image.id for image in images), source.roots, most)
    if not found and not problems:
        raise DataError(
            f"{rows.corpus.file}: this dataset names no image files, and has no clips/ID{'|'.join(CLIPS)} or "
            "folders clips/ID of pictures, so there is nothing to extract from"
        )
    where = f"is neither a moving picture, a video nor a folder of pictures in {source.folder} and the folders in it"
    missing = [image for image in images if image.id not in found]
    if problems or missing:
        raise DataError(problems or [f"{image.place}: clip {image.id!r} {where}" for image in missing])
    if augmented:
        raise ConfigError("--augmentations is about pictures, and this is a dataset of clips; leave it out")
    kept = [found[image.id] for image in images]
    places = tuple(image.place for image, frames in zip(images, kept, strict=True) for _ in frames)
    return Pictures(tuple(frame for frames in kept for frame in frames), places, tuple(map(len, kept)))
