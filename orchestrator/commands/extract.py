"""``orchestrator data extract``: features of a dataset's images, from a backbone of torchvision, or of its captions."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from orchestrator.commands.options import DataRoot, Dataset, Device, FeatureFolder, Json, Plugins, Tokenizer
from orchestrator.experiment.plugins import load_plugins
from orchestrator.extraction.extraction import ExtractionRequest, extract_features
from orchestrator.extraction.text import extract_text
from orchestrator.text.terminal import make_console, say
from trainables.errors import ConfigError


def extract(
    dataset: Dataset,
    backbone: Annotated[str, typer.Option(help="A classifier of torchvision: resnet50, resnet152, vgg19, ...")] = (
        "resnet50"
    ),
    weights: Annotated[
        str, typer.Option(metavar="FILE|DEFAULT|none", help="File of a state dict, torchvision's, or untrained.")
    ] = "DEFAULT",
    features: Annotated[str, typer.Option(help="Kind of features: global, regions or both.")] = "global",
    augmentations: Annotated[int, typer.Option(help="Random crops of each image beside its centre crop.")] = 0,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="tfidf-svd|FOLDER", help="Compute features of captions instead: tf-idf, or a sentence encoder's."
        ),
    ] = None,
    dimensions: Annotated[int, typer.Option(help="Features of each caption, for tfidf-svd.")] = 512,
    tokenizer: Tokenizer = None,
    split: Annotated[str | None, typer.Option(help="Take only the images of train, val or test.")] = None,
    out: FeatureFolder = None,
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    workers: Annotated[int, typer.Option(help="1 extracts in this process, more are Ray workers.")] = 1,
    shard_size: Annotated[int, typer.Option(help="Images a shard; a kill loses the work of one shard a worker.")] = 128,
    seed: Annotated[int, typer.Option(help="Seed of untrained weights and random crops.")] = 0,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Compute features of images, or with --text of captions. The same command resumes an interrupted extraction."""
    load_plugins(plugins or [])
    if text is not None:
        _refuse_of_images({"--split": split, "--augmentations": augmentations, "--workers": workers - 1})

        made = extract_text(
            dataset,
            data_root,
            text,
            dimensions=dimensions,
            seed=seed,
            out=out,
            device=device,
            tokenizer=tokenizer,
        )
        if as_json:
            print(json.dumps(made.to_dict(), indent=2))
        else:
            by = f", tokenizer {made.tokenizer}" if made.tokenizer else ""
            say(f"{made.captions:,} captions, {made.dimensions} features each{by}", *made.files)
        return
    if tokenizer is not None:
        raise ConfigError("--tokenizer goes with --text tfidf-svd")

    request = ExtractionRequest(
        dataset=dataset,
        data_root=data_root,
        out=out,
        split=split,
        backbone=backbone,
        weights=weights,
        features=features,
        augmentations=augmentations,
        seed=seed,
        device=device,
        workers=workers,
        shard_size=shard_size,
    )
    started = time.monotonic()
    with _progress(quiet=as_json) as on_progress:
        result = extract_features(request, on_progress)
    if as_json:
        print(json.dumps(result.to_dict(), indent=2))
        return
    seconds = time.monotonic() - started
    say(f"{result.images} images, {result.extracted} of them extracted now, {seconds:.1f} s", *result.files)


def _refuse_of_images(given: Mapping[str, object]) -> None:
    """Refuse options about images when features of captions are computed."""
    if wrong := [option for option, value in given.items() if value]:
        raise ConfigError(
            f"{wrong[0]} is about images and cannot be combined with --text, which takes all captions at once"
        )


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many images are done: a progress bar on a terminal, a line for each shard elsewhere."""
    if quiet:
        yield lambda done, total: None
    elif sys.stdout.isatty():
        yield from _bar()
    else:
        yield lambda done, total: say(f"{done}/{total} images")


def _bar() -> Iterator[Callable[[int, int], None]]:
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console()) as progress:
        task = progress.add_task("images", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
