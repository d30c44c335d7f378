"""Checks whether a verdict survives when pairs that people judged to fit count as positives.

A model makes no error when it retrieves a caption that describes the image but was written for another image. The
confirmed candidates are compared again with metrics that count the judged pairs, by the rule of their verdict and with
the winner that val chose. The first question of the dataset, such as *which loss*, is answered by each metric. These
verdicts have no error rate of their own: they show whether the headline depends on missing annotations.

The crossed test needs a value for each image, of which there are I. A direction has n queries, n_i of image i. The mean
of the queries' values q is m. The value is y_i = m + (I / n) (sum of q - n_i m) over the queries of the image, summed
over both directions with the weights of the metric. The mean of y_i is the metric (as in ``crossed``).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.journal.trial import TrialState
from orchestrator.results.answer import Answer, Cell, Column, table_of
from orchestrator.results.confirmation import Confirmation
from orchestrator.results.questions import answer_questions
from orchestrator.results.statistics import Sample
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.text.wording import metric_name, number_text, share_text
from trainables.judged_ranks import KNOWN, RECALLS, TITLES, DirectionRanks, JudgedRanks, query_values
from trainables.metric_table import CONDENSED, DIRECTIONS, name_parts, parts_of, without_section

ALONE = "Nothing was compared, so there is no verdict that the captions that people judged correct could change."
"""What is said of a candidate that is alone."""


def judged_verdicts(confirmation: Confirmation) -> dict[str, dict[str, DatasetVerdict]]:
    """Return the verdicts of a confirmation, which is over, by each source with which all candidates were evaluated.

    Returns:
        Name of a source, a key of ``TITLES`` -> metric without its prefix -> verdict, for the metric most like that of
        the verdict, for ``map_r`` and, where pairs that do not fit are known, for both with the suffix ``_condensed``.

    Raises:
        DataError: If kept ranks are damaged.
    """
    verdict, texts = confirmation.verdict, confirmation.history.test_judged
    ranks = {
        trial.id: {
            (judged_ranks.name, judged_ranks.digest): judged_ranks
            for judged_ranks in map(JudgedRanks.from_text, texts.get(trial.id, ()))
        }
        for trial in confirmation.repeats
        if trial.state is TrialState.FINISHED
    }
    common = set.intersection(*map(set, ranks.values())) if ranks else set()
    verdicts: dict[str, dict[str, DatasetVerdict]] = {}
    for source in sorted(common):
        of_source = {trial: of_trial[source] for trial, of_trial in ranks.items()}
        metrics = [counterpart(verdict.metric), "map_r"]
        if next(iter(of_source.values())).i2t.known.size:
            metrics += [f"{metric}{CONDENSED}" for metric in metrics]
        verdicts[source[0]] = {
            metric: confirmation.judge(
                metric=f"test/judged_{source[0]}/{metric}",
                images={trial: judged_image_values(judged_ranks, metric) for trial, judged_ranks in of_source.items()},
                rule="seeds" if verdict.images is None else "seeds_and_images",
            )
            for metric in metrics
        }
    return verdicts


def counterpart(metric: str) -> str:
    """Return the judged metric that is most like the metric of a verdict: an equal recall, or else the sum of recalls.

    Example:
        >>> counterpart("test/i2t_r1"), counterpart("test/t2i_map5")
        ('i2t_r1', 'rsum')
    """
    return without_section(metric) if name_parts(metric).measure in RECALLS else "rsum"


def judged_image_values(ranks: JudgedRanks, metric: str) -> Sample:
    """Return the value of each image that has a query, shape (I,); the mean of the values is the metric."""
    images = np.unique(np.concatenate([ranks.i2t.owners, ranks.t2i.owners]))
    values = np.zeros(len(images))
    parts, divisor = parts_of(metric)
    for name in map(name_parts, parts):
        direction: DirectionRanks = getattr(ranks, name.direction)
        scores = query_values(direction, str(name._replace(direction="")))
        mean = scores.mean()
        places = np.searchsorted(images, direction.owners)
        apart = np.bincount(places, weights=scores - mean, minlength=len(images))
        values += (mean + apart * len(images) / len(scores)) / divisor
    return values


def judged_answer(verdict: DatasetVerdict, judged: Mapping[str, Mapping[str, DatasetVerdict]]) -> Answer | None:
    """Return the answer whether the headline of a verdict holds by ``judged_verdicts``; ``None`` without any.

    Its data have for each source ``survives``, whether all headlines say the same. They also have ``known``, the judged
    share of the winner's first ten retrieved candidates, in [0, 1]; ``None`` where only pairs that fit are known.
    """
    if not judged:
        return None
    # The metrics of each source are those of the verdict's metric, see ``judged_verdicts``.
    names = list(
        dict.fromkeys(str(name_parts(name)._replace(ending="")) for verdicts in judged.values() for name in verdicts)
    )
    columns = [Column("source", "judgements"), Column("pairs", "candidates")]
    for name in names:
        words = metric_name(name)
        columns.append(Column(name, "lead", unit=name, signed=True, group=words))
        columns.append(Column(f"{name}_verdict", "verdict", group=words))
    rows: list[Sequence[Cell]] = []
    data, notes, sentences = [], [], []
    before = str(verdict.verdict)
    for source, verdicts in judged.items():
        headlines = {metric: answer_questions(new_verdict)[0] for metric, new_verdict in verdicts.items()}
        is_compared = bool(verdict.pairs) or any(new_verdict.pairs for new_verdict in verdicts.values())
        survives = all(headline.verdict == before for headline in headlines.values())
        known = _known(verdict, f"test/judged_{source}")
        sentences.append(_sentence(before, headlines) if is_compared else ALONE)
        share = "" if known is None else f"; {share_text(known)} of the winner's first ten are judged"
        notes.append(f"Judgements: {TITLES[source]}{share}.")
        about = {"name": source, "title": TITLES[source], "survives": survives, "known": known}
        about["sentence"] = sentences[-1]
        data.append({**about, "verdicts": {metric: new_verdict.to_dict() for metric, new_verdict in verdicts.items()}})
        for ending, words in (("", "all"), (CONDENSED, "without unjudged pairs")):
            shown = [headlines.get(name + ending) for name in names]
            if any(shown):
                rows.append((TITLES[source], words, *(cell for headline in shown for cell in _cells(headline))))
    headline, *others = sentences
    question = "Does the verdict hold with the pairs that people judged correct?"
    table, said = table_of(columns, rows), (*others, *notes)
    return Answer("judged", verdict.dataset, question, headline, table=table, notes=said, data={"judged": data})


def _cells(headline: Answer | None) -> tuple[float | None, str]:
    """Return the lead over the closest candidate, and the verdict."""
    return (None, "") if headline is None else (headline.numbers.get("difference"), headline.verdict)


def _known(verdict: DatasetVerdict, prefix: str) -> float | None:
    """Return the share of the winner's first ten candidates that are judged, over both directions and all seeds."""
    measures = verdict.winner.measures() if verdict.winner else {}
    shares = [measures[name].mean for way in DIRECTIONS if (name := f"{prefix}/{way}_{KNOWN}") in measures]
    return float(np.mean(shares)) if shares else None


def _sentence(before: str, judged: Mapping[str, Answer]) -> str:
    """Return whether the verdict is the same, with the leads of the metrics that count every candidate.

    Of a verdict that changes, the metrics by which it is another verdict are named, each with that verdict.
    """
    changed = {metric: headline for metric, headline in judged.items() if headline.verdict != before}
    shown = {
        metric: headline for metric, headline in (changed or judged).items() if name_parts(metric).ending != CONDENSED
    } or changed
    leads: dict[str, list[str]] = {}
    for metric, headline in shown.items():
        lead, verdict = _cells(headline)
        text = "" if lead is None else f"{number_text(lead, metric, signed=True)} "
        leads.setdefault(verdict, []).extend([f"{text}{metric_name(metric)}"] if text or changed else [])
    counting = "Counting the captions that people judged correct, the verdict"
    if changed:
        outcomes = " and ".join(f"{verdict} ({', '.join(of)})" for verdict, of in leads.items())
        return f"{counting} changes from {before} to {outcomes}."
    known = ", ".join(text for of in leads.values() for text in of)
    return f"{counting} is the same: {known}." if known else f"{counting} is the same."
