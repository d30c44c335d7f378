"""``orchestrator data``: make, describe and check datasets, and make the features of images and captions."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from orchestrator.commands.data_import import import_
from orchestrator.commands.options import DataRoot, Dataset, Device, FeatureFolder, Json, Plugins, Tokenizer
from orchestrator.experiment.plugins import load_plugins
from orchestrator.extraction.extraction import ExtractionRequest, extract_features
from orchestrator.extraction.feature_files import extract_text, pool_frames, unpack_dumps
from orchestrator.extraction.parses import parse_captions
from orchestrator.text.terminal import make_console, say
from orchestrator.text.values import duration_text
from orchestrator.text.wording import number_text, zero_shot_text
from trainables.config import TEXT, TOKENIZERS
from trainables.data.text_features import NAME as TFIDF
from trainables.data.tokenizers import VocabularyName
from trainables.dataset_description import Description, describe_dataset
from trainables.errors import ConfigError, condense
from trainables.judged_ranks import count_sentences


def unpack(
    dataset: Dataset,
    dumps: Annotated[
        list[Path],
        typer.Argument(
            help="One .npz, .pt or .safetensors file of all splits, or one file each for train, val and test."
        ),
    ],
    out: FeatureFolder = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Import image and caption features that another program saved as image_features and text_features (open_clip)."""
    made = unpack_dumps(dataset, data_root, dumps, out)
    said = "{images:,} images with {image_size} features each, {captions:,} captions with {caption_size}"
    lines = [] if made["zero_shot"] is None else [zero_shot_text(made["zero_shot"], made["chance"])]
    _print(made, as_json, said.format(**made), *lines, *made["files"])


def frames(
    dataset: Dataset,
    folder: Annotated[Path, typer.Argument(help="Folder with a file ID.npy for each clip, of shape (frames, D).")],
    count: Annotated[int, typer.Option(help="Most frames of a clip that are kept, evenly spaced.")] = 20,
    out: FeatureFolder = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Pool the features of video frames: the mean of a clip's frames as global features, its frames as regions."""
    made = pool_frames(dataset, data_root, folder, count=count, out=out)
    fewest, most = made["frames"]
    said = f"{{clips:,}} clips: the mean of their frames, and {fewest} to {most} frames of {{dimensions}} features each"
    _print(made, as_json, said.format(**made), *made["files"], indent=None)


def parse(
    dataset: Dataset,
    pipeline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FOLDER|chunks",
            help="A spaCy pipeline with a parser, or chunks: no parser; by default captions.conllu is read.",
        ),
    ] = None,
    out: FeatureFolder = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Make role graphs of captions, which hgr reads, and with a spaCy pipeline their parses, which gsmn reads."""
    with _progress("captions", None, shards=False, quiet=as_json) as on_progress:
        made = parse_captions(dataset, data_root, pipeline, out, on_progress)
    said = "{sentences:,} sentences with {verbs:,} verbs and {phrases:,} phrases"
    _print(made, as_json, said.format(**made), *made["files"], indent=None)


def extract(
    dataset: Dataset,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="open_clip:MODEL|FOLDER",
            help="Features of both sides by CLIP or SigLIP; a folder may be of DINOv2 or a sentence encoder too.",
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Without --encoder: a classifier of torchvision, resnet50, resnet152, ...; by default resnet50."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DEFAULT|none",
            help="File of weights; of a backbone also torchvision's (DEFAULT), or untrained.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Of a backbone: global, regions or both. Of an encoder: global or text; by default both sides."
        ),
    ] = None,
    augmentations: Annotated[int, typer.Option(help="Random crops of each image beside its centre crop.")] = 0,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="tfidf-svd|FOLDER", help="Features of captions alone: tf-idf, or those of an encoder's folder."
        ),
    ] = None,
    dimensions: Annotated[
        int | None,
        typer.Option(help="Features of each caption, for tfidf-svd; by default 512, or as many as the words allow."),
    ] = None,
    tokenizer: Tokenizer = None,
    split: Annotated[str | None, typer.Option(help="Take only the images of train, val or test.")] = None,
    out: FeatureFolder = None,
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    workers: Annotated[int, typer.Option(help="1 extracts in this process, more are Ray workers.")] = 1,
    shard_size: Annotated[int, typer.Option(help="Images a shard; a kill loses the work of one shard a worker.")] = 128,
    seed: Annotated[int, typer.Option(help="Seed of untrained weights and random crops.")] = 0,
    frames: Annotated[int, typer.Option(help="Of clips, the most frames of each, evenly spaced.")] = 20,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Compute features of images or clips, of captions, or of both. The same command resumes an extraction."""
    load_plugins(plugins or [])
    if text is not None and encoder is not None:
        raise ConfigError("--text FOLDER is --encoder FOLDER --features text; give one of them")
    if text == TFIDF:
        of_images = {"--split": split, "--augmentations": augmentations, "--workers": workers - 1}
        if wrong := [option for option, value in of_images.items() if value]:
            raise ConfigError(f"{wrong[0]} cannot be combined with --text {TFIDF}, which takes all captions at once")
        made = extract_text(dataset, data_root, dimensions=dimensions, seed=seed, out=out, tokenizer=tokenizer)
        line = f"{made['captions']:,} captions, {made['dimensions']} features each, tokenizer {made['tokenizer']}"
        _print(made, as_json, line, *made["files"])
        return
    if tokenizer is not None:
        raise ConfigError(f"--tokenizer goes with --text {TFIDF}")
    if text is not None:
        if not Path(text).is_dir():
            raise ConfigError(f"--text must be {TFIDF} or the folder of an encoder; there is no folder {text}")
        encoder, features = text, TEXT

    request = ExtractionRequest(
        dataset=dataset,
        data_root=data_root,
        out=out,
        split=split,
        backbone=backbone,
        encoder=encoder,
        weights=weights,
        features=features,
        augmentations=augmentations,
        seed=seed,
        device=device,
        workers=workers,
        shard_size=shard_size,
        frames=frames,
    )
    started = time.monotonic()
    with _progress("images" if encoder is None else "done", None, shards=True, quiet=as_json) as on_progress:
        made = extract_features(request, on_progress)
    spent = duration_text(time.monotonic() - started)
    if encoder is None:
        what = f"{made['frames']} frames" if "frames" in made else f"{made['images']} images"
        line = f"{what}, {made['extracted']} of them extracted now, {spent}"
        _print(made, as_json, line, *made["files"])
    else:
        _print(made, as_json, *_encoded_lines(made, spent), *made["files"])


def _encoded_lines(made: Mapping[str, Any], spent: str) -> Iterator[str]:
    """Say what an encoder has made, and whether its sides fit each other."""
    images = f"{made['frames']:,} frames of clips" if "frames" in made else f"{made['images']:,} images"
    counts = {"global": images, TEXT: f"{made['captions']:,} captions"}
    sides = [f"{counts[side]} with {size} features each" for side, size in made["dimensions"].items()]
    yield f"{made['encoder']}: {', '.join(sides)}; {made['extracted']:,} extracted now, {spent}"
    if made.get("zero_shot") is not None:
        yield zero_shot_text(made["zero_shot"], made["chance"])
    yield from (f"note: {note}" for note in made["notes"])


@contextmanager
def _progress(task: str, total: int | None, *, shards: bool, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many images are done: a progress bar on a terminal, elsewhere a line for each shard."""
    if not quiet and sys.stdout.isatty():
        default = Progress.get_default_columns()[:2]
        columns = (*default, MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()) if shards else ()
        with Progress(*columns, transient=not shards, console=make_console()) as bar:
            number = bar.add_task(task, total=total)
            yield lambda done, total: bar.update(number, completed=done, total=total)
    elif shards and not quiet:
        yield lambda done, total: say(f"{done}/{total} {task}")
    else:
        yield lambda done, total: None


def _print(content: Mapping[str, object], as_json: bool, *lines: object, indent: int | None = 2) -> None:
    if as_json:
        print(json.dumps(content, indent=indent))
    else:
        say(*lines)


app = typer.Typer(add_completion=False, help="Make, describe and check datasets.", no_args_is_help=True)
app.command("import")(import_)
app.command()(extract)
app.command()(unpack)
app.command()(frames)
app.command()(parse)

_GENERATED = {"scenes": 2000, "classes": 600, "motion": 400}
"""Dataset that can be generated -> default number of pictures."""


@app.command()
def generate(
    name: Annotated[
        str, typer.Argument(help="Dataset to generate: scenes, classes (images alone), or motion (clips).")
    ],
    images: Annotated[
        int | None,
        typer.Option(
            help="Pictures, of which val and test get a tenth each; by default 2000, classes 600, motion 400 clips."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the pictures.")] = 0,
    motion_features: Annotated[
        bool, typer.Option("--motion-features", help="With motion: features hold the difference to the next frame too.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder to write; by default DATA_ROOT/NAME.")] = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Generate a dataset: [bold]orchestrator data generate scenes --images 2000 --seed 0 --out data/scenes[/bold]."""
    if name not in _GENERATED:
        raise ConfigError(f"nothing generates {name!r}; datasets that can be generated: {', '.join(_GENERATED)}")
    from trainables.data.scenes.generate import PER_CLASS, generate_classes, generate_motion, generate_scenes

    target, count = out or data_root / name, _GENERATED[name] if images is None else images
    if motion_features and name != "motion":
        raise ConfigError(f"--motion-features goes with motion, not with {name}")
    held = {
        "scenes": "with five captions each",
        "classes": f"of {count // PER_CLASS} classes",
        "motion": "that move, with two captions each",
    }[name]
    with _progress("rendering", count, shards=False, quiet=as_json) as on_progress:
        makers: dict[str, Callable[..., bool]] = {
            "scenes": generate_scenes,
            "classes": generate_classes,
            "motion": partial(generate_motion, motion_features=motion_features),
        }
        make = makers[name]
        is_new = make(target, count, seed, on_progress=lambda done: on_progress(done, count))
    line = f"{target}: is there already with {count} pictures of seed {seed}; nothing to do"
    if is_new:
        line = f"{target}: {count} pictures {held}, seed {seed}"
    content = {"folder": str(target), "images": count, "seed": seed, "written": is_new}
    _print(content, as_json, line, indent=None)


@app.command()
def describe(
    name: Dataset,
    data_root: DataRoot = Path("data"),
    vocabulary: Annotated[
        str, typer.Option(help="Splits whose words count: train, or published (train and val).")
    ] = "train",
    tokenizer: Tokenizer = None,
    decode_images: Annotated[bool, typer.Option("--decode-images", help="Decode every image file as well.")] = False,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Describe a dataset in numbers, and name every problem found; exit code 2 if there is a problem."""
    load_plugins(plugins or [])
    if vocabulary not in ("train", "published"):
        raise ConfigError(f"--vocabulary must be train or published, got {vocabulary!r}")
    description = describe_dataset(
        name, data_root, vocabulary=cast("VocabularyName", vocabulary), tokenizer=tokenizer, decode_images=decode_images
    )
    if as_json:
        print(json.dumps(description.to_dict(), indent=2))
    else:
        show_description(description, vocabulary)
    if description.problems:
        raise typer.Exit(2)


def show_description(description: Description, vocabulary: str) -> None:
    """Print a dataset in numbers, with every problem that was found."""
    say(*_lines(description, vocabulary))


def _lines(description: Description, vocabulary: str) -> Iterator[str]:
    yield f"{description.name}: {description.format}, in {description.folder}"
    yield from _split_lines(description)
    if description.tokenizer:
        yield f"tokenizer: {description.tokenizer} ({description.tokenizer_reason})"
    if description.vocabulary:
        words = "train" if vocabulary == "train" else "train and val"
        counted = "all" if description.tokenizer == TOKENIZERS[-1] else "the words seen at least 4 times"
        yield f"vocabulary: {description.vocabulary:,} entries, {counted} in {words}"
    for kind, by_split in description.features.items():
        for shown in dict.fromkeys(map(_file_text, by_split.values())):
            yield f"features {kind}: {shown}"
    yield from (f"input {key}: {_file_text(about)}" for key, about in description.inputs.items())
    if description.zero_shot is not None:
        yield zero_shot_text(description.zero_shot, description.splits["val"]["chance_rsum"])
    if description.splits and not description.features:
        yield f"features: none; `orchestrator data extract {description.name}` makes them from the pictures"
    for kind, digest in description.digest.items():
        yield f"digest with features {kind}: {digest}" if kind != "none" else f"digest of captions alone: {digest}"
    for split, judged in description.judgements.items():
        yield from (f"judgements of {split}: {sentence}" for numbers in judged for sentence in count_sentences(numbers))
    yield from (f"warning: {warning}" for warning in description.warnings)
    yield from (f"note: {note}" for note in description.notes)
    yield from (f"problem: {problem}" for problem in condense(description.problems))
    counts = {"problem": len(description.problems), "warning": len(description.warnings)}
    named = [f"{count:,} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count]
    yield ", ".join(named) or "no problems found"


def _file_text(about: Mapping[str, Any]) -> str:
    """Return a file with its shape, or the number of its sentences, and the sizes of its sets."""
    if "sentences" in about:
        return f"{about['file']}, {about['sentences']:,} sentences"
    fewest, most = about.get("members", (0, 0))
    sizes = f", {fewest} to {most} a row" if most else ""
    missing = f", missing in {about['missing']:,} rows" if about.get("missing") else ""
    return f"{about['file']} {tuple(about['shape'])} {about['dtype']}{sizes}{missing}"


def _split_lines(description: Description) -> Iterator[str]:
    """Yield the table of the splits."""
    if not description.splits:
        return
    lengths, tokens, unknown, chance = "tokens min/median/mean/max", "an image", "unknown", "chance rsum"
    yield (
        f"{'split':6}{'images':>9}{'captions':>10}{'an image':>10}{'files':>9}{lengths:>29}{tokens:>10}{unknown:>9}"
        f"{chance:>13}"
    )
    for name, split in description.splits.items():
        fewest, most = split["captions_per_image"]
        an_image = f"{fewest}" if fewest == most else f"{fewest}-{most}"
        lengths = tokens = unknown = chance = "-"
        if split["caption_lengths"] is not None:
            measures = {"min": 0, "median": 0, "mean": 1, "max": 0}
            lengths = " / ".join(
                number_text(split["caption_lengths"][name], decimals=n) for name, n in measures.items()
            )
            tokens = number_text(split["tokens_per_image"])
            unknown = f"{number_text(100 * split['unknown_tokens'], decimals=2)} %"
            chance = number_text(split["chance_rsum"])
        yield (
            f"{name:6}{split['images']:>9,}{split['captions']:>10,}{an_image:>10}{split['image_files']:>9,}"
            f"{lengths:>29}{tokens:>10}{unknown:>9}{chance:>13}"
        )
