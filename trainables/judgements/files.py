"""The judgements that a user has put beside a dataset: in the dataset's folder, or in its folder ``judgements``.

Judgements are for research use, and none are shipped. Training does not use them.

CxC and ECCV Caption judge MS-COCO's 5,000 test images, in the form of the package ``eccv-caption``. Each has two JSON
files, ``cxc_image_to_caption.json`` and ``cxc_caption_to_image.json`` (``eccv_...`` likewise). They map the id of an
image in MS-COCO to the ids of all captions that fit, and the id of a caption to the ids of all images. The files name
pairs that fit, own pairs included, and no others. All images and captions of the split are retrieved in. ECCV Caption
names two captions that are none of the 25,000. ``eccv-caption`` counts them among the R captions that fit, and so do we
where the split has every query of a file; of a part of MS-COCO, other pairs are left out.

Flickr8k's own judgements are ``ExpertAnnotations.txt`` and ``CrowdFlowerAnnotations.txt`` of its text download. A line
of the experts is ``IMAGE.jpg<tab>FILE.jpg#2<tab>4<tab>3<tab>4``: an image, a caption, and scores from 1 (the caption is
unrelated to the image) to 4 (the caption describes the image without any errors). A line of the crowd is
``IMAGE.jpg<tab>FILE.jpg#2<tab>0.67<tab>2<tab>1``: the share of yes, how many said yes, and how many said no.

A pair fits where the median of the experts' scores is at least 3 (with minor errors at most). A pair that no expert saw
fits where more people of the crowd said yes than no. Only caption 2 of each test image was judged, so images query
these captions alone, one of each image, and only these captions query images [Hodosh2013].

References:
    [Parekh2021] Parekh et al., Crisscrossed Captions, EACL 2021. arXiv:2004.15020
    [Chun2022] Chun et al., ECCV Caption, ECCV 2022. arXiv:2204.03359
    [Hodosh2013] Hodosh, Young and Hockenmaier, Framing Image Description as a Ranking Task, JAIR 47, section 4.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from trainables.data.corpus import Corpus, Image
from trainables.data.dataset import Split
from trainables.data.pictures import link_problem
from trainables.data.source import Source, find_source
from trainables.data.text_files import file_digest, numbered_lines, read_json
from trainables.errors import DataError
from trainables.judgements import JudgedQueries, Judgements, Pairs

Found = tuple[JudgedQueries, JudgedQueries, int, int, str]
"""Both directions, ``outside``, ``refused`` and ``rule`` of ``Judgements``."""

COCO_NAMES = ("cxc", "eccv")
"""Sources of judgements: how the names of their files begin."""

COCO_ENDINGS = ("_image_to_caption.json", "_caption_to_image.json")
COCO_RULE = "as the files name them"


def _read_coco(files: Sequence[Path], split: Split, images: Sequence[Image]) -> Found | None:
    """Return the judgements of a split; the images of the split are the first of ``images``."""
    images = images[: len(split.image_rows)]
    if any(len(image.caption_ids) != len(image.captions) for image in images):
        raise DataError(f"{files[0]}: names captions by their ids, but the captions of the dataset beside it have none")
    of_image = {image.id: place for place, image in enumerate(images)}
    ids = [caption for image in images for caption in image.caption_ids]
    of_caption = {caption: place for place, caption in enumerate(ids)}
    captions_of, images_of = (_read_lists(file) for file in files)
    i2t, lost = _coco_pairs(captions_of, of_image, of_caption)
    t2i, lost_too = _coco_pairs(images_of, of_caption, of_image)
    absent, absent_too = _absent(captions_of, of_image, of_caption), _absent(images_of, of_caption, of_image)
    if not i2t.size or not t2i.size:
        return None
    everything = np.stack([split.image_of_caption, np.arange(len(ids))])
    asking, asked = np.unique(i2t[0]), np.unique(t2i[0])
    return (
        _direction(asking, asking, np.arange(len(ids)), i2t, everything, None, absent),
        _direction(
            asked, split.image_of_caption[asked], np.arange(len(images)), t2i, everything[::-1], None, absent_too
        ),
        lost + lost_too,
        0,
        COCO_RULE,
    )


def _read_lists(file: Path) -> dict[str, list[str]]:
    content = read_json(file)
    for key, value in content.items():
        if not isinstance(value, list) or not all(isinstance(item, int | str) for item in value):
            raise DataError(f"{file}: {key!r}: must be a list of ids, got {value!r:.60}")
    return {key: [str(item) for item in value] for key, value in content.items()}


def _coco_pairs(
    lists: Mapping[str, list[str]], of_key: Mapping[str, int], of_item: Mapping[str, int]
) -> tuple[np.ndarray, int]:
    """Return distinct pairs of indices in the split, shape (2, P), in their order; and how many are not of it."""
    named = [(key, item) for key, items in lists.items() for item in items]
    pairs = sorted({(of_key[key], of_item[item]) for key, item in named if key in of_key and item in of_item})
    lost = sum(key not in of_key or item not in of_item for key, item in named)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T, lost


def _absent(lists: Mapping[str, list[str]], of_key: Mapping[str, int], of_item: Mapping[str, int]) -> Mapping[int, int]:
    """Return index of a query -> how many of its items the split does not have; empty of a part of the queries."""
    if not lists.keys() <= of_key.keys():
        return {}
    counts = {of_key[key]: len(set(items) - of_item.keys()) for key, items in lists.items()}
    return {query: count for query, count in counts.items() if count}


def _direction(
    queries: np.ndarray,
    owners: np.ndarray,
    gallery: np.ndarray,
    positives: np.ndarray,
    annotated: np.ndarray,
    judged: np.ndarray | None,
    absent: Mapping[int, int] | None = None,
) -> JudgedQueries:
    """Return a direction from ascending queries and gallery, and pairs of indices in the split, query first."""
    return JudgedQueries(
        queries=queries.astype(np.int32),
        owners=owners.astype(np.int32),
        gallery=gallery.astype(np.int32),
        positives=_places(positives, queries, gallery),
        annotated=_places(annotated, queries, gallery),
        judged=None if judged is None else _places(judged, queries, gallery),
        absent=np.array([absent.get(int(query), 0) for query in queries], dtype=np.int32) if absent else None,
    )


FLICKR8K = "flickr8k"
EXPERTS, CROWD = "ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt"
FLICKR8K_RULE = "an expert's median score of at least 3 of 4, or, where no expert looked, more yes than no of the crowd"

Named = tuple[str, str]
"""An image's file name, and a caption's: ``FILE.jpg#2``."""


def _read_flickr8k(files: Sequence[Path], split: Split) -> Found | None:
    problems: list[str] = []
    votes = {file.name: _read_votes(file, problems) for file in files}
    if problems:
        raise DataError(problems)
    fits = {pair: sum(differences) > 0 for pair, differences in votes.get(CROWD, {}).items()}
    fits |= {pair: median(scores) >= 3 for pair, scores in votes.get(EXPERTS, {}).items()}
    image_of = {name: place for place, name in enumerate(split.filenames) if name}
    first = np.searchsorted(split.image_of_caption, np.arange(len(split.image_rows) + 1))
    split_fits = {
        (image_of[image], caption): fit
        for (image, name), fit in fits.items()
        if image in image_of and (caption := _flickr8k_caption(name, image_of, first)) is not None
    }
    if not split_fits:
        return None
    images, captions = (np.array(places, dtype=np.int64) for places in zip(*split_fits, strict=True))
    fit = np.array(list(split_fits.values()), dtype=np.bool_)
    own = split.image_of_caption[captions] == images
    i2t, t2i = _flickr8k_directions(images, captions, fit, split.image_of_caption)
    return i2t, t2i, len(fits) - len(split_fits), int((own & ~fit).sum()), FLICKR8K_RULE


def _flickr8k_caption(name: str, image_of: Mapping[str, int], first: np.ndarray) -> int | None:
    """Return the index of the caption that a file calls ``FILE.jpg#2``; ``None`` where the split has none such."""
    filename, _, number = name.rpartition("#")
    if (image := image_of.get(filename)) is None:
        return None
    caption = int(first[image]) + int(number)
    return caption if caption < first[image + 1] else None


def _read_votes(file: Path, problems: list[str]) -> dict[Named, list[int]]:
    """Return the experts' scores, or yes minus no of the crowd, of each pair; equal pairs are put together."""
    votes: dict[Named, list[int]] = defaultdict(list)
    for place, line in numbered_lines(file):
        match = _LINES[file.name].fullmatch(line)
        if match is None:
            problems.append(f"{place}: must be {_FORMS[file.name]}, got {line!r:.80}")
            continue
        image, caption, columns = match.groups()
        numbers = [int(number) for number in columns.split("\t")]
        votes[image, caption] += numbers if file.name == EXPERTS else [numbers[0] - numbers[1]]
    return votes


# Numbers of at most nine digits, because Python refuses thousands.
_LINES = {
    EXPERTS: re.compile(r"([^\t]+)\t([^\t]+#[0-9]{1,9})\t([1-4](?:\t[1-4])*)"),
    CROWD: re.compile(r"([^\t]+)\t([^\t]+#[0-9]{1,9})\t[^\t]*\t([0-9]{1,9}\t[0-9]{1,9})"),
}
_FORMS = {
    EXPERTS: "'IMAGE.jpg<tab>FILE.jpg#NUMBER<tab>SCORE<tab>SCORE<tab>SCORE' with scores from 1 to 4",
    CROWD: "'IMAGE.jpg<tab>FILE.jpg#NUMBER<tab>SHARE<tab>YES<tab>NO' with YES and NO counted",
}


def _flickr8k_directions(
    images: np.ndarray, captions: np.ndarray, fit: np.ndarray, image_of_caption: np.ndarray
) -> tuple[JudgedQueries, JudgedQueries]:
    """Return both directions from judged pairs; the annotated pairs of judged captions are positives as well."""
    asked = np.unique(captions)
    owners = image_of_caption[asked]
    annotated = np.stack([owners, asked])
    pairs = np.stack([images, captions])
    positives = np.unique(np.concatenate([pairs[:, fit], annotated], axis=1), axis=1)
    judged = np.unique(np.concatenate([pairs, annotated], axis=1), axis=1)
    asking, shown = np.unique(owners), np.unique(np.concatenate([images, owners]))
    return (
        _direction(asking, asking, asked, positives, annotated, judged),
        _direction(asked, owners, shown, positives[::-1], annotated[::-1], judged[::-1]),
    )


def _places(pairs: np.ndarray, queries: np.ndarray, gallery: np.ndarray) -> Pairs:
    """Return pairs of indices in the split as places among sorted queries and gallery, without those of no query."""
    pairs = pairs[:, np.isin(pairs[0], queries) & np.isin(pairs[1], gallery)]
    rows, columns = np.searchsorted(queries, pairs[0]), np.searchsorted(gallery, pairs[1])
    order = np.lexsort((columns, rows))
    return np.stack([rows, columns])[:, order].astype(np.int32)


FOLDER = "judgements"


def find_judgement_files(source: Source) -> dict[str, list[Path]]:
    """Return name -> files of the sets of judgements beside a dataset.

    Raises:
        DataError: If a file is a link out of the data root, or one of two files that belong together is missing.
    """
    wanted = {FLICKR8K: (EXPERTS, CROWD)}
    wanted |= {name: (f"{name}{COCO_ENDINGS[0]}", f"{name}{COCO_ENDINGS[1]}") for name in COCO_NAMES}
    paths = {name: [path for file in files if (path := _find(source, file))] for name, files in wanted.items()}
    for name in COCO_NAMES:
        if len(paths[name]) == 1:
            missing = next(file for file in wanted[name] if file != paths[name][0].name)
            raise DataError(f"{paths[name][0]}: needs {missing} beside it; fetch both files, or move this one away")
    return {name: files for name, files in paths.items() if files}


def load_judgements(
    name: str, data_root: Path, splits: Mapping[str, Split], corpus: Corpus | None = None
) -> dict[str, list[Judgements]]:
    """Return split -> judgements; empty where no judgements lie beside the dataset.

    Only judged splits are returned. ``corpus`` is the dataset, if it has been read already; otherwise it is read where
    captions are known by ids.

    Raises:
        DataError: If a file of judgements is damaged, or does not belong to the dataset.
    """
    source = find_source(name, data_root)
    files = find_judgement_files(source)
    if corpus is None and files.keys() & set(COCO_NAMES):
        corpus = source.read()
    judgements: dict[str, list[Judgements]] = {}
    for split in splits.values():
        for judges, of_set in files.items():
            if read := _read(judges, of_set, split, corpus):
                judgements.setdefault(split.name, []).append(read)
    return judgements


def describe_judgements(
    name: str, data_root: Path, splits: Mapping[str, Split], corpus: Corpus
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """Return split -> counts of each set of judgements, and a sentence about each set that is of other data.

    Raises:
        DataError: If a file of judgements is damaged, or does not belong to the dataset.
    """
    judgements = load_judgements(name, data_root, splits, corpus)
    counts = {split: [of_set.counts() for of_set in of_split] for split, of_split in judgements.items()}
    used = {of_set.name for of_split in judgements.values() for of_set in of_split}
    return counts, [
        f"{', '.join(file.name for file in files)}: no judged pair is of images and captions of this dataset"
        for judges, files in find_judgement_files(find_source(name, data_root)).items()
        if judges not in used
    ]


def _find(source: Source, name: str) -> Path | None:
    path = next((file for file in (source.folder / FOLDER / name, source.folder / name) if file.is_file()), None)
    if path is not None and (problem := link_problem(path, source.roots)):
        raise DataError(problem)
    return path


def _read(name: str, files: list[Path], split: Split, corpus: Corpus | None) -> Judgements | None:
    digest = hashlib.sha256(split.queries_digest().encode())
    for file in files:
        digest.update(f"{file.name} {file_digest(file)['digest']}\n".encode())
    if name == FLICKR8K:
        parts = _read_flickr8k(files, split)
    else:
        assert corpus is not None
        parts = _read_coco(files, split, corpus.split(split.name))
    if parts is None:
        return None
    return Judgements(name, split.name, digest.hexdigest(), tuple(file.name for file in files), *parts)
