"""Features of images, computed in shards that survive a kill.

Images are cut into shards of fixed size. Each shard is computed from its images alone, in batches of fixed size, and
written whole. Complete shards are joined into ``features_KIND.npy`` with one row an image. Where asked for,
``augmented_KIND.npy`` has the features of N random crops of each image, (rows, N, ...). So the files are the same byte
for byte however often the extraction was interrupted. Threads decode the next images while a batch is encoded.

The function that encodes crops is an argument, so this module does not need torch.
"""

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from trainables.data.npy_files import map_array
from trainables.data.pictures import center_crop, decode, random_crop
from trainables.data.text_files import read_json
from trainables.errors import ConfigError, DataError
from trainables.files import write_whole, writing_whole

PLAN, BOXES = "plan.json", "boxes.npy"

Encoder = Callable[[np.ndarray], dict[str, np.ndarray]]
"""Maps crops (B, S, S, 3), uint8, to float16 features (B, ...) by kind."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides the features of a dataset's images.

    Attributes:
        paths: File of each image, in row order.
        places: Place of each image in its source, for messages.
        numbers: Number of the frame of each file, where the images are frames of clips; empty for pictures.
        kinds: ``global``, ``regions``.
        image_size: Side of a crop in pixels.
        augmentations: Random crops of each image beside its centre, >= 0.
        origin: Description that is written beside the features; a folder with shards of another origin is refused.
        shard_size: Images a shard, >= 1: at most one shard a process is computed again after a kill.
        batch_size: Crops encoded at a time, >= 1.
    """

    folder: Path
    paths: Sequence[Path]
    places: Sequence[str]
    kinds: tuple[str, ...]
    image_size: int
    augmentations: int
    seed: int
    origin: dict[str, object]
    shard_size: int = 128
    batch_size: int = 32
    numbers: Sequence[int] = ()

    @property
    def shard_count(self) -> int:
        """Number of shards; the last may be smaller than the others."""
        return -(-len(self.paths) // self.shard_size)

    def rows(self, shard: int) -> range:
        """Return the rows of a shard."""
        return range(len(self.paths))[shard * self.shard_size : (shard + 1) * self.shard_size]

    def file(self, kind: str, shard: int) -> Path:
        """Return the file of a shard, of shape (its rows, 1 + augmentations, ...), the centre crop first."""
        return self.folder / f"{kind}_{shard:05d}.npy"

    def is_done(self, shard: int) -> bool:
        """Whether all files of a shard are there; they are written whole."""
        return all(self.file(kind, shard).exists() for kind in self.kinds)


ShardResult = tuple[int, list[str]]
"""Number of images of a shard, and a line for each image that cannot be read; a shard with such is not written."""


def open_shards(plan: Plan) -> list[int]:
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


def extract_shards(plan: Plan, shards: Sequence[int], encode: Encoder, threads: int) -> Iterator[ShardResult]:
    """Compute and write some shards, one after the other.

    Other processes may work on other shards. ``encode`` is the network; ``threads`` >= 1 decode.
    """
    rows = [row for shard in shards for row in plan.rows(shard)]
    with ThreadPoolExecutor(threads) as pool:
        crops = _ahead(plan, rows, pool)
        for shard in shards:
            yield _extract_shard(plan, shard, islice(crops, len(plan.rows(shard))), encode)


def joined_mark(name: str) -> str:
    """Return the name of the empty file among the shards that says which feature file they were joined into."""
    return f"{name}.joined"


def join_shards(plan: Plan, out: Path) -> list[Path]:
    """Join all shards into feature files with their origin beside them, and return the paths of the features."""
    written = []
    for kind in plan.kinds:
        names = {"features": np.s_[:, 0]} | ({"augmented": np.s_[:, 1:]} if plan.augmentations else {})
        for name, views in names.items():
            path = out / f"{name}_{kind}.npy"
            # A file that a kill leaves unfinished lies among the shards, and is removed with them.
            joined = plan.folder / path.name
            shape = _write_rows(joined, len(plan.paths), (block[views] for block in _blocks(plan, kind)))
            # Says after a kill that this extraction wrote the file, which nobody else may have replaced.
            (plan.folder / joined_mark(path.name)).touch()
            joined.replace(path)
            origin = {**plan.origin, "kind": kind, "shape": shape, "dtype": "float16"}
            write_whole(path.with_suffix(".json"), json.dumps(origin, indent=2) + "\n")
            written.append(path)
            if path.name == "features_regions.npy":
                written += _write_boxes(plan, out / BOXES, *shape[:2])
    return written


def _write_boxes(plan: Plan, path: Path, images: int, regions: int) -> list[Path]:
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


def joined_rows(plan: Plan, kind: str) -> np.ndarray:
    """Return the features of all images of a plan, (rows, ...), float16, of its shards."""
    return np.concatenate([block[:, 0] for block in _blocks(plan, kind)])


def _extract_shard(
    plan: Plan, shard: int, crops: Iterator[tuple[int, np.ndarray | str]], encode: Encoder
) -> ShardResult:
    """Encode the crops of a shard's images and write the features, or return the images that cannot be read."""
    problems: list[str] = []
    features: dict[str, list[np.ndarray]] = {kind: [] for kind in plan.kinds}
    views = 1 + plan.augmentations
    while batch := list(islice(crops, max(1, plan.batch_size // views))):
        problems += [f"{plan.places[row]}: {result}" for row, result in batch if isinstance(result, str)]
        if problems:
            continue
        flat = np.concatenate([result for _, result in batch if not isinstance(result, str)])
        parts = [encode(flat[start : start + plan.batch_size]) for start in range(0, len(flat), plan.batch_size)]
        for kind in plan.kinds:
            encoded = np.concatenate([part[kind] for part in parts])
            features[kind].append(encoded.reshape(len(batch), views, *encoded.shape[1:]))
    if not problems:
        for kind, blocks in features.items():
            path, rows = plan.file(kind, shard), np.concatenate(blocks)
            if not np.isfinite(rows).all():
                raise DataError(f"{path}: the backbone gave NaN or infinity; are these the right weights?")
            with writing_whole(path) as file:
                np.save(file, np.ascontiguousarray(rows), allow_pickle=False)
    return len(plan.rows(shard)), problems


def _crops(plan: Plan, row: int) -> tuple[int, np.ndarray | str]:
    """Return the crops of an image, (1 + augmentations, S, S, 3), uint8, or why it cannot be read."""
    try:
        image = decode(plan.paths[row], plan.numbers[row] if plan.numbers else 0)
    except DataError as error:
        return row, str(error)
    # Each image has its own generator, so that its crops do not depend on images decoded before it.
    random = np.random.default_rng((plan.seed, row))
    augmented = [random_crop(image, plan.image_size, random) for _ in range(plan.augmentations)]
    return row, np.stack([center_crop(image, plan.image_size), *augmented])


def _ahead(plan: Plan, rows: Iterable[int], pool: ThreadPoolExecutor) -> Iterator[tuple[int, np.ndarray | str]]:
    """Yield the crops of some rows in order; at most two batches are decoded ahead."""
    waiting: deque[Future[tuple[int, np.ndarray | str]]] = deque()
    for row in rows:
        waiting.append(pool.submit(_crops, plan, row))
        if len(waiting) >= 2 * plan.batch_size:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _blocks(plan: Plan, kind: str) -> Iterator[np.ndarray]:
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
