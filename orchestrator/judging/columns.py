"""What the columns of a table of results mean: named by the user, or guessed by their names and contents.

A guess is shown before the answer, and every role can be named. A table is *long*, with a row for each run, or *wide*,
with a column for each candidate and a row for each seed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.judging.records import Record
from orchestrator.text.wording import listed
from trainables.errors import ConfigError

NAMES = {
    "dataset": ("dataset", "data", "task", "benchmark", "corpus"),
    "candidate": (
        *("candidate", "method", "model", "algorithm", "algo", "variant", "arm", "config", "setting", "system"),
        *("loss", "approach", "group"),
    ),
    "seed": ("seed", "random_seed", "rng_seed", "run_seed", "repeat", "replicate"),
    "search": ("search", "search_id", "sweep", "sweep_id", "study"),
    "split": ("split", "subset", "partition", "fold_type"),
    "query": ("query", "query_id", "image", "image_id", "example", "example_id", "item", "question", "question_id"),
    "step": ("step", "_step", "epoch", "iteration", "global_step"),
    "state": ("state", "status"),
    "runs": ("runs", "seeds", "n", "n_seeds", "n_runs", "num_seeds"),
}
"""Role -> names of its column in small letters, the likeliest first; also after ``config.`` and ``params.``."""

METRICS = (
    *("rsum", "accuracy", "acc", "score", "f1", "map", "ndcg", "mrr", "recall", "r@1", "r1", "auc", "bleu", "value"),
    *("loss", "error", "perplexity", "bpb"),
)
"""Parts of the name of a metric, the likeliest first."""

LOWER = re.compile(
    r"(?:^|[^a-z])(loss|err|error|perplexity|ppl|wer|cer|mse|rmse|mae|fid|nll|bpb|medr|meanr|rank|latency|time|seconds|minimised)"
    r"(?:$|[^a-z])"
)
"""Names of metrics of which smaller values are better."""

NO_METRIC = re.compile(
    r"(?:^|[^a-z])(id|number|index|step|epoch|iteration|seed|runtime|timestamp|created|duration|count|_wandb|lr|learning_rate"
    r"|batch|size|dim|weight_decay|temperature|margin|dropout)(?:$|[^a-z])"
)
"""Names of columns of numbers that are no metric."""

DEVIATION = re.compile(r"[ _./-]?(std|sd|stdev|stddev|std_dev)$")
"""End of the name of a column of deviations."""

FINISHED = {"finished", "complete", "completed", "success", "done"}
"""States of a run that has ended well, in small letters."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table by role; a role without a column is ``None``.

    Attributes:
        candidate: Columns whose values together name a candidate; of a wide table the candidates themselves.
        dataset: One column, or several separated by commas.
        deviation: Column of the deviation of the metric over runs, where a row is a mean.
        runs: Column of the number of runs of a mean.
        is_wide: Whether each column of ``candidate`` holds the values of one candidate.
        named: Roles that the user named.
        others: Further columns of numbers that could be the metric.
    """

    metric: str
    candidate: tuple[str, ...]
    dataset: str | None = None
    seed: str | None = None
    search: str | None = None
    split: str | None = None
    query: str | None = None
    step: str | None = None
    state: str | None = None
    deviation: str | None = None
    runs: str | None = None
    lower_is_better: bool = False
    is_wide: bool = False
    named: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()


def find_columns(records: Sequence[Record], **named: str | None) -> Columns:
    """Return the columns of records by role.

    Args:
        records: At least one.
        named: Role -> the column that the user names; of ``candidate`` several, separated by commas.

    Raises:
        ConfigError: If there is no such column, or no candidate or metric can be guessed.
    """
    # An export has many columns that are empty throughout.
    names = list(dict.fromkeys(name for record in records for name, cell in record.items() if cell is not None))
    wanted = {role: column for role, column in named.items() if column}
    parts = [part for column in wanted.values() for part in column.split(",")]
    if unknown := [part for part in parts if part not in names]:
        raise ConfigError(f"there is no column {listed(map(repr, unknown))}; there are {', '.join(names)}")
    columns = {role: wanted.get(role) or _by_name(names, role) for role in NAMES if role != "candidate"}
    taken = {part for column in columns.values() if column for part in column.split(",")}
    texts = [name for name in names if any(isinstance(record.get(name), str) for record in records)]
    numbers = [
        name
        for name in names
        if name not in texts and name not in taken and any(record.get(name) is not None for record in records)
    ]
    metrics = _metric_columns([name for name in numbers if name not in wanted.get("candidate", "").split(",")])
    free = [name for name in texts if name not in taken]
    candidate = _candidate(records, free, wanted)
    found = Columns("", candidate, **columns, named=frozenset(wanted))  # type: ignore[arg-type]
    if not candidate and "metric" not in wanted and len(metrics) > 1:
        # No text names a candidate: each column of numbers is a candidate.
        return replace(found, metric="value", candidate=tuple(metrics), is_wide=True)
    if not candidate:
        raise ConfigError(f"no column names the candidates; --candidate must name one of {', '.join(names)}")
    metric = wanted.get("metric") or next(iter(metrics), None)
    if metric is None:
        raise ConfigError(f"no column of numbers is a metric; --metric must name one of {', '.join(names)}")
    deviations = [name for name in numbers if DEVIATION.search(name.lower()) and DEVIATION.sub("", name) == metric]
    found = replace(found, deviation=next(iter(deviations), None))
    others = tuple(name for name in metrics if name != metric)
    return replace(found, metric=metric, lower_is_better=is_lower_better(metric), others=others)


def is_lower_better(metric: str) -> bool:
    """Return whether smaller values of a metric are better, by its name.

    Example:
        >>> is_lower_better("test_loss"), is_lower_better("rsum")
        (True, False)
    """
    return bool(LOWER.search(metric.lower()))


def _last_part(name: str) -> str:
    return re.split(r"[./]", name.lower())[-1].strip().replace(" ", "_")


def _by_name(names: Sequence[str], role: str) -> str | None:
    """Return the column that has the likeliest name of a role; ``None`` where no column has any."""
    for known in NAMES[role]:
        for name in names:
            if name.lower() == known or _last_part(name) == known:
                return name
    return None


def _metric_columns(numbers: Sequence[str]) -> list[str]:
    """Return the columns that can be a metric: of test before others, the likeliest name first."""
    possible = [name for name in numbers if not (NO_METRIC.search(name.lower()) or DEVIATION.search(name.lower()))]

    def order(name: str) -> tuple[int, int, int]:
        words = name.lower()
        known = next((place for place, part in enumerate(METRICS) if part in words), len(METRICS))
        on = 0 if "test" in words else 2 if "train" in words else 1
        return on, known, numbers.index(name)

    return sorted(possible, key=order)


def _candidate(records: Sequence[Record], free: Sequence[str], wanted: dict[str, str]) -> tuple[str, ...]:
    """Return the columns that name a candidate; empty where there are none."""
    if "candidate" in wanted:
        return tuple(wanted["candidate"].split(","))
    # A text that differs in every row names runs, and no candidates.
    values = {name: {record.get(name) for record in records} for name in free}
    varying = tuple(name for name in free if len(values[name]) > 1)
    known = tuple(name for name in varying if _last_part(name) in NAMES["candidate"])
    some = tuple(name for name in varying if len(values[name]) < len(records) or len(records) == 2)
    return known or some or tuple(name for name in free if _last_part(name) in NAMES["candidate"])[:1]
