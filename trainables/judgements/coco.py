"""CxC and ECCV Caption on MS-COCO's 5,000 test images, in the form of the package ``eccv-caption``.

Two JSON files each, ``cxc_image_to_caption.json`` and ``cxc_caption_to_image.json`` (``eccv_...`` likewise), name for
the id of an image all captions that fit, by their ids in MS-COCO, and for the id of a caption all images. The files
name pairs that fit, own pairs included, and no others. All images and captions of the split are retrieved in.

References:
    [Parekh2021] Parekh et al., Crisscrossed Captions, EACL 2021. arXiv:2004.15020
    [Chun2022] Chun et al., ECCV Caption, ECCV 2022. arXiv:2204.03359
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trainables.data.corpus import Image
from trainables.data.dataset import Split
from trainables.data.text_files import read_json
from trainables.errors import DataError
from trainables.judgements.judgements import JudgedQueries, Judgements

NAMES = ("cxc", "eccv")
"""Sources of judgements: how the names of their files begin."""

ENDINGS = ("_image_to_caption.json", "_caption_to_image.json")
RULE = "as the files name them"


def files_of(name: str) -> tuple[str, ...]:
    """Return the names of the two files of a set of judgements."""
    return tuple(f"{name}{ending}" for ending in ENDINGS)


def read(name: str, files: Sequence[Path], split: Split, images: Sequence[Image], digest: str) -> Judgements | None:
    """Return the judgements of a split; ``None`` where no judged pair is of the split.

    Args:
        name: One of ``NAMES``.
        files: The file of images, and the file of captions.
        split: Its images are the first of ``images``.
        images: Images of the corpus, with the ids of their captions.
        digest: Digest of files and queries.

    Raises:
        DataError: If a file is no such file, or the captions have no ids.
    """
    images = images[: len(split.image_rows)]
    if any(len(image.caption_ids) != len(image.captions) for image in images):
        raise DataError(f"{files[0]}: names captions by their ids, but the captions of the dataset beside it have none")
    of_image = {image.id: place for place, image in enumerate(images)}
    ids = [caption for image in images for caption in image.caption_ids]
    of_caption = {caption: place for place, caption in enumerate(ids)}
    captions_of, images_of = (_read_lists(file) for file in files)
    i2t, lost = _pairs(captions_of, of_image, of_caption)
    t2i, lost_too = _pairs(images_of, of_caption, of_image)
    if not i2t.size or not t2i.size:
        return None
    everything = np.stack([split.image_of_caption, np.arange(len(ids))])
    return Judgements(
        name=name,
        split=split.name,
        digest=digest,
        files=tuple(file.name for file in files),
        i2t=_direction(i2t, everything, np.arange(len(images)), len(ids)),
        t2i=_direction(t2i, everything[::-1], split.image_of_caption, len(images)),
        outside=lost + lost_too,
        refused=0,
        rule=RULE,
    )


def _read_lists(file: Path) -> dict[str, list[str]]:
    """Return the ids that a file names for each id."""
    content = read_json(file)
    for key, value in content.items():
        if not isinstance(value, list) or not all(isinstance(one, int | str) for one in value):
            raise DataError(f"{file}: {key!r}: must be a list of ids, got {value!r:.60}")
    return {key: [str(one) for one in value] for key, value in content.items()}


def _pairs(
    lists: Mapping[str, list[str]], of_key: Mapping[str, int], of_item: Mapping[str, int]
) -> tuple[np.ndarray, int]:
    """Return distinct pairs of indices in the split, shape (2, P), in their order; and how many are not of it."""
    named = [(key, item) for key, items in lists.items() for item in items]
    found = sorted({(of_key[key], of_item[item]) for key, item in named if key in of_key and item in of_item})
    lost = sum(key not in of_key or item not in of_item for key, item in named)
    return np.array(found, dtype=np.int64).reshape(-1, 2).T, lost


def _direction(positives: np.ndarray, everything: np.ndarray, owners: np.ndarray, gallery: int) -> JudgedQueries:
    """Return a direction whose queries are those with a judged pair.

    Args:
        positives: Pairs of indices in the split, shape (2, P), in their order.
        everything: All annotated pairs of the split, query first.
        owners: The image of each possible query of the split.
        gallery: How many items are retrieved in: all of the split.
    """
    queries = np.unique(positives[0])
    annotated = everything[:, np.isin(everything[0], queries)]
    annotated = annotated[:, np.lexsort((annotated[1], annotated[0]))]
    placed = [
        np.stack([np.searchsorted(queries, pairs[0]), pairs[1]]).astype(np.int32) for pairs in (positives, annotated)
    ]
    return JudgedQueries(
        queries.astype(np.int32),
        owners[queries].astype(np.int32),
        np.arange(gallery, dtype=np.int32),
        positives=placed[0],
        annotated=placed[1],
        judged=None,
    )
