"""Checks whether a verdict survives when pairs that people judged to fit count as positives.

A model makes no error when it retrieves a caption that describes the image but was written for another image. The
confirmed candidates are compared again, by the rule of their verdict and with the winner that val chose, with metrics
that count the judged pairs. These verdicts have no error rate of their own: they show whether the verdict depends on
missing annotations.

The crossed test needs a value of each of the I images. With n queries of a direction, n_i of them of image i, and m the
mean of the queries' values q, the value is y_i = m + (I / n) (sum of q - n_i m) over the queries of the image, summed
over both directions with the weights of the metric. The mean of y_i is the metric (as in ``per_image``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.candidates import DatasetVerdict, weakest
from orchestrator.results.confirmed import Question, answer, verdicts_of
from orchestrator.results.confirming import repeats_of
from orchestrator.results.statistics import Sample
from orchestrator.text.wording import probability_text
from trainables.judgements.judged_metrics import (
    CONDENSED,
    RECALLS,
    WAYS,
    DirectionRanks,
    JudgedRanks,
    parts_of,
    query_values,
)
from trainables.judgements.judgements import TITLES


@dataclass(frozen=True)
class JudgedVerdict:
    """The verdict on a dataset when one source of judgements says which pairs fit.

    Attributes:
        name: Name of the source, a key of ``TITLES``.
        survives: Whether each of ``verdicts`` equals the verdict without judgements.
        verdicts: Metric without its prefix -> verdict, e.g. for ``rsum`` and ``map_r`` and, where pairs that do not fit
            are known, for both names with the suffix ``_condensed``.
        known: Share of the winner's first ten retrieved candidates that are judged, in [0, 1]; ``None`` where only
            pairs that fit are known.
    """

    name: str
    survives: bool
    verdicts: Mapping[str, DatasetVerdict]
    known: float | None

    @property
    def title(self) -> str:
        """Name of the source for people."""
        return TITLES[self.name]

    def to_dict(self) -> dict[str, Any]:
        """Return the verdicts as plain values for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "survives": self.survives,
            "known": self.known,
            "verdicts": {metric: verdict.to_dict() for metric, verdict in self.verdicts.items()},
        }


def judged_verdicts(history: History, verdict: DatasetVerdict) -> list[JudgedVerdict]:
    """Return the verdicts by each source of judgements with which all candidates of a dataset were evaluated.

    Raises:
        DataError: If kept ranks are damaged.
    """
    trials = [one for one in repeats_of(history, verdict.dataset) if one.state is TrialState.FINISHED]
    ranks = {trial.id: _judged_ranks(history, trial) for trial in trials}
    common = set.intersection(*(set(each) for each in ranks.values())) if ranks else set()
    return [
        _judge(history, verdict, {trial: each[source] for trial, each in ranks.items()}) for source in sorted(common)
    ]


def _judged_ranks(history: History, trial: Trial) -> dict[tuple[str, str], JudgedRanks]:
    """Return a trial's ranks by name and digest of the judgements."""
    read = [JudgedRanks.from_text(text) for text in history.test_judged.get(trial.id, ())]
    return {(one.name, one.digest): one for one in read}


def _judge(history: History, verdict: DatasetVerdict, ranks: Mapping[str, JudgedRanks]) -> JudgedVerdict:
    one = next(iter(ranks.values()))
    metrics = [counterpart(verdict.metric), "map_r"]
    metrics += [f"{metric}{CONDENSED}" for metric in metrics] if one.i2t.known.size else []
    prefix = f"test/judged_{one.name}"
    verdicts = {
        metric: answer(
            history,
            verdict.dataset,
            Question(
                metric=f"{prefix}/{metric}",
                images={trial: image_values(each, metric) for trial, each in ranks.items()},
                rule=verdict.decided_by,
            ),
        )
        for metric in metrics
    }
    return JudgedVerdict(
        name=one.name,
        survives=all(each.verdict is verdict.verdict for each in verdicts.values()),
        verdicts=verdicts,
        known=_known(verdict, prefix),
    )


def _known(verdict: DatasetVerdict, prefix: str) -> float | None:
    """Return the share of the winner's first ten candidates that are judged, over both directions and all seeds."""
    measures = verdict.winner.measures if verdict.winner else {}
    shares = [measures[name].mean for way in WAYS if (name := f"{prefix}/{way}_top10_judged") in measures]
    return float(np.mean(shares)) if shares else None


def counterpart(metric: str) -> str:
    """Return the judged metric that is most like the metric of a verdict: an equal recall, or else the sum of recalls.

    Example:
        >>> counterpart("test/i2t_r1"), counterpart("test/t2i_map5")
        ('i2t_r1', 'rsum')
    """
    name = metric.rpartition("/")[2]
    return name if name.partition("_")[2] in RECALLS else "rsum"


def image_values(ranks: JudgedRanks, metric: str) -> Sample:
    """Return the value of each image that has a query, shape (I,); the mean of the values is the metric."""
    images = np.unique(np.concatenate([ranks.i2t.owners, ranks.t2i.owners]))
    values = np.zeros(len(images))
    for part, weight in parts_of(metric).items():
        way, _, name = part.partition("_")
        direction: DirectionRanks = getattr(ranks, way)
        found = query_values(direction, name)
        mean = found.mean()
        places = np.searchsorted(images, direction.owners)
        apart = np.bincount(places, weights=found - mean, minlength=len(images))
        values += weight * (mean + apart * len(images) / len(found))
    return values


def judged_sentences(history: History) -> dict[str, list[str]]:
    """Return a sentence about each source of judgements, for each dataset whose confirmation is over."""
    if not history.test_judged:
        return {}
    return {
        dataset: describe_judged(judged_verdicts(history, verdict)) for dataset, verdict in verdicts_of(history).items()
    }


def describe_judged(judged: Sequence[JudgedVerdict]) -> list[str]:
    """Return a sentence for people about each source of judgements."""
    return [_sentence(one) for one in judged]


def _sentence(judged: JudgedVerdict) -> str:
    survives = "the verdict survives" if judged.survives else "the verdict does not survive"
    found = "; ".join(_found(metric, verdict) for metric, verdict in judged.verdicts.items())
    known = "" if judged.known is None else f" (of the winner's first ten, {judged.known:.0%} are judged)"
    return f"with the pairs that people judged to fit ({judged.title}) {survives}: {found}{known}"


def _found(metric: str, verdict: DatasetVerdict) -> str:
    """Return the verdict by one metric and the comparison that decides it, the weakest."""
    decisive = weakest(verdict.comparisons)
    words = _in_words(metric)
    if decisive is None:
        return f"{words} {verdict.verdict}"
    digits = 3 if metric.startswith("map_r") else 2
    images = decisive.over_images
    probability = f", probability {probability_text(images.probability)} on new images" if images else ""
    difference = f"{decisive.difference:+.{digits}f} against {decisive.label!r}"
    return f"{words} {verdict.verdict} ({difference}{probability})"


def _in_words(metric: str) -> str:
    """Return the name of a judged metric for people.

    Example:
        >>> _in_words("map_r_condensed"), _in_words("i2t_r1")
        ('mAP@R without unjudged pairs', 'i2t_r1')
    """
    name = metric.removesuffix(CONDENSED)
    words = "mAP@R" if name == "map_r" else name
    return f"{words} without unjudged pairs" if metric.endswith(CONDENSED) else words
