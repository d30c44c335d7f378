"""Answers about models of which only what they retrieve is known: metrics with intervals, and a paired verdict.

An interval or a test is over the images of the split, each with its captions, as in ``crossed``: it holds for other
images of this kind, and for these models as they are. Another training of a model may give other numbers.

The verdict rests on one metric, which is named beforehand. The other rows of a table have differences with intervals of
their own and no word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.results.answer import Answer, Cell, Column, Quantity, Table, table_of
from orchestrator.results.comparison import Comparison, compare
from orchestrator.results.judged import judged_image_values
from orchestrator.results.question import Question
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.statistics import Sample, t_interval
from orchestrator.results.table_verdicts import MetricForm, pair_sentence
from orchestrator.results.verdict import LEVEL
from orchestrator.text.values import count_text
from orchestrator.text.wording import decimals_of, interval_text, metric_words, number_text
from trainables.judged_ranks import TITLES, JudgedRanks
from trainables.metric_table import range_of
from trainables.metric_values import image_values, over_captions
from trainables.ranks import Ranks

METRICS = ("rsum", *(f"{way}_{name}" for way in ("i2t", "t2i") for name in ("r1", "r5", "r10", "map5", "map_r")))
"""Metrics of a split, the first of which decides by default."""

JUDGED = ("rsum", "i2t_r1", "t2i_r1", "i2t_map_r", "t2i_map_r", "map_r", "r_precision")
"""Metrics with judged pairs."""

BINS = 4
"""Bins of the lengths of captions, with equally many captions where the lengths allow it."""

Values = Mapping[str, Sample]
"""Metric -> value of each image, shape (I,), whose mean is the metric."""


@dataclass(frozen=True)
class Retrieved:
    """One model: its name, and the values of each image."""

    label: str
    values: Values


def split_values(folds: Sequence[Ranks]) -> dict[str, Sample]:
    """Return the values of all metrics; of several folds one after the other, so that a mean is that over folds."""
    return {metric: np.concatenate([image_values(ranks, metric) for ranks in folds]) for metric in METRICS}


def judged_values(judged: Sequence[JudgedRanks]) -> dict[str, dict[str, Sample]]:
    """Return source of judgements -> values of its metrics."""
    return {ranks.name: {metric: judged_image_values(ranks, metric) for metric in JUDGED} for ranks in judged}


def metrics_answers(dataset: str, first: Retrieved, second: Retrieved | None, metric: str, title: str) -> list[Answer]:
    """Return the metrics of one model, or of two with the verdict on the first against the second.

    Args:
        dataset: Name of the dataset.
        first: The model.
        second: The model that it is compared with, on the same images in the same order.
        metric: The metric of the verdict, a key of the values.
        title: What is measured, for the question.
    """
    groups = [[name for name in first.values if decimals_of(name) == digits] for digits in (1, 3)]
    tables = [_metrics_table(first, second, names) for names in groups if names]
    images = f"{len(first.values[metric]):,} images"
    if second is None:
        value = _quantity(first.values[metric], metric)
        ends = ""
        if value.low is not None and value.high is not None:
            ends = f", 95 % CI {interval_text(value.low, value.high, metric)}"
        headline = f"{first.label}: {metric_words(metric)} {number_text(value.value, metric)}{ends} ({images})."
        numbers: dict[str, float | int | None] = {name: float(of.mean()) for name, of in first.values.items()}
        answer = Answer("retrieval", dataset, title, headline, numbers=numbers, table=tables[0])
    else:
        (pair,) = Question(LEVEL).ask([_compared(first, second, metric)])
        low, high = pair.interval or (None, None)
        numbers = {"difference": pair.difference, "low": low, "high": high, "p": pair.p}
        question = f"{title}: is {first.label} better than {second.label}?"
        headline = pair_sentence(pair, MetricForm(metric), images)
        answer = Answer("retrieval", dataset, question, headline, str(pair.verdict), second.label, numbers, tables[0])
    return [answer, *(Answer("precisions", dataset, f"{title}: precisions", "", table=table) for table in tables[1:])]


def _metrics_table(first: Retrieved, second: Retrieved | None, names: Sequence[str]) -> Table:
    """Return a row for each metric, all with equally many digits."""
    unit = names[0]
    columns = [Column("metric", "metric"), Column("first", first.label, unit, shows="both")]
    if second is not None:
        columns.append(Column("second", second.label, unit, shows="both"))
        columns.append(Column("difference", "difference", unit, signed=True, shows="both"))
    rows: list[Sequence[Cell]] = []
    for name in names:
        row: list[Cell] = [metric_words(name), _quantity(first.values[name], name)]
        if second is not None:
            row += [_quantity(second.values[name], name), _difference(_compared(first, second, name))]
        rows.append(row)
    return table_of(columns, rows)


def judged_answers(
    dataset: str, first: Mapping[str, Retrieved], second: Mapping[str, Retrieved] | None
) -> list[Answer]:
    """Return an answer for each source of judgements, given by source."""
    answers = []
    for source, model in first.items():
        title = f"With the pairs of {TITLES[source]}"
        answers += metrics_answers(dataset, model, second[source] if second else None, "rsum", title)
    return answers


def length_answers(
    dataset: str, models: Sequence[tuple[str, Ranks]], lengths: np.ndarray, cut: Mapping[int, Sequence[Ranks]]
) -> list[Answer]:
    """Return how well captions of each length are retrieved, and captions that are cut after some words.

    Args:
        dataset: Name of the dataset.
        models: Name and ranks of each model.
        lengths: Words of each caption, shape (C,).
        cut: Words after which captions are cut -> the ranks of each model with such captions; may be empty.
    """
    answers = [_by_bin(dataset, models, lengths)]
    if cut:
        answers.append(_by_cut(dataset, models, cut))
    return answers


def _by_bin(dataset: str, models: Sequence[tuple[str, Ranks]], lengths: np.ndarray) -> Answer:
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, BINS + 1)).round().astype(int))
    starts = [int(edges[0]), *(int(edge) + 1 for edge in edges[1:-1])]
    ends = [int(edge) for edge in edges[1:]] or [int(edges[0])]
    rows: list[Sequence[Cell]] = []
    for low, high in zip(starts, ends, strict=True):
        inside = (lengths >= low) & (lengths <= high)
        if not inside.any():
            continue
        owners = np.unique(models[0][1].image_of_caption[inside], return_inverse=True)[1].astype(np.int32)
        row: list[Cell] = [f"{low} to {high}" if low < high else str(low), int(inside.sum())]
        for _, ranks in models:
            for rank, depth in ((ranks.t2i, 1), (ranks.t2i, 10), (ranks.i2t, 1)):
                hits = np.where(rank[inside] <= depth, 100.0, 0.0)
                row.append(_quantity(over_captions(hits, owners), "t2i_r1"))
        rows.append(row)
    columns = [Column("words", "words"), Column("captions", "captions", "count")]
    for name, _ in models:
        group = name if len(models) > 1 else ""
        columns += [
            Column(f"{name}_{key}", heading, "t2i_r1", shows="both", group=group)
            for key, heading in (("t2i_r1", "t2i R@1"), ("t2i_r10", "t2i R@10"), ("i2t_r1", "first of its image"))
        ]
    note = "First of its image: share of captions that their image ranks before all captions of other images."
    return Answer("lengths", dataset, "By length of caption", "", table=table_of(columns, rows), notes=(note,))


def _by_cut(dataset: str, models: Sequence[tuple[str, Ranks]], cut: Mapping[int, Sequence[Ranks]]) -> Answer:
    rows: list[Sequence[Cell]] = []
    for words in (*sorted(cut), None):
        row: list[Cell] = [str(words) if words else "all"]
        for place, (name, whole) in enumerate(models):
            ranks = cut[words][place] if words else whole
            for metric in ("rsum", "t2i_r1"):
                row.append(_quantity(image_values(ranks, metric), metric))
            row.append(
                _difference(
                    _compared(
                        Retrieved(f"{name}, cut", {"rsum": image_values(ranks, "rsum")}),
                        Retrieved(name, {"rsum": image_values(whole, "rsum")}),
                        "rsum",
                    )
                )
                if words
                else None
            )
        rows.append(row)
    columns = [Column("words", "words")]
    for name, _ in models:
        group = name if len(models) > 1 else ""
        columns += [
            Column(f"{name}_rsum", "rsum", "rsum", shows="both", group=group),
            Column(f"{name}_t2i_r1", "t2i R@1", "t2i_r1", shows="both", group=group),
            Column(f"{name}_difference", "rsum against all words", "rsum", signed=True, shows="both", group=group),
        ]
    return Answer("cut", dataset, "Captions cut after some words", "", table=table_of(columns, rows))


def choices_answer(first: tuple[str, np.ndarray], second: tuple[str, np.ndarray] | None, images: np.ndarray) -> Answer:
    """Return the accuracy of one model, or the verdict on two, in choices between a right and a wrong caption.

    Args:
        first: Name of the model, and whether each answer is right, shape (N,).
        second: The same of the model that it is compared with.
        images: Image of each question, shape (N,), from 0 without a gap; questions of an image are no independent ones.
    """
    order = np.argsort(images, kind="stable")
    owners = images[order].astype(np.int32)
    models = [
        Retrieved(name, {"accuracy": over_captions(np.where(correct[order], 100.0, 0.0), owners)})
        for name, correct in (first, *([second] if second else []))
    ]
    other = models[1] if second else None
    (answer,) = metrics_answers("", models[0], other, "accuracy", "choices")
    count = count_text(len(images), "question")
    return replace(answer, key="choices", notes=(f"{count}; a tie of two captions is wrong.",))


def _runs(model: Retrieved, metric: str) -> Runs:
    values = model.values[metric]
    run = RunId(0, 0)
    return Runs(model.label, {run: {metric: float(values.mean())}}, images={metric: {run: values}}, has_seeds=False)


def _compared(first: Retrieved, second: Retrieved, metric: str) -> Comparison:
    return compare(_runs(first, metric), _runs(second, metric), metric, over_images=True)


def _quantity(values: Sample, metric: str) -> Quantity:
    interval = t_interval(values)
    ends = () if interval is None else interval.within(*range_of(metric))
    return Quantity(float(values.mean()), None, *ends)


def _difference(compared: Comparison) -> Quantity:
    return Quantity(compared.difference, None, *(compared.interval or ()))
