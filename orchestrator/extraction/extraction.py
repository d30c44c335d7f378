"""Computes the feature files of a dataset: of its pictures by a backbone, or of both sides by a pretrained encoder."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.extraction.feature_files import KEPT, ExtractionInterruptedError, check_targets, zero_shot_of_val
from orchestrator.journal.lock import hold, make_scratch
from orchestrator.machines.processes import sigterm_as_ctrl_c
from trainables.allotment import usable_cpus
from trainables.config import TEXT
from trainables.data.corpus import SPLITS, Corpus, Image, check_corpus
from trainables.data.extract import (
    Encoder,
    Plan,
    ShardResult,
    crops_of,
    extract_shards,
    join_shards,
    joined_mark,
    open_shards,
)
from trainables.data.features import captions_digest, images_digest
from trainables.data.pictures import check_links, find_images, resized_side
from trainables.data.source import Source, find_source
from trainables.encoders.kept import keep, kept_name
from trainables.errors import ConfigError, DataError
from trainables.extras import require
from trainables.model_parameters import check_backbone, check_weights

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
        for name, minimum in {"augmentations": 0, "seed": 0, "workers": 1, "shard_size": 1}.items():
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
class _Dataset:
    """A dataset, and the images whose rows are written, in their order."""

    source: Source
    corpus: Corpus
    images: Sequence[Image]


@dataclass(frozen=True)
class _Work:
    """What an extraction computes.

    Attributes:
        plans: Of images, of captions, or both.
        encoders: Of this process.
        about: What the result says beside files and numbers.
        keep: Writes what made the features beside them.
    """

    plans: Sequence[Plan]
    encoders: Encoders
    about: Mapping[str, Any]
    keep: Callable[[], None] = lambda: None


def extract_features(request: ExtractionRequest, on_progress: Progress) -> dict[str, Any]:
    """Compute the features of a dataset, or resume an extraction that was killed.

    Returns:
        Plain values for JSON: the feature ``files``, each with a ``.json`` beside it that describes its origin; the
        number of ``images`` in each file, and of images and captions those ``extracted`` by this call. Of an encoder
        also its name (``encoder``), the ``captions``, the ``dimensions`` by kind, ``notes``, and where both sides have
        equal dimensions the ``zero_shot`` rsum on val with its ``chance``.

    Raises:
        AlreadyRunningError: If another process writes to the same folder.
        ConfigError: If the request is refused, or the folder already holds other features.
        DataError: If captions, images or weights are refused; finished shards are kept for the next call.
        ExtractionInterruptedError: If Ctrl-C or SIGTERM ended it; finished shards are kept for the next call.
    """
    require("pictures" if request.encoder is None else "train", "`orchestrator data extract`")
    if request.workers > 1:
        require("search", "--workers", "ray")
    dataset = _read(request)
    out, images = request.out or dataset.source.folder, dataset.images
    prepare = _by_backbone if request.encoder is None else _by_encoder
    work = prepare(request, out, dataset)
    folder = out / SHARDS
    folder.mkdir(exist_ok=True)
    with make_scratch() as scratch, hold(folder, scratch):
        try:
            with sigterm_as_ctrl_c():
                extracted = _extract(request, work, out, scratch, on_progress)
        except KeyboardInterrupt:
            raise ExtractionInterruptedError(f"{out}: {KEPT}: resume with the same command") from None
        work.keep()
        files = [path for plan in work.plans for path in join_shards(plan, out)]
        shutil.rmtree(folder)
    made = {"files": list(map(str, files)), "images": len(images), "extracted": extracted, **work.about}
    if request.encoder is not None:
        arrays = {plan.kinds[0]: np.load(path, mmap_mode="r") for plan, path in zip(work.plans, files, strict=True)}
        made["dimensions"] = {kind: array.shape[1] for kind, array in arrays.items()}
        if len(arrays) == len(SIDES) and request.split is None:
            made |= zero_shot_of_val(images, *(arrays[kind] for kind in SIDES))
    return made


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
        from orchestrator.extraction.workers import deal_out, on_own_ray

        # A GPU that the user names is for all workers; Ray would number the GPUs that it gives from 0.
        gpus = request.device in ("auto", "cuda")
        load = partial(load_encoders, request)
        deal = partial(deal_out, todo, load, take, workers=request.workers, threads=threads, gpus=gpus)
        on_own_ray(deal, scratch, out)
    if problems:
        raise DataError(problems)
    return extracted


def _read(request: ExtractionRequest) -> _Dataset:
    """Return the dataset; raise all problems of its captions as one error."""
    source = find_source(request.dataset, request.data_root)
    corpus = source.read()
    if problems := check_corpus(corpus):
        raise DataError(problems)
    images = corpus.split(request.split) if request.split else list(corpus.images)
    return _Dataset(source, corpus, images)


def _find_pictures(dataset: _Dataset) -> list[Path]:
    """Return the file of each image; raise all problems as one error."""
    source, corpus, images = dataset.source, dataset.corpus, dataset.images
    if problems := check_links(corpus, source.folder, source.roots):
        raise DataError(problems)
    if not any(image.filename for image in images):
        raise DataError(f"{corpus.file}: this dataset names no image files, so there is nothing to extract from")
    files = find_images(source.folder, (image.filename for image in images))
    missing = [image for image in images if image.filename not in files]
    if missing:
        where = f"is missing from {source.folder} and the folders in it"
        raise DataError([f"{image.place}: image {image.filename!r} {where}" for image in missing])
    return [Path(files[image.filename].path) for image in images]


def _check_free(out: Path, shards: Path, names: Sequence[str]) -> None:
    """Refuse files of features that are there already, but for those that a killed call has joined itself."""
    check_targets(out, (out / name for name in names if not (shards / joined_mark(name)).exists()))


def _by_backbone(request: ExtractionRequest, out: Path, dataset: _Dataset) -> _Work:
    images, paths = dataset.images, _find_pictures(dataset)
    made = ("features", "augmented") if request.augmentations else ("features",)
    _check_free(out, out / SHARDS, [f"{name}_{kind}.npy" for kind in request.kinds for name in made])
    import torch
    import torchvision

    from trainables.models.backbones import build_backbone, weights_digest

    weights = request.weights or "DEFAULT"
    backbone = build_backbone(request.network, weights, seed=request.seed)
    size = backbone.image_size
    transform = {"resize": resized_side(size), "crop": size, "interpolation": "bilinear", "scaling": "unit length"}
    origin = {
        "images_digest": images_digest(images),
        "images": len(images),
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
    places = tuple(image.place for image in images)
    crops, size_of_shard = request.augmentations, request.shard_size
    plan = Plan(out / SHARDS, tuple(paths), places, request.kinds, crops, origin, size_of_shard)
    return _Work([plan], load_encoders(request, backbone), {})


def _by_encoder(request: ExtractionRequest, out: Path, dataset: _Dataset) -> _Work:
    from trainables.encoders import read_encoder
    from trainables.seeding import choose_device, make_deterministic

    device = choose_device(request.device)
    make_deterministic(device)
    encoder = read_encoder(str(request.encoder), request.weights, str(device))
    if request.features is not None and request.features not in encoder.sides:
        raise ConfigError(f"--features {request.features}: {encoder.name} makes {' and '.join(encoder.sides)} alone")
    sides = [side for side in SIDES if side in encoder.sides and request.features in (None, side)]
    places = {side: out / SHARDS / ("" if side != TEXT else "captions") for side in sides}
    for side, shards in places.items():
        _check_free(out, shards, [f"features_{side}.npy"])
    images, origin = dataset.images, encoder.origin()
    origin |= {"kept": kept_name(origin["weights_digest"]), "split": request.split}
    plans = []
    if "global" in sides:
        paths = tuple(_find_pictures(dataset))
        of_images = {"images_digest": images_digest(images), "images": len(images), **origin}
        named = tuple(image.place for image in images)
        plans.append(Plan(places["global"], paths, named, ("global",), 0, of_images, request.shard_size))
    captions = [(caption, image.place) for image in images for caption in image.captions]
    if TEXT in sides:
        if not captions:
            raise DataError(f"{dataset.source.folder}: this dataset has no captions, so there is nothing to encode")
        of_captions = {"captions_digest": captions_digest(images), "captions": len(captions), **origin}
        texts, named = (tuple(values) for values in zip(*captions, strict=True))
        size = CAPTIONS_A_SHARD * request.shard_size
        plans.append(Plan(places[TEXT], texts, named, (TEXT,), 0, of_captions, size))
    about = {"captions": len(captions) if TEXT in sides else 0, "encoder": encoder.name, "notes": list(encoder.notes)}
    return _Work(plans, encoder.by_side(), about, partial(keep, encoder, out))


def load_encoders(request: ExtractionRequest, backbone: Any = None) -> Encoders:
    """Make the functions that encode, in whichever process calls it; without a backbone, build or read it first."""
    from trainables.seeding import choose_device, make_deterministic

    device = choose_device(request.device)
    make_deterministic(device)
    if request.encoder is not None:
        from trainables.encoders import read_encoder

        return read_encoder(request.encoder, request.weights, str(device)).by_side()

    from trainables.models.backbones import build_backbone, make_encoder

    if backbone is None:
        backbone = build_backbone(request.network, request.weights or "DEFAULT", seed=request.seed)
    crops = crops_of(backbone.image_size, request.augmentations, request.seed)
    return {request.kinds[0]: Encoder(crops, make_encoder(backbone, request.kinds, device))}
