"""The winners of an experiment: a pure function of its history.

Where a dataset's best trials were confirmed with fresh seeds, the verdict on these names the winner. Before that, the
best trial of the search stands in for it and is called unconfirmed: a diverged or failed trial never does, and one that
was stopped early was worse than others of its study when it was. Ties go to the earlier trial. Several trainings of one
setting are one candidate, which counts with their mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.journal.history import History
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.trial import Stage, Trial
from orchestrator.results.candidates import Standing
from orchestrator.results.caveats import caveats
from orchestrator.results.comparability import comparability
from orchestrator.results.confirmed import champion_of, verdicts_of
from orchestrator.results.confirming import races_of
from orchestrator.results.early_epochs import EarlyEpochs, early_epochs, of_dataset, sentences, to_dict
from orchestrator.results.equal_budget import equal_budgets
from orchestrator.results.judged import judged_verdicts
from orchestrator.results.pareto import goals_of, pareto_fronts, values_at_best
from orchestrator.results.race_words import race_to_dict
from orchestrator.results.space_edges import Edge, space_edges
from orchestrator.results.space_edges import sentences as sentences_of_edges

Summary = dict[str, Any]
"""The content of ``summary.json``.

``experiment``, ``metric``, ``objectives`` (this metric and the further goals, each with its ``direction``),
``ended_by`` (see ``History``), ``winners`` (dataset -> its winner), ``verdicts`` (``DatasetVerdict.to_dict()`` of each
dataset whose confirmation is over), ``races`` (dataset -> its race, where the confirmation is one, see
``race_words.race_to_dict``), ``equal_budget`` (dataset -> what its losses reach at equal budgets, see
``equal_budget.equal_budgets``), ``judged`` (dataset -> what people's judgements of pairs say about its verdict, see
``judged.JudgedVerdict``; empty lists where none lay beside the dataset), ``confirm_looks`` (dataset -> how often test
was opened for repeats), ``test_openings`` (dataset -> how often its test split was opened), ``caveats`` (dataset ->
sentences about the trials that could not win, about how well early epochs rank trials, about ranges whose ends hold the
best settings, and about what makes its losses comparable), ``early_epochs`` (study -> Kendall's tau of each epoch with
the end), ``trials`` and, where there are several objectives, ``pareto`` (dataset -> the trials that none beats in all
of them).
"""


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
    confirmed = {dataset: champion_of(history, verdict) for dataset, verdict in verdicts_of(history).items()}
    return find_winners(history) | {dataset: trial for dataset, trial in confirmed.items() if trial is not None}


def summarise(history: History) -> Summary:
    """Return the winners and verdicts per dataset and the list of all trials."""
    return {**conclude(history), "trials": [_row(trial, history) for trial in history.trials.values()]}


def conclude(history: History) -> Summary:
    """Return what ``summarise`` does but the list of the trials, which takes a third of its time."""
    verdicts = verdicts_of(history)
    winners = {dataset: _unconfirmed(point, history) for dataset, point in find_winning_points(history).items()}
    for dataset, verdict in verdicts.items():
        champion = champion_of(history, verdict)
        if verdict.winner is not None and champion is not None:
            winners[dataset] = _confirmed(verdict.winner, champion, history)
    datasets = dict.fromkeys(trial.config.dataset for trial in history.trials.values())
    goals = goals_of(history)
    early = early_epochs(history)
    edges = space_edges(history)
    fronts = pareto_fronts(history, goals) if len(goals) > 1 else {}
    compared = comparability(history)
    return {
        "experiment": history.name,
        "pareto": {
            dataset: [
                {"trial": point.first.id, **_identity(point.first), **values_at_best(point, goals)} for point in front
            ]
            for dataset, front in fronts.items()
        },
        "metric": history.metric,
        "objectives": [goal.model_dump() for goal in goals],
        "ended_by": history.ended_by,
        "winners": winners,
        "verdicts": [verdict.to_dict() for verdict in verdicts.values()],
        "races": {dataset: race_to_dict(race) for dataset, race in races_of(history).items()},
        "equal_budget": equal_budgets(history),
        "judged": {
            dataset: [one.to_dict() for one in judged_verdicts(history, verdict)]
            for dataset, verdict in verdicts.items()
        },
        "confirm_looks": dict(history.confirm_looks),
        "test_openings": dict(history.test_openings),
        "caveats": {name: [*_caveats(history, name, early, edges), *compared.get(name, ())] for name in datasets},
        "early_epochs": to_dict(early),
    }


def _unconfirmed(point: Point, history: History) -> dict[str, Any]:
    """Return the best point of a search; its metrics on val are means over the trainings that finished."""
    trial = point.finished[0]
    test = history.tests.get(trial.id)
    return {
        "trial": point.first.id,
        "confirmed": False,
        "seeds": len(point.finished),
        "model_of": trial.id,
        **_identity(trial),
        "best_epoch": trial.best_epoch,
        "val": {name: point.mean(f"val/{name}") for name in _best_metrics(trial, "val/")},
        "test": None if test is None else dict(test),
        "test_opened_for": history.tests_opened.get(trial.config.dataset, []),
    }


def _confirmed(winner: Standing, champion: Trial, history: History) -> dict[str, Any]:
    """Return a confirmed winner; its metrics are means over the seeds."""
    means = {name: value.mean for name, value in winner.measures.items()}
    return {
        "trial": winner.candidate.label,
        "confirmed": True,
        "seeds": winner.result.seeds,
        "model_of": champion.id,
        **_identity(history.trials[winner.candidate.label]),
        "best_epoch": champion.best_epoch,
        "val": {name.removeprefix("val/"): value for name, value in means.items() if name.startswith("val/")},
        "test": {name.removeprefix("test/"): value for name, value in means.items() if name.startswith("test/")},
        "test_opened_for": history.tests_opened.get(winner.candidate.dataset, []),
    }


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
