"""Flickr8k's own judgements: ``ExpertAnnotations.txt`` and ``CrowdFlowerAnnotations.txt`` of its text download.

A line of the experts is ``IMAGE.jpg<tab>FILE.jpg#2<tab>4<tab>3<tab>4``: an image, a caption, and scores from 1 (the
caption is unrelated to the image) to 4 (the caption describes the image without any errors). A line of the crowd is
``IMAGE.jpg<tab>FILE.jpg#2<tab>0.67<tab>2<tab>1``: the share of yes, how many said yes, and how many said no.

A pair fits where the median of the experts' scores is at least 3 (with minor errors at most); a pair that no expert saw
fits where more people of the crowd said yes than no. Only caption 2 of each test image was judged, so images query
these captions alone, one of each image, and only these captions query images [Hodosh2013].

References:
    [Hodosh2013] Hodosh, Young and Hockenmaier, Framing Image Description as a Ranking Task, JAIR 47, section 4.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from trainables.data.dataset import Split
from trainables.data.text_files import read_lines, whole_number
from trainables.errors import DataError
from trainables.judgements.judgements import Integers, JudgedQueries, Judgements, Pairs

NAME = "flickr8k"
EXPERTS, CROWD = "ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt"
FILES = (EXPERTS, CROWD)
RULE = "an expert's median score of at least 3 of 4, or, where no expert looked, more yes than no of the crowd"

Named = tuple[str, str]
"""An image's file name, and a caption's: ``FILE.jpg#2``."""


def read(files: Sequence[Path], split: Split, digest: str) -> Judgements | None:
    """Return the judgements of a split; ``None`` where no judged pair is of the split.

    Args:
        files: One or both of ``FILES``.
        split: Whose images have file names.
        digest: Digest of files and queries.

    Raises:
        DataError: With every line that is none.
    """
    fits = _read_pairs(files)
    image_of = {name: place for place, name in enumerate(split.filenames) if name}
    first = np.searchsorted(split.image_of_caption, np.arange(len(split.image_rows) + 1))
    found = {
        (image_of[image], caption): fit
        for (image, name), fit in fits.items()
        if image in image_of and (caption := _caption(name, image_of, first)) is not None
    }
    if not found:
        return None
    images, captions = (np.array(places, dtype=np.int64) for places in zip(*found, strict=True))
    fit = np.array(list(found.values()), dtype=np.bool_)
    own = split.image_of_caption[captions] == images
    i2t, t2i = _directions(images, captions, fit, split.image_of_caption)
    return Judgements(
        name=NAME,
        split=split.name,
        digest=digest,
        files=tuple(file.name for file in files),
        i2t=i2t,
        t2i=t2i,
        outside=len(fits) - len(found),
        refused=int((own & ~fit).sum()),
        rule=RULE,
    )


def _caption(name: str, image_of: Mapping[str, int], first: np.ndarray) -> int | None:
    """Return the index of the caption that a file calls ``FILE.jpg#2``; ``None`` where the split has none such."""
    filename, _, number = name.rpartition("#")
    if filename not in image_of:
        return None
    image = image_of[filename]
    caption = int(first[image]) + int(number)
    return caption if caption < first[image + 1] else None


def _read_pairs(files: Sequence[Path]) -> dict[Named, bool]:
    """Return whether each judged pair fits."""
    problems: list[str] = []
    votes = {file.name: _read_votes(file, problems) for file in files}
    if problems:
        raise DataError(problems)
    crowd = {pair: sum(each) > 0 for pair, each in votes.get(CROWD, {}).items()}
    return crowd | {pair: median(scores) >= 3 for pair, scores in votes.get(EXPERTS, {}).items()}


def _read_votes(file: Path, problems: list[str]) -> dict[Named, list[int]]:
    """Return the experts' scores, or yes minus no of the crowd, of each pair; equal pairs are put together."""
    read_line = _expert_scores if file.name == EXPERTS else _crowd_margin
    votes: dict[Named, list[int]] = defaultdict(list)
    for number, line in enumerate(read_lines(file), 1):
        image, _, rest = line.partition("\t")
        caption, _, told = rest.partition("\t")
        filename, _, index = caption.rpartition("#")
        values = read_line(told.split("\t"))
        if not image or not filename or whole_number(index) is None or values is None:
            problems.append(f"{file}: line {number}: must be {_FORMS[file.name]}, got {line!r:.80}")
        else:
            votes[image, caption] += values
    return votes


_FORMS = {
    EXPERTS: "'IMAGE.jpg<tab>FILE.jpg#NUMBER<tab>SCORE<tab>SCORE<tab>SCORE' with scores from 1 to 4",
    CROWD: "'IMAGE.jpg<tab>FILE.jpg#NUMBER<tab>SHARE<tab>YES<tab>NO' with YES and NO counted",
}


def _expert_scores(fields: Sequence[str]) -> list[int] | None:
    return [int(one) for one in fields] if fields and all(one in ("1", "2", "3", "4") for one in fields) else None


def _crowd_margin(fields: Sequence[str]) -> list[int] | None:
    """Return yes minus no; the share before them says nothing else."""
    counts = [whole_number(field) for field in fields[1:]]
    if len(counts) != 2 or counts[0] is None or counts[1] is None:
        return None
    return [counts[0] - counts[1]]


def _directions(
    images: np.ndarray, captions: np.ndarray, fit: np.ndarray, image_of_caption: np.ndarray
) -> tuple[JudgedQueries, JudgedQueries]:
    """Return both directions from judged pairs; the annotated pairs of judged captions are positives as well."""
    asked = np.unique(captions)
    owners = image_of_caption[asked]
    annotated = np.stack([owners, asked])
    positives = _distinct(np.concatenate([np.stack([images, captions])[:, fit], annotated], axis=1))
    judged = _distinct(np.concatenate([np.stack([images, captions]), annotated], axis=1))
    shown = np.unique(np.concatenate([images, owners]))
    sides = (np.unique(owners), asked), (asked, shown)
    (of_images, of_captions) = (
        [_places(pairs if way == 0 else pairs[::-1], *sides[way]) for pairs in (positives, annotated, judged)]
        for way in (0, 1)
    )
    i2t = JudgedQueries(_int32(sides[0][0]), _int32(sides[0][0]), _int32(sides[0][1]), *of_images)
    return i2t, JudgedQueries(_int32(asked), _int32(owners), _int32(shown), *of_captions)


def _distinct(pairs: np.ndarray) -> np.ndarray:
    return np.unique(pairs, axis=1)


def _places(pairs: np.ndarray, queries: np.ndarray, gallery: np.ndarray) -> Pairs:
    """Return pairs of indices in the split as places among sorted queries and gallery, without those of no query."""
    pairs = pairs[:, np.isin(pairs[0], queries) & np.isin(pairs[1], gallery)]
    rows, columns = np.searchsorted(queries, pairs[0]), np.searchsorted(gallery, pairs[1])
    order = np.lexsort((columns, rows))
    return _int32(np.stack([rows, columns])[:, order])


def _int32(values: np.ndarray) -> Integers:
    return values.astype(np.int32)
