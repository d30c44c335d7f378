"""Runs of candidates from a table of results, with what is missing and what is odd about them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.judging.columns import FINISHED, Columns
from orchestrator.judging.records import Cell, Record, cell_of
from orchestrator.results.runs import RunId, Runs
from orchestrator.results.statistics import Measure, Sample
from orchestrator.text.values import value_text
from orchestrator.text.wording import listed
from trainables.errors import ConfigError, DataError
from trainables.metric_values import image_values
from trainables.ranks import read_ranks

VALUE = "value"
"""Metric of the runs: a name of the user's may be that of a metric of ours with another range."""

ARRAYS = (".npy", ".npz")
"""Endings of files with a value for each query."""

TIMES_100 = (30.0, 300.0)
"""Ratio of the medians of two candidates from which on a fraction beside a percentage is suspected."""


@dataclass(frozen=True)
class Judged:
    """The candidates of one dataset; ``notes`` are sentences about the rows that were read."""

    dataset: str
    candidates: tuple[Runs, ...]
    notes: tuple[str, ...] = ()
    queries: int | None = field(default=None)


def runs_of_table(
    records: Sequence[Record],
    columns: Columns,
    *,
    split: str | None = None,
    percent: bool = False,
    count: int | None = None,
) -> list[Judged]:
    """Return the candidates of each dataset.

    Args:
        records: The rows.
        columns: What they mean.
        split: The split whose rows count; ``None`` is test, where there is one.
        percent: Whether values of at most 1 are fractions of percentages.
        count: Runs of each mean, where the rows are means with deviations.

    Raises:
        ConfigError: If rows contradict each other, or mix fractions and percentages.
    """
    rows, notes = _of_split(records, columns, split)
    long = _long(rows, columns)
    by_dataset: dict[str, list[Record]] = defaultdict(list)
    for row in long:
        by_dataset[name_of(row, columns.dataset)].append(row)
    judged = []
    for dataset, of_dataset in by_dataset.items():
        groups: dict[str, list[Record]] = defaultdict(list)
        for row in of_dataset:
            groups[name_of(row, "" if columns.is_wide else ",".join(columns.candidate))].append(row)
        if columns.query is not None:
            _refuse_other_queries(groups, columns)
        if columns.deviation and (count is not None or columns.runs):
            candidates = [_of_means(name, group, columns, count) for name, group in groups.items()]
        else:
            candidates = [_of_runs(name, group, columns) for name, group in groups.items()]
        candidates = [_in_percent(runs) if percent else runs for runs in candidates]
        _refuse_mixed_scales(candidates)
        judged.append(Judged(dataset, tuple(candidates), tuple(notes), _queries(candidates)))
    return judged


def name_of(row: Mapping[str, Cell], columns: str | None) -> str:
    """Return the values of one or several columns as a name; empty without a column."""
    if columns is None:
        return ""
    cells = [row.get(name) for name in columns.split(",")]
    return ", ".join("–" if cell is None else cell if isinstance(cell, str) else value_text(cell) for cell in cells)


def _of_split(records: Sequence[Record], columns: Columns, split: str | None) -> tuple[list[Record], list[str]]:
    """Return the rows of one split, and what was left out."""
    if columns.split is None:
        if split is not None:
            raise ConfigError("--split: the table has no column of splits")
        return list(records), []
    splits = list(dict.fromkeys(str(record.get(columns.split)) for record in records))
    chosen = split or (
        splits[0] if len(splits) == 1 else next((name for name in splits if "test" in name.lower()), None)
    )
    if chosen is None or chosen not in splits:
        raise ConfigError(f"--split must be one of {', '.join(splits)}")
    note = [f"Rows of {chosen} count; other splits were left out."] if len(splits) > 1 else []
    return [record for record in records if str(record.get(columns.split)) == chosen], note


def _long(rows: Sequence[Record], columns: Columns) -> list[Record]:
    """Return a row for each run of each candidate: those of a wide table are split, and of several steps the last."""
    if columns.is_wide:
        return [
            {
                **{name: cell for name, cell in row.items() if name not in columns.candidate},
                "": name,
                VALUE: row.get(name),
            }
            for row in rows
            for name in columns.candidate
        ]
    if columns.step is None:
        return list(rows)
    last: dict[tuple[Cell, ...], Record] = {}
    keys = [*columns.candidate, *(columns.dataset or "").split(","), columns.seed, columns.search, columns.query]
    for place, row in enumerate(rows):
        # Without seeds, a step that is not above the one before begins another run.
        key = tuple(row.get(name) for name in keys if name)
        known = last.get(key)
        if known is not None and columns.seed is None:
            key = (*key, float(place))
        step, before = row.get(columns.step), (known or {}).get(columns.step)
        if row.get(columns.metric) is None and known is not None:
            continue
        if not isinstance(step, float) or not isinstance(before, float) or step >= before:
            last[key] = row
    return list(last.values())


def _value(row: Record, columns: Columns) -> Cell:
    return row.get(VALUE if columns.is_wide else columns.metric)


def _refuse_other_queries(groups: Mapping[str, Sequence[Record]], columns: Columns) -> None:
    """Refuse candidates with values of different queries, of which no pair belongs together."""
    queries = {
        name: {str(row.get(columns.query or "")) for row in rows if _value(row, columns) is not None}
        for name, rows in groups.items()
    }
    of_any = set().union(*queries.values())
    for name, known in queries.items():
        if known and (lacking := of_any - known):
            raise ConfigError(
                f"{name}: has no value of query {min(lacking)}; the candidates must have values of the same queries"
            )


def _of_runs(name: str, rows: Sequence[Record], columns: Columns) -> Runs:
    """Return a candidate whose rows are runs, or queries of runs."""
    values: dict[RunId, dict[str, float]] = {}
    missing: dict[RunId, str] = {}
    queries: dict[RunId, dict[str, float]] = defaultdict(dict)
    searches: dict[Cell, int] = {}
    for place, row in enumerate(rows):
        seed = row.get(columns.seed) if columns.seed else float(place) if columns.query is None else 0.0
        if not isinstance(seed, float):
            raise ConfigError(f"{name}: a seed must be a number, got {seed!r}; --seed names another column")
        search = searches.setdefault(row.get(columns.search), len(searches)) if columns.search else 0
        run = RunId(search, int(seed))
        value, state = _value(row, columns), str(row.get(columns.state) or "").lower() if columns.state else ""
        if isinstance(value, str):
            raise ConfigError(f"{name}: {columns.metric} must be a number, got {value!r}")
        if state and state not in FINISHED:
            missing[run] = state
        elif value is None:
            missing[run] = "no value"
        elif columns.query is not None:
            query = str(row.get(columns.query))
            if query in queries[run]:
                where = f"{name}, seed {run.seed}"
                raise ConfigError(
                    f"{where}: has several values of query {query}; --seed or --search must separate them"
                )
            queries[run][query] = value
        elif run in values:
            raise ConfigError(
                f"{name}, seed {run.seed}: has several rows; --seed, --search or --dataset must separate them"
            )
        else:
            values[run] = {VALUE: value}
    found = Runs(name, values) if columns.query is None else _of_queries(name, queries)
    lost = {run: why for run, why in missing.items() if run not in found.values}
    # One run that is left of several is no model without seeds.
    return replace(found, missing=lost, has_seeds=found.has_seeds or bool(lost))


def _of_queries(name: str, queries: Mapping[RunId, Mapping[str, float]]) -> Runs:
    names = sorted(next(iter(queries.values()), {}))
    for run, of_run in queries.items():
        if sorted(of_run) != names:
            raise ConfigError(f"{name}, seed {run.seed}: has other queries than its other runs")
    images = {run: np.array([of_run[query] for query in names]) for run, of_run in queries.items()}
    return _with_images(name, images)


def _with_images(name: str, images: Mapping[RunId, Sample]) -> Runs:
    values = {run: {VALUE: float(of_run.mean())} for run, of_run in images.items()}
    return Runs(name, values, images={VALUE: images}, has_seeds=len(images) > 1)


def _of_means(name: str, rows: Sequence[Record], columns: Columns, count: int | None) -> Runs:
    """Return a candidate of which the mean and the sample deviation over runs are known."""
    if len(rows) > 1:
        raise ConfigError(f"{name}: has several rows of means; name --dataset or --candidate that separate them")
    (row,) = rows
    mean, deviation = row.get(columns.metric), row.get(columns.deviation or "")
    runs = row.get(columns.runs) if columns.runs and count is None else count
    if not isinstance(mean, float) or not isinstance(deviation, float) or not isinstance(runs, int | float) or runs < 2:
        raise ConfigError(f"{name}: needs mean, deviation and at least two runs, got {mean}, {deviation} and {runs}")
    std = deviation * math.sqrt((runs - 1) / runs)
    return Runs(name, means={VALUE: Measure(mean, std, int(runs))})


def _in_percent(runs: Runs) -> Runs:
    """Return a candidate with its values in percent, where all are fractions."""
    sizes = [abs(metrics[VALUE]) for metrics in runs.values.values()] or [abs(runs.means[VALUE].mean)]
    if max(sizes, default=0.0) > 1:
        return runs
    values = {run: {VALUE: 100 * metrics[VALUE]} for run, metrics in runs.values.items()}
    images = {VALUE: {run: 100 * of_run for run, of_run in runs.images.get(VALUE, {}).items()}} if runs.images else {}
    means = {
        name: Measure(100 * known.mean, None if known.std is None else 100 * known.std, known.seeds)
        for name, known in runs.means.items()
    }
    return replace(runs, values=values, images=images, means=means)


def _refuse_mixed_scales(candidates: Sequence[Runs]) -> None:
    """Refuse fractions beside percentages, of which one would be a hundred times better."""
    medians = {
        runs.label: float(np.median(runs.sample(VALUE) if runs.values else [runs.means[VALUE].mean]))
        for runs in candidates
        if runs.values or runs.means
    }
    fractions = {name: value for name, value in medians.items() if 0 < value <= 1}
    larger = {name: value for name, value in medians.items() if value > 1}
    if fractions and larger:
        low, high = max(fractions.values()), min(larger.values())
        if TIMES_100[0] <= high / low <= TIMES_100[1]:
            raise ConfigError(
                f"{listed(fractions)}: values up to 1 beside {value_text(high)} of {next(iter(larger))}; "
                "--percent takes values up to 1 as fractions"
            )


def _queries(candidates: Sequence[Runs]) -> int | None:
    """Return the number of queries that all runs share; ``None`` where the values of queries are not known."""
    counts = {len(values) for runs in candidates for values in runs.images.get(VALUE, {}).values()}
    if len(counts) > 1:
        raise ConfigError(
            f"the candidates have values of {listed(map(str, sorted(counts)))} queries; they must be the same"
        )
    return counts.pop() if counts else None


def runs_of_arrays(texts: Sequence[str], metric: str) -> list[Judged]:
    """Return candidates given as ``LABEL=FILE``, a file for each seed, with a value for each query.

    A ``.npy`` holds values (Q,), or (S, Q) with a row for each seed. A ``.npz`` holds ranks as `orchestrator evaluate
    --ranks` writes them, or the array ``values``.

    Raises:
        DataError: If a file is damaged or of another shape.
    """
    files: dict[str, list[Path]] = defaultdict(list)
    for text in texts:
        label, equals, file = text.partition("=")
        if not (equals and label and file):
            raise ConfigError(f"{text}: must be LABEL=FILE, such as ours=seed1.npy")
        files[label].append(Path(file))
    candidates, owners = [], set()
    for label, paths in files.items():
        rows: list[Sample] = []
        for path in paths:
            values, digest = _array(path, metric)
            rows += list(np.atleast_2d(values))
            owners.add(digest)
        candidates.append(_with_images(label, {RunId(0, seed): row for seed, row in enumerate(rows)}))
    if len(owners) > 1:
        raise DataError("the files hold values of different queries, which cannot be compared query by query")
    return [Judged("", tuple(candidates), (), _queries(candidates))]


def _array(path: Path, metric: str) -> tuple[Sample, str]:
    """Return the values of a file, and the digest of its queries, empty where it is not known."""
    try:
        with np.load(path, allow_pickle=False) if path.suffix == ".npz" else _Plain(path) as file:
            names: Any = set(file.files)
            if {"i2t", "t2i", "queries"} <= names:
                ranks = read_ranks(path)
                return image_values(ranks, metric), ranks.queries
            values = np.asarray(file["values"], dtype=np.float64)
    except (OSError, ValueError, KeyError, EOFError, SyntaxError) as error:
        raise DataError(f"{path}: holds no values of queries, or is damaged: {error}") from None
    if values.ndim not in (1, 2) or values.size == 0 or not np.isfinite(values).all():
        raise DataError(f"{path}: must hold finite values (queries,) or (seeds, queries), got the shape {values.shape}")
    return values, ""


class _Plain:
    """A ``.npy`` file read as an archive with the array ``values``."""

    files = ("values",)

    def __init__(self, path: Path) -> None:
        self._values = np.load(path, allow_pickle=False)

    def __enter__(self) -> "_Plain":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __getitem__(self, name: str) -> Any:
        return self._values


__all__ = ["VALUE", "Judged", "cell_of", "name_of", "runs_of_arrays", "runs_of_table"]
