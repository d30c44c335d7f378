"""People's judgements of pairs of an image and a caption: the queries and galleries of a split, and the judged pairs.

The captions of a dataset were written for one image each, so a retrieved caption of another image counts as wrong,
however well it fits. Judgements name pairs of images and captions of other images that fit as well.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TITLES = {"flickr8k": "Flickr8k's experts and crowd", "cxc": "CxC", "eccv": "ECCV Caption"}
"""Source of judgements -> its title for people."""

Integers = NDArray[np.int32]

Pairs = NDArray[np.int32]
"""Pairs of a query and a candidate, shape (2, P): places of queries, non-decreasing, and places in the gallery."""


@dataclass(frozen=True, eq=False)
class JudgedQueries:
    """One direction of retrieval.

    Attributes:
        queries: The queries, as indices of images or of captions in the split, shape (Q,).
        owners: The image that each query is or belongs to, as an index in the split, shape (Q,).
        gallery: The candidates, as indices of captions or of images in the split, shape (G,).
        positives: The pairs that fit: annotated, or judged to fit. Every query has at least one.
        annotated: The pairs of an image with a caption of its own. Every query has at least one.
        judged: All pairs that are known to fit or not to fit, the positives included; ``None`` where only pairs that
            fit are known.
    """

    queries: Integers
    owners: Integers
    gallery: Integers
    positives: Pairs
    annotated: Pairs
    judged: Pairs | None


@dataclass(frozen=True, eq=False)
class Judgements:
    """The judgements of one source on one split.

    ``digest`` is the SHA-256 of the files and of the queries, 64 hex digits: ranks with equal digests can be compared.
    ``outside`` counts judged pairs that are not of this split, ``refused`` annotated pairs that were judged not to fit;
    the annotation counts. ``rule`` says in words when a pair fits.
    """

    name: str
    split: str
    digest: str
    files: tuple[str, ...]
    i2t: JudgedQueries
    t2i: JudgedQueries
    outside: int
    refused: int
    rule: str

    def counts(self) -> "JudgementCounts":
        """Return the judgements in numbers."""
        known = {None if one.judged is None else one.judged.shape[1] for one in (self.i2t, self.t2i)}
        share = None
        if self.i2t.judged is not None:
            share = round(self.i2t.judged.shape[1] / (len(self.i2t.queries) * len(self.i2t.gallery)), 4)
        return JudgementCounts(
            name=self.name,
            title=TITLES[self.name],
            files=list(self.files),
            rule=self.rule,
            image_queries=len(self.i2t.queries),
            caption_queries=len(self.t2i.queries),
            captions_retrieved_in=len(self.i2t.gallery),
            images_retrieved_in=len(self.t2i.gallery),
            judged_pairs=known.pop() if len(known) == 1 else None,
            positives_per_image=_per_query(self.i2t, self.i2t.positives),
            annotated_per_image=_per_query(self.i2t, self.i2t.annotated),
            positives_per_caption=_per_query(self.t2i, self.t2i.positives),
            annotated_per_caption=_per_query(self.t2i, self.t2i.annotated),
            judged_share=share,
            outside=self.outside,
            refused=self.refused,
        )


@dataclass(frozen=True)
class JudgementCounts:
    """Judgements of a split in numbers.

    Means per query are of the pairs that fit (``positives``) and of the query's own pairs (``annotated``).
    ``judged_pairs`` are known to fit or not to fit, annotated pairs among them, and ``judged_share`` is their share of
    all pairs, in [0, 1], which is what a random ranking has among its first ten; both are ``None`` where only pairs
    that fit are known.
    """

    name: str
    title: str
    files: list[str]
    rule: str
    image_queries: int
    caption_queries: int
    captions_retrieved_in: int
    images_retrieved_in: int
    judged_pairs: int | None
    positives_per_image: float
    annotated_per_image: float
    positives_per_caption: float
    annotated_per_caption: float
    judged_share: float | None
    outside: int
    refused: int

    def sentences(self) -> list[str]:
        """Return the counts in sentences for people."""
        share = "" if self.judged_share is None else f", {self.judged_share:.1%} of all pairs"
        pairs = (
            f"{self.judged_pairs:,} pairs are judged or annotated{share}"
            if self.judged_pairs is not None
            else "the files name pairs that fit and no others, so unjudged pairs count as wrong"
        )
        told = [
            f"{self.title} ({', '.join(self.files)}): {self.image_queries:,} images ask for "
            f"{self.captions_retrieved_in:,} captions, {self.caption_queries:,} captions ask for "
            f"{self.images_retrieved_in:,} images; {pairs}",
            f"right answers of an image: {self.positives_per_image:.2f} captions where {self.annotated_per_image:.2f} "
            f"are annotated; of a caption: {self.positives_per_caption:.2f} images where "
            f"{self.annotated_per_caption:.2f} are annotated ({self.rule})",
        ]
        if self.refused:
            told.append(f"{self.refused:,} annotated pairs were judged not to fit; they still count as right")
        return told + (
            [f"{self.outside:,} judged pairs are of no image or caption of the split"] if self.outside else []
        )


def _per_query(direction: JudgedQueries, pairs: Pairs) -> float:
    return round(pairs.shape[1] / len(direction.queries), 3)
