"""Computes the feature files of a dataset: of its pictures or clips by a backbone, or of both
sides by a pretrained encoder.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.extraction.feature_files import (
    KEPT,
    ExtractionInterruptedError,
    check_targets,
    write_clips,
    zero_shot_of_val,
)
from orchestrator.extraction.rows import Pictures, Rows, find_pictures, read_rows
from orchestrator.journal.lock import hold, make_scratch
from orchestrator.machines.own_machine import want_of_files
from orchestrator.machines.processes import sigterm_as_ctrl_c
from trainables.allotment import usable_cpus
from trainables.config import TEXT
from trainables.data.corpus import SPLITS
from trainables.data.extract import (
    BOXES,
    Encoder,
    ExtractionPlan,
    ShardResult,
    crops_of,
    extract_shards,
    join_shards,
    joined_mark,
    joined_rows,
    open_shards,
)
from trainables.data.features import captions_digest, images_digest
from trainables.data.foreign_features import pool_sets
from trainables.data.inputs import REGION_LENGTHS
from trainables.data.pictures import resized_side
from trainables.data.source import find_source
from trainables.encoders import keep, kept_name
from trainables.errors import ConfigError, DataError
from trainables.extras import require
from trainables.model_parameters import check_backbone, check_weights

if TYPE_CHECKING:
    from trainables.encoders.pretrained import PretrainedEncoder

KINDS = {"global": ("global",), "regions": ("regions",), "both": ("global", "regions")}
"""Values of ``--features`` with a backbone."""

SIDES = ("global", TEXT)
"""Values of ``--features`` with an encoder; by default all that the encoder has."""

SHARDS = ".extract"
"""Folder of the shards, beside the features; it is removed when the shards are joined."""

CAPTIONS_A_SHARD = 8
"""Shards of captions are so many times larger than those of images, because a caption takes less time."""

Progress = Callable[[int, int], None]
"""Called with the number of images and captions that are done, and of all."""

Encoders = Mapping[str, Encoder]
"""First kind of a plan -> how its items are encoded."""


@dataclass(frozen=True, kw_only=True)
class ExtractionRequest:
    """The arguments of an extraction.

    Attributes:
        dataset, data_root, out: See ``feature_files.open_corpus``; no image outside the data root is read.
        split: Extract, and write rows for, the images of this split alone; ``None`` for all images.
        backbone: A name of ``trainables.model_parameters.BACKBONES``; ``None`` for ``resnet50``, or with an encoder.
        encoder: See ``trainables.encoders.read_encoder``; ``None`` for a backbone.
        weights: ``DEFAULT`` (torchvision's), ``none`` (untrained) or a state-dict file; of an encoder its file, or
            ``None``.
        features: A value of ``KINDS``, by default ``global``; of an encoder a value of ``SIDES``, by default all.
        augmentations: Random crops of each image beside its centre, >= 0; an encoder has none.
        seed: Seed of untrained weights and random crops, >= 0.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        workers: 1 extracts in this process, more are Ray workers, >= 1.
        shard_size: Images a shard, >= 1: a kill loses the work on at most one shard a worker.
        frames: Of a dataset of clips, the most frames of a clip, evenly spaced, >= 1.
    """

    dataset: str
    data_root: Path
    out: Path | None = None
    split: str | None = None
    backbone: str | None = None
    encoder: str | None = None
    weights: str | None = None
    features: str | None = None
    augmentations: int = 0
    seed: int = 0
    device: str = "auto"
    workers: int = 1
    shard_size: int = 128
    frames: int = 20

    def __post_init__(self) -> None:
        if self.encoder is None:
            check_backbone(self.network)
            check_weights(self.weights or "DEFAULT", "--weights")
        elif self.backbone is not None:
            raise ConfigError("--backbone and --encoder are two ways to make features; give one of them")
        elif self.augmentations:
            raise ConfigError("--augmentations goes with --backbone; an encoder reads pictures as it was trained to")
        known = tuple(KINDS) if self.encoder is None else SIDES
        if self.features is not None and self.features not in known:
            raise ConfigError(f"--features must be one of {', '.join(known)}, got {self.features!r}")
        if self.split is not None and self.split not in SPLITS:
            raise ConfigError(f"--split must be one of {', '.join(SPLITS)}, got {self.split!r}")
        for name, minimum in {"augmentations": 0, "seed": 0, "workers": 1, "shard_size": 1, "frames": 1}.items():
            if getattr(self, name) < minimum:
                raise ConfigError(f"--{name.replace('_', '-')} must be at least {minimum}, got {getattr(self, name)}")

    @property
    def network(self) -> str:
        """The name of the backbone."""
        return self.backbone or "resnet50"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of features that a backbone makes."""
        return KINDS[self.features or "global"]


@dataclass(frozen=True)
class _Work:
    """What an extraction computes.

    Attributes:
        plans: Of images, of captions, or both.
        encoders: Of this process.
        about: What the result says beside files and numbers.
        counts: Number of frames of each clip; empty where the images are pictures.
        keep: Writes what made the features beside them.
    """

    plans: Sequence[ExtractionPlan]
    encoders: Encoders
    about: Mapping[str, Any]
    counts: tuple[int, ...] = ()
    keep: Callable[[], None] = lambda: None


def extract_features(request: ExtractionRequest, on_progress: Progress) -> dict[str, Any]:
    """Compute the features of a dataset, or resume an extraction that was killed.

    Returns:
        Plain values for JSON: the ``files`` of features, each with a ``.json`` beside it that describes its origin, and
        of boxes or lengths; the number of ``images`` in each file, or of the ``frames`` of clips, and of those, and of
        captions, the number ``extracted`` by this call. Of an encoder also its name (``encoder``), the ``captions``,
        the ``dimensions`` by kind, ``notes``, and where both sides have equal dimensions the ``zero_shot`` rsum on val
        with its ``chance``.

    Raises:
        AlreadyRunningError: If another process writes to the same folder.
        ConfigError: If the request is refused, or the folder already holds other features.
        DataError: If captions, images or weights are refused; finished shards are kept for the next call.
        ExtractionInterruptedError: If Ctrl-C or SIGTERM ended it; finished shards are kept for the next call.
    """
    require("pictures" if request.encoder is None else "train", "`orchestrator data extract`")
    if request.workers > 1:
        require("search", "--workers", "ray")
    rows = read_rows(request.dataset, request.data_root, request.split)
    if rows.source.has_passages and request.encoder is None:
        raise ConfigError(f"--dataset {request.dataset}: has passages and no pictures; name --text or --encoder")
    out = request.out or rows.source.folder
    work = (_by_backbone if request.encoder is None else _by_encoder)(request, out, rows)
    folder = out / SHARDS
    folder.mkdir(exist_ok=True)
    with make_scratch() as scratch, hold(folder, scratch):
        try:
            with sigterm_as_ctrl_c():
                extracted = _extract(request, work, out, scratch, on_progress)
        except KeyboardInterrupt:
            raise ExtractionInterruptedError(f"{out}: {KEPT}: resume with the same command") from None
        work.keep()
        files = [path for plan in work.plans for path in _join(plan, work.counts, out)]
        shutil.rmtree(folder)
    number = {"frames": sum(work.counts)} if work.counts else {"images": len(rows.images)}
    made = {"files": files, **number, "extracted": extracted, **work.about}
    return made if request.encoder is None else {**made, **_sides_of(request, out, work, rows)}


def _join(plan: ExtractionPlan, counts: Sequence[int], out: Path) -> list[str]:
    """Write the features of all shards of a plan and return all files but those of their origin."""
    if not counts or TEXT in plan.kinds:
        return list(map(str, join_shards(plan, out)))
    # Of clips, made of the features of their frames; a kill before the end is no loss but of this.
    frames = np.split(joined_rows(plan, "global"), np.cumsum(counts)[:-1])
    targets = [out / "features_global.npy", out / "features_regions.npy"]
    for path in (*targets, out / REGION_LENGTHS):
        (plan.folder / joined_mark(path.name)).touch()
    return write_clips(pool_sets(frames, max(counts)), targets, plan.origin)


def _sides_of(request: ExtractionRequest, out: Path, work: _Work, rows: Rows) -> dict[str, Any]:
    """Return the dimensions of an encoder's features, and what they retrieve as they are."""
    arrays = {kind: np.load(out / f"features_{kind}.npy", mmap_mode="r") for plan in work.plans for kind in plan.kinds}
    about: dict[str, Any] = {"dimensions": {kind: array.shape[1] for kind, array in arrays.items()}}
    if len(arrays) == len(SIDES) and request.split is None:
        about |= zero_shot_of_val(rows.images, *(arrays[kind] for kind in SIDES))
    return about


def _extract(request: ExtractionRequest, work: _Work, out: Path, scratch: Path, on_progress: Progress) -> int:
    """Compute the missing shards, in this process or on Ray workers, and return the number of their items."""
    todo = [(plan, open_shards(plan)) for plan in work.plans]
    total = sum(len(plan.items) for plan in work.plans)
    extracted = sum(len(plan.rows(shard)) for plan, shards in todo for shard in shards)
    done = total - extracted
    problems: list[str] = []
    on_progress(done, total)

    def take(result: ShardResult) -> None:
        nonlocal done
        items, unreadable = result
        done += items
        problems.extend(unreadable)
        on_progress(done, total)

    # All cores, where the system does not say how many of them this process may use.
    cores = usable_cpus()
    threads = max(1, cores // request.workers)
    if request.workers == 1 or not extracted:
        for plan, shards in todo:
            for result in extract_shards(plan, shards, work.encoders[plan.kinds[0]], threads):
                take(result)
    else:
        if problem := want_of_files(request.workers, "--workers"):
            raise ConfigError("; ".join(problem))
        from orchestrator.extraction.workers import deal_out, on_own_ray

        # A GPU that the user names is for all workers; Ray would number the GPUs that it gives from 0.
        gpus = request.device in ("auto", "cuda")
        load = partial(load_encoders, work.plans[0].kinds, request)
        deal = partial(deal_out, todo, load, take, workers=request.workers, threads=threads, gpus=gpus)
        on_own_ray(deal, scratch, out)
    if problems:
        raise DataError(problems)
    return extracted


def _check_free(out: Path, shards: Path, names: Sequence[str]) -> None:
    """Refuse files of features that are there already, but for those that a killed call has joined itself."""
    check_targets(out, (out / name for name in names if not (shards / joined_mark(name)).exists()))


def _image_files(pictures: Pictures, kinds: Sequence[str], names: Sequence[str] = ("features",)) -> list[str]:
    """Return the names of the files that are written of images or clips."""
    files = [f"{name}_{kind}.npy" for kind in kinds for name in names]
    if pictures.counts:
        return [*files, "features_regions.npy", REGION_LENGTHS]
    return [*files, *([BOXES] if "regions" in kinds else [])]


def _by_backbone(request: ExtractionRequest, out: Path, rows: Rows) -> _Work:
    pictures = find_pictures(rows, request.frames, augmented=bool(request.augmentations))
    # A frame has one vector.
    kinds = ("global",) if pictures.counts else request.kinds
    names = ["features", *(["augmented"] if request.augmentations else [])]
    _check_free(out, out / SHARDS, _image_files(pictures, kinds, names))
    import torch
    import torchvision

    from trainables.encoders.pretrained import weights_digest
    from trainables.models.backbones import build_backbone

    weights = request.weights or "DEFAULT"
    backbone = build_backbone(request.network, weights, seed=request.seed)
    size = backbone.image_size
    transform = {"resize": resized_side(size), "crop": size, "interpolation": "bilinear", "scaling": "unit length"}
    origin = {
        "images_digest": images_digest(rows.images),
        "images": len(rows.images),
        "split": request.split,
        "backbone": request.network,
        "weights": weights if weights in ("DEFAULT", "none") else Path(weights).name,
        "weights_digest": weights_digest(backbone),
        "transform": transform,
        "augmentations": request.augmentations,
        "seed": request.seed,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }
    if pictures.counts:
        origin["frames"] = request.frames
    plan = ExtractionPlan(
        out / SHARDS, pictures.files, pictures.places, kinds, request.augmentations, origin, request.shard_size
    )
    return _Work([plan], load_encoders(kinds, request, backbone), {}, pictures.counts)


def _by_encoder(request: ExtractionRequest, out: Path, rows: Rows) -> _Work:
    from trainables.encoders import read_encoder
    from trainables.seeding import choose_device, make_deterministic

    device = choose_device(request.device)
    make_deterministic(device)
    encoder = read_encoder(str(request.encoder), request.weights, str(device))
    has_passages = rows.source.has_passages
    made = SIDES if has_passages and TEXT in encoder.sides else encoder.sides
    if request.features is not None and request.features not in made:
        raise ConfigError(f"--features {request.features}: {encoder.name} makes {' and '.join(made)} alone")
    sides = [side for side in made if request.features in (None, side)]
    origin = encoder.origin()
    origin |= {"kept": kept_name(encoder.digest), "split": request.split}
    plans: list[ExtractionPlan] = []
    about: dict[str, Any] = {"captions": 0, "encoder": encoder.name, "notes": list(encoder.notes)}
    counts: tuple[int, ...] = ()
    if "global" in sides and has_passages:
        _check_free(out, out / SHARDS, ["features_global.npy"])
        of_passages = {"images_digest": images_digest(rows.images), "images": len(rows.images), **origin}
        passages, places = (tuple(values) for values in zip(*((i.id, i.place) for i in rows.images), strict=True))
        plans.append(ExtractionPlan(out / SHARDS, passages, places, ("global",), 0, of_passages, request.shard_size))
    elif "global" in sides:
        pictures = find_pictures(rows, request.frames, augmented=False)
        counts, shards = pictures.counts, out / SHARDS
        _check_free(out, shards, _image_files(pictures, ["global"]))
        of_images = {"images_digest": images_digest(rows.images), "images": len(rows.images), **origin}
        of_images |= {"frames": request.frames} if counts else {}
        plans.append(
            ExtractionPlan(shards, pictures.files, pictures.places, ("global",), 0, of_images, request.shard_size)
        )
    if TEXT in sides:
        captions, shards = list(rows.captions()), out / SHARDS / "captions"
        _check_free(out, shards, [f"features_{TEXT}.npy"])
        if not captions:
            raise DataError(f"{rows.source.folder}: this dataset has no captions, so there is nothing to encode")
        about["captions"] = len(captions)
        of_captions = {"captions_digest": captions_digest(rows.images), "captions": len(captions), **origin}
        texts, places = (tuple(values) for values in zip(*captions, strict=True))
        size = CAPTIONS_A_SHARD * request.shard_size
        plans.append(ExtractionPlan(shards, texts, places, (TEXT,), 0, of_captions, size))
    return _Work(plans, _by_side(encoder, has_passages), about, counts, partial(keep, encoder, out))


def _by_side(encoder: "PretrainedEncoder", has_passages: bool) -> Encoders:
    """Return how each side is encoded; passages as captions are."""
    made = encoder.by_side()
    if not has_passages:
        return made
    text = made[TEXT]
    return {**made, "global": Encoder(text.prepare, lambda texts: {"global": text.encode(texts)[TEXT]})}


def load_encoders(kinds: tuple[str, ...], request: ExtractionRequest, backbone: Any = None) -> Encoders:
    """Make the functions that encode, in whichever process calls it; without a backbone, build or read it first."""
    from trainables.seeding import choose_device, make_deterministic

    device = choose_device(request.device)
    make_deterministic(device)
    if request.encoder is not None:
        from trainables.encoders import read_encoder

        encoder = read_encoder(request.encoder, request.weights, str(device))
        return _by_side(encoder, find_source(request.dataset, request.data_root).has_passages)

    from trainables.models.backbones import build_backbone, make_encoder

    if backbone is None:
        backbone = build_backbone(request.network, request.weights or "DEFAULT", seed=request.seed)
    crops = crops_of(backbone.image_size, request.augmentations, request.seed)
    return {kinds[0]: Encoder(crops, make_encoder(backbone, kinds, device))}
