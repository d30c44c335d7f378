"""Retrieval metrics with judged positives, and the ranks that they are computed from, which journals keep.

The judgements themselves are read and ranked in ``judgements/``.

With R positives of a query, the r-th best of which is at position_r [Musgrave2020]:

    R-Precision = #{r: position_r <= R} / R
    AP@R        = (1/R) * sum of r / position_r over the positives whose position is at most R
    R@K         = 100 * mean(position_1 <= K)

A name ends with ``_condensed`` where candidates that nobody judged were taken out, and with ``_annotated`` where only
annotated pairs count as right; see ``DirectionRanks``.

The position of the r-th best positive of a query is r + the number of candidates that do not fit and score at or above
the positive. Ties rank against the query. There are three lists:

    all candidates, unjudged candidates counted as wrong           ``positions``
    judged candidates alone                                        ``condensed``   [Sakai2007]
    all candidates, annotated pairs alone counted as right         ``annotated``

Metrics of the first list are too low where a candidate fits and nobody judged it. Metrics of the second list are too
high where people judged the candidates of other systems. A model's high-ranked candidates that nobody judged are then
more often wrong than judged candidates.

References:
    [Musgrave2020] Musgrave, Belongie and Lim, A Metric Learning Reality Check, ECCV 2020. arXiv:2003.08505
    [Chun2022] Chun et al., ECCV Caption, ECCV 2022: mAP@R and R-Precision of retrieval in MS-COCO. arXiv:2204.03359
    [Sakai2007] Sakai, Alternatives to Bpref, SIGIR 2007: condensed lists.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainables.errors import DataError
from trainables.metric_table import ANNOTATED, CONDENSED, DIRECTIONS, METRICS, name_parts, parts_of
from trainables.metric_values import Values, listed_queries, measured, single_queries
from trainables.ranks import pack_integers, unpack_integers

if TYPE_CHECKING:
    from trainables.positive_ranks import PairScores

TITLES = {"flickr8k": "Flickr8k's experts and crowd", "cxc": "CxC", "eccv": "ECCV Caption"}
"""Source of judgements -> its title for people."""

Integers = NDArray[np.int32]

TOP = 10
"""First candidates among which the judged candidates are counted."""


@dataclass(frozen=True, eq=False)
class DirectionRanks:
    """One direction of retrieval, of Q queries with P positives in all.

    Attributes:
        owners: The image that each query is or belongs to, shape (Q,), int32.
        counts: How many positives each query has, shape (Q,), int32, from 1.
        positions: Of each query's positives among all candidates, the best first, query after query, shape (P,), int32,
            from 1.
        annotated: Rank of each query's best annotated candidate among all others, shape (Q,), int32, from 1.
        condensed: As ``positions`` among the judged candidates alone; empty where only pairs that fit are known.
        known: How many of the first ten candidates of each query are judged or annotated, shape (Q,), int32; empty
            where only pairs that fit are known.
    """

    owners: Integers
    counts: Integers
    positions: Integers
    annotated: Integers
    condensed: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    known: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int32))


@dataclass(frozen=True, eq=False)
class JudgedRanks:
    """Both directions.

    Ranks with equal digests of their judgements can be compared.
    """

    name: str
    digest: str
    i2t: DirectionRanks
    t2i: DirectionRanks

    def to_text(self) -> dict[str, Any]:
        """Return plain values for JSON, from which ``from_text`` makes the ranks again."""
        arrays = [getattr(direction, part) for direction in (self.i2t, self.t2i) for part in _PARTS]
        lengths = [len(array) for array in arrays]
        return {
            "name": self.name,
            "digest": self.digest,
            "lengths": lengths,
            "packed": pack_integers(np.concatenate(arrays)),
        }

    @classmethod
    def from_text(cls, text: Mapping[str, Any]) -> "JudgedRanks":
        """Return the ranks that ``to_text`` wrote.

        Raises:
            DataError: If the text is damaged.
        """
        try:
            lengths = [int(length) for length in text["lengths"]]
            name, digest, packed = str(text["name"]), str(text["digest"]), text["packed"]
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"kept ranks of judged pairs are damaged: {error}") from None
        arrays = np.split(unpack_integers(packed, (sum(lengths),)), np.cumsum(lengths)[:-1])
        if len(arrays) != 2 * len(_PARTS):
            raise DataError(f"kept ranks of judged pairs are damaged: {len(arrays)} arrays")
        return cls(name, digest, DirectionRanks(*arrays[: len(_PARTS)]), DirectionRanks(*arrays[len(_PARTS) :]))


class JudgedSplit(Protocol):
    """The judgements of one source on one split."""

    @property
    def name(self) -> str:
        """The source, a key of ``TITLES``."""

    def counts(self) -> dict[str, Any]:
        """Return the judgements in numbers, plain values for JSON; ``count_sentences`` has them in words."""

    def rank(self, scores: "PairScores") -> JudgedRanks:
        """Return the ranks that scores give to the candidates that fit."""


_PARTS = ("owners", "counts", "positions", "annotated", "condensed", "known")


RECALLS = METRICS["rsum"].parts
PRECISIONS = ("r_precision", "map_r")
KNOWN = f"top{TOP}_judged"
"""Share of the first ten candidates that are judged or annotated, in [0, 1]."""


def judged_metrics(ranks: JudgedRanks) -> dict[str, float]:
    """Return all metrics by name.

    Returns:
        ``i2t_r1 i2t_r5 i2t_r10`` in percent, ``i2t_r_precision i2t_map_r`` in [0, 1], and the same for ``t2i_``.
        ``rsum`` is the sum of the recalls; ``r_precision`` and ``map_r`` are the means of both directions. Recalls and
        ``rsum`` are also given with the ending ``_annotated``. Where it is known which pairs do not fit, metrics
        without an ending are also given with the ending ``_condensed``, beside ``i2t_top10_judged`` and
        ``t2i_top10_judged``.
    """
    readings = ["", *([CONDENSED] if ranks.i2t.known.size else [])]
    names = [f"{name}{reading}" for reading in readings for name in (*RECALLS, *PRECISIONS)]
    names += [*(f"{name}{ANNOTATED}" for name in RECALLS), *([KNOWN] if ranks.i2t.known.size else [])]
    means = {
        f"{way}_{name}": float(query_values(getattr(ranks, way), name).mean()) for way in DIRECTIONS for name in names
    }
    for name in [f"rsum{ANNOTATED}", *(f"{name}{reading}" for reading in readings for name in ("rsum", *PRECISIONS))]:
        parts, divisor = parts_of(name)
        means[name] = sum(means[part] / divisor for part in parts)
    return means


def named_metrics(judged: Iterable[JudgedRanks]) -> dict[str, float]:
    """Return the metrics of several sources of judgements under names of their own: ``judged_flickr8k/i2t_r1`` ..."""
    return {f"judged_{ranks.name}/{name}": value for ranks in judged for name, value in judged_metrics(ranks).items()}


def query_values(ranks: DirectionRanks, name: str) -> Values:
    """Return the value of each query, shape (Q,), whose mean is a metric of one direction.

    The name is without the direction, e.g. ``r5``, ``map_r_condensed``.

    Raises:
        KeyError: If there is no such metric.
    """
    if name == KNOWN:
        return ranks.known / TOP
    _, _, measure, ending = name_parts(name)
    if ending == ANNOTATED:
        if measure not in RECALLS:
            raise KeyError(name)
        return measured(measure, single_queries(ranks.annotated))
    positions = ranks.condensed if ending == CONDENSED else ranks.positions
    return measured(measure, listed_queries(positions, ranks.counts))


def count_sentences(counts: Mapping[str, Any]) -> list[str]:
    """Return ``JudgedSplit.counts`` in sentences for people."""
    pairs = "the files name pairs that fit and no others, so unjudged pairs count as wrong"
    if counts["judged_pairs"] is not None:
        pairs = f"{counts['judged_pairs']:,} pairs are judged or annotated, {counts['judged_share']:.1%} of all pairs"
    sentences = [
        f"{counts['title']} ({', '.join(counts['files'])}): {counts['image_queries']:,} images ask for "
        f"{counts['captions_retrieved_in']:,} captions, {counts['caption_queries']:,} captions ask for "
        f"{counts['images_retrieved_in']:,} images; {pairs}",
        f"right answers of an image: {counts['positives_per_image']:.2f} captions where "
        f"{counts['annotated_per_image']:.2f} are annotated; of a caption: {counts['positives_per_caption']:.2f} "
        f"images where {counts['annotated_per_caption']:.2f} are annotated ({counts['rule']})",
    ]
    if counts["refused"]:
        sentences.append(f"{counts['refused']:,} annotated pairs were judged not to fit; they still count as right")
    if counts["outside"]:
        sentences.append(f"{counts['outside']:,} judged pairs are of no image or caption of the split")
    return sentences
