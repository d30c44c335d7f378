"""The results of an experiment, a pure function of its history, which sentences, tables, report and registry read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.experiment.sections import Objective
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_by_study
from orchestrator.journal.trial import Trial
from orchestrator.results.candidates import DatasetVerdict
from orchestrator.results.caveats import caveats
from orchestrator.results.comparability import comparability
from orchestrator.results.confirmed import verdicts_of
from orchestrator.results.confirming import races_of
from orchestrator.results.early_epochs import EarlyEpochs, describe_early_epochs, early_epochs, of_dataset
from orchestrator.results.equal_budget import equal_budgets
from orchestrator.results.equal_budget_answers import EqualBudget
from orchestrator.results.judged import JudgedVerdict, judged_verdicts
from orchestrator.results.optimism import Optimism, optimism_of
from orchestrator.results.pareto import goals_of, pareto_fronts, values_at_best
from orchestrator.results.race import Race
from orchestrator.results.space_edges import Edge, describe_edges, space_edges
from orchestrator.results.winner import Winner, best_metrics, identity_of, winners_of


@dataclass(frozen=True)
class Summary:
    """The results of an experiment, without the list of its trials.

    Attributes:
        experiment: Name of the experiment.
        metric: The metric that the experiment maximises.
        objectives: The objectives, of which this metric is the first.
        ended_by: See ``History.ended_by``.
        fronts: Dataset -> Pareto front, where there are several objectives.
        winners: Dataset -> winner.
        verdicts: Dataset -> verdict, where the confirmation of the dataset is over.
        races: Dataset -> race, where the confirmation of the dataset is a race.
        equal_budget: Dataset -> comparison of its losses at equal budgets.
        optimism: Dataset -> how much higher the search's values were than those of fresh seeds.
        judged: Dataset that has a verdict -> verdicts by people's judgements of pairs; empty where the dataset has no
            judgements.
        confirm_looks: Dataset -> how often its test split was opened for repeats.
        test_openings: Dataset -> how often its test split was opened.
        caveats: Dataset -> sentences about the trials that could not win, about how well early epochs rank trials,
            about ranges whose ends hold the best settings, and about what makes the losses comparable.
        early_epochs: Study -> how well each epoch ranks trials as the end does.
    """

    experiment: str
    metric: str
    objectives: Sequence[Objective]
    ended_by: str | None
    fronts: Mapping[str, Sequence[Point]]
    winners: Mapping[str, Winner]
    verdicts: Mapping[str, DatasetVerdict]
    races: Mapping[str, Race]
    equal_budget: Mapping[str, EqualBudget]
    optimism: Mapping[str, Optimism]
    judged: Mapping[str, Sequence[JudgedVerdict]]
    confirm_looks: Mapping[str, int]
    test_openings: Mapping[str, int]
    caveats: Mapping[str, Sequence[str]]
    early_epochs: Mapping[str, EarlyEpochs]

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain values for JSON."""
        return {
            "experiment": self.experiment,
            "pareto": {dataset: [self._on_front(point) for point in front] for dataset, front in self.fronts.items()},
            "metric": self.metric,
            "objectives": [goal.model_dump() for goal in self.objectives],
            "ended_by": self.ended_by,
            "winners": {dataset: winner.to_dict() for dataset, winner in self.winners.items()},
            "verdicts": [verdict.to_dict() for verdict in self.verdicts.values()],
            "races": {dataset: race.to_dict() for dataset, race in self.races.items()},
            "equal_budget": {dataset: found.to_dict() for dataset, found in self.equal_budget.items()},
            "optimism": {dataset: found.to_dict() for dataset, found in self.optimism.items()},
            "judged": {dataset: [one.to_dict() for one in judged] for dataset, judged in self.judged.items()},
            "confirm_looks": dict(self.confirm_looks),
            "test_openings": dict(self.test_openings),
            "caveats": {dataset: list(sentences) for dataset, sentences in self.caveats.items()},
            "early_epochs": {study: early.to_dict() for study, early in self.early_epochs.items()},
        }

    def _on_front(self, point: Point) -> dict[str, Any]:
        return {"trial": point.first.id, **identity_of(point.first), **values_at_best(point, self.objectives)}


def summarise(history: History) -> dict[str, Any]:
    """Return the content of ``summary.json``: what ``conclude`` returns, and ``trials``, the list of all trials."""
    return {**conclude(history).to_dict(), "trials": [_row(trial, history) for trial in history.trials.values()]}


def conclude(history: History) -> Summary:
    """Return the results of an experiment so far."""
    verdicts, goals = verdicts_of(history), goals_of(history)
    datasets = dict.fromkeys(trial.config.dataset for trial in history.trials.values())
    studies = points_by_study(history.trials.values())
    early, edges, compared = early_epochs(history, studies), space_edges(history, studies), comparability(history)
    return Summary(
        experiment=history.name,
        metric=history.metric,
        objectives=goals,
        ended_by=history.ended_by,
        fronts=pareto_fronts(history, goals) if len(goals) > 1 else {},
        winners=winners_of(history, verdicts),
        verdicts=verdicts,
        races=races_of(history),
        equal_budget=equal_budgets(history),
        optimism=optimism_of(history),
        judged={dataset: judged_verdicts(history, verdict) for dataset, verdict in verdicts.items()},
        confirm_looks=dict(history.confirm_looks),
        test_openings=dict(history.test_openings),
        caveats={name: [*_caveats(history, name, early, edges), *compared.get(name, ())] for name in datasets},
        early_epochs=early,
    )


def _caveats(
    history: History, dataset: str, early: Mapping[str, EarlyEpochs], edges: Mapping[str, Sequence[Edge]]
) -> list[str]:
    trials = [trial for trial in history.trials.values() if trial.config.dataset == dataset]
    return [*caveats(trials), *describe_early_epochs(of_dataset(early, trials)), *describe_edges(edges, trials)]


def _row(trial: Trial, history: History) -> dict[str, Any]:
    return {
        "trial": trial.id,
        "stage": str(trial.stage),
        "candidate": trial.candidate,
        **identity_of(trial),
        "state": history.standing(trial),
        "epochs": trial.last_epoch,
        "best_epoch": trial.best_epoch,
        "best": best_metrics(trial, ""),
        "retries": trial.retries,
        "error": trial.error,
    }
