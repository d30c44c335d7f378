"""The table of metrics: each metric once, with its range, its name in print and its function; and how names are made.

A metric is the mean over queries of a function of the positions of a query's positives, or a sum of such metrics. The
positions are those among all candidates, from 1, in ascending order. With f the function of a query q:

    metric = mean of f(positions of q) over the queries of one direction        (a median where the entry says so)
    metric = sum of the parts, or their mean                                    (``rsum``, ``average_recall``)

A metric of both directions is measured twice, as ``i2t_NAME`` and ``t2i_NAME``. In records a name has a section before
it (``val/i2t_r1``, ``cocos/i2t_negatives_per_query``), and may have an ending behind it (``val/rsum_best``). This is
the only module that takes names apart.

The module imports neither torch nor NumPy: a function uses the methods of the arrays that it gets. Plug-ins join.

References:
    [Bleeker2022] Bleeker and de Rijke, Do Lessons from Metric Learning Generalize to Image-Caption Retrieval?
        section 4: average recall, rsum and mAP@5. arXiv:2202.07474
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation, section 6. IJCAI 2011
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from trainables.errors import Blaming, PluginError
from trainables.plugins.in_use import NameTable, run_offer
from trainables.plugins.offers import Offer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Positions = NDArray[np.float64]
    """Positions of each query's positives, ascending, shape (Q, P); infinite where a query has fewer than P."""
    Counts = NDArray[np.int64]
    """Number of positives of each query, shape (Q,), from 1."""
    OfQueries = Callable[[Positions, Counts], NDArray[np.float64]]
    """Positions and counts -> value of each query, shape (Q,)."""

DIRECTIONS = {"i2t": "image to captions", "t2i": "caption to images"}
"""Direction -> its name in print: an image queries captions; a caption queries images."""

VAL, TEST, COCOS, COCOS_START = "val", "test", "cocos", "cocos_start"
"""Sections of names: the splits, and the contributing samples at an epoch and in the first steps."""

BEST, STD, CONDENSED, ANNOTATED = "_best", "_std", "_condensed", "_annotated"
"""Endings: the best so far, the standard deviation over batches; and of judged pairs, which pairs count."""

START = "start_"
"""Start of the names that claims have for counts of the first steps."""

ENDINGS = (BEST, STD, "_sd", "_low", "_high", CONDENSED, ANNOTATED)


Value = TypeVar("Value")


@dataclass(frozen=True)
class Metric:
    """An entry of the table.

    Attributes:
        printed: Name in print, such as ``R@5``.
        meaning: What it measures, of one direction where there are two; may be empty.
        low, high: Range, in its unit; an end may be infinite.
        digits: Digits after the point that a value is shown with.
        directed: Whether it is measured in both directions.
        overall: Whether the mean of both directions is a metric too, under the name without direction.
        larger_is_better: ``None`` for a count, of which neither is better.
        selects: Whether it may select epochs and winners, and decide; only where larger is better.
        of_classes: Whether it is measured where images retrieve images of their class. There, only the position of the
            best positive is known.
        of_captions: Whether it is measured where images and captions retrieve each other.
        of_queries: The function of a query, see the head of this module; ``None`` for a sum, or for a metric of other
            numbers than positions.
        of_similarities: Instead, the function of similarities (Q, N) and positives (Q, N) of a plug-in.
        parts: The metrics of a sum: of the direction of the sum, or of both where the sum has none.
        averages: Whether the parts are averaged instead.
        median: Whether the metric is the floor of the median over the queries, and not the mean.
        depth: Number of a query's best positives on which it depends; ``None`` is all.
    """

    printed: str
    meaning: str = ""
    low: float = 0.0
    high: float = 100.0
    digits: int = 1
    directed: bool = True
    overall: bool = False
    larger_is_better: bool | None = True
    selects: bool = True
    of_classes: bool = True
    of_captions: bool = True
    of_queries: "OfQueries | None" = None
    of_similarities: Callable[[Any, Any], Any] | None = None
    parts: tuple[str, ...] = ()
    averages: bool = False
    median: bool = False
    depth: int | None = 1

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over queries, so that images have values of their own, over which tests run."""
        return not self.median and (self.of_queries is not None or bool(self.parts))


def recall(positions: "Positions", _: "Counts", *, first: int) -> "NDArray[np.float64]":
    """Return 100 for a query with a positive among its ``first`` candidates, and 0 for others, shape (Q,)."""
    return (positions[:, 0] <= first).astype(float) * 100.0


def best_rank(positions: "Positions", _: "Counts") -> "NDArray[np.float64]":
    """Return the position of the best positive of each query, from 1, shape (Q,)."""
    return positions[:, 0]


def average_precision(positions: "Positions", _: "Counts", *, first: int) -> "NDArray[np.float64]":
    """Return AP@K of each query, K = ``first``, as [Bleeker2022] has it: divided by the hits among the first K.

    With r-th best positive at position_r:  AP@K = (1/z) * sum of r / position_r over the z positives up to position K.
    """
    hits = positions <= first
    values: NDArray[np.float64] = (hits * hits.cumsum(1) / positions).sum(1)
    values /= hits.sum(1).clip(1)
    return values


def precision(positions: "Positions", _: "Counts", *, first: int) -> "NDArray[np.float64]":
    """Return the percentage of positives among the ``first`` candidates of each query [Weston2011], shape (Q,)."""
    values: NDArray[np.float64] = (positions <= first).sum(1) * (100.0 / first)
    return values


def r_precision(positions: "Positions", counts: "Counts") -> "NDArray[np.float64]":
    """Return the share of a query's R positives among its first R candidates, shape (Q,)."""
    values: NDArray[np.float64] = (positions <= counts[:, None]).sum(1) / counts
    return values


def average_precision_at_r(positions: "Positions", counts: "Counts") -> "NDArray[np.float64]":
    """Return AP@R of each query, R its number of positives: (1/R) sum of r / position_r up to position R, (Q,)."""
    hits = positions <= counts[:, None]
    values: NDArray[np.float64] = (hits * hits.cumsum(1) / positions).sum(1) / counts
    return values


def _recall(first: int, *, of_captions: bool = True) -> Metric:
    places = "in first place" if first == 1 else f"among the first {first}"
    meaning = f"percentage of queries with a positive {places}"
    return Metric(f"R@{first}", meaning, of_captions=of_captions, of_queries=partial(recall, first=first))


def _precision(first: int) -> Metric:
    meaning = f"percentage of positives among the first {first}"
    return Metric(f"P@{first}", meaning, of_classes=False, of_queries=partial(precision, first=first), depth=first)


def _mean_average_precision(first: int) -> Metric:
    function = partial(average_precision, first=first)
    meaning = f"mean average precision among the first {first}, 0 to 1"
    name = f"mAP@{first}"
    return Metric(name, meaning, high=1.0, digits=3, of_classes=False, of_queries=function, depth=first)


def _rank(printed: str, meaning: str, *, median: bool = False) -> Metric:
    rest = {"larger_is_better": False, "selects": False, "of_queries": best_rank, "median": median}
    return Metric(printed, meaning, low=1.0, high=math.inf, **rest)  # type: ignore[arg-type]


def _of_plugin(name: str, about: Mapping[str, Any]) -> Metric:
    """Return the entry of a plug-in's metric from its description."""
    low, high = (sign * math.inf if end is None else end for end, sign in zip(about["range"], (-1, 1), strict=True))
    entry = Metric(
        about["printed"] or name,
        # The first sentence of the docstring, as in a list.
        about["summary"][:1].lower() + about["summary"][1:].rstrip("."),
        low=low,
        high=high,
        digits=3 if high - low <= 2 else 1,
        overall=True,
        larger_is_better=about["larger_is_better"],
        selects=about["larger_is_better"],
        of_classes=False,
        depth=None,
    )
    # The code runs once, when the metric is first measured.
    function = partial(_measured_by_plugin, name, entry, cache(partial(run_offer, "metrics", name)))
    if about["of"] == "similarities":
        return replace(entry, of_similarities=function)
    return replace(entry, of_queries=function)


def _measured_by_plugin(
    name: str, entry: Metric, run: Callable[[], tuple[Offer, str]], queries: Any, positives: Any
) -> Any:
    """Return the values of a plug-in's function, shape (Q,) (``PluginError`` where it fails, or leaves its range)."""
    offer, place = run()
    with Blaming():
        values = offer.definition(queries, positives)
    shape = getattr(values, "shape", None)
    if shape is None or tuple(shape) != (len(queries),):
        got = type(values).__name__ if shape is None else f"shape {tuple(shape)}"
        raise PluginError(f"{place}: {name} must return a value for each query, shape ({len(queries)},), got {got}")
    least, most = float(values.min()), float(values.max())
    slack = 1e-6 * max(1.0, abs(least), abs(most))
    # A NaN is in no range.
    if not (entry.low - slack <= least and most <= entry.high + slack and math.isfinite(least + most)):
        raise PluginError(
            f"{place}: {name} must return values in [{entry.low:g}, {entry.high:g}], got {least:g} to {most:g}; "
            "give the decorator the right range"
        )
    return values


METRICS: NameTable[Metric] = NameTable(
    "metrics",
    {
        "rsum": Metric("rsum", "sum of six recalls, 0–600", high=600.0, directed=False, parts=("r1", "r5", "r10")),
        "r1_r5_sum": Metric("R@1 + R@5", "sum of four recalls, 0–400", high=400.0, directed=False, parts=("r1", "r5")),
        "r1": _recall(1),
        "r2": _recall(2, of_captions=False),
        "r4": _recall(4, of_captions=False),
        "r5": _recall(5),
        "r8": _recall(8, of_captions=False),
        "r10": _recall(10),
        "medr": _rank("median rank", "median rank of the first positive, from 1", median=True),
        "meanr": _rank("mean rank", "mean rank of the first positive, from 1"),
        "map5": _mean_average_precision(5),
        "map10": _mean_average_precision(10),
        "p5": _precision(5),
        "p10": _precision(10),
        "average_recall": Metric(
            "average recall", "mean of three recalls, 0–100", parts=("r1", "r5", "r10"), averages=True
        ),
    },
    _of_plugin,
)
"""Name without section and direction -> metric of a ranking; plug-ins join.

``r1_r5_sum`` selects in the published code of VSRN; R@2, 4 and 8 are usual in fine-grained retrieval.
"""


def _of_all_positives(printed: str, meaning: str, function: "OfQueries | None" = None) -> Metric:
    rest = {"high": 1.0, "digits": 3, "overall": True, "selects": False, "of_classes": False, "depth": None}
    return Metric(printed, meaning, of_queries=function, **rest)  # type: ignore[arg-type]


JUDGED = {
    "r_precision": _of_all_positives("R-Prec", "share of a query's R positives among its first R, 0 to 1", r_precision),
    "map_r": _of_all_positives("mAP@R", "mean average precision among the first R, 0 to 1", average_precision_at_r),
    "top10_judged": _of_all_positives(
        "judged share", "share of a query's first ten candidates that people judged, 0 to 1"
    ),
}
"""Name -> further metric, measured where people judged pairs, or where files of other models are evaluated."""


def _count(printed: str, meaning: str, **rest: Any) -> Metric:
    return Metric(printed, meaning, high=math.inf, larger_is_better=None, selects=False, **rest)


COUNTERS = {
    "negatives_per_query": _count(
        "negatives a query", "negatives that contribute to the gradient of a query, the mean over queries that have any"
    ),
    "negatives_per_batch": _count(
        "negatives a batch", "negatives that contribute to the gradient, summed over the queries of a batch"
    ),
    "queries_without_gradient": _count(
        "queries without gradient", "queries of a batch to whose gradient no negative contributes"
    ),
    "negative_weight": _count(
        "weight of negatives", "summed weight of a query's contributing negatives, the mean over all queries"
    ),
    "positive_weight": _count("weight of the positive", "weight of a query's positive, the mean over all queries"),
    "effective_negatives_entropy": _count(
        "effective negatives (entropy)", "effective number of a query's negatives, exp of the entropy of their weights"
    ),
    "effective_negatives_squares": _count(
        "effective negatives (squares)",
        "effective number of a query's negatives, 1 over the sum of their squared shares",
    ),
    "gradient_share_hardest1": _count(
        "share of the hardest negative",
        "share of the weight of a query's negatives that its hardest negative has, in [0, 1]",
    ),
    "gradient_share_hardest5": _count(
        "share of the five hardest negatives",
        "share of the weight of a query's negatives that its five hardest have, in [0, 1]",
    ),
    "gradient_negatives": _count(
        "negatives with gradient",
        "negative pairs whose similarity has a gradient above epsilon, from autograd",
        directed=False,
    ),
    "gradient_positives": _count(
        "positives with gradient",
        "positive pairs whose similarity has a gradient above epsilon, from autograd",
        directed=False,
    ),
}
"""Name without section and direction -> count of contributing samples that every loss has, see ``cocos``."""

DERIVED = {
    "negatives_per_query_half_epsilon": _count("negatives a query at ε/2", ""),
    "negatives_per_query_twice_epsilon": _count("negatives a query at 2ε", ""),
    "share_without_gradient": _count("share without gradient", ""),
    "epochs_to_95": _count("epochs to 95 % of the best", "", directed=False),
}
"""Further counts, which some trainings or certificates have."""


class MetricName(NamedTuple):
    """The parts of a name in records; those that it lacks are empty.

    Attributes:
        section: ``val``, ``test/judged_cxc`` ...: all before the last slash.
        direction: ``i2t`` or ``t2i``.
        measure: A key of the tables of this module, or another name, such as ``loss``.
        ending: One of ``ENDINGS``.
    """

    section: str
    direction: str
    measure: str
    ending: str

    def __str__(self) -> str:
        directed = f"{self.direction}_{self.measure}" if self.direction else self.measure
        return f"{self.section}/{directed}{self.ending}" if self.section else f"{directed}{self.ending}"

    @property
    def short(self) -> str:
        """The name without its section: ``i2t_r1``."""
        return str(self._replace(section=""))

    @property
    def entry(self) -> Metric | None:
        """The entry of the metric; ``None`` for what is none, such as a duration, or is not known here."""
        tables: tuple[Mapping[str, Metric], ...] = (METRICS, JUDGED)
        if self.section in (COCOS, COCOS_START):
            tables = (COUNTERS, DERIVED)
        elif not self.section:
            tables = (METRICS, JUDGED, COUNTERS, DERIVED)
        return next((table[self.measure] for table in tables if self.measure in table), None)


_PARTS = re.compile(
    rf"(?:(?P<section>.*)/)?(?:(?P<direction>{'|'.join(DIRECTIONS)})_)?(?P<measure>.+?)(?P<ending>{'|'.join(ENDINGS)})?"
)


@cache
def name_parts(name: str) -> MetricName:
    """Return the parts of a name in records.

    Example:
        >>> name_parts("test/judged_cxc/i2t_r5_condensed")
        MetricName(section='test/judged_cxc', direction='i2t', measure='r5', ending='_condensed')
        >>> str(name_parts("cocos/gradient_negatives_std")), name_parts("val/rsum").short
        ('cocos/gradient_negatives_std', 'rsum')
    """
    match = _PARTS.fullmatch(name)
    # A name of another program, such as an empty one, has one part.
    return MetricName(*(part or "" for part in match.groups())) if match else MetricName("", "", name, "")


def metric_of(name: str) -> Metric:
    """Return the entry of a name in records; without an entry, one without range, shown with the digits of a sum.

    Example:
        >>> metric_of("val/i2t_map10").printed, metric_of("test/judged_cxc/map_r").digits, metric_of("train/loss").high
        ('mAP@10', 3, inf)
    """
    parts = name_parts(name)
    return parts.entry or Metric(parts.measure.replace("_", " "), low=-math.inf, high=math.inf, larger_is_better=None)


def range_of(name: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can have, so that no interval has impossible values.

    An end is infinite where there is no limit, or where the metric is not known here.

    Example:
        >>> range_of("test/rsum"), range_of("val/i2t_map5")
        ((0.0, 600.0), (0.0, 1.0))
    """
    entry = metric_of(name)
    return entry.low, entry.high


def without_section(name: str) -> str:
    """Return a metric without its section: ``rsum`` of ``test/rsum``, ``i2t_r1`` of ``test/judged_cxc/i2t_r1``."""
    return name_parts(name).short


def in_section(name: str, section: str) -> str:
    """Return a metric in another section: ``test/rsum`` of ``val/rsum``."""
    return f"{section}/{without_section(name)}"


def running_best(name: str) -> str:
    """Return the name of the best value so far of the metric that selects: ``val/rsum_best``."""
    return f"{name}{BEST}"


def spread_of(name: str) -> str:
    """Return the name of the standard deviation over batches of a count: ``cocos/gradient_negatives_std``."""
    return f"{name}{STD}"


def is_value(name: str) -> bool:
    """Whether a name is that of a value, and not of the best value so far, or of a spread over batches."""
    return name_parts(name).ending not in (BEST, STD)


def at_start(name: str) -> str:
    """Return the name that claims have for a count of the first steps: ``start_i2t_negatives_per_query``."""
    return f"{START}{name}"


def of_claim(name: str) -> str:
    """Return the name in records of a metric of a claim, see ``at_start``; other metrics have one name."""
    return in_section(name[len(START) :], COCOS_START) if name.startswith(START) else name


def is_in(name: str, *sections: str) -> bool:
    """Whether a name is in one of some sections, or below it: ``test/judged_cxc/map_r`` is in ``test``."""
    return name.startswith(tuple(f"{section}/" for section in sections))


def values_in(metrics: Mapping[str, Value], section: str) -> dict[str, Value]:
    """Return the values in a section by names without the section, without best values so far and spreads.

    Example:
        >>> values_in({"val/rsum": 1.0, "val/rsum_best": 2.0, "val/judged_cxc/map_r": 0.3, "test/rsum": 3.0}, "val")
        {'rsum': 1.0, 'judged_cxc/map_r': 0.3}
    """
    inside = ((name, value) for name, value in metrics.items() if is_in(name, section) and is_value(name))
    return {name[len(section) + 1 :]: value for name, value in inside}


def keys_of(measure: str, entry: Metric) -> list[str]:
    """Return the names of a metric without section: of both directions, or overall.

    Example:
        >>> keys_of("r5", METRICS["r5"]), keys_of("rsum", METRICS["rsum"])
        (['i2t_r5', 't2i_r5'], ['rsum'])
    """
    directed = [f"{direction}_{measure}" for direction in DIRECTIONS] if entry.directed else []
    return [*directed, *([measure] if entry.overall or not entry.directed else [])]


def parts_of(name: str) -> tuple[list[str], int]:
    """Return the metrics over queries of one direction that make up a metric without section, and what divides the sum.

    Example:
        >>> parts_of("i2t_r5"), parts_of("r1_r5_sum")
        ((['i2t_r5'], 1), (['i2t_r1', 'i2t_r5', 't2i_r1', 't2i_r5'], 1))
        >>> parts_of("map_r_condensed")
        (['i2t_map_r_condensed', 't2i_map_r_condensed'], 2)
    """
    parts, entry = name_parts(name), metric_of(name)
    ways = [parts.direction] if parts.direction else list(DIRECTIONS)
    names = [
        str(parts._replace(direction=way, measure=part)) for way in ways for part in entry.parts or [parts.measure]
    ]
    return names, len(names) if entry.averages or not entry.parts else 1


def may_select() -> list[str]:
    """Return the names on val of the metrics that may select the best epoch, those of both directions first."""
    names = [f"{VAL}/{key}" for measure, entry in METRICS.items() if entry.selects for key in keys_of(measure, entry)]
    return sorted(names, key=lambda name: bool(name_parts(name).direction))


def counts() -> list[str]:
    """Return the names of the counts of contributing samples that every loss has."""
    return [f"{COCOS}/{key}" for measure, entry in COUNTERS.items() for key in keys_of(measure, entry)]


def depth_of(entries: Iterable[Metric]) -> int | None:
    """Return the number of best positives of a query on which some metrics depend; ``None`` is all."""
    depths = [entry.depth for entry in entries]
    return None if None in depths else max(depth for depth in depths if depth is not None)
