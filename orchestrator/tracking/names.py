"""Names of runs and metrics in MLflow, chosen for the order and the width of MLflow's pages."""

from pathlib import Path

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage, Trial
from orchestrator.text.values import format_parameters, short_names, visible

LONGEST = 120
"""Most characters of a run's name; MLflow's tables cut longer names, and its database refuses more than 250."""

DIGITS = 6
"""Significant digits of a metric in MLflow, whose pages show all digits; the journal keeps all digits."""


AT_BEST = "at_best/"
"""Start of the names of metrics as they were in a trial's best epoch; MLflow shows all others as of the last epoch."""

BEST_EPOCH = f"{AT_BEST}epoch"
"""Metric with the number of the best epoch."""


def at_best(name: str) -> str:
    """Return the name under which MLflow holds a metric of the best epoch: ``val/i2t_r1`` is ``at_best/i2t_r1``."""
    return AT_BEST + name.removeprefix("val/")


def run_name(trial: Trial, history: History) -> str:
    """Return the name of a trial's run, which tells the trial from others of its experiment.

    The number of the trial in its study comes first, then dataset and model where the experiment has several, the loss,
    and the searched settings: ``0003 nt_xent τ=0.008``. A trial that repeats the settings of another trial has the
    other trial's number, and a seed: ``0003 nt_xent τ=0.008 seed=7``.
    """
    repeated = history.trials.get(trial.candidate or "", trial)
    number = [] if trial.stage is Stage.REGRESS else [f"{repeated.number:04d}"]
    seed = [f"seed={trial.config.seed}"] if trial.candidate or trial.stage is Stage.REGRESS else []
    return _name([*number, *_settings(trial, history), *seed])


def candidate_name(trial: Trial, history: History, seeds: int) -> str:
    """Return the name of the run that holds the means over the seeds of a confirmed candidate.

    Args:
        trial: The trial of the search that was confirmed.
        history: History of the experiment.
        seeds: Repeats of the trial that finished.
    """
    return _name([f"{trial.number:04d}", *_settings(trial, history), f"mean of {seeds} seeds"])


def stored_metric(name: str) -> str:
    """Return the name under which MLflow holds a metric of the journal.

    MLflow sorts the charts of an experiment by the names of the metrics, so that the spread of every COCOS count over
    the batches and the durations would stand before ``val/rsum``. The spread of ``cocos/NAME`` over the batches,
    ``cocos/NAME_std`` in the journal, is ``variation/NAME``, that of ``cocos_start/NAME`` is ``variation_start/NAME``;
    ``time/NAME`` is ``wall_time/NAME``.
    """
    section, _, rest = name.partition("/")
    if section in ("cocos", "cocos_start") and rest.endswith("_std"):
        return f"variation{section.removeprefix('cocos')}/{rest.removesuffix('_std')}"
    return f"wall_time/{rest}" if section == "time" else name


def stored_value(value: float) -> float:
    """Return a metric rounded to ``DIGITS`` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def _settings(trial: Trial, history: History) -> list[str]:
    config = trial.config
    begun = history.experiment
    several = [name for name, all_ in (("dataset", begun.datasets), ("model", begun.models)) if len(all_) > 1]
    values = {name: value for name, value in trial.parameters.items() if name != "loss"}
    names = [Path(config.dataset).name if name == "dataset" else trial.combination[name] for name in (*several, "loss")]
    return [*names, format_parameters(short_names(values))]


def _name(parts: list[str]) -> str:
    whole = visible(" ".join(part for part in parts if part))
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"
