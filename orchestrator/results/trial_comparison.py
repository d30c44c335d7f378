"""Two trials side by side: their settings, their metrics, and the queries that one finds and the other misses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.journal.directory import find_experiments, path_below, read_history
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError
from orchestrator.journal.trial import Trial
from orchestrator.results.answer import Answer, Cell, Column, Table
from orchestrator.results.answers import Summary
from orchestrator.results.comparison import compare
from orchestrator.results.question import Bonferroni, Pair, Question
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.text.values import flat
from orchestrator.text.wording import interval_text, metric_words, number_text, p_equals, setting_text
from trainables.errors import UserError
from trainables.metric_table import COCOS, TEST, VAL, is_in, is_value
from trainables.ranks import Ranks


class NoSuchTrialError(UserError):
    """A trial that no experiment has."""

    exit_code = 2


@dataclass(frozen=True)
class Side:
    """One of the two compared trials.

    Attributes:
        test: Metrics on test, if the test split was opened for the trial.
        why: Why this trial represents its experiment; empty if the user named the trial.
        verdict: Verdict on the trial's dataset, if the confirmation is over.
    """

    experiment: str
    trial: Trial
    test: Mapping[str, float]
    why: str = ""
    verdict: DatasetVerdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the trial as plain values for JSON."""
        about = {"experiment": self.experiment, "trial": self.trial.id}
        return {**about, "parameters": self.trial.parameters, "why": self.why}


def compare_trials(first: Side, second: Side) -> list[Answer]:
    """Return which of two trials is better, with the settings that differ, and the metrics at the best epochs.

    The tables have a row for each dotted key and for each metric, the metric that decides first. A cell is ``None``
    where a trial lacks the key or the metric.
    """
    sides = (first, second)
    named = [
        f"{letter}: {side.experiment}/{side.trial.id}{f' ({side.why})' if side.why else ''}: "
        f"{setting_text(side.trial.parameters) or 'default'}"
        for letter, side in zip("AB", sides, strict=True)
    ]
    of_first, of_second = (flat(side.trial.config.to_dict()) for side in sides)
    pairs = {name: (of_first.get(name), of_second.get(name)) for name in sorted({*of_first, *of_second})}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    settings = [(name, *(None if value is None else str(value) for value in pair)) for name, pair in differing.items()]
    values, others = (_values(side) for side in sides)
    names = sorted({*values, *others}, key=lambda metric: (metric != first.trial.metric, *_order(metric)))
    changes = {name: others[name] - values[name] for name in names if name in values and name in others}
    metrics = [(name, values.get(name), others.get(name), changes.get(name)) for name in names]
    of_settings = (Column("setting", "setting"), Column("a", "A"), Column("b", "B"))
    of_metrics = (
        Column("metric", "metric"),
        Column("a", "A", "number"),
        Column("b", "B", "number"),
        Column("difference", "B − A", "number", signed=True),
    )
    said, headline = which_is_better(first, second), "" if settings else "No setting differs."
    settings_table, metrics_table = Table(of_settings, tuple(settings)), Table(of_metrics, tuple(metrics))
    return [
        Answer("better", "", "Which of two trials is better?", f"{said}.", notes=tuple(named)),
        Answer("settings", "", "In which settings do they differ?", headline, table=settings_table),
        Answer("metrics", "", "How do their metrics at the best epochs differ?", "", table=metrics_table),
    ]


def find_side(name: str, output: Path) -> Side:
    """Return a trial of any experiment under an output folder.

    ``name`` is the id of a trial, or ``experiment/trial``; an experiment's name means its winner, see ``_winner``.
    Where no trial has this id, the end of an id is enough, as ``status`` shows it.

    Raises:
        UserError: If there is no such trial, or several experiments have it; the message says how to name it.
    """
    experiment, _, trial_id = name.rpartition("/")
    sides: list[Side] = []
    by_end: list[Side] = []
    damaged: list[str] = []
    for directory in find_experiments(output):
        if experiment not in ("", place := path_below(directory, output)):
            continue
        try:
            history = read_history(directory)
        except JournalError:
            if experiment:
                raise
            # No reason to refuse trials of other experiments.
            damaged.append(place)
            continue
        own = history.experiment.name or directory.name
        wanted, why = history.trials.get(trial_id), ""
        if wanted is None and not experiment and own == name:
            wanted, why = _winner(history, name)
        ending = [trial for trial in history.trials.values() if trial.id.endswith(f"-{trial_id}")]
        for trial in ending if wanted is None else [wanted]:
            verdict = Summary(history).verdicts.get(trial.config.dataset)
            found = Side(own, trial, history.tests.get(trial.id, {}), why, verdict)
            (by_end if wanted is None else sides).append(found)
    sides = sides or by_end
    if not sides:
        unread = f"; not read, because their journals are damaged: {', '.join(damaged)}" if damaged else ""
        raise NoSuchTrialError(
            f"{name}: no such trial or experiment under {output}; "
            f"`orchestrator status EXPERIMENT --all` lists the trials{unread}"
        )
    if len(sides) > 1:
        places = ", ".join(f"{side.experiment}/{side.trial.id}" for side in sides)
        raise NoSuchTrialError(f"{name}: there are several: {places}; name one of them so")
    return sides[0]


def which_is_better(first: Side, second: Side) -> str:
    """Return which of two trials is better, and how reliable this is: a sentence without its full stop.

    Where a confirmation has compared both trials with fresh seeds, the sentence states its verdict. Otherwise two
    single trainings are compared, which says nothing about other seeds.
    """
    trial, other = first.trial, second.trial
    if (trial.config.dataset, trial.metric) != (other.config.dataset, other.metric):
        return "neither is called better: the two were trained on different datasets, or selected by different metrics"
    confirmed = _confirmed(first, second)
    if confirmed:
        return confirmed
    reached, against = trial.best_value, other.best_value
    if reached is None or against is None:
        return f"neither is called better: not both have a value of {trial.metric} yet"
    unit = metric_words(trial.metric)
    if reached == against:
        return f"the two have equal {unit}: {number_text(reached, trial.metric)}"
    ahead = first if reached > against else second
    name = ahead.trial.id if first.experiment == second.experiment else f"{ahead.experiment}/{ahead.trial.id}"
    high, low = max(reached, against), min(reached, against)
    lead, more, less = (number_text(value, trial.metric) for value in (high - low, high, low))
    return (
        f"{name} leads by {lead} {unit}, {more} against {less}. Both are single trainings: other seeds may "
        f"reverse the order, and `orchestrator confirm` trains the best of a search again"
    )


def _confirmed(first: Side, second: Side) -> str:
    """Return the findings of an experiment's confirmation about the two trials; empty if it did not compare them."""
    verdict = first.verdict
    if first.experiment != second.experiment or verdict is None:
        return ""
    pair = pair_of_any(verdict, first.trial.id, second.trial.id)
    if pair is None:
        return ""
    gap, metric = number_text(pair.difference, verdict.metric, signed=True), metric_words(verdict.metric)
    ends = f", 95 % CI {interval_text(*pair.interval, verdict.metric)}" if pair.interval else ""
    p = "" if pair.p is None else f", {p_equals(pair.p)}"
    reason = f", {pair.comparison.reason}" if pair.comparison.reason else ""
    return f"with fresh seeds {pair.first} is {pair.verdict}: {gap} {metric}{ends}{p}{reason}"


def pair_of_any(verdict: DatasetVerdict, first: str, second: str) -> Pair | None:
    """Return two candidates of a verdict as a pair, the winner first if it is one of them; ``None`` for others.

    The word on the winner and another candidate is that of the verdict. Two others were named by nobody before their
    values were known, so their p-value is corrected for every pair of candidates.
    """
    candidates = {candidate.label: candidate for candidate in verdict.candidates}
    if first == second or not {first, second} <= candidates.keys():
        return None
    winner = verdict.candidates[0].label
    if winner in (first, second):
        return verdict.pair_of.get(second if first == winner else first)
    count = len(candidates)
    question = Question(verdict.level, family=Bonferroni(count * (count - 1) // 2))
    over_images = verdict.images is not None
    compared = compare(candidates[first], candidates[second], verdict.metric, over_images=over_images)
    return question.ask([compared])[0]


def _winner(history: History, name: str) -> tuple[Trial, str]:
    """Return the finished trial of the search that represents an experiment, and why.

    Repeats of a confirmation have equal settings, and the highest repeat is only the luckiest.
    """
    winners = list(Summary(history).winners.values())
    if not winners:
        raise NoSuchTrialError(f"{name}: no trial of its search has finished, so name a trial")
    if len(winners) > 1:
        places = ", ".join(f"{name}/{winner.setting.id}" for winner in winners)
        raise NoSuchTrialError(f"{name}: has several datasets with a winner each: {places}; name one of them so")
    (winner,) = winners
    why = "the winner of the confirmation" if winner.confirmed else "the best of the search, unconfirmed"
    return winner.setting, why


def _values(side: Side) -> dict[str, float]:
    trial = side.trial
    values = {name: value for name, value in trial.at_best.items() if is_value(name)}
    return values | {f"test/{name}": value for name, value in side.test.items()}


def _order(name: str) -> tuple[int, str]:
    groups = (VAL, TEST, "train", "loss", COCOS, "time")
    return next((index for index, group in enumerate(groups) if is_in(name, group)), len(groups)), name


DEPTHS = (1, 5, 10)
"""A query counts as answered if its best positive is among the first candidates down to one of these ranks."""

SHOWN = 10


def median_ranks(runs: Sequence[Ranks]) -> dict[str, NDArray[np.float64]]:
    """Return the rank of the best positive of ``an image`` and ``a caption`` as queries, the median over the seeds."""
    images, captions = [ranks.of_images() for ranks in runs], [ranks.t2i for ranks in runs]
    return {"an image": np.median(images, axis=0), "a caption": np.median(captions, axis=0)}


def compare_queries(first: Sequence[Ranks], second: Sequence[Ranks], names: tuple[str, str]) -> Table:
    """Return how many queries of a split both, one and none of two candidates find down to each depth of ``DEPTHS``.

    Of each candidate there are the ranks for at least one seed.

    Raises:
        ValueError: If the ranks belong to different queries.
    """
    if not all(ranks.has_queries_of(first[0]) for ranks in (*first, *second)):
        raise ValueError("ranks of other queries cannot be compared query by query")
    of_first, of_second = median_ranks(first), median_ranks(second)
    columns = (
        Column("query", "query"),
        Column("depth", "right answer among the first", "count"),
        Column("both", "both", "count"),
        Column("first", f"only {names[0]}", "count"),
        Column("second", f"only {names[1]}", "count"),
        Column("neither", "neither", "count"),
    )
    rows: list[tuple[Cell, ...]] = []
    for query, depth in product(of_first, DEPTHS):
        hit, other = of_first[query] <= depth, of_second[query] <= depth
        counts = (int(np.count_nonzero(of)) for of in (hit & other, hit & ~other, other & ~hit, ~hit & ~other))
        rows.append((query, depth, *counts))
    return Table(columns, tuple(rows))


def largest_leads(ahead: NDArray[np.float64], behind: NDArray[np.float64]) -> list[int]:
    """Return the places of the queries whose ranks by two candidates, shape (Q,), have the largest ratio above 1.

    The largest ratio of ``behind`` to ``ahead`` comes first; at most ``SHOWN``.
    """
    ratio = np.log(behind) - np.log(ahead)
    # The sort is stable, so that equal leads keep the order of the split on every machine.
    best = np.argsort(-ratio, kind="stable")[:SHOWN]
    return [int(query) for query in best if ratio[query] > 0]
