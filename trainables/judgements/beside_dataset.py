"""The judgements that a user has put beside a dataset: in the dataset's folder, or in its folder ``judgements``.

Judgements are for research use, and none are shipped. Training does not use them.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from trainables.data.corpus import Corpus
from trainables.data.dataset import Split, file_digest
from trainables.data.pictures.images import link_problem
from trainables.data.source import Source, find_source
from trainables.errors import DataError
from trainables.judgements import coco, flickr8k
from trainables.judgements.judgements import Judgements

FOLDER = "judgements"


def find_judgement_files(source: Source) -> dict[str, list[Path]]:
    """Return name -> files of the sets of judgements beside a dataset.

    Raises:
        DataError: If a file is a link out of the data root, or one of two files that belong together is missing.
    """
    wanted = {flickr8k.NAME: flickr8k.FILES, **{name: coco.files_of(name) for name in coco.NAMES}}
    found = {name: [path for file in files if (path := _find(source, file))] for name, files in wanted.items()}
    for name in coco.NAMES:
        if len(found[name]) == 1:
            missing = next(file for file in coco.files_of(name) if file != found[name][0].name)
            raise DataError(f"{found[name][0]}: needs {missing} beside it; fetch both files, or move this one away")
    return {name: files for name, files in found.items() if files}


def load_judgements(
    name: str, data_root: Path, splits: Mapping[str, Split], corpus: Corpus | None = None
) -> dict[str, list[Judgements]]:
    """Return split -> judgements; empty where no judgements lie beside the dataset.

    Args:
        name: As for ``load_dataset``.
        data_root: As for ``load_dataset``.
        splits: Splits of the dataset; only judged splits are returned.
        corpus: The dataset, if it has been read already; otherwise it is read where captions are known by ids.

    Raises:
        DataError: If a file of judgements is damaged, or does not belong to the dataset.
    """
    source = find_source(name, data_root)
    files = find_judgement_files(source)
    if corpus is None and files.keys() & set(coco.NAMES):
        corpus = source.read()
    found: dict[str, list[Judgements]] = {}
    for split in splits.values():
        for judges, of_set in files.items():
            read = _read(judges, of_set, split, corpus)
            found.setdefault(split.name, []).extend([read] if read else [])
    return {split: each for split, each in found.items() if each}


def _find(source: Source, name: str) -> Path | None:
    path = next((one for one in (source.folder / FOLDER / name, source.folder / name) if one.is_file()), None)
    if path is not None and (problem := link_problem(path, source.roots)):
        raise DataError(problem)
    return path


def _read(name: str, files: list[Path], split: Split, corpus: Corpus | None) -> Judgements | None:
    digest = hashlib.sha256(split.queries_digest().encode())
    for file in files:
        digest.update(f"{file.name} {file_digest(file)['digest']}\n".encode())
    if name == flickr8k.NAME:
        return flickr8k.read(files, split, digest.hexdigest())
    assert corpus is not None
    return coco.read(name, files, split, corpus.split(split.name), digest.hexdigest())
