"""The values of learned hyper-parameters of a loss, epoch by epoch."""

from collections.abc import Iterator, Sequence

from orchestrator.journal.trial import Trial
from orchestrator.report.figures import Figure, Json, Option, Panel, axis, colour, log_ticks, plain, whole
from orchestrator.report.studies import Study

PREFIX = "loss/"
"""Prefix of the metrics that hold learned hyper-parameters."""

DRAWN = 20
"""Most trials of a study that are drawn; the best trials are drawn."""

WIDE = 20
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""


def learned_figure(studies: Sequence[Study]) -> Figure:
    """Return each learned hyper-parameter over the epochs, a line for each trial, the leader of each study in bold."""
    names = dict.fromkeys(_learned_names(studies))
    return Figure(
        key="learned",
        title="Learned hyper-parameters",
        note=f"The value at the end of each epoch of a hyper-parameter that is trained with the model, of the best "
        f"{DRAWN} trials of a study. The bold line is the study's leader.",
        options=[Option(name.removeprefix(PREFIX), [_panel(studies, name)]) for name in names],
        absent="No hyper-parameter of a loss was learned with the model.",
    )


def learns(studies: Sequence[Study]) -> bool:
    """Say whether a hyper-parameter of a loss was learned with the model."""
    return next(_learned_names(studies), None) is not None


def _learned_names(studies: Sequence[Study]) -> Iterator[str]:
    """Yield the name of each metric that holds a learned hyper-parameter, once for each trial."""
    # All epochs of a trial have equal names, so only one epoch is read: reading all of a long journal takes long.
    epochs = (trial.epochs[trial.last_epoch] for study in studies for trial in study.valued)
    return (name for metrics in epochs for name in metrics if name.startswith(PREFIX))


def _panel(studies: Sequence[Study], name: str) -> Panel:
    traces = [trace for study in studies for trace in _lines(study, name)]
    values = [value for trace in traces for value in trace["y"]]
    low, high = min(values), max(values)
    vertical = axis(name.removeprefix(PREFIX))
    if low > 0 and high > WIDE * low:
        vertical |= {"type": "log", **log_ticks(low, high)}
    last = max(epoch for trace in traces for epoch in trace["x"])
    return Panel("", traces, {"xaxis": whole("epoch", last), "yaxis": vertical})


def _lines(study: Study, name: str) -> list[Json]:
    having = [trial for trial in study.valued if any(name in metrics for metrics in trial.epochs.values())]
    best = sorted(having, key=lambda trial: -(trial.best_value or 0.0))[:DRAWN]
    leader = study.leader if study.leader in best else next(iter(best), None)
    # The leader is drawn last, so that no other line hides it.
    ordered = [*(trial for trial in best[::-1] if trial is not leader), *([leader] if leader is not None else [])]
    return [_line(study, trial, name, is_leader=trial is leader) for trial in ordered]


def _line(study: Study, trial: Trial, name: str, *, is_leader: bool) -> Json:
    epochs = [epoch for epoch in sorted(trial.epochs) if name in trial.epochs[epoch]]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(epochs) == 1 else "lines",
        "name": plain(study.label),
        "legendgroup": study.name,
        "showlegend": is_leader,
        "x": epochs,
        "y": [trial.epochs[epoch][name] for epoch in epochs],
        "text": [plain(trial.id)] * len(epochs),
        "hovertemplate": "%{text}<br>epoch %{x}: %{y:.4g}<extra></extra>",
        "line": {"color": colour(study), "width": 3 if is_leader else 1},
        "opacity": 1.0 if is_leader else 0.45,
    }
