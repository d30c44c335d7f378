"""What a confirmation says: the history's repeated trials as candidates, and the verdict on each dataset.

A dataset is judged only when its confirmation is over: every repeated trial has ended and, where it finished, has been
evaluated on the test split. Until then its best trial is a winner that nobody has confirmed.
"""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.confirmation import published_default
from orchestrator.results.confirming import level_of, looked_before, races_of, repeats_of
from orchestrator.results.per_image import image_values
from orchestrator.results.verdict import Candidate, DatasetVerdict, judge
from trainables.ranks import Ranks

BEGUN_BEFORE = (
    "the verdict looks at the seeds alone and says nothing about new images: this confirmation was begun when ranks "
    "were not kept"
)


def verdicts_of(history: History) -> dict[str, DatasetVerdict]:
    """Return the verdict on each dataset whose confirmation is over, in the order of the experiment."""
    datasets = dict.fromkeys(str(trial.config["dataset"]) for trial in history.stage(Stage.CONFIRM))
    races = races_of(history)
    groups = {
        dataset: repeats_of(history, dataset)
        for dataset in datasets
        if dataset not in races or races[dataset].ended is not None
    }
    return {
        dataset: _judge(history, dataset, trials) for dataset, trials in groups.items() if _is_over(history, trials)
    }


def champion_of(history: History, verdict: DatasetVerdict) -> Trial | None:
    """Return the trained model that stands for a winner: of its seeds the one with the best validation value.

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
    """Return a trial's metrics at its best epoch and, under ``test/``, those on the test split."""
    at_best = {} if trial.best_epoch is None else trial.epochs[trial.best_epoch]
    test = {f"test/{name}": value for name, value in history.tests.get(trial.id, {}).items()}
    return {name: value for name, value in at_best.items() if not name.endswith("_best")} | test


def _is_over(history: History, trials: Sequence[Trial]) -> bool:
    return all(trial.has_ended and (not _has_finished(trial) or trial.id in history.tests) for trial in trials)


def _has_finished(trial: Trial) -> bool:
    return trial.state is TrialState.FINISHED


def _judge(history: History, dataset: str, trials: Sequence[Trial]) -> DatasetVerdict:
    names = dict.fromkeys(trial.candidate for trial in trials if trial.candidate is not None)
    race = races_of(history).get(dataset)
    left = {} if race is None else race.left
    candidates = [
        replace(_candidate(name, [t for t in trials if t.candidate == name], history), left=left.get(name))
        for name in names
    ]
    baseline, problem = _baseline(history, dataset, candidates)
    selection = str(history.experiment["search"]["metric"])
    metric = f"test/{selection.partition('/')[2]}"
    confirm = history.experiment.get("confirm") or {}
    (verdict,) = judge(
        _with_images(candidates, trials, history, metric),
        metric=metric,
        selection=selection,
        baseline=baseline,
        # A confirmation that was begun before the key was there is judged as it was begun.
        over_images=confirm.get("verdict", "seeds") == "seeds_and_images",
        smallest_difference=confirm.get("smallest_difference", 1.0),
        level=level_of(history, dataset),
    )
    begun_before = [] if "verdict" in confirm else [BEGUN_BEFORE]
    looked = looked_before(history, dataset)
    return replace(verdict, warnings=(*verdict.warnings, *begun_before, *problem, *looked))


def _with_images(
    candidates: Sequence[Candidate], trials: Sequence[Trial], history: History, metric: str
) -> list[Candidate]:
    """Give each candidate the values of the images, where the ranks of all its trials were kept.

    Raises:
        DataError: If kept ranks are damaged.
    """
    texts = {trial.id: history.test_ranks[trial.id] for trial in trials if trial.id in history.test_ranks}
    kept = {name: Ranks.from_text(text) for name, text in texts.items()}
    first = next(iter(kept.values()), None)
    found = []
    for candidate in candidates:
        of_seeds = {t.config["seed"]: kept.get(t.id) for t in trials if t.candidate == candidate.label}
        ranks = {seed: of_seeds[seed] for seed in candidate.values}
        if first is None or any(one is None or not one.has_queries_of(first) for one in ranks.values()):
            found.append(candidate)
            continue
        name = metric.partition("/")[2]
        images = {seed: image_values(one, name) for seed, one in ranks.items() if one is not None}
        found.append(replace(candidate, images=images))
    return found


def _candidate(label: str, trials: Sequence[Trial], history: History) -> Candidate:
    config = trials[0].config
    return Candidate(
        dataset=config["dataset"],
        model=config["model"],
        loss=config["loss"],
        parameters=trials[0].parameters,
        label=label,
        values={trial.config["seed"]: metrics_of(trial, history) for trial in trials if _has_finished(trial)},
        missing={trial.config["seed"]: str(trial.state) for trial in trials if not _has_finished(trial)},
    )


def _baseline(history: History, dataset: str, candidates: Sequence[Candidate]) -> tuple[str | None, list[str]]:
    """Return the label or loss of the baseline, or a sentence that says why there is none."""
    confirm = history.experiment.get("confirm") or {}
    loss = confirm.get("baseline")
    if loss is not None:
        known = any(one.loss == loss for one in candidates)
        return (loss, []) if known else (None, [f"the baseline {loss!r} was not confirmed on {dataset}"])
    default = published_default(history, dataset)
    if default is None:
        return None, ["no trial had the published settings of its loss, so there is no baseline; name one"]
    known = any(one.label == default.id for one in candidates)
    return (default.id, []) if known else (None, [f"the published settings, {default.id}, were not confirmed"])
