"""Writes the generated datasets: ``scenes``, with captions, and ``classes``, whose pictures of single things have
classes.

``scenes`` has the captions in COCO's format, a Karpathy split, and features::

    images/scene_000000.jpg ...         224 x 224
    annotations/captions_scenes.json    COCO captions; ``info`` holds the arguments
    dataset_scenes.json                 the splits, in the order of the feature rows
    features_global.npy                 float16 (images, D), unit rows
    features_regions.npy                float16 (images, 16, D): the cells of a grid
    boxes.npy                           float32 (images, 16, 4): the box of each cell
    features_global.json, features_regions.json     the digest of the images that have these features

The class of a picture of ``classes`` is its colour and shape::

    images/class_000000.jpg ...     224 x 224
    labels.csv                      class and split of each picture, in the order of the feature rows
    classes.json                    the arguments of the generator
    features_global.npy, features_global.json     as above

Size, texture, place and ground are drawn anew for each picture, so that pictures of a class share only colour and
shape. Classes are split, not pictures: val and test have classes that no training has seen.
"""

import io
import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture

from trainables.allotment import usable_cpus
from trainables.data.corpus import Image
from trainables.data.extract import BOXES, grid_boxes
from trainables.data.features import images_digest
from trainables.data.formats.labels import COLUMNS, FILE
from trainables.data.scenes.descriptor import DESCRIPTION, GRID, describe_picture, finish_global, finish_regions
from trainables.data.scenes.grammar import write_captions
from trainables.data.scenes.motion import write_motion
from trainables.data.scenes.render import render_jpeg
from trainables.data.scenes.scene import COLOURS, SHAPES, SIDE, Scene, draw_scene, draw_single, random_generator
from trainables.data.text_files import LARGEST_FILE
from trainables.errors import ConfigError, DataError
from trainables.files import read_state, whole_directory, writing_whole

VERSION = 1
"""Version of the generator, increased when equal seeds give other pictures, captions or features."""

SMALLEST, LARGEST = 10, 1_000_000
"""Numbers of images: each split needs one, and the file names have six digits."""

_CHUNK = 20
_ANNOTATIONS = Path("annotations") / "captions_scenes.json"


Described = tuple[list[str], np.ndarray, np.ndarray]
"""Captions of one rendered picture, and the roots of its global and of its regions' histograms."""


def generate_scenes(
    target: Path, images: int = 2000, seed: int = 0, *, on_progress: Callable[[int], None] = lambda done: None
) -> bool:
    """Write the dataset as the folder ``target``, whole or not at all.

    Args:
        target: A folder that does not exist yet, or that holds the dataset of equal arguments.
        images: How many pictures, in [10, 1,000,000]; val and test get a tenth each.
        seed: Whole number >= 0; the first pictures of a seed are the same however many there are.
        on_progress: Called with the number of pictures written so far.

    Returns:
        Whether anything was written; ``False`` if the folder holds the dataset already.

    Raises:
        ConfigError: If an argument is out of its range.
        DataError: If ``target`` holds anything else, or can't be written.
    """
    if not SMALLEST <= images <= LARGEST:
        raise ConfigError(f"images must be from {SMALLEST} to {LARGEST}, got {images}")
    info = {"generator": "scenes", "version": VERSION, "images": images, "seed": seed}
    write = partial(_write_scenes, info=info, on_progress=on_progress)
    is_new = _write_once(target, info, lambda folder: read_state(folder / _ANNOTATIONS, LARGEST_FILE)["info"], write)
    if not (target / BOXES).exists():
        # A dataset of version 0.2 has none.
        _write_boxes(target, images)
    return is_new


def _write_boxes(folder: Path, images: int) -> None:
    with writing_whole(folder / BOXES) as file:
        np.save(file, grid_boxes(images, GRID * GRID), allow_pickle=False)


def _write_once(
    target: Path,
    info: dict[str, Any],
    recorded: Callable[[Path], Any],
    write: Callable[[Path], None],
    pictures: str = "images/*.jpg",
) -> bool:
    """Write a generated dataset, whose arguments are ``info``; return ``False`` if the folder holds it already.

    ``recorded`` returns the arguments of the dataset in a folder, ``write`` fills an empty folder, and ``pictures`` are
    its ``info["images"]`` pictures.
    """
    if info["seed"] < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, got {info['seed']}")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        try:
            known = recorded(target)
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            known = None
        if known != info:
            content = f"{info['generator']} made with {known}" if known else "something else"
            raise DataError(
                f"{target}: is there already and holds {content}; remove it, or give another folder with --out"
            )
        if sum(1 for _ in target.glob(pictures)) != info["images"]:
            place = (target / pictures).parent
            raise DataError(f"{place}: some of the {info['images']} pictures are gone; remove {target}")
        return False
    try:
        with whole_directory(target) as folder:
            write(folder)
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror}; give another folder with --out") from error
    return True


def split_of(index: int, images: int) -> str:
    """Return the split of an image, or of a class: the first eight tenths train, then a tenth val and a tenth test."""
    tenth = images // 10
    if index < images - 2 * tenth:
        return "train"
    return "val" if index < images - tenth else "test"


def render_scene(folder: Path, seed: int, index: int) -> Described:
    """Render scene number ``index`` into a folder, and describe its file."""
    scene = draw_scene(seed, index)
    return write_captions(scene, seed, index), *_render(folder / _file_name(index), scene, seed, index)


def _render(file: Path, scene: Scene, seed: int, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Write the picture of a scene, and return the roots of the histograms of the decoded file."""
    picture = render_jpeg(scene, seed, index)
    file.write_bytes(picture)
    with Picture.open(io.BytesIO(picture)) as decoded:
        return describe_picture(np.asarray(decoded))


def _write_scenes(folder: Path, info: dict[str, Any], on_progress: Callable[[int], None]) -> None:
    images, seed = info["images"], info["seed"]
    (folder / "images").mkdir()
    (folder / "annotations").mkdir()
    described: list[Described] = []
    for scene in _on_all_cores(partial(render_scene, folder / "images", seed), images):
        described.append(scene)
        on_progress(len(described))
    captions, global_roots, region_roots = zip(*described, strict=True)
    _write_json(folder / _ANNOTATIONS, _coco(info, captions))
    _write_json(folder / "dataset_scenes.json", _karpathy(captions))
    train = slice(images - 2 * (images // 10))
    order = images_digest([Image("", str(index), "", "", ()) for index in range(images)])
    features = {
        "global": finish_global(np.stack(global_roots), train),
        "regions": finish_regions(np.stack(region_roots), train),
    }
    for kind, rows in features.items():
        np.save(folder / f"features_{kind}.npy", rows)
        _write_json(folder / f"features_{kind}.json", {"images_digest": order, "descriptor": DESCRIPTION})
    _write_boxes(folder, images)


def _on_all_cores(render: Callable[[int], Described], images: int) -> Iterator[Described]:
    workers = usable_cpus()
    # This process renders a few pictures before another interpreter has started.
    if workers == 1 or images < 5 * _CHUNK:
        yield from map(render, range(images))
        return
    # Processes are spawned, because a fork would copy the lock of the progress display's thread.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(render, range(images), chunksize=_CHUNK)


def _coco(info: dict[str, Any], captions: Sequence[list[str]]) -> dict[str, Any]:
    """Return COCO's captions file; caption k of image i is annotation 5 i + k."""
    return {
        "info": info,
        "licenses": [],
        "images": [
            {"id": index, "file_name": _file_name(index), "width": SIDE, "height": SIDE}
            for index in range(len(captions))
        ],
        "annotations": [
            {"id": index * len(texts) + position, "image_id": index, "caption": text}
            for index, texts in enumerate(captions)
            for position, text in enumerate(texts)
        ],
    }


def _karpathy(captions: Sequence[list[str]]) -> dict[str, Any]:
    images = []
    for index, texts in enumerate(captions):
        ids = [index * len(texts) + position for position in range(len(texts))]
        sentences = [{"raw": text, "imgid": index, "sentid": key} for key, text in zip(ids, texts, strict=True)]
        images.append(
            {
                "filename": _file_name(index),
                "imgid": index,
                "cocoid": index,
                "split": split_of(index, len(captions)),
                "sentids": ids,
                "sentences": sentences,
            }
        )
    return {"dataset": "scenes", "images": images}


def _file_name(index: int) -> str:
    return f"scene_{index:06d}.jpg"


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")


CLASSES_VERSION = 1
"""Version of the generator, increased when equal seeds give other pictures or features."""

PER_CLASS = 10
"""Number of pictures of each class."""

FEWEST_OF_CLASSES, MOST_OF_CLASSES = 10 * PER_CLASS, PER_CLASS * len(COLOURS) * len(SHAPES)
"""Numbers of images: val and test get a tenth of the classes each, at least one; each colour and shape is one class."""

_CLASSES_FILE = "classes.json"


def generate_classes(
    target: Path, images: int, seed: int, *, on_progress: Callable[[int], None] = lambda done: None
) -> bool:
    """Write the dataset of classes: ``images`` pictures, a multiple of ``PER_CLASS`` in [100, 1,200].

    For the other arguments, the result and the errors see ``generate_scenes``.
    """
    if not FEWEST_OF_CLASSES <= images <= MOST_OF_CLASSES or images % PER_CLASS:
        raise ConfigError(
            f"images must be a multiple of {PER_CLASS} from {FEWEST_OF_CLASSES} to {MOST_OF_CLASSES}, got {images}"
        )
    info = {"generator": "classes", "version": CLASSES_VERSION, "images": images, "seed": seed}
    write = partial(_write_classes, info=info, on_progress=on_progress)
    return _write_once(target, info, lambda folder: read_state(folder / _CLASSES_FILE), write)


def _write_classes(folder: Path, info: dict[str, Any], on_progress: Callable[[int], None]) -> None:
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
        roots.append(_render(folder / name, draw_single(seed, index, colour, shape), seed, index)[0])
        lines.append(f"{name},{colour} {shape},{split_of(number, classes)}")
        on_progress(index + 1)
    (folder / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    train = slice(PER_CLASS * sum(split_of(number, classes) == "train" for number in range(classes)))
    np.save(folder / "features_global.npy", finish_global(np.stack(roots), train))
    order = images_digest([Image("", line.split(",")[0], "", "", ()) for line in lines[1:]])
    origin = {"images_digest": order, "descriptor": DESCRIPTION}
    (folder / "features_global.json").write_text(json.dumps(origin) + "\n", encoding="utf-8")
    (folder / _CLASSES_FILE).write_text(json.dumps(info) + "\n", encoding="utf-8")


FEWEST_CLIPS, MOST_CLIPS = 12, 100_000


def generate_motion(
    target: Path,
    clips: int,
    seed: int,
    *,
    motion_features: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> bool:
    """Write the dataset of moving things, see ``motion``: ``clips``, an even number in [12, 100,000].

    ``motion_features`` adds the difference to the next frame to the features of each frame. For the other arguments,
    the result and the errors see ``generate_scenes``.
    """
    if not FEWEST_CLIPS <= clips <= MOST_CLIPS or clips % 2:
        raise ConfigError(f"images must be an even number from {FEWEST_CLIPS} to {MOST_CLIPS:,}, got {clips}")
    info = {
        "generator": "motion",
        "version": VERSION,
        "images": clips,
        "seed": seed,
        "motion_features": motion_features,
    }
    write = partial(write_motion, info=info, on_progress=on_progress)
    return _write_once(target, info, lambda folder: read_state(folder / "motion.json"), write, "clips/*.gif")
