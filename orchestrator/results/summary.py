"""The results of an experiment, a pure function of its history, which sentences, tables, report and registry read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.experiment.sections import Objective
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_by_study
from orchestrator.journal.trial import Trial
from orchestrator.results.candidates import DatasetVerdict
from orchestrator.results.caveats import caveats, comparability
from orchestrator.results.confirmed import verdicts_of
from orchestrator.results.confirming import races_of
from orchestrator.results.early_epochs import EarlyEpochs, describe_early_epochs, early_epochs, of_dataset
from orchestrator.results.equal_budget import EqualBudget, equal_budgets
from orchestrator.results.judged import JudgedVerdict, judged_verdicts
from orchestrator.results.optimism import Optimism, optimism_of
from orchestrator.results.pareto import goals_of, pareto_fronts, values_at_best
from orchestrator.results.race import Race
from orchestrator.results.space_edges import describe_edges, space_edges
from orchestrator.results.trends import Trend, trends_of
from orchestrator.results.winner import Winner, best_metrics, identity_of, winners_of


@dataclass(frozen=True)
class Summary:
    """The results of an experiment so far, without the list of its trials.

    Each result is computed when it is first asked for, and kept: of thousands of trials some results take a while, and
    most readers ask for few.

    Args:
        history: History of the experiment, which does not change as long as the summary is in use.
    """

    history: History

    @property
    def experiment(self) -> str:
        """Name of the experiment."""
        return self.history.name

    @property
    def metric(self) -> str:
        """The metric that the experiment maximises."""
        return self.history.metric

    @cached_property
    def objectives(self) -> Sequence[Objective]:
        """The objectives, of which ``metric`` is the first."""
        return goals_of(self.history)

    @property
    def ended_by(self) -> str | None:
        """See ``History.ended_by``."""
        return self.history.ended_by

    @cached_property
    def fronts(self) -> Mapping[str, Sequence[Point]]:
        """Dataset -> Pareto front, where there are several objectives."""
        return pareto_fronts(self.history, self.objectives) if len(self.objectives) > 1 else {}

    @cached_property
    def winners(self) -> Mapping[str, Winner]:
        """Dataset -> winner."""
        return winners_of(self.history, self.verdicts)

    @cached_property
    def verdicts(self) -> Mapping[str, DatasetVerdict]:
        """Dataset -> verdict, where the confirmation of the dataset is over."""
        return verdicts_of(self.history)

    @cached_property
    def races(self) -> Mapping[str, Race]:
        """Dataset -> race, where the confirmation of the dataset is a race."""
        return races_of(self.history)

    @cached_property
    def equal_budget(self) -> Mapping[str, EqualBudget]:
        """Dataset -> comparison of its losses at equal budgets."""
        return equal_budgets(self.history)

    @cached_property
    def optimism(self) -> Mapping[str, Optimism]:
        """Dataset -> how much higher the search's values were than those of fresh seeds."""
        return optimism_of(self.history)

    @cached_property
    def trends(self) -> Mapping[str, Sequence[Trend]]:
        """Dataset with a verdict -> trends over the parameter of ``confirm.each_of``; empty without one."""
        confirm = self.history.experiment.confirm
        if confirm is None or confirm.each_of is None:
            return {}
        return {dataset: trends_of(verdict, confirm.each_of) for dataset, verdict in self.verdicts.items()}

    @cached_property
    def judged(self) -> Mapping[str, Sequence[JudgedVerdict]]:
        """Dataset that has a verdict -> verdicts by people's judgements of pairs; empty without judgements."""
        return {dataset: judged_verdicts(self.history, verdict) for dataset, verdict in self.verdicts.items()}

    @property
    def confirm_looks(self) -> Mapping[str, int]:
        """Dataset -> how often its test split was opened for repeats."""
        return self.history.confirm_looks

    @property
    def test_openings(self) -> Mapping[str, int]:
        """Dataset -> how often its test split was opened."""
        return self.history.test_openings

    @cached_property
    def datasets(self) -> Sequence[str]:
        """Datasets with a trial, in the order of their first trials."""
        return list(dict.fromkeys(trial.config.dataset for trial in self.history.trials.values()))

    @cached_property
    def caveats(self) -> Mapping[str, Sequence[str]]:
        """Dataset -> sentences that qualify its results.

        They are about the trials that could not win, how well early epochs rank trials, ranges whose ends hold the best
        settings, and what makes the losses comparable.
        """
        edges, compared = space_edges(self.history, self._studies), comparability(self.history)
        found = {}
        for dataset in self.datasets:
            trials = [trial for trial in self.history.trials.values() if trial.config.dataset == dataset]
            early = describe_early_epochs(of_dataset(self.early_epochs, trials))
            found[dataset] = [
                *caveats(trials),
                *early,
                *describe_edges(edges, trials),
                *compared.get(dataset, ()),
            ]
        return found

    @cached_property
    def early_epochs(self) -> Mapping[str, EarlyEpochs]:
        """Study -> how well each epoch ranks trials as the end does."""
        return early_epochs(self.history, self._studies)

    @cached_property
    def _studies(self) -> Mapping[str, Sequence[Point]]:
        return points_by_study(self.history.trials.values())

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
            "trends": {dataset: [trend.to_dict() for trend in found] for dataset, found in self.trends.items()},
            "judged": {dataset: [one.to_dict() for one in judged] for dataset, judged in self.judged.items()},
            "confirm_looks": dict(self.confirm_looks),
            "test_openings": dict(self.test_openings),
            "caveats": {dataset: list(sentences) for dataset, sentences in self.caveats.items()},
            "early_epochs": {study: early.to_dict() for study, early in self.early_epochs.items()},
        }

    def _on_front(self, point: Point) -> dict[str, Any]:
        return {"trial": point.first.id, **identity_of(point.first), **values_at_best(point, self.objectives)}


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
        "best": best_metrics(trial, ""),
        "retries": trial.retries,
        "error": trial.error,
    }
