"""Pictures and captions that a dataset holds several times, and the most that R@1 can be because of them.

Two images are equal if their feature rows are equal bit for bit, or their files where there are no features. Two
captions are equal if their tokens are. Both have a number, the group, that equal images (captions) of all splits share.

A score follows from the row and the tokens, so equal images have equal scores with every caption, and equal captions
with every image. A tie counts as a wrong answer (``trainables.positive_ranks``). Therefore, in a split of I images and
C captions,

    t2i R@1 <= 100/C  sum over groups of captions of the most captions of one image, images with an equal one left out
    i2t R@1 <= 100/I  sum over groups of images of 1 if one of them has a caption that no other image has, else 0

because the captions of a group all rank the same image first, and the images of a group the same caption.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from trainables.data.corpus import SPLITS
from trainables.data.features import CHUNK_BYTES, open_features
from trainables.data.npy_files import release_pages

MATTERS = 99.0
"""Ceiling of R@1 in percent below which a dataset is warned about; a benchmark such as Flickr8k lies above it."""


def hash_rows(path: Path) -> np.ndarray:
    """Return a number of each row of a feature file, shape (rows,), uint64, equal for rows with equal bytes.

    The number is a sum over the row's 16-bit words, each multiplied with a fixed random odd number, modulo 2^64. Of n
    different rows two share a number with a probability below n^2 / 2^48.
    """
    array = open_features(path)
    words = array[:1].nbytes // 2
    factors = np.random.default_rng(0).integers(0, 2**63, words, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.empty(len(array), dtype=np.uint64)
    at_once = max(1, CHUNK_BYTES // (8 * words))
    for start in range(0, len(array), at_once):
        block = np.ascontiguousarray(array[start : start + at_once]).reshape(-1, array[0].size)
        hashes[start : start + at_once] = (block.view(np.uint16) * factors).sum(axis=1, dtype=np.uint64)
        release_pages(array)
    return hashes


def group_images(files: Mapping[str, Path], rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the group of each image of each split, shape (I,), int64, given the feature file and rows by split."""
    hashed = {path: hash_rows(path) for path in dict.fromkeys(files.values())}
    numbers = [hashed[files[split]][rows[split]] for split in SPLITS]
    groups = np.unique(np.concatenate(numbers), return_inverse=True)[1].astype(np.int64)
    return dict(zip(SPLITS, np.split(groups, np.cumsum([len(part) for part in numbers])[:-1]), strict=True))


def group_files(paths: Sequence[Path | None]) -> np.ndarray:
    """Return a number of each file, shape (files,), int64, that equal files share; ``None`` is a file of its own."""
    sizes = [None if path is None else path.stat().st_size for path in paths]
    counts = Counter(sizes)
    groups: dict[object, int] = {}
    numbers = []
    for place, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        # Files of different sizes differ, so that few are read.
        is_read = path is not None and counts[size] > 1
        key = hashlib.sha256(path.read_bytes()).digest() if path is not None and is_read else place
        numbers.append(groups.setdefault(key, len(groups)))
    return np.array(numbers, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Members:
    """The images and captions of a split, as far as repeats are concerned.

    ``image_groups`` has shape (I,), ``caption_groups`` and ``image_of_caption`` shape (C,), all int64.
    """

    image_groups: np.ndarray
    caption_groups: np.ndarray
    image_of_caption: np.ndarray

    @property
    def equal_images(self) -> int:
        """Number of images that another image of the split equals."""
        _, place, counts = np.unique(self.image_groups, return_inverse=True, return_counts=True)
        return int((counts[place] > 1).sum())

    @property
    def is_shared(self) -> np.ndarray:
        """Whether another image of the split has an equal caption, for each caption, shape (C,), bool."""
        pairs = np.unique(np.stack([self.caption_groups, self.image_of_caption]), axis=1)[0]
        groups, owners = np.unique(pairs, return_counts=True)
        return np.isin(self.caption_groups, groups[owners > 1])

    def ceilings(self) -> dict[str, float]:
        """Return the most that ``i2t_r1`` and ``t2i_r1`` can be, in percent."""
        is_shared = self.is_shared
        own = np.zeros(len(self.image_groups), dtype=bool)
        own[self.image_of_caption[~is_shared]] = True
        i2t = len(np.unique(self.image_groups[own]))
        alone = Counter(self.image_groups.tolist())
        most: dict[int, int] = {}
        counted = Counter(zip(self.caption_groups.tolist(), self.image_of_caption.tolist(), strict=True))
        for (group, image), count in counted.items():
            if alone[int(self.image_groups[image])] == 1:
                most[group] = max(most.get(group, 0), count)
        return {
            "i2t_r1": 100 * i2t / max(len(self.image_groups), 1),
            "t2i_r1": 100 * sum(most.values()) / max(len(self.caption_groups), 1),
        }


def repeat_warnings(splits: Mapping[str, Members], what: str = "features") -> Iterator[str]:
    """Yield a sentence about each pair of splits with equal images, and each split whose R@1 has a ceiling.

    ``what`` names the bytes by which images are equal.
    """
    for first, second in combinations(SPLITS, 2):
        images = splits[second].image_groups
        count = int(np.isin(images, splits[first].image_groups).sum())
        if count:
            yield (
                f"{count:,} of {len(images):,} {second} images have the {what} of {first} images, bit for bit: "
                f"{second} does not measure how new images are retrieved"
            )
    for name, members in splits.items():
        ceilings = members.ceilings()
        if name != "train" and min(ceilings.values()) < MATTERS:
            yield f"{name}: {', '.join(_reasons(members, what))}; {_ceiling_words(ceilings)}"


def repeat_notes(splits: Mapping[str, Members], what: str = "features") -> Iterator[str]:
    """Yield a sentence about repeats that are common in good datasets too."""
    for name, members in splits.items():
        ceilings = members.ceilings()
        if reasons := list(_reasons(members, what)):
            if name == "train":
                yield f"train: {', '.join(reasons)}"
            elif min(ceilings.values()) >= MATTERS:
                yield f"{name}: {', '.join(reasons)}; {_ceiling_words(ceilings)}"
    train = splits["train"].caption_groups
    for name in ("val", "test"):
        count = int(np.isin(splits[name].caption_groups, train).sum())
        if count:
            yield f"{name}: {count:,} of {len(splits[name].caption_groups):,} captions are captions of train images too"


def _reasons(members: Members, what: str) -> Iterator[str]:
    if count := members.equal_images:
        yield f"{count:,} of {len(members.image_groups):,} images have equal {what}"
    if count := int(members.is_shared.sum()):
        yield f"{count:,} of {len(members.caption_groups):,} captions are those of several images"


def _ceiling_words(ceilings: Mapping[str, float]) -> str:
    return f"R@1 is at most {ceilings['i2t_r1']:.1f} from image to text and {ceilings['t2i_r1']:.1f} from text to image"
