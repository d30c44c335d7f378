"""The tables of [Bleeker2022] with an experiment's results, and with the published rows beside ours.

A row of a confirmed dataset is a candidate, with metrics on test over its seeds. A row of an unconfirmed dataset is the
best trial of a study, with metrics on val over its trainings. As in the published tables, and in no other table, a
deviation is that of the population (``ddof=0``). That of COCOS is over the batches of a run.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        ECIR 2022. arXiv:2202.07474
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

from orchestrator.journal.points import Point, ranked
from orchestrator.reference.published import (
    BLEEKER,
    NT_XENT_COCOS,
    RETRIEVAL,
    SMOOTH_AP_COCOS,
    SOURCES,
    TRIPLET_COCOS,
    other_rows,
    published_rows,
    study_dataset,
)
from orchestrator.results.answer import Answer, Cell, Column, Quantity, Table
from orchestrator.results.answers import UNCONFIRMED, Summary
from orchestrator.results.confirmation import metrics_of
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.text.wording import printed, setting_text
from trainables.metric_table import COCOS, VAL, in_section, name_parts, spread_of, values_in


@dataclass(frozen=True)
class Row:
    """A line of a table, about one candidate.

    Attributes:
        runs: The candidate; of a published row its means alone, with metrics without prefix.
        split: The split whose metrics the row has; empty for a published row.
        number: Rank on the dataset; of a published row, the number of the experiment in [Bleeker2022] or the name of
            another paper.
        verdict: ``winner``, or how the candidate compares with the winner; ``unconfirmed`` before a confirmation.
    """

    runs: Runs
    split: str = ""
    number: str = ""
    verdict: str = ""
    published: bool = False

    @property
    def dataset(self) -> str:
        """Name as in ``TrialConfig``; so are ``model`` and ``loss``."""
        return self.runs.dataset

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.runs.model

    @property
    def loss(self) -> str:
        """Name of the loss."""
        return self.runs.loss

    @cached_property
    def measures(self) -> Mapping[str, Measure]:
        """Metric without prefix, e.g. ``i2t_r1`` -> mean and population standard deviation."""
        return _without_prefix(self.runs.measures(), self.split) if self.split else self.runs.means

    @property
    def seeds(self) -> int:
        """Largest number of runs behind a mean of the row."""
        return max((measure.seeds for measure in self.measures.values()), default=0)


@dataclass(frozen=True)
class Layout:
    """The columns of a table.

    Attributes:
        columns: The columns of metrics; their keys are metrics without prefix.
        published: Number of the table in [Bleeker2022]; ``None`` if the paper has no such table.
        caveat: Warning about comparisons with the published rows; may be empty.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    published: int | None = None
    caveat: str = ""


def _metric(key: str, heading: str, decimals: int, latex: str = "") -> Column:
    way = key.partition("_")[0]
    return Column(key, heading, key, group=way if way in ("i2t", "t2i") else "", latex=latex, decimals=decimals)


def _both_ways(*metrics: tuple[str, str, int, str]) -> tuple[Column, ...]:
    """Return the columns of both directions, from name, heading, decimals and heading in LaTeX."""
    return tuple(_metric(f"{way}_{name}", *rest) for way in ("i2t", "t2i") for name, *rest in metrics)  # type: ignore[arg-type]


_RECALLS = _both_ways(
    ("r1", "R@1", 1, ""),
    ("r5", "R@5", 1, ""),
    ("r10", "R@10", 1, ""),
    ("average_recall", "avg. recall", 1, r"avg.\ recall"),
)
_PER_QUERY = ("negatives_per_query", "C^q", 2, "$C^{q}$")
_PER_BATCH = ("negatives_per_batch", "C^B", 2, "$C^{B}$")
_WITHOUT = ("queries_without_gradient", "C^0", 2, "$C^{0}$")

RETRIEVAL_LAYOUT = Layout(
    "retrieval",
    "Retrieval",
    (*_RECALLS[:4], _metric("i2t_map5", "mAP@5", 2), *_RECALLS[4:], _metric("rsum", "rsum", 1)),
    RETRIEVAL,
)
CLASSES_LAYOUT = Layout(
    "classes",
    "Retrieval of images with images of their class",
    tuple(_metric(f"i2t_r{k}", f"R@{k}", 1) for k in (1, 2, 4, 8)),
)
TRIPLET_LAYOUT = Layout(
    "cocos_triplet",
    "Contributing samples of hinge losses",
    _both_ways(_PER_QUERY, _PER_BATCH, _WITHOUT),
    TRIPLET_COCOS,
    caveat="The published t2i C^q and C^0 of the plain triplet loss are sums over the wrong axis.",
)
NT_XENT_LAYOUT = Layout(
    "cocos_nt_xent",
    "Contributing samples of NT-Xent",
    _both_ways(
        ("negatives_per_query", "C^qv-", 2, "$C^{qv^{-}}$"),
        ("negative_weight", "W^qv-", 2, "$W^{qv^{-}}$"),
        ("positive_weight", "W^qv+", 2, "$W^{qv^{+}}$"),
    ),
    NT_XENT_COCOS,
)
SMOOTH_AP_LAYOUT = Layout(
    "cocos_smooth_ap",
    "Contributing samples of SmoothAP",
    _both_ways(_PER_QUERY, _WITHOUT),
    SMOOTH_AP_COCOS,
    caveat="The published t2i columns look at the wrong candidates: t2i C^0 is at least 614 of 640 for any model.",
)
GRADED_LAYOUT = Layout(
    "cocos_graded",
    "Contributing samples of losses with graded weights",
    _both_ways(
        _PER_QUERY, _WITHOUT, ("negative_weight", "W^-", 2, "$W^{-}$"), ("positive_weight", "W^+", 2, "$W^{+}$")
    ),
)
GENERAL_LAYOUT = Layout(
    "cocos_general",
    "Contributing pairs of losses without weights of their own",
    (_metric("gradient_negatives", "negatives", 2), _metric("gradient_positives", "positives", 2)),
)
EFFECTIVE_LAYOUT = Layout(
    "cocos_effective",
    "Effective number of negatives, and the share of the hardest, without a threshold",
    _both_ways(
        ("effective_negatives_entropy", "N (entropy)", 2, "$N_{H}$"),
        ("effective_negatives_squares", "N (squares)", 2, "$N_{2}$"),
        ("gradient_share_hardest1", "hardest", 3, "$p_{1}$"),
        ("gradient_share_hardest5", "hardest 5", 3, "$p_{1..5}$"),
    ),
)
COCOS_LAYOUTS = (TRIPLET_LAYOUT, NT_XENT_LAYOUT, SMOOTH_AP_LAYOUT, GRADED_LAYOUT, GENERAL_LAYOUT, EFFECTIVE_LAYOUT)

_OF_LOSSES = {
    "nt_xent": NT_XENT_LAYOUT,
    "smooth_ap": SMOOTH_AP_LAYOUT,
    **dict.fromkeys(("sigmoid", "decoupled", "multi_similarity", "circle", "gradient_weights"), GRADED_LAYOUT),
}
"""Loss -> layout of its COCOS; any other loss has a hinge, or else no weights of its own."""

_ABOUT = (
    Column("dataset", "dataset", hidden=True),
    Column("model", "model", hidden=True),
    Column("loss", "loss", hidden=True),
    Column("published", "published", hidden=True),
    Column("seeds", "seeds", unit="count", hidden=True),
    Column("dataset_name", "Dataset"),
    Column("model_name", "Model"),
    Column("loss_name", "Loss"),
    Column("number", "#", latex=r"\#"),
    Column("parameters", "Hyper-parameters"),
)


def rows_of_summary(summary: Summary) -> list[Row]:
    """Return a row for each candidate of a confirmed dataset, and for the best trial of each study of the others."""
    verdicts = summary.verdicts
    rows = [row for verdict in verdicts.values() for row in rows_of_verdict(verdict)]
    return rows + [row for name in summary.datasets if name not in verdicts for row in _unconfirmed(summary, name)]


def _unconfirmed(summary: Summary, dataset: str) -> list[Row]:
    studies: dict[str, Point] = {}
    for point in ranked(point for points in summary.studies.values() for point in points):
        if point.first.config.dataset == dataset:
            studies.setdefault(point.first.study, point)
    rows = []
    # A study may choose its best trial by a metric of its own.
    in_order = sorted(studies.values(), key=lambda point: -(point.mean(summary.history.metric) or 0.0))
    for rank, point in enumerate(in_order, start=1):
        config = point.first.config
        runs = Runs.of_seeds(
            point.first.id,
            {training.config.seed: metrics_of(training, summary.history) for training in point.finished},
            dataset=config.dataset,
            model=config.model,
            loss=config.loss,
            parameters=point.finished[0].parameters,
        )
        rows.append(Row(runs, VAL, str(rank), UNCONFIRMED))
    return rows


def rows_of_verdict(verdict: DatasetVerdict) -> list[Row]:
    """Return a row for each candidate of a dataset, the winner first, with the metrics of the split that decided."""
    split = name_parts(verdict.metric).section
    return [
        Row(candidate, split, str(rank), verdict.word_on(candidate.label))
        for rank, candidate in enumerate(verdict.candidates, start=1)
    ]


def _without_prefix(measures: Mapping[str, Measure], split: str) -> dict[str, Measure]:
    """Return the metrics of a split and the COCOS without prefix; the deviation of COCOS is over batches."""
    metrics = values_in(measures, split)
    for name, value in values_in(measures, COCOS).items():
        batches = measures.get(spread_of(in_section(name, COCOS)))
        metrics[name] = replace(value, std=batches.mean if batches else None)
    return metrics


def tables_of(results: Sequence[Summary], *, with_published: bool = False, cocos: bool = False) -> list[Answer]:
    """Return the table of retrieval, that of retrieval by class where there are classes, and on demand those of COCOS.

    Args:
        results: Results of experiments in the order of their rows.
        with_published: Whether to show the published rows beside ours.
        cocos: Whether to add the tables of COCOS.
    """
    of_results = [rows_of_summary(result) for result in results]
    rows = [row for of_result in of_results for row in of_result]
    retrieval = layout_table(RETRIEVAL_LAYOUT, rows, with_published=with_published)
    states = [note for result, own in zip(results, of_results, strict=True) for note in _state(result, bool(own))]
    notes = (*retrieval.notes, *states, *differing_data([result.history.data for result in results]))
    by_class = [row for row in rows if "i2t_r8" in row.measures]
    classes = [layout_table(CLASSES_LAYOUT, by_class)] if by_class else []
    further = cocos_tables(rows, with_published=with_published) if cocos else []
    return [replace(retrieval, notes=notes), *classes, *further]


def published_tables(papers: Iterable[str]) -> list[Answer]:
    """Return the tables of some papers by themselves, without empty tables."""
    tables = []
    for layout in (RETRIEVAL_LAYOUT, TRIPLET_LAYOUT, NT_XENT_LAYOUT, SMOOTH_AP_LAYOUT):
        rows = [row for row in _published(layout) if (row.number if row.number in SOURCES else BLEEKER) in papers]
        table = layout_table(layout, [replace(row, published=False) for row in rows])
        tables += [replace(table, notes=(*table.notes, *_published_notes(layout, rows)))] if rows else []
    return tables


def _state(result: Summary, has_rows: bool) -> list[str]:
    """Say where an experiment has no rows, and where its rows are not of test."""
    if not has_rows:
        name = result.history.name
        nothing = f"{name}: no trial has been trained to its end yet, so there is nothing to compare"
        return [f"{nothing}; see `orchestrator status {name}`."]
    unconfirmed = [name for name in result.datasets if name not in result.verdicts]
    return [f"{printed(name)}: values are on val, of trainings of the search, unconfirmed." for name in unconfirmed]


def differing_data(data: Sequence[Mapping[str, str]]) -> list[str]:
    """Name the datasets that two experiments had in different versions; ``data`` has the digests of each."""
    names = dict.fromkeys(name for digests in data for name in digests)
    differing = [name for name in names if len({digests[name] for digests in data if name in digests}) > 1]
    return [f"The experiments had different versions of {name}; their values can't be compared." for name in differing]


def cocos_tables(rows: Iterable[Row], *, with_published: bool = False) -> list[Answer]:
    """Return the tables of COCOS, in the layouts of tables 2 to 4 of [Bleeker2022], without empty tables.

    A loss without weights of its own, such as most losses of plug-ins, has a table of general counts. The last table
    has the statistics without a threshold, which are on one scale for all losses.
    """
    groups: dict[str, list[Row]] = {layout.key: [] for layout in COCOS_LAYOUTS}
    for row in rows:
        fitting = [table for table in (_OF_LOSSES.get(row.loss, TRIPLET_LAYOUT), GENERAL_LAYOUT) if _is_in(row, table)]
        for layout in (*fitting[:1], *([EFFECTIVE_LAYOUT] if _is_in(row, EFFECTIVE_LAYOUT) else [])):
            groups[layout.key].append(row)
    filled = [layout for layout in COCOS_LAYOUTS if groups[layout.key]]
    return [layout_table(layout, groups[layout.key], with_published=with_published) for layout in filled]


def _is_in(row: Row, layout: Layout) -> bool:
    return any(column.key in row.measures for column in layout.columns)


def layout_table(layout: Layout, rows: Sequence[Row], *, with_published: bool = False) -> Answer:
    """Return rows as a table, grouped by dataset and model in the order of their first rows.

    Args:
        layout: Columns of the table.
        rows: Rows, the best first.
        with_published: Put the published row of a loss under our row of this loss, and other published rows of the
            model at the end.
    """
    published = _published(layout) if with_published else []
    ordered: list[Row] = []
    places = list(dict.fromkeys(row.dataset for row in rows))
    by_dataset = sorted(rows, key=lambda row: places.index(row.dataset))
    for dataset, model in dict.fromkeys((row.dataset, row.model) for row in by_dataset):
        ours = [row for row in rows if (row.dataset, row.model) == (dataset, model)]
        theirs = [row for row in published if (row.dataset, row.model) == (study_dataset(dataset), model)]
        for row in theirs:
            # Under the last row with its loss; rows of other losses at the end.
            matches = [place for place, other in enumerate(ours) if other.loss == row.loss]
            ours.insert(matches[-1] + 1 if matches else len(ours), row)
        ordered += ours
    notes = (*_spread_note(layout, rows), *(_published_notes(layout, ordered) if with_published else ()))
    verdict = [Column("verdict", "Verdict")] if any(row.verdict for row in ordered) else []
    cells = (_cells(row, layout.columns) for row in ordered)
    table = Table((*_ABOUT, *layout.columns, *verdict), tuple(row if verdict else row[:-1] for row in cells))
    return Answer(layout.key, "", layout.title, "", table=table, notes=notes)


def _cells(row: Row, columns: Sequence[Column]) -> tuple[Cell, ...]:
    loss = f"{printed(row.loss)} (published)" if row.published else printed(row.loss)
    keys = (row.dataset, row.model, row.loss, "yes" if row.published else "no", row.seeds)
    names = (printed(row.dataset), printed(row.model), loss, row.number, setting_text(row.runs.parameters))
    known = (row.measures.get(column.key) for column in columns)
    measures = (None if measure is None else Quantity(measure.mean, measure.std) for measure in known)
    return (*keys, *names, *measures, row.verdict)


def _published(layout: Layout) -> list[Row]:
    """Return the published rows in a layout; other papers have rows of retrieval alone."""
    if layout.published is None:
        return []
    rows = []
    for row in (*published_rows(layout.published), *(other_rows() if layout.published == RETRIEVAL else ())):
        means = {name: Measure(mean, std, row.runs) for name, (mean, std) in row.values.items()}
        about = {"dataset": row.dataset, "model": row.model, "loss": row.loss, "parameters": row.parameters}
        rows.append(Row(Runs(row.number, means=means, **about), number=row.number, published=True))  # type: ignore[arg-type]
    return rows


def _spread_note(layout: Layout, rows: Sequence[Row]) -> list[str]:
    seeds = sorted({row.seeds for row in rows if row.seeds})
    deviation = "population standard deviation, as in the papers' tables"
    if seeds and layout in COCOS_LAYOUTS:
        return [f"Mean over {_runs(seeds)} ± {deviation}, over the batches of a run."]
    return [f"Mean ± {deviation}, over {_runs(seeds)}."] if seeds else []


def _runs(counts: Sequence[int]) -> str:
    return " or ".join(str(count) for count in counts) + (" run" if counts == [1] else " runs")


def _published_notes(layout: Layout, rows: Sequence[Row]) -> list[str]:
    """Name the sources of the published rows, or say that there is no published row for ours."""
    if layout.published is None:
        return ["Bleeker and de Rijke (ECIR 2022) have no table of these losses."] if rows else []
    if not any(row.published for row in rows):
        ours = ", ".join(dict.fromkeys(f"{PurePath(row.dataset).name} with {row.model}" for row in rows))
        archive = "there are rows for vsepp and vsrn on flickr30k and coco"
        more = ", scan on both, and gsmn on flickr30k" if layout.published == RETRIEVAL else ""
        return [f"There is no published row for {ours}; {archive}{more}."] if ours else []
    runs = {row.number: row.seeds for row in rows if row.published}
    others = [f"{number}: {SOURCES[number]}, {_runs([runs[number]])}." for number in runs if number in SOURCES]
    if len(others) == len(runs):
        return others
    notes = [f"Published: Bleeker and de Rijke (ECIR 2022), table {layout.published}.", *others]
    return [*notes, *filter(None, [layout.caveat])]
