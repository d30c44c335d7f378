"""Features of images or captions, computed in shards that survive a kill.

Items, which are image files or captions, are cut into shards of fixed size. Each shard is computed from its items
alone, in batches of fixed size, and written whole. Complete shards are joined into ``features_KIND.npy`` with one row
an item. Where asked for, ``augmented_KIND.npy`` has the features of N random crops of each image, (rows, N, ...). So
the files are the same byte for byte however often the extraction was interrupted. Threads prepare the next items while
a batch is encoded.

The functions that prepare and encode are arguments, so this module does not need torch.
"""

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from trainables.data.clip_files import Frame, decode_frame
from trainables.data.npy_files import map_array
from trainables.data.pictures import center_crop, random_crop
from trainables.data.text_files import read_json
from trainables.errors import ConfigError, DataError
from trainables.files import write_whole, writing_whole

PLAN, BOXES = "plan.json", "boxes.npy"


@dataclass(frozen=True)
class Encoder:
    """How items become features.

    Attributes:
        prepare: Maps an item and its row to what the network reads of each of its views, (V, ...), in any thread;
            raises ``DataError`` for an item that cannot be read.
        encode: Maps prepared views (B, ...) to float16 features (B, ...) by kind.
    """

    prepare: Callable[[Any, int], np.ndarray]
    encode: Callable[[np.ndarray], dict[str, np.ndarray]]


def crops_of(size: int, augmentations: int, seed: int) -> Callable[[Frame, int], np.ndarray]:
    """Return the function from a picture or frame and its row to its crops: the centre, then random ones.

    Crops have shape (1 + augmentations, size, size, 3), uint8.
    """

    def crops(frame: Frame, row: int) -> np.ndarray:
        image = decode_frame(frame)
        # Each image has its own generator, so that its crops do not depend on images decoded before it.
        random = np.random.default_rng((seed, row))
        return np.stack([center_crop(image, size), *(random_crop(image, size, random) for _ in range(augmentations))])

    return crops


@dataclass(frozen=True)
class ExtractionPlan:
    """Which features of a dataset's images, or of its captions, are computed in which shards.

    Attributes:
        items: Each picture or frame of a clip, or each caption, in row order.
        places: Place of each item in its source, for messages.
        kinds: ``global``, ``regions``, ``text``.
        augmentations: Random crops of each image beside its centre, >= 0.
        origin: Description that is written beside the features; a folder with shards of another origin is refused.
        shard_size: Items a shard, >= 1: at most one shard a process is computed again after a kill.
        batch_size: Views encoded at a time, >= 1.
    """

    folder: Path
    items: Sequence[Frame] | Sequence[str]
    places: Sequence[str]
    kinds: tuple[str, ...]
    augmentations: int
    origin: dict[str, object]
    shard_size: int = 128
    batch_size: int = 32

    @property
    def shard_count(self) -> int:
        """Number of shards; the last may be smaller than the others."""
        return -(-len(self.items) // self.shard_size)

    def rows(self, shard: int) -> range:
        """Return the rows of a shard."""
        return range(len(self.items))[shard * self.shard_size : (shard + 1) * self.shard_size]

    def file(self, kind: str, shard: int) -> Path:
        """Return the file of a shard, of shape (its rows, 1 + augmentations, ...), the centre crop first."""
        return self.folder / f"{kind}_{shard:05d}.npy"

    def is_done(self, shard: int) -> bool:
        """Whether all files of a shard are there; they are written whole."""
        return all(self.file(kind, shard).exists() for kind in self.kinds)


ShardResult = tuple[int, list[str]]
"""Number of items of a shard, and a line for each item that cannot be read; a shard with such is not written."""


def open_shards(plan: ExtractionPlan) -> list[int]:
    """Make the folder of the shards, or resume in it, and return the shards that are still to do.

    Raises:
        ConfigError: If the folder holds shards of another origin.
    """
    plan.folder.mkdir(parents=True, exist_ok=True)
    path = plan.folder / PLAN
    sizes = {"kinds": plan.kinds, "shard_size": plan.shard_size, "batch_size": plan.batch_size}
    wanted = json.loads(json.dumps({**plan.origin, **sizes}))
    if path.exists():
        stored_plan = read_json(path)
        differing = sorted(key for key in wanted.keys() | stored_plan.keys() if wanted.get(key) != stored_plan.get(key))
        if differing:
            raise ConfigError(
                f"{plan.folder}: holds an unfinished extraction with another {', '.join(differing)}; finish it with "
                "the same options, remove the folder, or choose another --out"
            )
    else:
        write_whole(path, json.dumps(wanted, indent=2))
    return [shard for shard in range(plan.shard_count) if not plan.is_done(shard)]


def extract_shards(
    plan: ExtractionPlan, shards: Sequence[int], encoder: Encoder, threads: int
) -> Iterator[ShardResult]:
    """Compute and write some shards, one after the other.

    Other processes may work on other shards. ``threads`` >= 1 prepare items.
    """
    rows = [row for shard in shards for row in plan.rows(shard)]
    with ThreadPoolExecutor(threads) as pool:
        views = _ahead(plan, rows, encoder, pool)
        for shard in shards:
            yield _extract_shard(plan, shard, islice(views, len(plan.rows(shard))), encoder)


def joined_mark(name: str) -> str:
    """Return the name of the empty file among the shards that says which feature file they were joined into."""
    return f"{name}.joined"


def join_shards(plan: ExtractionPlan, out: Path) -> list[Path]:
    """Join all shards into feature files with their origin beside them, and return the paths of the features."""
    written = []
    for kind in plan.kinds:
        names = {"features": np.s_[:, 0]} | ({"augmented": np.s_[:, 1:]} if plan.augmentations else {})
        for name, views in names.items():
            path = out / f"{name}_{kind}.npy"
            # A file that a kill leaves unfinished lies among the shards, and is removed with them.
            joined = plan.folder / path.name
            shape = _write_rows(joined, len(plan.items), (block[views] for block in _blocks(plan, kind)))
            # Says after a kill that this extraction wrote the file, which nobody else may have replaced.
            (plan.folder / joined_mark(path.name)).touch()
            joined.replace(path)
            origin = {**plan.origin, "kind": kind, "shape": shape, "dtype": "float16"}
            write_whole(path.with_suffix(".json"), json.dumps(origin, indent=2) + "\n")
            written.append(path)
            if path.name == "features_regions.npy":
                written += _write_boxes(plan, out / BOXES, *shape[:2])
    return written


def _write_boxes(plan: ExtractionPlan, path: Path, images: int, regions: int) -> list[Path]:
    """Write the boxes of the regions and return their path, or nothing where regions are no grid."""
    if math.isqrt(regions) ** 2 != regions:
        # A backbone of tokens may have one that is no cell.
        return []
    joined = plan.folder / path.name
    with writing_whole(joined) as file:
        np.save(file, grid_boxes(images, regions), allow_pickle=False)
    (plan.folder / joined_mark(path.name)).touch()
    joined.replace(path)
    return [path]


def grid_boxes(images: int, regions: int) -> np.ndarray:
    """Return the boxes of a square grid of cells, row by row, (images, regions, 4), float32: x1, y1, x2, y2 in [0, 1].

    They are parts of the crop that the backbone saw, and the same for all images.

    Example:
        >>> grid_boxes(1, 4)[0].tolist()
        [[0.0, 0.0, 0.5, 0.5], [0.5, 0.0, 1.0, 0.5], [0.0, 0.5, 0.5, 1.0], [0.5, 0.5, 1.0, 1.0]]
    """
    side = math.isqrt(regions)
    down, across = np.divmod(np.arange(regions), side)
    corners = np.stack([across, down, across + 1, down + 1], axis=1).astype(np.float32) / np.float32(side)
    return np.tile(corners, (images, 1, 1))


def joined_rows(plan: ExtractionPlan, kind: str) -> np.ndarray:
    """Return the features of all images of a plan, (rows, ...), float16, of its shards."""
    return np.concatenate([block[:, 0] for block in _blocks(plan, kind)])


def _extract_shard(
    plan: ExtractionPlan, shard: int, prepared: Iterator[tuple[int, np.ndarray | str]], encoder: Encoder
) -> ShardResult:
    """Encode the views of a shard's items and write the features, or return the items that cannot be read."""
    problems: list[str] = []
    features: dict[str, list[np.ndarray]] = {kind: [] for kind in plan.kinds}
    views = 1 + plan.augmentations
    while batch := list(islice(prepared, max(1, plan.batch_size // views))):
        problems += [f"{plan.places[row]}: {result}" for row, result in batch if isinstance(result, str)]
        if problems:
            continue
        flat = np.concatenate([result for _, result in batch if not isinstance(result, str)])
        parts = [
            encoder.encode(flat[start : start + plan.batch_size]) for start in range(0, len(flat), plan.batch_size)
        ]
        for kind in plan.kinds:
            encoded = np.concatenate([part[kind] for part in parts])
            features[kind].append(encoded.reshape(len(batch), views, *encoded.shape[1:]))
    if not problems:
        for kind, blocks in features.items():
            path, rows = plan.file(kind, shard), np.concatenate(blocks)
            if not np.isfinite(rows).all():
                raise DataError(f"{path}: the network gave NaN or infinity; are these the right weights?")
            with writing_whole(path) as file:
                np.save(file, np.ascontiguousarray(rows), allow_pickle=False)
    return len(plan.rows(shard)), problems


def _prepared(plan: ExtractionPlan, row: int, encoder: Encoder) -> tuple[int, np.ndarray | str]:
    """Return the views of an item, (1 + augmentations, ...), or why it cannot be read."""
    try:
        return row, encoder.prepare(plan.items[row], row)
    except DataError as error:
        return row, str(error)


def _ahead(
    plan: ExtractionPlan, rows: Iterable[int], encoder: Encoder, pool: ThreadPoolExecutor
) -> Iterator[tuple[int, np.ndarray | str]]:
    """Yield the views of some rows in order; at most two batches are prepared ahead."""
    waiting: deque[Future[tuple[int, np.ndarray | str]]] = deque()
    for row in rows:
        waiting.append(pool.submit(_prepared, plan, row, encoder))
        if len(waiting) >= 2 * plan.batch_size:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _blocks(plan: ExtractionPlan, kind: str) -> Iterator[np.ndarray]:
    """Yield the shards of a kind, each (its rows, 1 + augmentations, ...), all of one dtype and shape of features."""
    first: np.ndarray | None = None
    for shard in range(plan.shard_count):
        path = plan.file(kind, shard)
        try:
            block = map_array(path)
        except DataError as error:
            raise DataError(f"{path}: damaged; remove it and run the command again ({error})") from error
        first = block if first is None else first
        wanted = (len(plan.rows(shard)), 1 + plan.augmentations, *first.shape[2:])
        if block.ndim < 3 or block.shape != wanted or block.dtype != first.dtype:
            raise DataError(
                f"{path}: damaged: holds {block.dtype} of shape {block.shape} where {first.dtype} of shape {wanted} "
                "belongs; remove it and run the command again"
            )
        yield block


def _write_rows(path: Path, rows: int, blocks: Iterator[np.ndarray]) -> tuple[int, ...]:
    first = next(blocks)
    shape = (rows, *first.shape[1:])
    with writing_whole(path) as file:
        header = {"descr": first.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in chain([first], blocks):
            file.write(np.ascontiguousarray(block).data)
    return shape
