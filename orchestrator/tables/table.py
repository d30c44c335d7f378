"""Tables: rows in the order in which they are read, with the notes that belong under them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from orchestrator.reference.other_papers import SOURCES, other_rows
from orchestrator.reference.published import RETRIEVAL, published_rows, study_dataset
from orchestrator.tables.layouts import (
    CLASSES_LAYOUT,
    COCOS_LAYOUTS,
    EFFECTIVE_LAYOUT,
    GENERAL_LAYOUT,
    RETRIEVAL_LAYOUT,
    Layout,
    cocos_layout,
)
from orchestrator.tables.rows import Row, row_of_published


@dataclass(frozen=True)
class Table:
    """A table with its notes.

    Attributes:
        layout: Title and columns.
        rows: Rows, sorted by dataset and within a dataset by model.
        notes: Sentences under the table.
    """

    layout: Layout
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def retrieval_table(rows: Iterable[Row], *, with_published: bool = False) -> Table:
    """Return the table of retrieval metrics, in the layout of table 1 of Bleeker and de Rijke (2022).

    Args:
        rows: Rows of any datasets and models, best first.
        with_published: Put the published row of a loss under our row of this loss, and other published rows of the
            model at the end.
    """
    return _table(RETRIEVAL_LAYOUT, list(rows), with_published)


def class_tables(rows: Iterable[Row]) -> tuple[Table, ...]:
    """Return the table of Recall@K of images that retrieve images of their class; none if no row has such images."""
    found = [row for row in rows if "i2t_r8" in row.measures]
    return (_table(CLASSES_LAYOUT, found, with_published=False),) if found else ()


def cocos_tables(rows: Iterable[Row], *, with_published: bool = False) -> tuple[Table, ...]:
    """Return the tables of COCOS, in the layouts of tables 2 to 4 of Bleeker and de Rijke, without empty tables.

    A loss without weights of its own, such as most losses of plug-ins, has a table of general counts. The last table
    has the statistics without a threshold, which are on one scale for all losses.
    """
    groups: dict[str, list[Row]] = {layout.name: [] for layout in COCOS_LAYOUTS}
    for row in rows:
        fitting = (layout for layout in (cocos_layout(row.loss), GENERAL_LAYOUT) if _is_in(row, layout))
        effective = [EFFECTIVE_LAYOUT] if _is_in(row, EFFECTIVE_LAYOUT) else []
        for layout in [*list(fitting)[:1], *effective]:
            groups[layout.name].append(row)
    return tuple(_table(layout, groups[layout.name], with_published) for layout in COCOS_LAYOUTS if groups[layout.name])


def _is_in(row: Row, layout: Layout) -> bool:
    return any(column.metric in row.measures for column in layout.columns)


def _table(layout: Layout, rows: Sequence[Row], with_published: bool) -> Table:
    published: list[Row] = []
    if with_published and layout.published is not None:
        others = other_rows() if layout.published == RETRIEVAL else ()
        published = [row_of_published(row) for row in (*published_rows(layout.published), *others)]
    ordered: list[Row] = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        of_dataset = [row for row in rows if row.dataset == dataset]
        for model in dict.fromkeys(row.model for row in of_dataset):
            ours = [row for row in of_dataset if row.model == model]
            ordered += _beside(ours, _of(published, dataset, model))
    notes = (*_spread_note(layout, rows), *(_published_notes(layout, ordered) if with_published else ()))
    return Table(layout, tuple(ordered), notes)


def _of(published: Sequence[Row], dataset: str, model: str) -> list[Row]:
    """Return the published rows of a dataset and a model."""
    name = study_dataset(dataset)
    return [row for row in published if (row.dataset, row.model) == (name, model)]


def _beside(ours: Sequence[Row], published: Sequence[Row]) -> list[Row]:
    """Put each published row under the last row with its loss, and rows of other losses at the end."""
    rows = list(ours)
    for row in published:
        same = [index for index, one in enumerate(rows) if one.loss == row.loss]
        rows.insert(same[-1] + 1 if same else len(rows), row)
    return rows


def _spread_note(layout: Layout, rows: Sequence[Row]) -> list[str]:
    seeds = sorted({row.seeds for row in rows if row.seeds})
    if not seeds:
        return []
    if layout.spread:
        return [f"Mean over {_runs(seeds)} ± population standard deviation over {layout.spread}."]
    return [f"Mean ± population standard deviation over {_runs(seeds)}."]


def _runs(counts: Sequence[int]) -> str:
    return " or ".join(str(count) for count in counts) + (" run" if counts == [1] else " runs")


def _published_notes(layout: Layout, rows: Sequence[Row]) -> list[str]:
    """Name the sources of the published rows, or say that there is no published row for ours."""
    if layout.published is None:
        return ["Bleeker and de Rijke (ECIR 2022) have no table of these losses."] if rows else []
    if not any(row.published for row in rows):
        ours = ", ".join(dict.fromkeys(f"{PurePath(row.dataset).name} with {row.model}" for row in rows))
        return [f"There is no published row for {ours}; {_archive(layout)}."] if ours else []
    runs = {row.number: row.seeds for row in rows if row.published}
    others = [f"{number}: {SOURCES[number]}, {_runs([runs[number]])}." for number in runs if number in SOURCES]
    if len(others) == len(runs):
        return others
    notes = [f"Published: Bleeker and de Rijke (ECIR 2022), table {layout.published}.", *others]
    return [*notes, layout.caveat] if layout.caveat else notes


def _archive(layout: Layout) -> str:
    """Say for which datasets and models there are published rows."""
    tables = "the archive has vsepp and vsrn on flickr30k and coco"
    if layout.published != RETRIEVAL:
        return tables
    return f"{tables}, scan on both, and gsmn on flickr30k"
