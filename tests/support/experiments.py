"""Small experiments and ledgers for tests that need no Ray."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import ConfirmationPlan
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.confirmation_plan import repeat
from tests.support.records import append


def make_experiment(**changes: Any) -> Experiment:
    """Return two studies of random search on a dataset that does not exist."""
    values = {
        "name": "tiny",
        "datasets": ["pets"],
        "losses": ["nt_xent", "triplet_sh"],
        "training": {"epochs": 6},
        "search": {"sampler": "random", "trials": 4},
        "scheduler": {"name": "asha", "grace_epochs": 1, "reduction_factor": 2},
        "resources": {"cpus": 1, "gpus": 0},
    }
    return validate(Experiment, {**values, **changes}, "tiny.yaml")


def start(ledger: Ledger, experiment: Experiment, **changes: Any) -> None:
    """Write down the start of an experiment; ``changes`` are other fields of the record."""
    fields = {
        "data": {"pets:global": "d1"},
        "environment": {"git_revision": "abc", "versions": {"torch": "2"}},
        **changes,
    }
    append(ledger, "experiment_started", experiment=experiment.to_dict(), **fields)


@contextmanager
def begun(folder: Path, experiment: Experiment | None = None, **changes: Any) -> Iterator[Ledger]:
    """Begin an experiment in a folder, which is made, and close its ledger in the end; see ``start``."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(Ledger(folder / "journal.jsonl")) as ledger:
        start(ledger, experiment or make_experiment(), **changes)
        yield ledger


@contextmanager
def reopened(ledger: Ledger) -> Iterator[Ledger]:
    """Close a ledger, and open its journal again, as the next process does."""
    ledger.close()
    with closing(Ledger(ledger.path)) as again:
        yield again


def add_trial(
    ledger: Ledger,
    values: list[float],
    *,
    loss: str = "nt_xent",
    dataset: str = "pets",
    state: TrialState = TrialState.FINISHED,
    error: str = "no luck",
    params: dict[str, float] | None = None,
    epoch_seconds: float | None = None,
) -> Trial:
    """Write down a trial with one ``val/rsum`` an epoch and its end; without parameters, with those of a default.

    Without the seconds of an epoch, the trial's time is how long it took to write it down: a millisecond, or none.
    """
    experiment = make_experiment(datasets=[dataset])
    cell = next(cell for cell in experiment.cells() if cell.loss == loss)
    default = {"temperature": 0.1} if loss == "nt_xent" else {"margin": 0.2}
    params = default if params is None else params
    trial = ledger.create(
        cell.name, len(ledger.history.study(cell.name)), params, experiment.trial_config(cell, params)
    )
    append(ledger, "trial_started", trial=trial.id, gpus=0.0)
    ends_with_report = state in (TrialState.FINISHED, TrialState.STOPPED_EARLY)
    for epoch, value in enumerate(values, start=1):
        is_last = epoch == len(values)
        verdict = state if is_last and ends_with_report else TrialState.RUNNING
        metrics = {"val/rsum": value, "val/i2t_r1": value / 10, "train/loss": 1 / epoch}
        if epoch_seconds is not None:
            metrics["time/epoch_seconds"] = epoch_seconds
        ledger.report(trial, epoch, metrics, verdict)
    if state in (TrialState.DIVERGED, TrialState.FAILED):
        ledger.end(trial, state, error)
    return trial


def plan(ledger: Ledger, candidate: Trial) -> None:
    """Write down a plan of the dataset that has the candidate, of one seed each; none where its plan has it."""
    dataset, plans = candidate.config.dataset, ledger.history.plans
    planned = plans[dataset].candidates if dataset in plans else ()
    if candidate.id not in planned:
        named = (*planned, candidate.id)
        ledger.append(
            ConfirmationPlan(dataset=dataset, candidates=named, seeds=1, trainings=None, baseline=None, looks=0)
        )


def add_repeat(ledger: Ledger, candidate: Trial, index: int, seed: int, value: float | None) -> Trial:
    """Write down a trial's repetition with a fresh seed, evaluated on test; without a value, it diverged."""
    plan(ledger, candidate)
    trial = ledger.begin(repeat(candidate, index, seed))
    if value is None:
        ledger.end(trial, TrialState.DIVERGED, "train/loss is nan")
    else:
        ledger.report(trial, 1, {"val/rsum": value, "val/rsum_best": value}, TrialState.FINISHED)
    return trial


def add_repeats(ledger: Ledger, of: Iterable[tuple[Trial, Sequence[float | None]]], first: int = 100) -> list[Trial]:
    """Write down repetitions of trials, a value for each fresh seed from the first on, see ``add_repeat``."""
    return [
        add_repeat(ledger, trial, index, first + index, value)
        for trial, values in of
        for index, value in enumerate(values)
    ]


def confirm_two_losses(ledger: Ledger) -> list[Trial]:
    """Write down two losses with three repeats each, the first far ahead on val, and that the test split was opened."""
    trials = [add_trial(ledger, [value], loss=loss) for value, loss in ((50.0, "nt_xent"), (40.0, "triplet_sh"))]
    repeats = add_repeats(ledger, [(trials[0], [400.0] * 3), (trials[1], [399.0] * 3)])
    append(ledger, "test_opened", dataset="pets", trials=[one.id for one in repeats])
    return repeats


def open_test(ledger: Ledger, trials: list[Trial], *, values: list[float] | None = None) -> None:
    """Write down that the test split was opened for some trials, with these values, or those they have on val."""
    append(ledger, "test_opened", dataset="pets", trials=[trial.id for trial in trials])
    for trial, value in zip(trials, values or [trial.best_value for trial in trials], strict=True):
        append(ledger, "test_evaluated", trial=trial.id, metrics={"rsum": value})
