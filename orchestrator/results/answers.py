"""All answers of an experiment, in the order in which people ask: first over the datasets, then for each dataset.

A dataset's answers are those about losses and coefficients, and then those of ``analyses``.

Over several datasets: the winners, whether the order of losses is the same everywhere, and the mean ranks. Of a dataset
whose confirmation is over: ``questions``. Before that: the best of each loss in the search, called unconfirmed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orchestrator.journal.history import History
from orchestrator.journal.points import Point, best_points, points_of
from orchestrator.results.answer import Answer, Cell, Column, Quantity, table_of
from orchestrator.results.candidates import DatasetVerdict, Standing
from orchestrator.results.confirmation import race_names
from orchestrator.results.crossed import Runs
from orchestrator.results.datasets import LEVEL, interaction_test, mean_ranks
from orchestrator.results.questions import WHICH_COEFFICIENTS, WHICH_LOSS, Questions, quantity_of
from orchestrator.results.race import describe_race
from orchestrator.results.summary import Summary, trial_row
from orchestrator.text.values import count_text
from orchestrator.text.wording import BRIEF, listed, metric_words, number_text, p_equals, printed, setting_text
from trainables.ranks import Ranks, chance_rsum

UNCONFIRMED, RUNNING = "unconfirmed", "running"
"""Verdicts of the best of a search before a confirmation, and of a trial that is still trained."""

WINNERS, ORDER, RANKS = "winners", "order", "ranks"
"""Keys of the answers over several datasets."""


def answers_of(summary: Summary) -> list[Answer]:
    """Return all answers of an experiment in any state."""
    answers = over_datasets(summary) if len(summary.datasets) > 1 else []
    for dataset in summary.datasets:
        answers += [*dataset_answers(summary, dataset), *analyses_of(summary, dataset)]
    return answers


def analyses_of(summary: Summary, dataset: str) -> list[Answer]:
    """Return what the analyses say about a dataset, and how a race gave out its seeds."""
    trends, judged = summary.trends.get(dataset, ()), summary.judged.get(dataset, ())
    answers = summary.analyses.answers(dataset, summary.verdicts.get(dataset), trends, judged)
    if dataset in summary.races:
        race = summary.races[dataset]
        headline, *notes = describe_race(race, summary.history.metric, race_names(summary.history, race))
        answers.insert(0, Answer("race", dataset, "How were the seeds given out?", headline, notes=tuple(notes)))
    return answers


def dataset_answers(summary: Summary, dataset: str) -> list[Answer]:
    """Return the answers to a dataset's questions; the first is the headline of the dataset."""
    verdict = summary.verdicts.get(dataset)
    if verdict is None:
        return [unconfirmed(summary, dataset)]
    confirm = summary.history.experiment.confirm
    return Questions(verdict, published=confirm is None or not confirm.baseline).answers()


def outcomes_of(answers: Sequence[Answer]) -> dict[str, str]:
    """Return candidate -> ``winner`` or how it compares with the winner, by the first answer that has the candidate."""
    outcomes: dict[str, str] = {}
    for answer in answers:
        for row in answer.table.to_dict()["rows"] if answer.table else ():
            if row.get("candidate") and row.get("verdict"):
                outcomes.setdefault(row["candidate"], row["verdict"])
    return outcomes


def headline_of(summary: Summary, dataset: str) -> Answer:
    """Return the headline answer of a dataset: which loss, or else which coefficients."""
    return dataset_answers(summary, dataset)[0]


def unconfirmed(summary: Summary, dataset: str) -> Answer:
    """Return the best of each loss in a search whose best trials have not been confirmed."""
    metric, best = summary.history.metric, _best_of_losses(summary, dataset)
    question = "Which loss?" if len(best) > 1 else "Which coefficients?"
    if not best:
        return Answer(WHICH_LOSS, dataset, question, "No trial has been trained to its end yet.", UNCONFIRMED)
    values = [(point.mean(metric) if point.finished else point.value_so_far) or 0.0 for point in best]
    first, count = best[0], len(best[0].finished)
    trainings = "one training" if count == 1 else f"the mean of {count} trainings"
    setting = setting_text(first.first.parameters, most=BRIEF)
    name = printed(first.first.config.loss) + (f" ({setting})" if setting else "")
    reached, of_metric = number_text(values[0], metric), f"best {metric_words(metric)}"
    headline = f"{name} has the {of_metric} of its search, {reached} in {trainings}."
    if not first.finished:
        headline = f"{name} has the {of_metric} so far, {reached}; no trial has been trained to its end yet."
    several_models = len({point.first.config.model for point in best}) > 1
    columns = [
        Column("trial", "trial", hidden=True),
        Column("model", "model", hidden=not several_models),
        Column("loss", "loss", hidden=True),
        Column("name", "loss"),
        Column("setting", "best setting"),
        Column("trials", "trials", unit="count"),
        Column("seeds", "trainings", unit="count"),
        Column("value", f"best {metric_words(metric)}", unit=metric),
        Column("difference", "to the best", unit=metric, signed=True),
        Column("verdict", "verdict"),
    ]
    searched = [trial.config for trial in summary.history.trials.values() if trial.candidate is None]
    rows: list[Sequence[Cell]] = []
    for point, value in zip(best, values, strict=True):
        config = point.first.config
        tried = sum((c.dataset, c.model, c.loss) == (dataset, config.model, config.loss) for c in searched)
        model = printed(config.model) if several_models else config.model
        about = (point.first.id, model, config.loss, printed(config.loss), setting_text(point.first.parameters))
        gap = None if point is first else value - values[0]
        rows.append((*about, tried, len(point.finished), value, gap, UNCONFIRMED if point.finished else RUNNING))
    return Answer(
        WHICH_LOSS if len(best) > 1 else WHICH_COEFFICIENTS,
        dataset,
        question,
        headline,
        UNCONFIRMED,
        numbers={"value": values[0]},
        table=table_of(columns, rows),
        notes=("The best value of a search is usually too high: confirm it with fresh seeds.",),
    )


def _best_of_losses(summary: Summary, dataset: str) -> list[Point]:
    """Return the best point of each model and loss of a dataset's search, the best first.

    Of a loss without a trained point it is the running one with the highest value so far, after the trained ones.
    """
    trials = summary.history.trials.values()
    running = [point for point in points_of(trials) if not point.finished and point.value_so_far is not None]
    running.sort(key=lambda point: -(point.value_so_far or 0.0))
    best: dict[tuple[str, str], Point] = {}
    for point in [*best_points(trials), *running]:
        config = point.first.config
        if config.dataset == dataset:
            best.setdefault((config.model, config.loss), point)
    return list(best.values())


def over_datasets(summary: Summary) -> list[Answer]:
    """Return the winners of all datasets, and whether the order of losses is the same on all of them."""
    confirmed = {dataset: verdict for dataset, verdict in summary.verdicts.items() if verdict.winner is not None}
    found = [_winners(summary)]
    runs = {dataset: _image_runs(verdict) for dataset, verdict in confirmed.items()}
    scores = {
        dataset: {loss: standing.result.mean for loss, standing in _best_standings(verdict).items()}
        for dataset, verdict in confirmed.items()
    }
    return [*found, *_order(runs, scores), *_mean_ranks(scores)]


def _winners(summary: Summary) -> Answer:
    columns = [
        Column("dataset", "dataset"),
        Column("candidate", "candidate", hidden=True),
        Column("loss", "loss", hidden=True),
        Column("name", "winner"),
        Column("setting", "setting"),
        Column("result", "mean", unit=summary.history.metric, shows="both"),
        Column("lead", "lead over other losses", unit=summary.history.metric, signed=True, shows="both"),
        Column("verdict", "verdict"),
    ]
    rows: list[Sequence[Cell]] = []
    said: dict[str, list[str]] = {}
    for dataset in summary.datasets:
        answer, verdict = headline_of(summary, dataset), summary.verdicts.get(dataset)
        if verdict is None or verdict.winner is None:
            table = answer.table
            cells = dict(zip((column.key for column in table.columns), table.rows[0], strict=True)) if table else {}
            known = (cells.get(key) for key in ("trial", "loss", "name", "setting"))
            rows.append((printed(dataset), *known, cells.get("value"), None, answer.verdict))
            continue
        winner, numbers = verdict.winner.candidate, answer.numbers
        difference = numbers.get("difference") if answer.key == WHICH_LOSS else None
        lead = None if difference is None else Quantity(difference, None, numbers.get("low"), numbers.get("high"))
        name, setting = printed(winner.loss), setting_text(winner.parameters) or "default"
        about = (printed(dataset), winner.label, winner.loss, name, setting)
        rows.append((*about, quantity_of(verdict.winner), lead, answer.verdict))
        place = printed(dataset) + ("" if answer.verdict == "better" else f" ({answer.verdict})")
        said.setdefault(name, []).append(place)
    winners = [f"{name} on {listed(places)}" for name, places in said.items()]
    headline = f"Winners: {'; '.join(winners)}." if winners else "No dataset has been confirmed yet."
    return Answer(WINNERS, "", "Which loss wins on each dataset?", headline, table=table_of(columns, rows))


def _best_standings(verdict: DatasetVerdict) -> dict[str, Standing]:
    """Return loss -> its best candidate by val."""
    best: dict[str, Standing] = {}
    for standing in verdict.standings:
        best.setdefault(standing.candidate.loss, standing)
    return best


def _image_runs(verdict: DatasetVerdict) -> dict[str, Runs]:
    """Return loss -> the values per seed and image of its best candidate, where they are known."""
    runs: dict[str, Runs] = {}
    for standing in verdict.standings:
        candidate = standing.candidate
        if candidate.loss not in runs and candidate.images:
            runs[candidate.loss] = candidate.image_runs()
    return runs


def _order(runs: Mapping[str, Mapping[str, Runs]], scores: Mapping[str, Mapping[str, float]]) -> list[Answer]:
    """Return whether the differences between losses depend on the dataset; none where it cannot be tested.

    The sizes of the differences may depend on it where one loss has the highest mean everywhere, so both are said.
    """
    found = interaction_test(runs)
    if found is None:
        return []
    differs = found.p <= LEVEL
    losses = count_text(len(found.losses), "loss")
    leaders: dict[str, list[str]] = {}
    for dataset, means in scores.items():
        leaders.setdefault(printed(max(means, key=means.__getitem__)), []).append(printed(dataset))
    if len(leaders) == 1:
        first = f"{next(iter(leaders))} has the highest mean on every dataset"
    else:
        first = f"Highest means: {'; '.join(f'{loss} on {listed(places)}' for loss, places in leaders.items())}"
    shown = (
        "Differences depend on the dataset: interaction" if differs else "An interaction with the dataset is not shown:"
    )
    headline = f"{first}. {shown} {p_equals(found.p)} ({losses})."
    largest = max(
        ((abs(found.effects[row, column]), row, column) for row, column in np.ndindex(*found.effects.shape)),
    )
    _, row, column = largest
    effect = number_text(float(found.effects[row, column]), signed=True)
    note = (
        f"Largest effect: {printed(found.losses[column])} on {printed(found.datasets[row])}, {effect} beside the means "
        f"of its loss and its dataset."
    )
    return [
        Answer(
            ORDER,
            "",
            "Does the same loss win everywhere?",
            headline,
            numbers={"p": found.p, "statistic": found.statistic},
            notes=(note,) if differs else (),
        )
    ]


def _mean_ranks(scores: Mapping[str, Mapping[str, float]]) -> list[Answer]:
    """Return the mean ranks of the losses over the datasets; none where fewer than two datasets have verdicts."""
    found = mean_ranks(scores)
    if found is None:
        return []
    best, *_ = found.mean_ranks
    tied = found.tied_with_best()
    difference = number_text(found.critical_difference)
    headline = f"{printed(best)} has the best mean rank, {number_text(found.mean_ranks[best])}."
    rest = len(found.mean_ranks) - len(tied)
    apart = f"{count_text(rest, 'loss')} differ from it significantly" if rest else "no loss differs significantly"
    few = f" {found.datasets} datasets are few for this test." if found.is_few else ""
    columns = [
        Column("loss", "loss", hidden=True),
        Column("name", "loss"),
        Column("mean_rank", "mean rank", unit="rank", decimals=1),
        *(Column(dataset, printed(dataset), unit="rank", decimals=1) for dataset in scores),
    ]
    rows: list[Sequence[Cell]] = [
        (loss, printed(loss), rank, *(values[loss] for values in scores.values()))
        for loss, rank in found.mean_ranks.items()
    ]
    return [
        Answer(
            RANKS,
            "",
            "Which losses are best on average?",
            headline,
            numbers={"critical_difference": found.critical_difference},
            table=table_of(columns, rows),
            notes=(f"The critical difference of mean ranks is {difference}: {apart}.{few}",),
        )
    ]


def chance_of(summary: Summary, dataset: str) -> float | None:
    """Return the rsum of a random ranking of a dataset's test split, in [0, 600]; ``None`` without kept ranks."""
    history = summary.history
    kept = (history.test_ranks.get(trial.id) for trial in history.trials.values() if trial.config.dataset == dataset)
    text = next((text for text in kept if text is not None), None)
    return None if text is None else chance_rsum(Ranks.from_text(text).image_of_caption)


def summarise(history: History) -> dict[str, Any]:
    """Return the content of ``summary.json``: results, ``answers``, and ``trials``, the list of all trials."""
    summary = Summary(history)
    answers = [answer.to_dict() for answer in answers_of(summary)]
    trials = [trial_row(trial, history) for trial in history.trials.values()]
    return {**summary.to_dict(), "answers": answers, "trials": trials}
