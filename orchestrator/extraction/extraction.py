"""Computes the feature files of a dataset from its image files, or from the frames of its clips."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.extraction.feature_files import KEPT, ExtractionInterruptedError, check_targets, write_clips
from orchestrator.journal.lock import hold, make_scratch
from orchestrator.machines.processes import sigterm_as_ctrl_c
from trainables.allotment import usable_cpus
from trainables.data.corpus import SPLITS, Image, check_corpus
from trainables.data.extract import (
    BOXES,
    Encoder,
    Plan,
    ShardResult,
    extract_shards,
    join_shards,
    joined_mark,
    joined_rows,
    open_shards,
)
from trainables.data.features import images_digest
from trainables.data.foreign_features import pick_frames, pool_sets
from trainables.data.inputs import REGION_LENGTHS
from trainables.data.moving_pictures import SUFFIXES, Frame, find_frames
from trainables.data.pictures import check_links, find_images, resized_side
from trainables.data.source import Source, find_source
from trainables.errors import ConfigError, DataError
from trainables.extras import require
from trainables.model_parameters import check_backbone, check_weights

KINDS = {"global": ("global",), "regions": ("regions",), "both": ("global", "regions")}
"""Values of ``--features``."""

SHARDS = ".extract"
"""Folder of the shards, beside the features; it is removed when the shards are joined."""

Progress = Callable[[int, int], None]
"""Called with the number of images that are done and the number of all images."""


@dataclass(frozen=True, kw_only=True)
class ExtractionRequest:
    """The arguments of an extraction.

    Attributes:
        dataset, data_root, out: See ``feature_files.open_corpus``; no image outside the data root is read.
        split: Extract, and write rows for, the images of this split alone; ``None`` for all images.
        backbone: A name of ``trainables.model_parameters.BACKBONES``.
        weights: ``DEFAULT`` (torchvision's), ``none`` (untrained) or a state-dict file.
        augmentations: Random crops of each image beside its centre, >= 0.
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
    backbone: str = "resnet50"
    weights: str = "DEFAULT"
    features: str = "global"
    augmentations: int = 0
    seed: int = 0
    device: str = "auto"
    workers: int = 1
    shard_size: int = 128
    frames: int = 20

    def __post_init__(self) -> None:
        check_backbone(self.backbone)
        if self.features not in KINDS:
            raise ConfigError(f"--features must be one of {', '.join(KINDS)}, got {self.features!r}")
        if self.split is not None and self.split not in SPLITS:
            raise ConfigError(f"--split must be one of {', '.join(SPLITS)}, got {self.split!r}")
        for name, minimum in {"augmentations": 0, "seed": 0, "workers": 1, "shard_size": 1, "frames": 1}.items():
            if getattr(self, name) < minimum:
                raise ConfigError(f"--{name.replace('_', '-')} must be at least {minimum}, got {getattr(self, name)}")
        check_weights(self.weights, "--weights")


def extract_features(request: ExtractionRequest, on_progress: Progress) -> dict[str, Any]:
    """Compute the features of a dataset's images, or resume an extraction that was killed.

    Returns:
        Plain values for JSON: the ``files`` of features, each with a ``.json`` beside it that describes its origin, and
        of boxes or lengths; the number of ``images`` in each file, or of the ``frames`` of clips, and of those, the
        images ``extracted`` by this call.

    Raises:
        AlreadyRunningError: If another process writes to the same folder.
        ConfigError: If the request is refused, or the folder already holds other features.
        DataError: If captions, images or weights are refused; finished shards are kept for the next call.
        ExtractionInterruptedError: If Ctrl-C or SIGTERM ended it; finished shards are kept for the next call.
    """
    require("pictures", "`orchestrator data extract`")
    if request.workers > 1:
        require("search", "--workers", "ray")
    found = _find_inputs(request)
    out = request.out or found.source.folder
    names = ["features", *(["augmented"] if request.augmentations else [])]
    kinds = ("global", "regions") if found.counts else KINDS[request.features]
    targets = [out / f"{name}_{kind}.npy" for kind in kinds for name in names]
    if "regions" in kinds:
        targets.append(out / (REGION_LENGTHS if found.counts else BOXES))
    # An extraction that was killed while it joined its shards has written some of the files itself.
    check_targets(out, (path for path in targets if not (out / SHARDS / joined_mark(path.name)).exists()))
    plan, encode = _prepare(request, out, found)
    plan.folder.mkdir(exist_ok=True)
    with make_scratch() as scratch, hold(plan.folder, scratch):
        try:
            with sigterm_as_ctrl_c():
                extracted = _extract(request, plan, encode, scratch, on_progress)
        except KeyboardInterrupt:
            raise ExtractionInterruptedError(f"{out}: {KEPT}: resume with the same command") from None

        files = _join_clips(plan, found, out) if found.counts else list(map(str, join_shards(plan, out)))
        shutil.rmtree(plan.folder)
    return {"files": files, "frames" if found.counts else "images": len(plan.paths), "extracted": extracted}


def _join_clips(plan: Plan, found: "_Inputs", out: Path) -> list[str]:
    """Write the features of clips, of the features of their frames; a kill before the end is no loss but of this."""
    frames = np.split(joined_rows(plan, "global"), np.cumsum(found.counts)[:-1])
    targets = [out / "features_global.npy", out / "features_regions.npy"]
    for path in (*targets, out / REGION_LENGTHS):
        (plan.folder / joined_mark(path.name)).touch()
    return write_clips(pool_sets(frames, max(found.counts)), targets, plan.origin)


def _extract(request: ExtractionRequest, plan: Plan, encode: Encoder, scratch: Path, on_progress: Progress) -> int:
    """Compute the missing shards, in this process or on Ray workers, and return the number of their images."""
    todo = open_shards(plan)
    total, extracted = len(plan.paths), sum(len(plan.rows(shard)) for shard in todo)
    done = total - extracted
    problems: list[str] = []
    on_progress(done, total)

    def take(result: ShardResult) -> None:
        nonlocal done
        images, unreadable = result
        done += images
        problems.extend(unreadable)
        on_progress(done, total)

    # All cores, where the system does not say how many of them this process may use.
    cores = usable_cpus()
    threads = max(1, cores // request.workers)
    if request.workers == 1 or not todo:
        for result in extract_shards(plan, todo, encode, threads):
            take(result)
    else:
        from orchestrator.extraction.workers import deal_out, on_own_ray

        # A GPU that the user names is for all workers; Ray would number the GPUs that it gives from 0.
        gpus = request.device in ("auto", "cuda")
        load = partial(load_encoder, plan.kinds, request)
        work = partial(deal_out, plan, todo, load, take, workers=request.workers, threads=threads, gpus=gpus)
        on_own_ray(work, scratch, plan.folder.parent)
    if problems:
        raise DataError(problems)
    return extracted


@dataclass(frozen=True)
class _Inputs:
    """What features are extracted from: pictures, or the frames of clips.

    Attributes:
        images: The images, or clips.
        paths, places: File of each picture or frame, and its place in the source.
        numbers: Number of each frame in its file; empty for pictures.
        counts: Number of frames of each clip; empty for pictures.
    """

    source: Source
    images: list[Image]
    paths: tuple[Path, ...]
    places: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()


def _find_inputs(request: ExtractionRequest) -> _Inputs:
    """Return the dataset, what to extract from and its files; raise all problems as one error."""
    source = find_source(request.dataset, request.data_root)
    corpus = source.read()
    if problems := check_corpus(corpus) + check_links(corpus, source.folder, source.roots):
        raise DataError(problems)
    images = corpus.split(request.split) if request.split else list(corpus.images)
    if not any(image.filename for image in images):
        return _find_clips(request, source, corpus.file, images)
    files = find_images(source.folder, (image.filename for image in images))
    missing = [image for image in images if image.filename not in files]
    if missing:
        where = f"is missing from {source.folder} and the folders in it"
        raise DataError([f"{image.place}: image {image.filename!r} {where}" for image in missing])
    paths = tuple(Path(files[image.filename].path) for image in images)
    return _Inputs(source, images, paths, tuple(image.place for image in images))


def _find_clips(request: ExtractionRequest, source: Source, file: str, images: list[Image]) -> _Inputs:
    """Return the frames of clips, of each at most as many as asked for."""
    found, problems = find_frames(source.folder, (image.id for image in images), source.roots)
    if not found and not problems:
        raise DataError(
            f"{file}: this dataset names no image files, and has no clips/ID{'|'.join(SUFFIXES)} or folders clips/ID "
            "of pictures, so there is nothing to extract from"
        )
    where = f"is neither a moving picture nor a folder of pictures in {source.folder} and the folders in it"
    missing = [image for image in images if image.id not in found]
    if problems or missing:
        raise DataError(problems or [f"{image.place}: clip {image.id!r} {where}" for image in missing])
    if request.augmentations:
        raise ConfigError("--augmentations is about pictures, and this is a dataset of clips; leave it out")
    kept: list[list[Frame]] = []
    for image in images:
        frames = found[image.id]
        kept.append([frames[number] for number in pick_frames(len(frames), request.frames)])
    flat = [frame for frames in kept for frame in frames]
    places = tuple(image.place for image, frames in zip(images, kept, strict=True) for _ in frames)
    numbers, counts = tuple(frame.number for frame in flat), tuple(map(len, kept))
    return _Inputs(source, images, tuple(frame.path for frame in flat), places, numbers, counts)


def _prepare(request: ExtractionRequest, out: Path, found: _Inputs) -> tuple[Plan, Encoder]:
    import torch
    import torchvision

    from trainables.models.backbones import build_backbone, weights_digest

    backbone = build_backbone(request.backbone, request.weights, seed=request.seed)
    size = backbone.image_size
    transform = {"resize": resized_side(size), "crop": size, "interpolation": "bilinear", "scaling": "unit length"}
    origin = {
        "images_digest": images_digest(found.images),
        "images": len(found.images),
        "split": request.split,
        "backbone": request.backbone,
        "weights": request.weights if request.weights in ("DEFAULT", "none") else Path(request.weights).name,
        "weights_digest": weights_digest(backbone),
        "transform": transform,
        "augmentations": request.augmentations,
        "seed": request.seed,
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
    }
    if found.counts:
        origin["frames"] = request.frames
    plan = Plan(
        folder=out / SHARDS,
        paths=found.paths,
        places=found.places,
        # A frame has one vector.
        kinds=("global",) if found.counts else KINDS[request.features],
        image_size=size,
        augmentations=request.augmentations,
        seed=request.seed,
        origin=origin,
        shard_size=request.shard_size,
        numbers=found.numbers,
    )
    return plan, load_encoder(plan.kinds, request, backbone)


def load_encoder(kinds: tuple[str, ...], request: ExtractionRequest, backbone: Any = None) -> Encoder:
    """Make the function that encodes crops, in whichever process calls it; without a backbone, build it first."""
    from trainables.models.backbones import build_backbone, make_encoder
    from trainables.seeding import choose_device, make_deterministic

    if backbone is None:
        backbone = build_backbone(request.backbone, request.weights, seed=request.seed)
    device = choose_device(request.device)
    make_deterministic(device)
    return make_encoder(backbone, kinds, device)
