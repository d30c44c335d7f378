"""Ranks of the candidates that fit, for the queries that people judged.

The position of the r-th best positive of a query is r + the number of candidates that do not fit and score at or above
the positive: ties rank against the query. There are three lists:

    all candidates, those that nobody judged counted as wrong          ``positions``
    judged candidates alone, those that nobody judged taken out        ``condensed``   [Sakai2007]
    all candidates, annotated pairs alone counted as right             ``annotated``

Metrics of the first list are too low where a candidate fits and nobody judged it. Metrics of the second list are too
high where people judged the candidates of other systems, because a model's high-ranked candidates that nobody judged
are more often wrong than judged candidates.

References:
    [Sakai2007] Sakai, Alternatives to Bpref, SIGIR 2007: condensed lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainables.errors import DataError
from trainables.judgements.judgements import Integers
from trainables.packed_integers import pack_integers, unpack_integers

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

    Attributes:
        name: Name of the judgements.
        digest: Digest of the judgements; ranks with equal digests can be compared.
        i2t: Images that query captions.
        t2i: Captions that query images.
    """

    name: str
    digest: str
    i2t: DirectionRanks
    t2i: DirectionRanks

    def to_text(self) -> dict[str, Any]:
        """Return plain values for JSON, from which ``from_text`` makes the ranks again."""
        arrays = [getattr(one, part) for one in (self.i2t, self.t2i) for part in _PARTS]
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


_PARTS = ("owners", "counts", "positions", "annotated", "condensed", "known")
