"""The winner of each dataset: a pure function of the history.

Where a dataset's best trials were confirmed with fresh seeds, the verdict names the winner. Before the confirmation,
the best finished trial of the search is the winner, called unconfirmed. Trials that diverged, failed or were stopped
early (as worse than others of their study) cannot win. Of equal trials the earlier trial wins. Several trainings of one
setting are one candidate, whose value is their mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.confirmation import Confirmation, confirmations
from trainables.metric_table import TEST, VAL, values_in


@dataclass(frozen=True)
class Winner:
    """The winner of a dataset.

    Attributes:
        trial: Id of the first trial of the search with the settings that won.
        setting: A trial of the search with these settings.
        model: The trial whose trained model is the winner's.
        confirmed: Whether the settings were trained again with fresh seeds; else they are the best of the search.
        seeds: Number of trainings over which the metrics are means.
        val: Metrics on val, by name without a prefix.
        test: Metrics on the test split; ``None`` where the split was not opened for the winner.
        test_opened_for: Ids of the trials for which the test split of the dataset was opened, in order.
    """

    trial: str
    setting: Trial
    model: Trial
    confirmed: bool
    seeds: int
    val: Mapping[str, float]
    test: Mapping[str, float] | None
    test_opened_for: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the winner as plain values for JSON."""
        return {
            "trial": self.trial,
            "confirmed": self.confirmed,
            "seeds": self.seeds,
            "model_of": self.model.id,
            **identity_of(self.setting),
            "best_epoch": self.model.best_epoch,
            "val": dict(self.val),
            "test": None if self.test is None else dict(self.test),
            "test_opened_for": self.test_opened_for,
        }


def find_winning_points(history: History) -> dict[str, Point]:
    """Return dataset -> best point of its search; datasets without a finished trial are left out.

    The experiment's metric at the best epoch decides; a study may choose the best epoch by a metric of its own.
    """
    metric = history.metric
    winners: dict[str, tuple[float, Point]] = {}
    for point in points_of(history.stage(Stage.SEARCH)):
        value, dataset = point.mean(metric), point.first.config.dataset
        if value is not None and (dataset not in winners or value > winners[dataset][0]):
            winners[dataset] = (value, point)
    return {dataset: point for dataset, (_, point) in winners.items()}


def find_winners(history: History) -> dict[str, Trial]:
    """Return the trial that has the model of the best point of each dataset's search: the first that finished."""
    return {dataset: point.finished[0] for dataset, point in find_winning_points(history).items()}


def find_champions(history: History) -> dict[str, Trial]:
    """Return the trial that has the trained model of the winner of each dataset, confirmed or not."""
    return {dataset: winner.model for dataset, winner in winners_of(history, confirmations(history)).items()}


def winners_of(history: History, confirmed: Mapping[str, Confirmation]) -> dict[str, Winner]:
    """Return the winner of each dataset that has one; of a confirmation that is over the verdict names the winner."""
    winners = {dataset: _unconfirmed(point, history) for dataset, point in find_winning_points(history).items()}
    for dataset, confirmation in confirmed.items():
        champion = confirmation.champion if confirmation.is_over else None
        if champion is not None:
            winners[dataset] = _confirmed(confirmation, champion)
    return winners


def _unconfirmed(point: Point, history: History) -> Winner:
    """Return the best point of a search; its metrics on val are means over the trainings that finished."""
    trial = point.finished[0]
    return Winner(
        trial=point.first.id,
        setting=trial,
        model=trial,
        confirmed=False,
        seeds=len(point.finished),
        val={name: mean for name in values_in(trial.at_best, VAL) if (mean := point.mean(f"val/{name}")) is not None},
        test=history.tests.get(trial.id),
        test_opened_for=history.tests_opened.get(trial.config.dataset, []),
    )


def _confirmed(confirmation: Confirmation, champion: Trial) -> Winner:
    """Return a confirmed winner; its metrics are means over the seeds."""
    history, winner = confirmation.history, confirmation.verdict.candidates[0]
    means = {name: value.mean for name, value in winner.measures().items()}
    return Winner(
        trial=winner.label,
        setting=history.trials[winner.label],
        model=champion,
        confirmed=True,
        seeds=winner.count,
        val=values_in(means, VAL),
        test=values_in(means, TEST),
        test_opened_for=history.tests_opened.get(confirmation.dataset, []),
    )


def identity_of(trial: Trial) -> dict[str, Any]:
    """Return the study, settings and seed of a trial, as plain values for JSON."""
    config = trial.config
    return {"study": trial.study, **trial.combination, "parameters": trial.parameters, "seed": config.seed}
