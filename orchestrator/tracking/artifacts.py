"""Files of a run for people: table of epochs, plots of weight curves and COCOS."""

import csv
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from orchestrator.journal.trial import Trial
from orchestrator.reference.published import study_dataset
from orchestrator.results.weight_curves import POINTS, weight_curves

PROTOCOLS = {"coco": "5K", "flickr30k": "1K", "flickr8k": "1K"}
"""Dataset -> name of its test protocol; other datasets are tested on all images."""

WIDTH, HEIGHT, MARGIN = 480, 260, 36
COLOURS = ("#0067a8", "#c94f00", "#00805c")


def protocol_of(dataset: str) -> str:
    """Return the field's name of a dataset's test protocol."""
    return PROTOCOLS.get(study_dataset(dataset), "full")


def trial_artifacts(trial: Trial) -> dict[str, str]:
    """Return the files of an ended trial, by name."""
    files = {"history.csv": history_csv(trial)} if trial.epochs else {}
    curves = weight_curves(trial.config.loss, trial.loss_parameters_at_best)
    if curves:
        lines = {curve.of: (POINTS, curve.weights) for curve in curves}
        files["weight_curve.svg"] = line_picture(f"weight of a pair, {trial.config.loss}", lines)
    counts = cocos_at_best(trial)
    if counts:
        files["cocos.svg"] = bar_picture(f"COCOS at epoch {trial.best_epoch}, mean and spread over batches", counts)
    return files


def history_csv(trial: Trial) -> str:
    """Return the metrics of all epochs, one row per epoch; a cell is empty where an epoch lacks the metric."""
    epochs = trial.epochs
    names = sorted({name for metrics in epochs.values() for name in metrics})
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["epoch", *names])
    for epoch in sorted(epochs):
        writer.writerow([epoch, *(epochs[epoch].get(name, "") for name in names)])
    return buffer.getvalue()


def cocos_at_best(trial: Trial) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation over batches of each count at the best epoch."""
    metrics: Mapping[str, Any] = trial.epochs[trial.best_epoch] if trial.best_epoch is not None else {}
    names = [name for name in metrics if name.startswith("cocos/") and not name.endswith("_std")]
    return {name.removeprefix("cocos/"): (metrics[name], metrics.get(f"{name}_std", 0.0)) for name in names}


def line_picture(title: str, lines: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """Return an SVG of curves over [-1, 1] with values in [-1, 1]."""
    body = []
    for index, (name, (xs, ys)) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(
            f"{MARGIN + (x + 1) / 2 * (WIDTH - 2 * MARGIN):.1f},{HEIGHT / 2 - y * (HEIGHT / 2 - MARGIN):.1f}"
            for x, y in zip(xs, ys, strict=True)
        )
        body.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        body.append(_text(WIDTH - MARGIN, MARGIN + 16 * index, name, colour, "end"))
    axis = f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{HEIGHT / 2}" y2="{HEIGHT / 2}" stroke="#999"/>'
    ticks = [_text(MARGIN, HEIGHT / 2 + 14, "-1"), _text(WIDTH - MARGIN, HEIGHT / 2 + 14, "1", anchor="end")]
    return _picture(title, [axis, *ticks, *body], HEIGHT)


def bar_picture(title: str, values: Mapping[str, tuple[float, float]]) -> str:
    """Return an SVG of means with standard deviations, each on its own scale: counts differ by orders of magnitude."""
    rows = []
    left, width = 230, WIDTH - 230 - 90
    for index, (name, (mean, spread)) in enumerate(values.items()):
        y = MARGIN + 20 * index
        scale = width / max(abs(mean) + spread, 1e-12)
        rows.append(_text(left - 8, y + 10, name, anchor="end"))
        rows.append(f'<rect x="{left}" y="{y}" width="{abs(mean) * scale:.1f}" height="12" fill="{COLOURS[0]}"/>')
        ends = (left + max(0.0, abs(mean) - spread) * scale, left + (abs(mean) + spread) * scale)
        rows.append(f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y + 6}" y2="{y + 6}" stroke="#c94f00"/>')
        rows.append(_text(left + width + 6, y + 10, f"{mean:.3g} ± {spread:.2g}"))
    return _picture(title, rows, MARGIN + 20 * len(values) + 10)


def _text(x: float, y: float, text: str, colour: str = "#444", anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" font-size="11" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(title: str, body: Sequence[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, ground, _text(12, 18, title, "#111"), *body, "</svg>", ""])
