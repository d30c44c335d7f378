"""The winners of an experiment: a pure function of its history.

Where a dataset's best trials were confirmed with fresh seeds, the verdict on these names the winner. Before that, the
best trial of the search stands in for it and is called unconfirmed: a diverged or failed trial never does, and one that
was stopped early was worse than others of its study when it was. Ties go to the earlier trial. Several trainings of one
setting are one candidate, which counts with their mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.experiment.sections import Objective
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.candidates import DatasetVerdict, Standing
from orchestrator.results.caveats import caveats
from orchestrator.results.comparability import comparability
from orchestrator.results.confirmed import champion_of, verdicts_of
from orchestrator.results.confirming import races_of
from orchestrator.results.early_epochs import EarlyEpochs, early_epochs, of_dataset, sentences
from orchestrator.results.equal_budget import equal_budgets
from orchestrator.results.equal_budget_answers import EqualBudget
from orchestrator.results.judged import JudgedVerdict, judged_verdicts
from orchestrator.results.pareto import goals_of, pareto_fronts, values_at_best
from orchestrator.results.race import Race
from orchestrator.results.space_edges import Edge, space_edges
from orchestrator.results.space_edges import sentences as sentences_of_edges


@dataclass(frozen=True)
class Winner:
    """The winner of a dataset.

    Attributes:
        trial: Id of the first trial of the search with the settings that won.
        setting: A trial of the search with these settings.
        model: The trial whose trained model stands for the winner.
        confirmed: Whether the settings were trained again with fresh seeds; else they are the best of the search.
        seeds: How many trainings the metrics are means over.
        val: Metrics on val, by name without a prefix.
        test: Metrics on the test split; ``None`` where it was not opened for the winner.
        test_opened_for: Ids of the trials for whose sake the test split of the dataset was opened, in order.
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
        """Return it as plain values for JSON."""
        return {
            "trial": self.trial,
            "confirmed": self.confirmed,
            "seeds": self.seeds,
            "model_of": self.model.id,
            **_identity(self.setting),
            "best_epoch": self.model.best_epoch,
            "val": dict(self.val),
            "test": None if self.test is None else dict(self.test),
            "test_opened_for": self.test_opened_for,
        }


@dataclass(frozen=True)
class Summary:
    """What an experiment came to, but the list of its trials.

    Attributes:
        experiment: Its name.
        metric: The metric that the experiment maximises.
        objectives: This metric, then the further goals.
        ended_by: See ``History``.
        fronts: Dataset -> the points that no other beats in every objective, where there are several objectives.
        winners: Dataset -> its winner.
        verdicts: Dataset -> the verdict on it, where its confirmation is over.
        races: Dataset -> its race, where the confirmation is one.
        equal_budget: Dataset -> what its losses reach at equal budgets.
        judged: Dataset that has a verdict -> what people's judgements of pairs say about the verdict; nothing where no
            judgements lay beside the dataset.
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
    judged: Mapping[str, Sequence[JudgedVerdict]]
    confirm_looks: Mapping[str, int]
    test_openings: Mapping[str, int]
    caveats: Mapping[str, Sequence[str]]
    early_epochs: Mapping[str, EarlyEpochs]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
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
            "judged": {dataset: [one.to_dict() for one in judged] for dataset, judged in self.judged.items()},
            "confirm_looks": dict(self.confirm_looks),
            "test_openings": dict(self.test_openings),
            "caveats": {dataset: list(sentences) for dataset, sentences in self.caveats.items()},
            "early_epochs": {study: early.to_dict() for study, early in self.early_epochs.items()},
        }

    def _on_front(self, point: Point) -> dict[str, Any]:
        return {"trial": point.first.id, **_identity(point.first), **values_at_best(point, self.objectives)}


def find_winning_points(history: History) -> dict[str, Point]:
    """Return the best point of each dataset's search; a dataset none of whose trials finished has none.

    The experiment's metric decides, at the best epoch, which a study may select by a metric of its own.
    """
    metric = history.metric
    winners: dict[str, tuple[float, Point]] = {}
    for point in points_of(history.stage(Stage.SEARCH)):
        value, dataset = point.mean(metric), point.first.config.dataset
        if value is not None and (dataset not in winners or value > winners[dataset][0]):
            winners[dataset] = (value, point)
    return {dataset: point for dataset, (_, point) in winners.items()}


def find_winners(history: History) -> dict[str, Trial]:
    """Return the trial whose model stands for the best point of each dataset's search: the first that finished."""
    return {dataset: point.finished[0] for dataset, point in find_winning_points(history).items()}


def find_champions(history: History) -> dict[str, Trial]:
    """Return the trial whose trained model stands for the winner of each dataset, confirmed or not."""
    return {dataset: winner.model for dataset, winner in winners_of(history, verdicts_of(history)).items()}


def winners_of(history: History, verdicts: Mapping[str, DatasetVerdict]) -> dict[str, Winner]:
    """Return the winner of each dataset that has one.

    Args:
        history: Of the experiment.
        verdicts: See ``verdicts_of``.
    """
    winners = {dataset: _unconfirmed(point, history) for dataset, point in find_winning_points(history).items()}
    for dataset, verdict in verdicts.items():
        champion = champion_of(history, verdict)
        if verdict.winner is not None and champion is not None:
            winners[dataset] = _confirmed(verdict.winner, champion, history)
    return winners


def summarise(history: History) -> dict[str, Any]:
    """Return the content of ``summary.json``: what ``conclude`` returns, and ``trials``, the list of all trials."""
    return {**conclude(history).to_dict(), "trials": [_row(trial, history) for trial in history.trials.values()]}


def conclude(history: History) -> Summary:
    """Return what an experiment came to so far."""
    verdicts, goals = verdicts_of(history), goals_of(history)
    datasets = dict.fromkeys(trial.config.dataset for trial in history.trials.values())
    early, edges, compared = early_epochs(history), space_edges(history), comparability(history)
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
        judged={dataset: judged_verdicts(history, verdict) for dataset, verdict in verdicts.items()},
        confirm_looks=dict(history.confirm_looks),
        test_openings=dict(history.test_openings),
        caveats={name: [*_caveats(history, name, early, edges), *compared.get(name, ())] for name in datasets},
        early_epochs=early,
    )


def _unconfirmed(point: Point, history: History) -> Winner:
    """Return the best point of a search; its metrics on val are means over the trainings that finished."""
    trial = point.finished[0]
    return Winner(
        trial=point.first.id,
        setting=trial,
        model=trial,
        confirmed=False,
        seeds=len(point.finished),
        val={name: mean for name in _best_metrics(trial, "val/") if (mean := point.mean(f"val/{name}")) is not None},
        test=history.tests.get(trial.id),
        test_opened_for=history.tests_opened.get(trial.config.dataset, []),
    )


def _confirmed(winner: Standing, champion: Trial, history: History) -> Winner:
    """Return a confirmed winner; its metrics are means over the seeds."""
    means = {name: value.mean for name, value in winner.measures.items()}
    return Winner(
        trial=winner.candidate.label,
        setting=history.trials[winner.candidate.label],
        model=champion,
        confirmed=True,
        seeds=winner.result.seeds,
        val={name.removeprefix("val/"): value for name, value in means.items() if name.startswith("val/")},
        test={name.removeprefix("test/"): value for name, value in means.items() if name.startswith("test/")},
        test_opened_for=history.tests_opened.get(winner.candidate.dataset, []),
    )


def _caveats(
    history: History, dataset: str, early: Mapping[str, EarlyEpochs], edges: Mapping[str, Sequence[Edge]]
) -> list[str]:
    trials = [trial for trial in history.trials.values() if trial.config.dataset == dataset]
    return [*caveats(trials), *sentences(of_dataset(early, trials)), *sentences_of_edges(edges, trials)]


def _row(trial: Trial, history: History) -> dict[str, Any]:
    return {
        "trial": trial.id,
        "stage": str(trial.stage),
        "candidate": trial.candidate,
        **_identity(trial),
        "state": history.standing(trial),
        "epochs": trial.last_epoch,
        "best_epoch": trial.best_epoch,
        "best": _best_metrics(trial, ""),
        "retries": trial.retries,
        "error": trial.error,
    }


def _identity(trial: Trial) -> dict[str, Any]:
    config = trial.config
    return {
        "study": trial.study,
        **trial.combination,
        # The loss's own, of the first epoch; ``parameters`` has beside them whatever else was searched.
        "params": config.loss_parameters,
        "parameters": trial.parameters,
        "seed": config.seed,
        **({"schedule": list(map(asdict, config.schedule))} if config.schedule else {}),
    }


def _best_metrics(trial: Trial, prefix: str) -> Mapping[str, float]:
    """Return the metrics of the best epoch whose names begin with a prefix, without it; running bests are left out."""
    if trial.best_epoch is None:
        return {}
    metrics = trial.epochs[trial.best_epoch]
    names = [name for name in metrics if name.startswith(prefix) and not name.endswith("_best")]
    return {name.removeprefix(prefix): metrics[name] for name in names}
