"""Writes the ``scenes`` dataset: pictures, captions in COCO's format, a Karpathy split, and features.

::

    images/scene_000000.jpg ...         224 x 224
    annotations/captions_scenes.json    COCO captions; ``info`` holds the arguments
    dataset_scenes.json                 the splits, in the order of the feature rows
    features_global.npy                 float16 (images, D), unit rows
    features_regions.npy                float16 (images, 16, D)
    features_global.json, features_regions.json     the digest of the images that have these features
"""

import io
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainables.data.cache import whole_directory
from trainables.data.corpus import Image as CorpusImage
from trainables.data.features import images_digest
from trainables.data.scenes.descriptor import DESCRIPTION, describe_picture, finish_global, finish_regions
from trainables.data.scenes.grammar import write_captions
from trainables.data.scenes.render import render_jpeg
from trainables.data.scenes.scene import SIDE, draw_scene
from trainables.data.text_files import LARGEST_FILE
from trainables.errors import ConfigError, DataError
from trainables.files import read_state

VERSION = 1
"""Version of the generator, increased when equal seeds give other pictures, captions or features."""

SMALLEST, LARGEST = 10, 1_000_000
"""Numbers of images: each split needs one, and the file names have six digits."""

_CHUNK = 20
_ANNOTATIONS = Path("annotations") / "captions_scenes.json"


@dataclass(frozen=True)
class GeneratedScene:
    """Captions of one rendered picture, and the roots of its histograms."""

    captions: list[str]
    global_roots: np.ndarray
    region_roots: np.ndarray


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
    return write_once(target, info, _is_there, partial(_write_dataset, info=info, on_progress=on_progress))


def write_once(
    target: Path,
    info: dict[str, Any],
    is_there: Callable[[Path, dict[str, Any]], bool],
    write: Callable[[Path], None],
) -> bool:
    """Write a generated dataset as a folder, whole or not at all.

    Args:
        target: The folder.
        info: The arguments of the generator, ``seed`` among them.
        is_there: Says whether a folder holds the dataset of ``info``; refuses a folder that holds anything else.
        write: Fills an empty folder.

    Returns:
        Whether anything was written; ``False`` if the folder holds the dataset already.

    Raises:
        ConfigError: If the seed is out of its range.
        DataError: If ``target`` holds anything else, or can't be written.
    """
    if info["seed"] < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, got {info['seed']}")
    if is_there(target, info):
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


def render_scenes(folder: Path, seed: int, first: int, count: int) -> list[GeneratedScene]:
    """Render ``count`` scenes from number ``first`` on into a folder, and describe their files."""
    return [_render_scene(folder, seed, index) for index in range(first, first + count)]


def _render_scene(folder: Path, seed: int, index: int) -> GeneratedScene:
    scene = draw_scene(seed, index)
    picture = render_jpeg(scene, seed, index)
    (folder / _file_name(index)).write_bytes(picture)
    with Image.open(io.BytesIO(picture)) as decoded:
        roots = describe_picture(np.asarray(decoded))
    return GeneratedScene(write_captions(scene, seed, index), *roots)


def _is_there(target: Path, info: dict[str, Any]) -> bool:
    """Say whether the folder holds this dataset; ``DataError`` if it holds anything else."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return False
    try:
        recorded = read_state(target / _ANNOTATIONS, LARGEST_FILE)["info"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        recorded = None
    if recorded != info:
        content = f"scenes made with {recorded}" if recorded else "something else"
        raise DataError(f"{target}: is there already and holds {content}; remove it, or give another folder with --out")
    if sum(1 for _ in (target / "images").glob("*.jpg")) != info["images"]:
        raise DataError(f"{target / 'images'}: some of the {info['images']} pictures are gone; remove {target}")
    return True


def _write_dataset(folder: Path, info: dict[str, Any], on_progress: Callable[[int], None]) -> None:
    images, seed = info["images"], info["seed"]
    (folder / "images").mkdir()
    (folder / "annotations").mkdir()
    scenes: list[GeneratedScene] = []
    for chunk in _render_all(folder / "images", seed, images):
        scenes += chunk
        on_progress(len(scenes))
    captions = [scene.captions for scene in scenes]
    _write_json(folder / _ANNOTATIONS, _coco(info, captions))
    _write_json(folder / "dataset_scenes.json", _karpathy(captions))
    train = slice(images - 2 * (images // 10))
    order = images_digest([CorpusImage("", str(index), "", "", ()) for index in range(images)])
    features = {
        "global": finish_global(np.stack([scene.global_roots for scene in scenes]), train),
        "regions": finish_regions(np.stack([scene.region_roots for scene in scenes]), train),
    }
    for kind, rows in features.items():
        np.save(folder / f"features_{kind}.npy", rows)
        origin = {"images_digest": order, "descriptor": DESCRIPTION}
        _write_json(folder / f"features_{kind}.json", origin)


def _render_all(folder: Path, seed: int, images: int) -> Iterator[list[GeneratedScene]]:
    """Render all scenes in order, on all cores if there are enough scenes."""
    starts = range(0, images, _CHUNK)
    sizes = [min(_CHUNK, images - start) for start in starts]
    workers = min(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, len(starts)
    )
    # This process renders a few pictures before another interpreter has started.
    if workers == 1 or images < 5 * _CHUNK:
        yield from (render_scenes(folder, seed, start, size) for start, size in zip(starts, sizes, strict=True))
        return
    # Processes are spawned, because a fork would copy the lock of the progress display's thread.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        count = len(starts)
        yield from pool.map(render_scenes, [folder] * count, [seed] * count, starts, sizes)


def _coco(info: dict[str, Any], captions: list[list[str]]) -> dict[str, Any]:
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


def _karpathy(captions: list[list[str]]) -> dict[str, Any]:
    """Return the split file, with the sentences as Karpathy's files have them."""
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
