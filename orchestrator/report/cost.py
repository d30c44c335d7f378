"""The cost of an experiment, from the times that the trials reported."""

from collections.abc import Sequence

from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report.figures import Figure, Json, Option, Panel, axis, plain
from orchestrator.report.studies import Study
from orchestrator.text.values import count_text, duration_text

_SHADES = {
    TrialState.FINISHED: "--c1",
    TrialState.STOPPED_EARLY: "--c6",
    TrialState.RUNNING: "--c3",
    TrialState.DIVERGED: "--c5",
    TrialState.FAILED: "--c2",
}


Fact = tuple[str, str, str]
"""Name of a number, the number as text, and an explanation, which may be empty."""


def cost_facts(trials: Sequence[Trial], gpus: float | None) -> list[Fact]:
    """Return trial time, GPU hours, epochs, elapsed time, the time that early stopping saved, and retries.

    Args:
        trials: All trials of the experiment.
        gpus: GPUs of a trial, > 0; ``None`` if a trial has no GPU, or if the share is not known.
    """
    seconds = sum(trial.seconds for trial in trials)
    facts: list[Fact] = [
        ("Trial time", duration_text(seconds), f"{seconds:,.0f} trial-seconds of training and evaluation")
    ]
    if gpus is not None:
        facts.append(("GPU hours", f"{seconds * gpus / 3600:,.2f}", f"{gpus:g} of a GPU a trial"))
    facts.append(("Epochs", f"{sum(len(trial.epochs) for trial in trials):,}", count_text(len(trials), "trial")))
    times = [time for trial in trials for time in (trial.created_after, trial.ended_after) if time is not None]
    if times:
        note = "first trial created to last one ended, without the time between two starts"
        facts.append(("Elapsed", duration_text(max(times) - min(times)), note))
    saved = sum(map(_saved, trials))
    if saved:
        facts.append(("Early stopping saved", duration_text(saved), "epochs not trained, at the trials' own speed"))
    retries = sum(trial.retries for trial in trials)
    if retries:
        facts.append(("Retries", f"{retries:,}", "after an error; their lost epochs are not in the trial time"))
    return facts


def cost_figure(studies: Sequence[Study]) -> Figure:
    """Return the figure of each study's trial time, split by the final state of the trials."""
    spent = {
        str(state).replace("_", " "): ([sum(t.seconds for t in s.trials if t.state is state) for s in studies], shade)
        for state, shade in _SHADES.items()
    }
    spent["confirmation"] = [sum(trial.seconds for trial in study.repeats) for study in studies], "--c4"
    total = sum(sum(seconds) for seconds, _ in spent.values())
    unit, divisor = ("hours", 3600) if total > 2 * 3600 else ("minutes", 60)
    bars: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [plain(study.label) for study in studies],
            "x": [round(value / divisor, 4) for value in seconds],
            "hovertemplate": "%{x:.2f}<extra>%{fullData.name}</extra>",
            "marker": {"color": shade},
        }
        for name, (seconds, shade) in spent.items()
        if any(seconds)
    ]
    layout = {
        "barmode": "stack",
        "xaxis": axis(f"{unit} of trial time"),
        "yaxis": {"type": "category", "automargin": True, "autorange": "reversed", "showgrid": False},
    }
    return Figure(
        key="spent",
        title="Where the time went",
        note="Trial time of each study, by how its trials ended; the confirmation trained the best of them again.",
        options=[Option("all", [Panel("", bars, layout)])] if bars else [],
        height=max(200, 110 + 34 * len(studies)),
    )


def _saved(trial: Trial) -> float:
    """Return the seconds of the epochs that an early stop left out."""
    if trial.state is not TrialState.STOPPED_EARLY or not trial.epochs:
        return 0.0
    return max(0, trial.total_epochs - trial.last_epoch) * trial.seconds / len(trial.epochs)
