"""The results of an experiment, a pure function of its history, and its answers in the order in which people ask.

First come the answers over several datasets: the winners, whether the order of losses is the same everywhere, and the
mean ranks. Then come the answers of each dataset. A confirmation that is over has those of ``questions``; before that,
the best of each loss in the search is called unconfirmed. The analyses of the history are last.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from orchestrator.experiment.sections import Objective
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_by_study, points_of, ranked
from orchestrator.journal.trial import Trial
from orchestrator.results.analyses import (
    early_answer,
    early_epochs,
    edges_answer,
    equal_budget_answer,
    front_answer,
    goals_of,
    optimism_answer,
    pareto_fronts,
    space_edges,
    stops_too_early,
    values_at_best,
)
from orchestrator.results.answer import Answer, Cell, Column, Json, Quantity, table_of
from orchestrator.results.bands import Band, band_answers, bands
from orchestrator.results.caveats import caveats, comparability, remarks, search_remarks
from orchestrator.results.confirmation import Confirmation, best_metrics, confirmations, race_names
from orchestrator.results.crossed import ImageRows
from orchestrator.results.datasets import FEW, LEVEL, common_losses, interaction_test, mean_ranks
from orchestrator.results.equal_budget import equal_budgets, optimism_of
from orchestrator.results.judged import judged_answer, judged_verdicts
from orchestrator.results.questions import ONE_SEARCH, WHICH_SETTING, answer_questions
from orchestrator.results.race import Race, describe_race
from orchestrator.results.taken_back import CHANCE_METRIC, taken_back
from orchestrator.results.trends import trend_answer, trends_of
from orchestrator.results.verdict import WHICH_COEFFICIENTS, WHICH_LOSS, DatasetVerdict, deprecated_verdict
from orchestrator.results.winner import Winner, identity_of, winners_of
from orchestrator.text.values import count_text
from orchestrator.text.wording import (
    BRIEF,
    listed,
    metric_meaning,
    metric_words,
    number_text,
    p_equals,
    printed,
    setting_text,
)
from trainables.metric_table import without_section
from trainables.model_parameters import ZERO_SHOT
from trainables.ranks import Ranks, chance_rsum

UNCONFIRMED, RUNNING = "unconfirmed", "running"
"""Verdicts of the best of a search before a confirmation, and of a trial that is still trained."""

WINNERS, ORDER, ORDER_OF_SETTINGS, RANKS = "winners", "order", "order_of_settings", "ranks"
"""Keys of the answers over several datasets; ``ORDER_OF_SETTINGS`` after a single search of each loss."""


@dataclass(frozen=True)
class Summary:
    """The results of an experiment so far, without the list of its trials; the history must not change meanwhile.

    Each result is computed when it is first asked for, and kept. Some results of thousands of trials take a while, and
    most readers ask for few.
    """

    history: History

    @cached_property
    def winners(self) -> Mapping[str, Winner]:
        """Dataset -> winner."""
        return winners_of(self.history, self.confirmations)

    @cached_property
    def confirmations(self) -> Mapping[str, Confirmation]:
        """Dataset -> confirmation, where any was planned or begun."""
        return confirmations(self.history)

    @cached_property
    def verdicts(self) -> Mapping[str, DatasetVerdict]:
        """Dataset -> verdict, where the confirmation of the dataset is over."""
        return {name: confirmation.verdict for name, confirmation in self.confirmations.items() if confirmation.is_over}

    @cached_property
    def races(self) -> Mapping[str, Race]:
        """Dataset -> race, where the confirmation of the dataset is a race."""
        return {name: confirmation.race for name, confirmation in self.confirmations.items() if confirmation.is_raced}

    @cached_property
    def trends(self) -> Mapping[str, Sequence[Json]]:
        """Dataset with a verdict -> trends over the parameter of ``confirm.each_of``; empty without one."""
        each_of = self.history.confirm.each_of
        return {} if each_of is None else {name: trends_of(value, each_of) for name, value in self.verdicts.items()}

    @cached_property
    def judged(self) -> Mapping[str, Answer | None]:
        """Dataset with a verdict -> whether the verdict holds by people's judgements; ``None`` without judgements."""
        return {
            dataset: judged_answer(verdict, judged_verdicts(self.confirmations[dataset]))
            for dataset, verdict in self.verdicts.items()
        }

    @cached_property
    def taken_back(self) -> Mapping[str, tuple[str, ...]]:
        """Dataset with a verdict -> sentences that take its headline back, see ``taken_back``."""
        return {
            dataset: taken_back(
                verdict,
                self.confirmations[dataset].by_other_test,
                self.judged[dataset],
                chance_of(self, dataset) if verdict.metric == CHANCE_METRIC else None,
            )
            for dataset, verdict in self.verdicts.items()
        }

    @cached_property
    def equal_budget(self) -> Mapping[str, Json]:
        """Dataset -> see ``equal_budgets``."""
        return equal_budgets(self.history)

    @cached_property
    def optimism(self) -> Mapping[str, Json]:
        """Dataset -> see ``optimism_of``."""
        return optimism_of(self.history)

    @cached_property
    def objectives(self) -> Sequence[Objective]:
        """See ``goals_of``."""
        return goals_of(self.history)

    @cached_property
    def fronts(self) -> Mapping[str, Sequence[Point]]:
        """Dataset -> Pareto front, where there are several objectives."""
        return pareto_fronts(self.history, self.objectives) if len(self.objectives) > 1 else {}

    @cached_property
    def studies(self) -> Mapping[str, Sequence[Point]]:
        """Study -> its settings."""
        return points_by_study(self.history.trials.values())

    @cached_property
    def early_epochs(self) -> Mapping[str, Json]:
        """Study -> see ``early_epochs``."""
        return early_epochs(self.history, self.studies)

    @cached_property
    def edges(self) -> Mapping[str, Sequence[Json]]:
        """Study -> see ``space_edges``."""
        return space_edges(self.history, self.studies)

    @cached_property
    def bands(self) -> Mapping[str, Band]:
        """Study -> its surface with the set of best settings, where there are enough trials, see ``bands``."""
        return bands(self.history, self.studies)

    @cached_property
    def datasets(self) -> Sequence[str]:
        """Datasets with a trial, in the order of their first trials."""
        return list(dict.fromkeys(trial.config.dataset for trial in self.history.trials.values()))

    @cached_property
    def answers(self) -> list[Answer]:
        """All answers of the experiment, in any state."""
        answers = over_datasets(self) if len(self.datasets) > 1 else []
        for dataset in self.datasets:
            answers += [*dataset_answers(self, dataset), *analyses_of(self, dataset)]
        return answers

    @cached_property
    def caveats(self) -> Mapping[str, Sequence[str]]:
        """Dataset -> all sentences that qualify its results: of trials, early stopping, ranges and settings."""
        hasty = {study: early for study, early in self.early_epochs.items() if stops_too_early(early)}
        sentences: dict[str, Sequence[str]] = {}
        for dataset, (limits, _, edges) in self.qualifying.items():
            answers = (limits, early_answer(dataset, self.of_dataset(hasty, dataset)), edges)
            sentences[dataset] = [text for answer in answers if answer is not None for text in answer.sentences]
        return sentences

    @cached_property
    def qualifying(self) -> Mapping[str, Sequence[Answer | None]]:
        """Dataset -> the answers about caveats, early epochs and ranges."""
        answers: dict[str, Sequence[Answer | None]] = {}
        for dataset in self.datasets:
            trials = [trial for trial in self.history.trials.values() if trial.config.dataset == dataset]
            notes = (*caveats(trials), *comparability(self.history, dataset))
            answers[dataset] = (
                Answer("caveats", dataset, "What limits these results?", "", notes=notes) if notes else None,
                early_answer(dataset, self.of_dataset(self.early_epochs, dataset)),
                edges_answer(dataset, self.of_dataset(self.edges, dataset)),
            )
        return answers

    @cached_property
    def remarks(self) -> Mapping[str, Sequence[str]]:
        """Dataset -> sentences about its search that limit nothing."""
        return {
            dataset: [
                *remarks([trial for trial in self.history.trials.values() if trial.config.dataset == dataset]),
                *search_remarks(self.history, dataset),
            ]
            for dataset in self.datasets
        }

    def of_dataset(self, of_study: Mapping[str, Any], dataset: str) -> dict[str, Any]:
        """Return the entries of the studies on a dataset."""
        studies = {trial.study for trial in self.history.trials.values() if trial.config.dataset == dataset}
        return {study: value for study, value in of_study.items() if study in studies}

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain values for JSON."""
        history = self.history
        return {
            "experiment": history.name,
            "pareto": {dataset: list(map(self._on_front, front)) for dataset, front in self.fronts.items()},
            "metric": history.metric,
            "objectives": [goal.model_dump() for goal in self.objectives],
            "ended_by": history.ended_by,
            "winners": {dataset: winner.to_dict() for dataset, winner in self.winners.items()},
            "datasets": {dataset: verdict.to_dict() for dataset, verdict in self.verdicts.items()},
            "verdicts": [deprecated_verdict(verdict) for verdict in self.verdicts.values()],
            "races": {dataset: race.to_dict() for dataset, race in self.races.items()},
            "equal_budget": dict(self.equal_budget),
            "optimism": dict(self.optimism),
            "trends": {dataset: list(trends) for dataset, trends in self.trends.items()},
            "judged": {name: [] if answer is None else answer.data["judged"] for name, answer in self.judged.items()},
            "confirm_looks": dict(history.confirm_looks),
            "test_openings": dict(history.test_openings),
            "caveats": {dataset: list(sentences) for dataset, sentences in self.caveats.items()},
            "remarks": {dataset: list(sentences) for dataset, sentences in self.remarks.items()},
            "early_epochs": dict(self.early_epochs),
        }

    def _on_front(self, point: Point) -> dict[str, Any]:
        return {"trial": point.first.id, **identity_of(point.first), **values_at_best(point, self.objectives)}


def analyses_of(summary: Summary, dataset: str) -> list[Answer]:
    """Return what the analyses say about a dataset, and how a race gave out its seeds."""
    qualifying, early, edges = summary.qualifying[dataset]
    best, known = summary.winners.get(dataset), tuple(summary.remarks[dataset])
    winner = None if best is None else (best.setting.config.model, best.setting.config.loss)
    analyses = (
        front_answer(dataset, summary.fronts.get(dataset, ()), summary.objectives),
        *band_answers(dataset, list(summary.of_dataset(summary.bands, dataset).values()), winner),
        trend_answer(dataset, summary.trends.get(dataset, ()), repeated=summary.history.experiment.repeats > 1),
        summary.judged.get(dataset),
        equal_budget_answer(dataset, summary.equal_budget.get(dataset)),
        optimism_answer(dataset, summary.optimism.get(dataset), best.trial if best and best.confirmed else None),
        early,
        edges,
        Answer("remarks", dataset, "What else happened in the search?", "", notes=known) if known else None,
        qualifying,
    )
    answers = [answer for answer in analyses if answer is not None]
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
    headline, *further = answer_questions(verdict)
    return [replace(headline, taken_back=summary.taken_back[dataset]), *further]


def headline_of(summary: Summary, dataset: str) -> Answer:
    """Return the headline answer of a dataset: which loss, or else which coefficients."""
    return dataset_answers(summary, dataset)[0]


def unconfirmed(summary: Summary, dataset: str) -> Answer:
    """Return the best of each loss in a search whose best trials have not been confirmed."""
    metric = summary.history.metric
    trials = [trial for trial in summary.history.trials.values() if trial.config.dataset == dataset]
    # A loss without a trained point has its running point with the highest value so far, after the trained points.
    points = points_of(trials)
    value_of = {point.first.id: value for point in points if (value := point.value_so_far(metric)) is not None}
    valued = [*ranked(points), *(point for point in points if not point.finished and point.first.id in value_of)]
    best_of: dict[tuple[str, str], Point] = {}
    for point in sorted(valued, key=lambda point: (not point.finished, -value_of[point.first.id])):
        best_of.setdefault(_kind(point.first), point)
    best = list(best_of.values())
    tried = Counter(_kind(trial) for trial in trials if trial.candidate is None)
    asks_for_losses = len(best_of or tried) > 1
    key = WHICH_SETTING if asks_for_losses else WHICH_COEFFICIENTS
    question = "Which setting?" if asks_for_losses else "Which coefficients?"
    if not best:
        return Answer(key, dataset, question, "No trial has been trained to its end yet.", UNCONFIRMED)
    values = [value_of[point.first.id] for point in best]
    first, count = best[0], len(best[0].finished)
    trainings = "one training" if count == 1 else f"the mean of {count} trainings"
    setting = setting_text(first.first.parameters, most=BRIEF)
    name = printed(first.first.config.loss) + (f" ({setting})" if setting else "")
    reached, of_metric = number_text(values[0], metric), f"best {metric_words(metric)}"
    headline = f"{name} has the {of_metric} of its search, {reached} in {trainings}."
    if not first.finished:
        headline = f"{name} has the {of_metric} so far, {reached}; no trial has been trained to its end yet."
    several_models = len({model for model, _ in best_of}) > 1
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
    rows: list[Sequence[Cell]] = []
    for point, value in zip(best, values, strict=True):
        config, count = point.first.config, len(point.finished)
        model = printed(config.model) if several_models else config.model
        about = (point.first.id, model, config.loss, printed(config.loss), setting_text(point.first.parameters))
        gap = None if point is first else value - values[0]
        rows.append((*about, tried[_kind(point.first)], count, value, gap, UNCONFIRMED if count else RUNNING))
    return Answer(
        key,
        dataset,
        question,
        headline,
        UNCONFIRMED,
        numbers={"value": values[0]},
        table=table_of(columns, rows),
        notes=("The best value of a search is usually too high: confirm it with fresh seeds.",),
    )


def _kind(trial: Trial) -> tuple[str, str]:
    return trial.config.model, trial.config.loss


def over_datasets(summary: Summary) -> list[Answer]:
    """Return the winners of all datasets, and whether the order of losses is the same on all of them."""
    # Of each loss its best candidate counts, and in the test over images the best with their values. A single seed
    # that is left of several would count as exact there.
    runs: dict[str, dict[str, ImageRows]] = {}
    scores: dict[str, dict[str, float]] = {}
    for dataset, verdict in summary.verdicts.items():
        for candidate in verdict.candidates:
            if candidate.loss == ZERO_SHOT:
                continue
            scores.setdefault(dataset, {}).setdefault(candidate.loss, candidate.mean(verdict.metric))
            of_loss = runs.setdefault(dataset, {})
            is_lone = candidate.has_seeds and candidate.count < 2
            rows = candidate.image_rows(verdict.metric, candidate.unit)
            if rows is not None and not is_lone and candidate.loss not in of_loss:
                of_loss[candidate.loss] = rows
    metric, repeated = summary.history.metric, summary.history.experiment.repeats > 1
    every = "every" if all(dataset in scores for dataset in summary.datasets) else "every confirmed"
    order = _order(runs, scores, metric, every, repeated=repeated)
    answers = (_winners(summary), order, _mean_ranks(scores, metric, repeated=repeated))
    return [answer for answer in answers if answer is not None]


def _winners(summary: Summary) -> Answer:
    metric = summary.history.metric
    several = len({trial.config.loss for trial in summary.history.trials.values()}) > 1
    of_losses = several and summary.history.experiment.repeats > 1
    others = "other losses" if of_losses else "settings of other losses"
    columns = [
        Column("dataset", "dataset"),
        Column("candidate", "candidate", hidden=True),
        Column("loss", "loss", hidden=True),
        Column("name", "loss"),
        Column("setting", "setting"),
        Column("value", f"best {metric_words(metric)}", unit=metric),
        Column("result", "mean", unit=metric, shows="both"),
        Column("lead", f"lead over {others}", unit=metric, signed=True, shows="both"),
        Column("verdict", "verdict"),
    ]
    rows: list[Sequence[Cell]] = []
    said: dict[str, list[str]] = {}
    back: list[str] = []
    for dataset in summary.datasets:
        answer, verdict = headline_of(summary, dataset), summary.verdicts.get(dataset)
        if verdict is None or verdict.winner is None:
            cells = answer.table.to_dict()["rows"][0] if answer.table else {}
            known = (cells.get(key) for key in ("trial", "loss", "name", "setting"))
            rows.append((printed(dataset), *known, cells.get("value"), None, None, answer.verdict))
            continue
        winner, numbers = verdict.winner, answer.numbers
        difference = numbers.get("difference") if answer.key in (WHICH_LOSS, WHICH_SETTING) else None
        lead = None if difference is None else Quantity(difference, None, numbers.get("low"), numbers.get("high"))
        name, setting = printed(winner.loss), setting_text(winner.parameters) or "default"
        about = (printed(dataset), winner.label, winner.loss, name, setting, None)
        rows.append((*about, winner.quantity(verdict.metric), lead, answer.badge))
        place = printed(dataset) + ("" if answer.badge == "better" else f" ({answer.badge})")
        back += [f"{printed(dataset)}: {sentence}" for sentence in answer.taken_back]
        # After a single search of each loss a setting has won, and not its loss.
        brief = setting_text(winner.parameters, most=1 if several else BRIEF)
        at_setting = f"{name} at {brief}" if several and brief else brief or name
        said.setdefault(name if of_losses else at_setting, []).append(place)
    winners = [f"{name} on {listed(places)}" for name, places in said.items()]
    headline = f"Winners: {'; '.join(winners)}." if winners else "No dataset has been confirmed yet."
    question = f"Which {'loss' if of_losses else 'setting'} wins on each dataset?"
    return Answer(WINNERS, "", question, headline, table=table_of(columns, rows), taken_back=tuple(back))


def _order(
    runs: Mapping[str, Mapping[str, ImageRows]],
    scores: Mapping[str, Mapping[str, float]],
    metric: str,
    every: str,
    *,
    repeated: bool,
) -> Answer | None:
    """Return whether the differences between losses depend on the dataset; ``None`` where it cannot be tested.

    After a single search of each loss (not ``repeated``), the differences are those of the settings that it found.
    ``every`` says which datasets have ``scores``: ``every`` or ``every confirmed``.
    The sizes of the differences may depend on it where one loss has the highest mean everywhere, so both are said.
    """
    interaction = interaction_test(runs)
    if interaction is None:
        return None
    p, statistic, _, effects = interaction
    losses, differs = common_losses(runs), p <= LEVEL
    leaders: dict[str, list[str]] = {}
    for dataset, means in scores.items():
        leaders.setdefault(printed(max(means, key=means.__getitem__)), []).append(printed(dataset))
    settings = "" if repeated else "settings of "
    if len(leaders) == 1:
        name, have = next(iter(leaders)), "has" if repeated else "have"
        first = f"{settings.capitalize()}{name} {have} the highest mean on {every} dataset"
    else:
        places = (f"{settings}{loss} on {listed(places)}" for loss, places in leaders.items())
        first = f"Highest means: {'; '.join(places)}"
    of = "Differences" if repeated else "Differences between these settings"
    depend = f"{of} depend on the dataset: interaction"
    shown = depend if differs else "An interaction with the dataset is not shown:"
    headline = f"{first}. {shown} {p_equals(p)} ({count_text(len(losses), 'loss')})."
    _, row, column = max((abs(effects[place]), *place) for place in np.ndindex(*effects.shape))
    effect = number_text(float(effects[row, column]), metric, signed=True)
    note = (
        f"Largest effect: {printed(losses[column])} on {printed(list(runs)[row])}, {effect} beside the means of its "
        f"loss and its dataset."
    )
    numbers = {"p": p, "statistic": statistic}
    key, asked = (ORDER, "Does") if repeated else (ORDER_OF_SETTINGS, "Do the settings of")
    question = f"{asked} the same loss win everywhere?"
    notes = (*((note,) if differs else ()), *(() if repeated else (ONE_SEARCH,)))
    return Answer(key, "", question, headline, numbers=numbers, notes=notes)


def _mean_ranks(scores: Mapping[str, Mapping[str, float]], metric: str, *, repeated: bool) -> Answer | None:
    """Return the mean ranks of the losses over the datasets; ``None`` with fewer than two verdicts.

    After a single search of each loss (not ``repeated``), they are ranks of the settings that it found.
    """
    ranking = mean_ranks(scores)
    if ranking is None:
        return None
    ranks, critical = ranking
    best = next(iter(ranks))
    first = [printed(loss) for loss, rank in ranks.items() if rank == ranks[best]]
    verb = "share" if len(first) > 1 else "has" if repeated else "have"
    named = listed(first) if repeated else f"Settings of {listed(first)}"
    headline = f"{named} {verb} the best mean rank, {number_text(ranks[best])}."
    rest = sum(rank - ranks[best] > critical for rank in ranks.values())
    differ, of = "differs" if rest == 1 else "differ", "it" if len(first) == 1 else "them"
    apart = f"{count_text(rest, 'loss')} {differ} from {of} significantly" if rest else "no loss differs significantly"
    few = f" {len(scores)} datasets are few for this test." if len(scores) < FEW else ""
    columns = [
        Column("loss", "loss", hidden=True),
        Column("name", "loss"),
        Column("mean_rank", "mean rank", unit="rank", decimals=1),
        *(Column(dataset, printed(dataset), unit=metric, group="mean") for dataset in scores),
    ]
    rows: list[Sequence[Cell]] = [
        (loss, printed(loss), rank, *(values[loss] for values in scores.values())) for loss, rank in ranks.items()
    ]
    notes = (f"The critical difference of mean ranks is {number_text(critical)}: {apart}.{few}",)
    numbers, table = {"critical_difference": critical}, table_of(columns, rows)
    question = f"Which {'losses' if repeated else 'settings of losses'} are best on average?"
    return Answer(RANKS, "", question, headline, numbers=numbers, table=table, notes=notes)


def chance_of(summary: Summary, dataset: str) -> float | None:
    """Return the rsum of a random ranking of a dataset's test split, in [0, 600]; ``None`` without kept ranks."""
    history = summary.history
    kept = (history.test_ranks.get(trial.id) for trial in history.trials.values() if trial.config.dataset == dataset)
    text = next((text for text in kept if text is not None), None)
    if text is None:
        return None
    ranks = Ranks.from_text(text)
    return chance_rsum(ranks.image_of_caption) if ranks.chance is None else ranks.chance


def measure_of(metric: str, summaries: Iterable[Summary]) -> str:
    """Return what a metric measures; of ``rsum`` also the values of random rankings, see ``chance_of``."""
    name = without_section(metric)
    chances = (chance_of(summary, dataset) for summary in summaries for dataset in summary.datasets)
    return metric_meaning(name, *(chance for chance in chances if chance is not None and name == "rsum"))


def summarise(history: History) -> dict[str, Any]:
    """Return the content of ``summary.json``: results, ``answers``, and ``trials``, the list of all trials."""
    summary = Summary(history)
    answers = [answer.to_dict() for answer in summary.answers]
    trials = [trial_row(trial, history) for trial in history.trials.values()]
    return {**summary.to_dict(), "answers": answers, "trials": trials}


def trial_row(trial: Trial, history: History) -> dict[str, Any]:
    """Return a trial as an entry of ``trials`` in ``summary.json``."""
    return {
        "trial": trial.id,
        "stage": str(trial.stage),
        "candidate": trial.candidate,
        **identity_of(trial),
        "state": history.standing(trial),
        "epochs": trial.last_epoch,
        "best_epoch": trial.best_epoch,
        "epochs_to_95": trial.epochs_to_95(),
        "best": best_metrics(trial),
        "retries": trial.retries,
        "error": trial.error,
    }
