"""People's judgements of pairs of an image and a caption: the queries and galleries of a split, and the judged pairs.

The captions of a dataset were written for one image each, so a retrieved caption of another image counts as wrong,
however well it fits. Judgements name pairs of images and captions of other images that fit as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        absent: How many pairs of each query fit whose candidate the split does not have, shape (Q,); ``None`` without
            any. They count among the R of R-Precision and mAP@R, and are never found.
    """

    queries: Integers
    owners: Integers
    gallery: Integers
    positives: Pairs
    annotated: Pairs
    judged: Pairs | None
    absent: Integers | None = None


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

    def counts(self) -> dict[str, Any]:
        """Return the judgements in numbers, plain values for JSON; ``count_sentences`` has them in words.

        Means per query are of the pairs that fit (``positives``) and of the query's own pairs (``annotated``).
        ``judged_pairs`` are known to fit or not to fit, annotated pairs among them. ``judged_share`` is their share of
        all pairs, in [0, 1], and the expected share among the first ten of a random ranking. Both are ``None`` where
        only pairs that fit are known.
        """
        known = {None if direction.judged is None else direction.judged.shape[1] for direction in (self.i2t, self.t2i)}
        share = None
        if self.i2t.judged is not None:
            share = round(self.i2t.judged.shape[1] / (len(self.i2t.queries) * len(self.i2t.gallery)), 4)
        return {
            "name": self.name,
            "title": TITLES[self.name],
            "files": list(self.files),
            "rule": self.rule,
            "image_queries": len(self.i2t.queries),
            "caption_queries": len(self.t2i.queries),
            "captions_retrieved_in": len(self.i2t.gallery),
            "images_retrieved_in": len(self.t2i.gallery),
            "judged_pairs": known.pop() if len(known) == 1 else None,
            "positives_per_image": _per_query(self.i2t, self.i2t.positives),
            "annotated_per_image": _per_query(self.i2t, self.i2t.annotated),
            "positives_per_caption": _per_query(self.t2i, self.t2i.positives),
            "annotated_per_caption": _per_query(self.t2i, self.t2i.annotated),
            "judged_share": share,
            "outside": self.outside,
            "refused": self.refused,
        }


def count_sentences(counts: Mapping[str, Any]) -> list[str]:
    """Return ``Judgements.counts`` in sentences for people."""
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


def _per_query(direction: JudgedQueries, pairs: Pairs) -> float:
    return round(pairs.shape[1] / len(direction.queries), 3)
