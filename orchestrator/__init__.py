"""How thousands of trials run: search, tracking and verdicts. The only package that imports Ray, Optuna and MLflow.

    cli.py          the commands, and how an error becomes an exit code
    commands/       parse, call one function, print
    regression/     reruns of baselines beside accepted results
    claims/         claims of a paper, and which of them hold
    watch/          pages about experiments while they run
    searches/       an experiment from its start to its winners, its state and progress
    doctor/         problems of a machine, or of an experiment
    extraction/     features from pictures, here or on Ray workers
    tracking/       MLflow, kept in step with the journal
    tuner/          trials on Ray
    report/         the HTML page of an experiment, and its charts
    views/          answers on a terminal, in HTML, Markdown, LaTeX, CSV and JSON
    exports/        trials for other programs: tables, TensorBoard, Weights & Biases
    winners/        test metrics, weights and packed models of selected trials
    machines/       the machines of a search, and the share of a trial
    results/        from trials to candidates, verdicts, winners and answers
    studies/        which trial comes next: Optuna
    workload/       the training of a trial: a search's calls of ``trainables``
    experiment/     the experiment file, checked as a whole
    storage/        bytes that outlive a machine
    journal/        records of events, written by one process at a time
    reference/      the published tables
    environment.py  the environment variables of Ray, MLflow, W&B and NumPy
    text/           how strings, numbers and addresses are shown

A room imports rooms below it, never above: ``docs/architecture.md`` and ``tests/test_architecture.py``.

The names of the package, for scripts and notebooks (``docs/python.md``); a name is imported when it is first used:

    import orchestrator as icr

    icr.search, icr.load, icr.train, icr.evaluate, icr.make_experiment, icr.load_plugins
    icr.Experiment, icr.LoadedExperiment, icr.TrialConfig
"""

from importlib import import_module
from typing import Any

_NAMES = {
    "Experiment": "orchestrator.experiment.experiment",
    "LoadedExperiment": "orchestrator.searches.loaded",
    "TrialConfig": "trainables.config",
    "evaluate": "orchestrator.workload.evaluation",
    "load": "orchestrator.searches.loaded",
    "load_plugins": "orchestrator.experiment.plugins",
    "make_experiment": "orchestrator.searches.begin",
    "search": "orchestrator.searches.begin",
    "train": "orchestrator.workload.single",
}
"""Name -> its module; ``__init__.pyi`` has the names for editors and type checkers."""

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that ``orchestrator --help`` waits for no name."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
