"""Embeddings of clip-retrieval: folders ``train``, ``val`` and ``test``, each written by its ``inference`` command.

::

    train/img_emb/img_emb_0.npy     train/text_emb/text_emb_0.npy     train/metadata/metadata_0.parquet
    val/...    test/...

A row of the three files is a pair of an image and a caption. Two columns of the metadata are read, ``image_path`` and
``caption``. Rows of one ``image_path`` are captions of one image and follow each other. The image has the embedding of
the first row. The folder names the split, since clip-retrieval has no splits. Embeddings are read where they lie: each
split must be one file, so ``clip-retrieval inference --write_batch_size`` must exceed its number of pairs.

References:
    [Beaumont2022] Beaumont, Clip Retrieval, https://github.com/rom1504/clip-retrieval, README.md and
        clip_inference/writer.py: NumpyWriterSink.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from trainables.config import TEXT
from trainables.data.corpus import SPLIT_ALIASES, SPLITS, Corpus, Image, caption_problem, filename_problem
from trainables.errors import DataError, reason_of

FORMAT = "embeddings of clip-retrieval (train/metadata/metadata_0.parquet, img_emb, text_emb; val; test)"
COLUMNS = ("image_path", "caption")


def find(folder: Path) -> list[Path]:
    """Return the metadata files of the splits, or nothing."""
    parts = sorted(folder.glob("*/metadata/metadata_*.parquet"))
    return parts if any(_split_of(path) for path in parts) else []


def read(files: Sequence[Path]) -> Corpus:
    """Read the pairs of all splits; problems are collected, an unreadable file raises ``DataError``."""
    images: list[Image] = []
    problems: list[str] = []
    for split, file in _by_split(files).items():
        _read_split(split, file, images, problems)
    return Corpus(str(files[0]), images, problems)


def own_features(files: Sequence[Path]) -> Mapping[str, Mapping[str, Path]]:
    """Return the embedding files by kind and split; ``DataError`` names missing files."""
    folders = {split: file.parents[1] for split, file in _by_split(files).items()}
    kinds = {"global": "img_emb", TEXT: "text_emb"}
    own = {
        kind: {split: folder / name / f"{name}_0.npy" for split, folder in folders.items()}
        for kind, name in kinds.items()
    }
    if missing := [path for by_split in own.values() for path in by_split.values() if not path.exists()]:
        raise DataError([f"{path}: no such file: the embeddings of the pairs in the metadata" for path in missing])
    return own


def _by_split(files: Sequence[Path]) -> dict[str, Path]:
    """Return the metadata file of each split that has one, in the order of the splits."""
    further = [file for file in files if file.stem != "metadata_0"]
    if further:
        raise DataError(
            f"{further[0]}: the embeddings of a split must be one file; write them again with "
            "clip-retrieval inference --write_batch_size above the number of pairs"
        )
    by_split: dict[str, Path] = {}
    for file in files:
        folder, split = file.parents[1], _split_of(file)
        if split is None:
            raise DataError(f"{folder}: the folder's name is no split; name it train, val or test, or move it away")
        if split in by_split:
            raise DataError(f"{folder}: is of {split} like {by_split[split].parents[1].name}; move one of the two away")
        by_split[split] = file
    return {split: by_split[split] for split in SPLITS if split in by_split}


def _split_of(file: Path) -> str | None:
    return SPLIT_ALIASES.get(file.parents[1].name)


def _read_split(split: str, file: Path, images: list[Image], problems: list[str]) -> None:
    seen, row = set(), 0
    for name, pairs in groupby(_pairs(file), key=lambda pair: pair[0]):
        captions = [caption for _, caption in pairs]
        place = f"{file}: row {row}"
        row += len(captions)
        problems += [f"{place}: {wrong}" for caption in captions if (wrong := caption_problem(caption))]
        if not isinstance(name, str) or not name:
            problems.append(f"{place}: image_path must be text, got {name!r:.60}")
            continue
        if name in seen:
            problems.append(f"{place}: image_path {name!r} again: the rows of one image must follow each other")
            continue
        seen.add(name)
        # A path of another machine names an image, but no file under the data root.
        filename = name if filename_problem(name) is None else ""
        images.append(
            Image(place, name, filename, split, tuple(caption for caption in captions if isinstance(caption, str)))
        )


def _pairs(file: Path) -> list[tuple[object, object]]:
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file) as table:
            # Equal rows are packed to nothing: a few bytes may hold millions of them.
            if table.metadata.num_rows > file.stat().st_size:
                raise ValueError(f"{table.metadata.num_rows:,} rows in {file.stat().st_size:,} bytes are no pairs")
            columns = table.read(columns=list(COLUMNS))
        return list(zip(*(columns.column(name).to_pylist() for name in COLUMNS), strict=True))
    except Exception as error:  # noqa: BLE001  # of a damaged file, or of dates beyond Python's, Arrow raises any error
        wanted = f"metadata with the columns {', '.join(COLUMNS)}"
        raise DataError(f"{file}: cannot be read as {wanted}: {reason_of(error)}") from None
