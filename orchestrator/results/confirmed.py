"""The result of a confirmation: the history's repeated trials as candidates, and the verdict on each dataset.

A dataset is judged only when its confirmation is over: every repeated trial has ended and, where it finished, has been
evaluated on the test split. Until then the best trial of the search is an unconfirmed winner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from orchestrator.journal.begun_experiment import BegunConfirm
from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.confirmation import published_default
from orchestrator.results.confirming import level_of, looked_before, races_of, repeats_of
from orchestrator.results.per_image import image_values
from orchestrator.results.race import Race
from orchestrator.results.statistics import Sample
from orchestrator.results.verdict import Candidate, DatasetVerdict, judge
from trainables.ranks import Ranks

OLDER_LEVEL = 0.035
"""Level of the races of older versions, which did not pay for candidates that left."""

BEGUN_BEFORE = (
    "the verdict looks at the seeds alone and says nothing about new images: this confirmation was begun when ranks "
    "were not kept"
)


@dataclass(frozen=True)
class Question:
    """A question to a confirmation that is over; the defaults are the question of its experiment.

    Attributes:
        metric: Metric of the test split that decides; ``None`` for the metric that selects, on the test split.
        images: Trial -> value of each image in this metric, shape (I,); ``None`` computes the values from the kept
            ranks.
        rule: What varies in the test that decides: ``seeds`` or ``seeds_and_images``; ``None`` for the journal's rule.
        outside: Candidates that were trained elsewhere, with the metrics that select and decide.
    """

    metric: str | None = None
    images: Mapping[str, Sample] | None = None
    rule: str | None = None
    outside: Sequence[Candidate] = ()


def verdicts_of(history: History) -> dict[str, DatasetVerdict]:
    """Return the verdict on each dataset whose confirmation is over, in the order of the experiment."""
    return {dataset: answer(history, dataset, Question()) for dataset in judged_datasets(history)}


def judged_datasets(history: History) -> list[str]:
    """Return the datasets whose confirmation is over, in the order of the experiment."""
    datasets = dict.fromkeys(trial.config.dataset for trial in history.stage(Stage.CONFIRM))
    races = races_of(history)
    return [
        dataset
        for dataset in datasets
        if (dataset not in races or races[dataset].ended is not None)
        and _is_over(history, repeats_of(history, dataset))
    ]


def champion_of(history: History, verdict: DatasetVerdict) -> Trial | None:
    """Return the trial whose model stands for a winner: the training of the seed with the best validation value.

    Returns:
        ``None`` where no seed of any candidate finished.
    """
    if verdict.winner is None:
        return None
    label, metric = verdict.winner.candidate.label, verdict.selection
    repeats = repeats_of(history, verdict.dataset)
    seeds = [trial for trial in repeats if trial.candidate == label and _has_finished(trial)]
    return max(seeds, key=lambda trial: trial.epochs[trial.best_epoch or 0][metric])


def metrics_of(trial: Trial, history: History) -> dict[str, float]:
    """Return a trial's metrics at its best epoch and, under ``test/``, its metrics on the test split."""
    at_best = {} if trial.best_epoch is None else trial.epochs[trial.best_epoch]
    test = {f"test/{name}": value for name, value in history.tests.get(trial.id, {}).items()}
    return {name: value for name, value in at_best.items() if not name.endswith("_best")} | test


def _is_over(history: History, trials: Sequence[Trial]) -> bool:
    return all(trial.has_ended and (not _has_finished(trial) or trial.id in history.tests) for trial in trials)


def _has_finished(trial: Trial) -> bool:
    return trial.state is TrialState.FINISHED


def answer(history: History, dataset: str, question: Question) -> DatasetVerdict:
    """Return the answer of a finished confirmation to a question.

    Args:
        history: History of the experiment.
        dataset: One of ``judged_datasets``.
        question: The question.
    """
    trials = repeats_of(history, dataset)
    names = dict.fromkeys(trial.candidate for trial in trials if trial.candidate is not None)
    race = races_of(history).get(dataset)
    candidates = [_raced(_candidate(name, [t for t in trials if t.candidate == name], history), race) for name in names]
    baseline, problem = _baseline(history, dataset, candidates)
    selection = history.metric
    metric = question.metric or f"test/{selection.partition('/')[2]}"
    confirm = history.experiment.confirm or BegunConfirm()
    # A confirmation that began before the key ``verdict`` existed keeps the rule of its time: seeds alone decide.
    rule = question.rule or confirm.verdict or "seeds"
    images = _kept_values(trials, history, metric) if question.images is None else question.images
    entrants = [*(_with_images(one, trials, images) for one in candidates), *question.outside]
    ask = partial(
        judge,
        entrants,
        metric=metric,
        selection=selection,
        baseline=baseline,
        over_images=rule == "seeds_and_images",
        smallest_difference=confirm.smallest_difference if question.metric is None else 0.0,
    )
    (verdict,) = ask(level=level_of(history, dataset))
    (before,) = ask(level=OLDER_LEVEL, everyone=False) if race is not None and race.older else (verdict,)
    begun_before = [] if confirm.verdict or question.rule else [BEGUN_BEFORE]
    looked = looked_before(history, dataset)
    return replace(
        verdict, warnings=(*verdict.warnings, *_otherwise(verdict, before), *begun_before, *problem, *looked)
    )


def _raced(candidate: Candidate, race: Race | None) -> Candidate:
    """Return a candidate with the number of seeds that a race gave it."""
    if race is None:
        return candidate
    given = race.seeds[candidate.label]
    # In a race of an older version a candidate with fewer seeds had left, and could not win any more.
    return replace(candidate, given=given, left=race.older and given < max(race.seeds.values()))


def _otherwise(verdict: DatasetVerdict, before: DatasetVerdict) -> list[str]:
    """Say that the rule of the version that ran a race gives another verdict; nothing where it gives the same."""
    if verdict.verdict is before.verdict:
        return []
    return [
        f"the version that ran this race compared the winner with runner-up, another loss and baseline alone, at level "
        f"{OLDER_LEVEL:g}: by that rule the verdict is {before.verdict}; now the winner must beat every candidate"
    ]


def _kept_values(trials: Sequence[Trial], history: History, metric: str) -> dict[str, Sample]:
    """Return trial -> values of the images, of the trials whose kept ranks have the queries of the first kept ranks.

    Raises:
        DataError: If kept ranks are damaged.
    """
    kept = {
        trial.id: Ranks.from_text(history.test_ranks[trial.id]) for trial in trials if trial.id in history.test_ranks
    }
    first = next(iter(kept.values()), None)
    name = metric.partition("/")[2]
    return {
        trial: image_values(ranks, name)
        for trial, ranks in kept.items()
        if first is not None and ranks.has_queries_of(first)
    }


def _with_images(candidate: Candidate, trials: Sequence[Trial], values: Mapping[str, Sample]) -> Candidate:
    """Return a candidate with the values of the images, if these values are known for all its seeds."""
    of_seeds = {t.config.seed: values.get(t.id) for t in trials if t.candidate == candidate.label}
    images = {seed: of_seeds[seed] for seed in candidate.values}
    if any(one is None for one in images.values()):
        return candidate
    return replace(candidate, images={seed: one for seed, one in images.items() if one is not None})


def _candidate(label: str, trials: Sequence[Trial], history: History) -> Candidate:
    config = trials[0].config
    return Candidate(
        dataset=config.dataset,
        model=config.model,
        loss=config.loss,
        parameters=trials[0].parameters,
        label=label,
        values={trial.config.seed: metrics_of(trial, history) for trial in trials if _has_finished(trial)},
        missing={trial.config.seed: str(trial.state) for trial in trials if not _has_finished(trial)},
    )


def _baseline(history: History, dataset: str, candidates: Sequence[Candidate]) -> tuple[str | None, list[str]]:
    """Return the label or loss of the baseline, or a sentence about why there is no baseline."""
    confirm = history.experiment.confirm or BegunConfirm()
    loss = confirm.baseline
    if loss is not None:
        known = any(one.loss == loss for one in candidates)
        return (loss, []) if known else (None, [f"the baseline {loss!r} was not confirmed on {dataset}"])
    default = published_default(history, dataset)
    if default is None:
        return None, ["no trial had the published settings of its loss, so there is no baseline; name one"]
    known = any(one.label == default.id for one in candidates)
    return (default.id, []) if known else (None, [f"the published settings, {default.id}, were not confirmed"])
