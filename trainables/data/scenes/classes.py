"""Writes the ``classes`` dataset: pictures of single things, whose class is their colour and shape.

::

    images/class_000000.jpg ...     224 x 224
    labels.csv                      class and split of each picture, in the order of the feature rows
    classes.json                    the arguments of the generator
    features_global.npy             float16 (images, D), unit rows
    features_global.json            the digest of the images that have these features

Size, texture, place and ground are drawn anew for each picture, so that pictures of a class share only colour and
shape. Classes are split, not pictures: val and test have classes that no training has seen.
"""

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture

from trainables.data.corpus import Image
from trainables.data.features import images_digest
from trainables.data.more_formats.labels import COLUMNS, FILE
from trainables.data.scenes.descriptor import DESCRIPTION, describe_picture, finish_global
from trainables.data.scenes.generate import split_of, write_once
from trainables.data.scenes.render import render_jpeg
from trainables.data.scenes.scene import COLOURS, SHAPES, draw_single, random_generator
from trainables.errors import ConfigError, DataError
from trainables.files import read_state

VERSION = 1
"""Version of the generator, increased when equal seeds give other pictures or features."""

PER_CLASS = 10
"""Number of pictures of each class."""

SMALLEST, LARGEST = 10 * PER_CLASS, PER_CLASS * len(COLOURS) * len(SHAPES)
"""Numbers of images: val and test get a tenth of the classes each, at least one; each colour and shape is one class."""

_ABOUT = "classes.json"


def generate_classes(
    target: Path, images: int, seed: int, *, on_progress: Callable[[int], None] = lambda done: None
) -> bool:
    """Write the dataset as the folder ``target``, whole or not at all.

    Args:
        target: A folder that does not exist yet, or that holds the dataset of equal arguments.
        images: How many pictures, a multiple of ``PER_CLASS`` in [100, 1,200].
        seed: Whole number >= 0.
        on_progress: Called with the number of pictures written so far.

    Returns:
        Whether anything was written; ``False`` if the folder holds the dataset already.

    Raises:
        ConfigError: If an argument is out of its range.
        DataError: If ``target`` holds anything else, or can't be written.
    """
    if not SMALLEST <= images <= LARGEST or images % PER_CLASS:
        raise ConfigError(f"images must be a multiple of {PER_CLASS} from {SMALLEST} to {LARGEST}, got {images}")
    info = {"generator": "classes", "version": VERSION, "images": images, "seed": seed}
    return write_once(target, info, _is_there, partial(_write_dataset, info=info, on_progress=on_progress))


def _is_there(target: Path, info: dict[str, Any]) -> bool:
    """Say whether the folder holds this dataset; ``DataError`` if it holds anything else."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return False
    try:
        recorded = read_state(target / _ABOUT)
    except (OSError, ValueError):
        recorded = None
    if recorded != info:
        raise DataError(f"{target}: is there already and holds something else; remove it, or give another --out")
    return True


def _write_dataset(folder: Path, info: dict[str, Any], on_progress: Callable[[int], None]) -> None:
    count, seed = info["images"], info["seed"]
    (folder / "images").mkdir()
    names = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    random_generator(seed, 0, purpose=3).shuffle(names)
    classes = count // PER_CLASS
    lines, roots = [",".join(COLUMNS)], []
    for index in range(count):
        number = index // PER_CLASS
        colour, shape = names[number]
        name = f"images/class_{index:06d}.jpg"
        picture = render_jpeg(draw_single(seed, index, colour, shape), seed, index)
        (folder / name).write_bytes(picture)
        with Picture.open(io.BytesIO(picture)) as decoded:
            roots.append(describe_picture(np.asarray(decoded))[0])
        lines.append(f"{name},{colour} {shape},{split_of(number, classes)}")
        on_progress(index + 1)
    (folder / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    train = slice(PER_CLASS * sum(split_of(number, classes) == "train" for number in range(classes)))
    np.save(folder / "features_global.npy", finish_global(np.stack(roots), train))
    order = images_digest([Image("", line.split(",")[0], "", "", ()) for line in lines[1:]])
    origin = {"images_digest": order, "descriptor": DESCRIPTION}
    (folder / "features_global.json").write_text(json.dumps(origin) + "\n", encoding="utf-8")
    (folder / _ABOUT).write_text(json.dumps(info) + "\n", encoding="utf-8")
