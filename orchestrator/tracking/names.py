"""How MLflow's pages name a trial and its metrics: by what tells trials apart, and with what counts on top."""

from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.text.values import format_parameters, short_names, visible

LONGEST = 120
"""Characters of a run's name; MLflow's tables cut longer names, and its database refuses names beyond 250."""

DIGITS = 6
"""Significant digits of a metric in MLflow, whose pages show every digit that they get; the journal keeps all."""


def run_name(trial: Trial, history: History) -> str:
    """Return the name of a trial's run, which begins with what tells the trial from others of its experiment.

    The number of the trial in its study comes first, then dataset and model where the experiment has several, the loss,
    and whatever was searched: ``0003 nt_xent τ=0.008``. A trial that trains the settings of another one again
    has the number of that trial, and its seed: ``0003 nt_xent τ=0.008 seed=7``.
    """
    repeated = history.trials.get(trial.candidate or "", trial)
    number = [] if trial.stage is Stage.REGRESS else [f"{repeated.number:04d}"]
    seed = [f"seed={trial.config.seed}"] if trial.candidate or trial.stage is Stage.REGRESS else []
    return _name([*number, *_settings(trial, history), *seed])


def candidate_name(trial: Trial, history: History, seeds: int) -> str:
    """Return the name of the run that holds the means over the seeds of a confirmed candidate.

    Args:
        trial: The trial of the search that was confirmed.
        history: Of its experiment.
        seeds: How many of its repeats finished.
    """
    return _name([f"{trial.number:04d}", *_settings(trial, history), f"mean of {seeds} seeds"])


def stored_metric(name: str) -> str:
    """Return the name under which MLflow holds a metric of the journal.

    MLflow sorts the charts of an experiment by the names of the metrics, so that the spread of every COCOS count over
    the batches and the durations would stand before ``val/rsum``. The spread of ``cocos/NAME`` over the batches,
    ``cocos/NAME_std`` in the journal, is ``variation/NAME``; ``time/NAME`` is ``wall_time/NAME``.
    """
    section, _, rest = name.partition("/")
    if section == "cocos" and rest.endswith("_std"):
        return f"variation/{rest.removesuffix('_std')}"
    return f"wall_time/{rest}" if section == "time" else name


def stored_value(value: float) -> float:
    """Return a metric with the digits that mean something."""
    return float(f"{value:.{DIGITS}g}")


def _settings(trial: Trial, history: History) -> list[str]:
    config = trial.config
    several = [name for name in ("dataset", "model") if len(history.experiment[f"{name}s"]) > 1]
    values = {name: value for name, value in trial.parameters.items() if name != "loss"}
    names = [Path(config.dataset).name if name == "dataset" else trial.combination[name] for name in (*several, "loss")]
    return [*names, format_parameters(short_names(values))]


def _name(parts: list[str]) -> str:
    whole = visible(" ".join(part for part in parts if part))
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"
