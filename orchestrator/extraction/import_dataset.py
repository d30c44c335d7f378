"""Makes a dataset of ours of the files that people have: read, planned and shown first, then written as a whole."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrator.extraction.feature_files import write_features, zero_shot_of_val
from trainables.config import TEXT
from trainables.data.corpus import Image
from trainables.data.features import captions_digest, images_digest
from trainables.data.importing.dataset_plan import DatasetPlan, plan_dataset, read_picture
from trainables.data.importing.features import read_matrices
from trainables.data.importing.material import NamedColumns
from trainables.data.importing.sources import read_sources
from trainables.data.importing.splits import Rule
from trainables.data.text_files import file_digest
from trainables.dataset_description import Description, describe_dataset
from trainables.errors import ConfigError, DataError
from trainables.files import aside, force_to_disk, make_writable, write_whole

PICTURES = "images"
"""Folder of the pictures in a dataset that was imported."""


def read_plan(
    sources: Sequence[Path], features: Sequence[Path], columns: NamedColumns, rule: Rule | None, advice: str
) -> DatasetPlan:
    """Read sources and plan the dataset; nothing is written. See ``plan_dataset`` for the errors."""
    material, beside = read_sources(sources, columns)
    matrices = [matrix for path in dict.fromkeys([*features, *beside]) for matrix in read_matrices(path)]
    return plan_dataset(material, matrices, rule, advice)


def zero_shot_of(plan: DatasetPlan) -> dict[str, Any]:
    """Return the ``zero_shot`` rsum on val of a plan's features as they are, and its ``chance``; or none of both."""
    if len(plan.features) < 2:
        return {"zero_shot": None, "chance": None}
    return zero_shot_of_val(plan.images, plan.features["images"], plan.features["captions"])


def check_target(out: Path) -> None:
    """Refuse a folder that is there, or that cannot be made (``ConfigError``); nothing is made yet."""
    if out.exists() or out.is_symlink():
        raise ConfigError(f"--out {out}: is there already; remove it, or choose another name")
    try:
        make_writable(next(folder for folder in out.absolute().parents if folder.exists()))
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be written: {error.strerror}") from None


def write_dataset(plan: DatasetPlan, out: Path, sources: Sequence[Path], rule: Rule | None) -> Description:
    """Write a planned dataset, whole or not at all, and return its description.

    The folder has ``dataset_NAME.json``, a Karpathy JSON with a record of the import, ``images`` with hard links to the
    pictures, or copies, and the features.

    Raises:
        DataError: If the dataset has problems, or cannot be written; nothing is left then.
    """
    try:
        with aside(out) as beside:
            # Under its own name, by which what is prepared of it is found again.
            partial = beside / out.name
            _fill(partial, plan, sources, rule)
            description = describe_dataset(out.name, beside)
            if description.problems:
                raise DataError([problem.replace(str(partial), str(out)) for problem in description.problems])
            force_to_disk(partial)
            # Not ``take_place``: what another process has written there meanwhile stays.
            partial.rename(out)
            force_to_disk(out.absolute().parent)
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error.strerror}; nothing is left of it") from None
    return description


def _fill(folder: Path, plan: DatasetPlan, sources: Sequence[Path], rule: Rule | None) -> None:
    """Write the files of a planned dataset into a new folder."""
    folder.mkdir()
    images = list(plan.images)
    record = {
        "sources": [_about(path) for path in sources],
        "splits": plan.splits,
        "seed": None if rule is None else rule.seed,
        "captions_digest": captions_digest(images),
        "taken": [asdict(taken) for taken in plan.taken],
    }
    content = {"dataset": folder.name, "imported": record, "images": [_entry(image) for image in images]}
    write_whole(folder / f"dataset_{folder.name}.json", json.dumps(content, ensure_ascii=False) + "\n")
    for image, picture in zip(images, plan.pictures, strict=True):
        if picture is not None:
            _put(picture, folder / PICTURES / image.filename)
    of_images = plan.features.get("images")
    kinds = {"images": "global" if of_images is None or of_images.ndim == 2 else "regions", "captions": TEXT}
    digests = {
        "images": {"images_digest": images_digest(images)},
        "captions": {"captions_digest": captions_digest(images)},
    }
    for side, rows in plan.features.items():
        about = {"kind": kinds[side], "imported": [path.name for path in sources], **digests[side]}
        write_features([folder / f"features_{kinds[side]}.npy"], [rows], [about])


def _entry(image: Image) -> dict[str, Any]:
    number = int(image.id)
    sentences = [{"raw": caption, "imgid": number} for caption in image.captions]
    return {"filename": image.filename, "imgid": number, "split": image.split, "sentences": sentences}


def _about(path: Path) -> dict[str, Any]:
    """Return what identifies a source: the digest of a file, or of the names and sizes in a folder."""
    if path.is_file():
        return {"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)["digest"]}
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listed = "".join(f"{file.relative_to(path).as_posix()} {file.stat().st_size}\n" for file in files)
    return {"name": path.name, "files": len(files), "names_sha256": hashlib.sha256(listed.encode()).hexdigest()}


def _put(picture: Path | Callable[[], bytes], target: Path) -> None:
    """Give a picture its place in the dataset: a hard link, which takes no space, or a copy on another disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(picture, Path):
        with suppress(OSError):
            os.link(picture.resolve(), target)
            return
    # Never into a file that is there: it may be a link to a picture of the user's.
    with target.open("xb") as file:
        file.write(read_picture(picture))
