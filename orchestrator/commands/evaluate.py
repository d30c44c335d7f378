"""``orchestrator evaluate`` and ``cocos``: the retrieval metrics of a checkpoint, and the samples that train it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from orchestrator.commands.evaluate_files import FilesRequest, cut_files, evaluate_files, is_of_files
from orchestrator.commands.options import Checkpoint, DataRoot, Device, Form, Json, Plugins
from orchestrator.experiment.plugins import load_plugins
from orchestrator.text.terminal import make_console, make_table, say
from orchestrator.text.values import value_text
from orchestrator.text.wording import number_text, share_text
from orchestrator.workload.evaluation import JudgedEvaluation, measure_checkpoint
from orchestrator.workload.evaluation import evaluate as evaluate_checkpoint
from trainables.errors import ConfigError
from trainables.judged_ranks import KNOWN, PRECISIONS, RECALLS, count_sentences
from trainables.metric_table import ANNOTATED, CONDENSED, DIRECTIONS, METRICS, metric_of, name_parts

CURVE = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Values of epsilon of ``--curve``."""


def cocos(
    checkpoint: Checkpoint,
    epsilon: Annotated[float, typer.Option(help="Count samples with a gradient weight above this, > 0.")] = 0.01,
    convention: Annotated[
        Literal["paper", "published"], typer.Option(help="Count as the paper defines, or as the published code does.")
    ] = "paper",
    curve: Annotated[bool, typer.Option("--curve", help="Count at epsilons from 0.0001 to 1 as well.")] = False,
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Count the samples of the train split that contribute to the gradient, in the training's batches."""
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"--epsilon must be a finite number above 0, got {epsilon}")

    load_plugins(plugins or [])
    result = measure_checkpoint(
        checkpoint, data_root, epsilon=epsilon, convention=convention, device=device, curve=CURVE if curve else ()
    )
    if as_json:
        print(json.dumps(result, indent=2))
        return
    rows = [[name, *map(value_text, spread.values())] for name, spread in result["statistics"].items()]
    title = (
        f"{result['dataset']} train: {result['model']} {result['loss']}, epsilon {epsilon:g}, {convention} convention"
    )
    make_console().print(make_table(["counter", "mean", "std over batches (ddof 0)"], rows, title, texts=1))
    if curve:
        make_console().print(_curve_table(result["curve"]))


def _curve_table(curve: Sequence[Mapping[str, Any]]) -> Table:
    """Return each counter's mean, a column an epsilon; ``-`` where no query has a counted candidate."""
    columns = [point["statistics"] for point in curve]
    rows = [
        [name, *(value_text(counters[name]["mean"]) if name in counters else "-" for counters in columns)]
        for name in dict.fromkeys(name for counters in columns for name in counters)
    ]
    headings = ["counter", *(f"{point['epsilon']:g}" for point in curve)]
    return make_table(headings, rows, "mean of each counter by epsilon", texts=1)


def evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CHECKPOINT|FILES",
            help="Folder of one epoch (epoch_NNNN) or of a whole training. Or IMAGES.npy (I, D) and CAPTIONS.npy "
            "(C, D) of any model, or a similarity matrix (I, C), in the order of the split.",
        ),
    ] = None,
    split: Annotated[Literal["val", "test"], typer.Option(help="Split to evaluate on.")] = "test",
    folds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Evaluate this many equal parts of the split, in its order, and average the metrics. On COCO's 5,000 "
            "test images 5 is the 1K protocol.",
        ),
    ] = 1,
    ranks: Annotated[
        Path | None,
        typer.Option(help="Write the rank of each query's positives to this .npz file, to compare models by query."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Of files: the dataset whose images and captions they are.")
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Of files: those of a second model, for a paired verdict. Repeat it per file."
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="Of files: the metric of the verdict, such as rsum or t2i_r1.")] = "rsum",
    by_length: Annotated[bool, typer.Option("--by-length", help="Of files: recalls by length of caption.")] = False,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS=FILE", help="Of files: captions cut after some words. Repeat it per length, and per model."
        ),
    ] = None,
    choices: Annotated[
        bool,
        typer.Option(
            "--choices", help="Of files: IMAGES RIGHT WRONG, embeddings (N, D) of questions; or scores (N, 2)."
        ),
    ] = False,
    questions: Annotated[
        Path | None,
        typer.Option(help="Of --choices: SugarCrepe's JSON file, which says which questions share an image."),
    ] = None,
    captions_to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the split's captions for an encoder, whole and cut, and evaluate nothing."
        ),
    ] = None,
    form: Form = "table",
    data_root: DataRoot = Path("data"),
    device: Device = "auto",
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Evaluate a checkpoint, or files of embeddings of any model, on val or test.

    A second table counts the pairs that people judged to fit, where there are judgements. Of files, intervals are over
    images, and a second model gets a paired verdict.
    """
    if is_of_files(files or [], captions_to):
        evaluate_files(
            FilesRequest(
                files or [],
                against or [],
                dataset,
                split,
                folds,
                metric,
                by_length,
                cut_files(cut or []),
                choices,
                questions,
                captions_to,
                ranks,
                data_root,
                "json" if as_json else form,
            )
        )
        return
    if not files:
        raise ConfigError("evaluate needs a checkpoint, or files such as IMAGES.npy CAPTIONS.npy --dataset NAME")
    (checkpoint,) = files
    evaluation = evaluate_checkpoint(
        checkpoint, data_root=data_root, split=split, folds=folds, ranks=ranks, device=device, plugins=plugins or []
    )
    if as_json:
        print(json.dumps(evaluation.to_dict()))
        return
    protocol = "" if folds == 1 else f", mean of {folds} folds of {evaluation.images // folds:,} images"
    title = f"{evaluation.dataset} {split}: {evaluation.model} {evaluation.loss}{protocol}"
    print_metrics(title, evaluation.metrics, evaluation.chance_rsum)
    for judged in evaluation.judged:
        print_judged(judged)
    if ranks is not None:
        say(f"ranks of {evaluation.captions:,} captions and {evaluation.images:,} images: {ranks}")


def print_metrics(title: str, metrics: Mapping[str, float], chance: float) -> None:
    """Print both directions of retrieval as a table, a direction a row, beside the rsum of a random ranking."""
    measured = {parts.measure: metric_of(name).printed for name in metrics if (parts := name_parts(name)).direction}
    columns = {measure: printed for measure, printed in measured.items() if measure not in LEFT_OUT}
    # Where images retrieve images of their class, both directions are equal.
    of_classes = any(not METRICS[measure].of_captions for measure in columns)
    rows = [
        [words, *_numbers(metrics, (f"{direction}_{name}" for name in columns))]
        for direction, words in ({"i2t": "image to images"} if of_classes else DIRECTIONS).items()
    ]
    title = f"{title}, rsum {number_text(metrics['rsum'])} (chance {number_text(chance)})"
    make_console().print(make_table(["direction", *columns.values()], rows, title, texts=1))


LEFT_OUT = ("average_recall",)
"""Metrics that follow from others of the table."""


def _numbers(metrics: Mapping[str, float], names: Iterable[str], ending: str = "") -> list[str]:
    return [number_text(metrics[name + ending], name) if name + ending in metrics else "" for name in names]


READINGS = {ANNOTATED: "annotated", "": "judged", CONDENSED: "without unjudged"}
"""Ending of the names of judged metrics -> which pairs count."""


def print_judged(judged: "JudgedEvaluation") -> None:
    """Print the metrics with and without people's judgements: a row for each direction and choice of pairs."""
    metrics = judged.metrics
    columns = {name: metric_of(name).printed for name in (*RECALLS, *PRECISIONS)}
    sums = [
        f"{number_text(metrics[name])} {words}"
        for ending, words in READINGS.items()
        if (name := f"rsum{ending}") in metrics
    ]
    rows = [
        [words, pairs, *numbers]
        for direction, words in DIRECTIONS.items()
        for ending, pairs in READINGS.items()
        if any(numbers := _numbers(metrics, (f"{direction}_{name}" for name in columns), ending))
    ]
    title = f"{judged.judgements['title']}: rsum {', '.join(sums)}"
    make_console().print(make_table(["direction", "pairs", *columns.values()], rows, title, texts=2))
    say(
        "annotated: an image's own captions, or a caption's own image, are right; judged: candidates that people "
        "judged to fit are right too, and candidates that nobody judged are wrong",
        *count_sentences(judged.judgements),
        *_known(metrics),
    )


def _known(metrics: Mapping[str, float]) -> list[str]:
    """Return how many of the model's first answers were judged; empty if only fitting pairs were recorded."""
    names = {f"{way}_{KNOWN}": items for way, items in (("i2t", "captions"), ("t2i", "images"))}
    shares = [
        f"{share_text(metrics[name])} of the first ten {items}" for name, items in names.items() if name in metrics
    ]
    return [f"people judged {' and '.join(shares)} that this model ranks"] if shares else []
