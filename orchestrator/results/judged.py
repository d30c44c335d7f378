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

from orchestrator.journal.trial import TrialState
from orchestrator.results.answer import Answer, Column, table_of
from orchestrator.results.candidates import DatasetVerdict, weakest
from orchestrator.results.confirmation import Confirmation
from orchestrator.results.statistics import Sample
from orchestrator.text.wording import number_text, share_text
from trainables.judgements import TITLES
from trainables.judgements.judged_metrics import (
    CONDENSED,
    RECALLS,
    WAYS,
    DirectionRanks,
    JudgedRanks,
    parts_of,
    query_values,
)


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


def judged_verdicts(confirmation: Confirmation) -> list[JudgedVerdict]:
    """Return the verdicts by each source of judgements with which all candidates were evaluated.

    Args:
        confirmation: The confirmation of a dataset, which is over.

    Raises:
        DataError: If kept ranks are damaged.
    """
    trials = [trial for trial in confirmation.repeats if trial.state is TrialState.FINISHED]
    texts = {trial.id: confirmation.history.test_judged.get(trial.id, ()) for trial in trials}
    read = {trial: map(JudgedRanks.from_text, of_trial) for trial, of_trial in texts.items()}
    ranks = {trial: {(one.name, one.digest): one for one in of_trial} for trial, of_trial in read.items()}
    common = set.intersection(*(set(each) for each in ranks.values())) if ranks else set()
    return [
        _judge(confirmation, {trial: of_trial[source] for trial, of_trial in ranks.items()})
        for source in sorted(common)
    ]


def _judge(confirmation: Confirmation, ranks: Mapping[str, JudgedRanks]) -> JudgedVerdict:
    one, verdict = next(iter(ranks.values())), confirmation.verdict
    metrics = [counterpart(verdict.metric), "map_r"]
    metrics += [f"{metric}{CONDENSED}" for metric in metrics] if one.i2t.known.size else []
    prefix = f"test/judged_{one.name}"
    verdicts = {
        metric: confirmation.judge(
            metric=f"{prefix}/{metric}",
            images={trial: image_values(of_trial, metric) for trial, of_trial in ranks.items()},
            rule=verdict.decided_by,
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


def judged_answer(dataset: str, judged: Sequence[JudgedVerdict]) -> Answer | None:
    """Return the answer whether a verdict holds by people's judgements; ``None`` without judgements."""
    if not judged:
        return None
    known = [
        "" if one.known is None else f"; {share_text(one.known)} of the winner's first ten are judged" for one in judged
    ]
    notes = [f"Judgements: {one.title}{share}." for one, share in zip(judged, known, strict=True)]
    columns = [
        Column("source", "judgements"),
        Column("metric", "metric"),
        Column("difference", "lead", unit="map_r", signed=True),
        Column("verdict", "verdict"),
    ]
    rows = [
        (source.title, _in_words(metric), closest.difference if closest else None, str(verdict.verdict))
        for source in judged
        for metric, verdict in source.verdicts.items()
        for closest in [weakest(verdict.comparisons)]
    ]
    headline, *others = (_sentence(verdict) for verdict in judged)
    data = {"judged": [verdict.to_dict() for verdict in judged]}
    question = "Does the verdict hold with the pairs that people judged correct?"
    table = table_of(columns, rows)
    return Answer("judged", dataset, question, headline, table=table, notes=(*others, *notes), data=data)


def _sentence(judged: JudgedVerdict) -> str:
    """Return whether the verdict is the same, with the leads of the metrics that count every candidate."""
    leads = []
    for metric, verdict in judged.verdicts.items():
        closest = None if metric.endswith(CONDENSED) else weakest(verdict.comparisons)
        if closest is not None:
            outcome = "" if judged.survives else f" ({verdict.verdict})"
            leads.append(f"{number_text(closest.difference, metric, signed=True)} {_in_words(metric)}{outcome}")
    same = "is the same" if judged.survives else "changes"
    counting = "Counting the captions that people judged correct, the verdict"
    return f"{counting} {same}: {', '.join(leads)}." if leads else f"{counting} {same}."


def _in_words(metric: str) -> str:
    """Return the name of a judged metric for people.

    Example:
        >>> _in_words("map_r_condensed"), _in_words("i2t_r1")
        ('mAP@R without unjudged pairs', 'i2t_r1')
    """
    name = metric.removesuffix(CONDENSED)
    words = "mAP@R" if name == "map_r" else name
    return f"{words} without unjudged pairs" if metric.endswith(CONDENSED) else words
