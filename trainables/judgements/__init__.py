"""People's judgements of pairs of an image and a caption: the queries and galleries of a split, and the judged pairs.

The captions of a dataset were written for one image each, so a retrieved caption of another image counts as wrong,
however well it fits. Judgements name pairs of images and captions of other images that fit as well.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainables.judged_ranks import TITLES, JudgedRanks
from trainables.judgements.queries import JudgedQueries, Pairs

if TYPE_CHECKING:
    from trainables.positive_ranks import PairScores

__all__ = ["JudgedQueries", "Judgements", "Pairs"]


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

    def rank(self, scores: "PairScores") -> JudgedRanks:
        """Return the ranks that scores give to the candidates that fit."""
        # Imported here, because who describes a dataset needs no torch.
        from trainables.judgements.ranking import rank_direction

        i2t = rank_direction(scores.between, self.i2t, scores)
        t2i = rank_direction(lambda captions, images: scores.between(images, captions).T, self.t2i, scores)
        return JudgedRanks(self.name, self.digest, i2t, t2i)


def _per_query(direction: JudgedQueries, pairs: Pairs) -> float:
    return round(pairs.shape[1] / len(direction.queries), 3)
