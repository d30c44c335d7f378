"""The results of an experiment, a pure function of its history, which sentences, tables, report and registry read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.points import Point
from orchestrator.journal.trial import Trial
from orchestrator.results.analyses import Analyses, values_at_best
from orchestrator.results.candidates import DatasetVerdict
from orchestrator.results.confirmation import Confirmation, confirmations
from orchestrator.results.equal_budget import Json
from orchestrator.results.judged import JudgedVerdict, judged_verdicts
from orchestrator.results.race import Race
from orchestrator.results.trends import trends_of
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

    @cached_property
    def analyses(self) -> Analyses:
        """What the history says beside the verdicts."""
        return Analyses(self.history)

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
        return {dataset: one.verdict for dataset, one in self.confirmations.items() if one.is_over}

    @cached_property
    def races(self) -> Mapping[str, Race]:
        """Dataset -> race, where the confirmation of the dataset is a race."""
        return {dataset: one.race for dataset, one in self.confirmations.items() if one.is_raced}

    @cached_property
    def trends(self) -> Mapping[str, Sequence[Json]]:
        """Dataset with a verdict -> trends over the parameter of ``confirm.each_of``; empty without one."""
        confirm = self.history.experiment.confirm
        if confirm is None or confirm.each_of is None:
            return {}
        return {dataset: trends_of(verdict, confirm.each_of) for dataset, verdict in self.verdicts.items()}

    @cached_property
    def judged(self) -> Mapping[str, Sequence[JudgedVerdict]]:
        """Dataset that has a verdict -> verdicts by people's judgements of pairs; empty without judgements."""
        return {dataset: judged_verdicts(self.confirmations[dataset]) for dataset in self.verdicts}

    @cached_property
    def datasets(self) -> Sequence[str]:
        """Datasets with a trial, in the order of their first trials."""
        return list(dict.fromkeys(trial.config.dataset for trial in self.history.trials.values()))

    @cached_property
    def caveats(self) -> Mapping[str, Sequence[str]]:
        """Dataset -> sentences that qualify its results."""
        return {dataset: self.analyses.caveats(dataset) for dataset in self.datasets}

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain values for JSON."""
        history, analyses = self.history, self.analyses
        return {
            "experiment": history.name,
            "pareto": {dataset: list(map(self._on_front, front)) for dataset, front in analyses.fronts.items()},
            "metric": history.metric,
            "objectives": [goal.model_dump() for goal in analyses.objectives],
            "ended_by": history.ended_by,
            "winners": {dataset: winner.to_dict() for dataset, winner in self.winners.items()},
            "verdicts": [verdict.to_dict() for verdict in self.verdicts.values()],
            "races": {dataset: race.to_dict() for dataset, race in self.races.items()},
            "equal_budget": dict(analyses.equal_budget),
            "optimism": dict(analyses.optimism),
            "trends": {dataset: list(trends) for dataset, trends in self.trends.items()},
            "judged": {dataset: [one.to_dict() for one in judged] for dataset, judged in self.judged.items()},
            "confirm_looks": dict(history.confirm_looks),
            "test_openings": dict(history.test_openings),
            "caveats": {dataset: list(sentences) for dataset, sentences in self.caveats.items()},
            "early_epochs": dict(analyses.early_epochs),
        }

    def _on_front(self, point: Point) -> dict[str, Any]:
        return {"trial": point.first.id, **identity_of(point.first), **values_at_best(point, self.analyses.objectives)}


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
