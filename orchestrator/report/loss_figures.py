"""Figures of losses: weight curves, and COCOS statistics against retrieval metrics.

A weight curve is the weight that a loss gives a pair, over similarities, so that losses can be compared.
One query has a positive of similarity s+ and a negative of similarity ŝ, with Δ = ŝ - s+. The weight is the derivative
of the loss, which multiplies the gradient of the pair:

    G(Δ)            of a loss whose weight depends on Δ alone
    G⁺(s), G⁻(s)    of other losses: for the positive, and for the negative

The weights of the polynomial losses are the derivatives of [Wei2021] eqs. 10 and 13. With a separate hinge, a weight of
``polynomial_self`` is 0 wherever the hinged polynomial is 0. A joint hinge, like its gate, depends on both
similarities; the curves show the weights while the hinge is active. The curves of ``multi_similarity`` show the weights
of a pair that its mining keeps. A common factor of the weights of ``circle`` and ``gradient_weights``, which depends on
both similarities, is left out. A weight below 0 moves the pair in the wrong direction.

References:
    [Wei2021] Wei et al., Universal Weighting Metric Learning for Cross-Modal Retrieval. TPAMI 2021.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from orchestrator.journal.trial import Trial, TrialState
from orchestrator.report import figures as draw
from orchestrator.report.figures import ABOUT, Figure, Option, Panel
from orchestrator.report.studies import Study, by_dataset, leaders_of
from orchestrator.results.answer import Json
from orchestrator.text.values import value_text
from orchestrator.text.wording import metric_words, number_text, printed, setting_text
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.metric_table import COCOS, DIRECTIONS, in_section, is_in, name_parts

POINTS = np.linspace(-1, 1, 201)
"""Points at which curves are drawn: cosine similarities, or differences of cosine similarities, in [-1, 1]."""

Weights = tuple[np.ndarray, ...]
"""One array of weights over differences, or two arrays over similarities: of a positive, and of a negative."""

Counted = Sequence[tuple[Trial, Mapping[str, float]]]
"""Trials whose contributing samples were counted, each with the metrics of that epoch."""

NAMED = 5
"""Most hyper-parameters in a caption; the leaderboard has all."""
COUNTED = "in the counted epoch:<br>%{xaxis.title.text} %{x:.4g}<br>%{yaxis.title.text} %{y:.4g}"
"""Hover text of a trial's COCOS statistic beside the metric."""
TRIPLET: tuple[str, dict[str, Any]] = ("triplet", {"margin": 0.2})
_STYLES: tuple[Json, ...] = (
    {"color": "--c1", "dash": "solid", "width": 3.0},
    {"color": "--c2", "dash": "dash", "width": 2.5},
    {"color": "--c3", "dash": "dashdot", "width": 2.5},
)
_TRIPLET_STYLE: Json = {"color": "--muted", "dash": "dot", "width": 2.0}
_AXES = {
    "difference": "difference of similarities, ŝ − s⁺",
    "positive": "similarity of the positive, s⁺",
    "negative": "similarity of the negative, ŝ",
}


def weight_figure(studies: Sequence[Study], ranked: Mapping[str, Sequence[str]]) -> Figure:
    """Return the weight curves of winner and runner-up of each dataset beside the triplet's.

    If winner and runner-up have one loss, the best trial of another loss is drawn as well. ``ranked`` has the ids of
    the confirmed trials of each dataset, the winner first.
    """
    groups = by_dataset(studies).items()
    note = (
        "The weight that the loss gives a negative, over its similarity less that of the positive. It is the "
        "derivative of the loss of a query with these two alone, divided by its peak so that shapes compare. Below "
        "zero it pulls the wrong way."
    )
    options = [
        Option(printed(dataset), panels)
        for dataset, group in groups
        if (panels := _weight_panels(group, ranked.get(dataset, ())))
    ]
    return Figure("weights", "Weight curves G(s)", note, options, height=340)


def cocos_figure(studies: Sequence[Study]) -> Figure:
    """Return each COCOS statistic against the metric, both directions side by side, every trial a dot."""
    groups = by_dataset(studies)
    options = []
    for dataset, group in groups.items():
        counted = [(study, _counted(study)) for study in group]
        # Without section and direction, in the order in which they were reported.
        names = (name for _, counts in counted for _, metrics in counts for name in metrics if is_in(name, COCOS))
        for counter in dict.fromkeys(map(_without_direction, names)):
            label = f"{printed(dataset)}: {metric_words(counter)}" if len(groups) > 1 else metric_words(counter)
            directions = {**{f"{way}_{counter}": words for way, words in DIRECTIONS.items()}, counter: ""}
            panels = [_cocos_panel(counted, in_section(name, COCOS), words) for name, words in directions.items()]
            options.append(Option(label, [panel for panel in panels if panel is not None]))
    note = (
        "A dot is a trial: contributing samples of the loss's gradient against the metric, at the best epoch or "
        "the nearest with counted samples. Hollow: stopped early. Losses count on scales of their own; ρ, Spearman's "
        "rank correlation, takes all trials together."
    )
    return Figure("cocos", "COCOS against retrieval", note, options, height=360)


def _counted(study: Study) -> Counted:
    """Return the trials whose samples were counted; finished trials first: a legend shows the first trial's marker."""
    counted = [(trial, trial.epochs[epoch]) for trial in study.valued if (epoch := counted_epoch(trial))]
    return sorted(counted, key=lambda pair: pair[0].state is not TrialState.FINISHED)


def counted_epoch(trial: Trial) -> int | None:
    """Return the epoch with COCOS statistics nearest to the best epoch, the later of two; ``None`` if none has them."""
    best = trial.best_epoch or 0
    if _is_counted(trial.at_best):
        return best
    epochs = (epoch for epoch, metrics in trial.epochs.items() if _is_counted(metrics))
    return min(epochs, key=lambda epoch: (abs(epoch - best), -epoch), default=None)


def _is_counted(metrics: Mapping[str, float]) -> bool:
    return any(is_in(name, COCOS) for name in metrics)


def _weight_panels(studies: Sequence[Study], ranked: Sequence[str]) -> list[Panel]:
    known = {trial.id: (study, trial) for study in studies for trial in study.trials}
    leaders = _leaders([known[name] for name in ranked if name in known]) or leaders_of(studies)[:2]
    if not leaders:
        return []
    several = len({study.name for study, _ in leaders}) < len(leaders)
    drawn, captions = [], []
    for (study, trial), style in zip(leaders, _STYLES, strict=False):
        name = study.name_of(trial) if several else study.short_label
        drawn.append((name, study.loss, trial.loss_parameters_at_best, style))
        captions.append(f"{name}: {setting_text(trial.parameters_at_best, most=NAMED) or 'defaults'}")
    triplet = f"{printed(TRIPLET[0])}, {setting_text(TRIPLET[1])}"
    traces: dict[str, list[Json]] = {}
    for name, loss, parameters, style in [*drawn, (triplet, *TRIPLET, _TRIPLET_STYLE)]:
        for of, weights in weight_curves(loss, parameters).items():
            traces.setdefault(of, []).append(_weight_line(name, style, *of_peak(weights)))
    for of in {"positive", "negative"} & set(traces):
        # While its hinge is active, the triplet loss gives positives and negatives weight 1 at any similarity.
        traces[of].append(_weight_line(triplet, _TRIPLET_STYLE, np.ones_like(POINTS), 1.0))
    vertical = draw.axis("weight / peak", zeroline=True)
    # The triplet is on the first axis, which is always drawn.
    return [
        Panel(words, traces[of], {"xaxis": draw.axis(title, range=[-1, 1]), "yaxis": vertical})
        for words, (of, title) in zip(("; ".join(captions), "", ""), _AXES.items(), strict=True)
        if of in traces
    ]


def _leaders(ranked: Sequence[tuple[Study, Trial]]) -> list[tuple[Study, Trial]]:
    """Return winner and runner-up and, if both have one loss, the best trial of another loss."""
    losses = [study.loss for study, _ in ranked]
    others = [pair for pair in ranked[2:] if pair[0].loss != losses[0]]
    return [*ranked[:2], *(others[:1] if losses[1:2] == losses[:1] else [])]


def _weight_line(name: str, style: Json, weights: np.ndarray, peak: float) -> Json:
    hover = f"%{{x:.2f}}: %{{y:.2f}} of {value_text(peak)}<extra></extra>"
    about: Json = {"name": draw.plain(name), "hovertemplate": hover}
    return draw.line(POINTS.round(3).tolist(), weights.round(4).tolist(), **style, **about)


def _without_direction(name: str) -> str:
    return str(name_parts(name)._replace(section="", direction=""))


def _cocos_panel(counted: Sequence[tuple[Study, Counted]], key: str, words: str) -> Panel | None:
    """Return the trials with a counter; ``None`` without any, and a sentence where all have the same count."""
    traces: list[Json] = []
    for study, pairs in counted:
        having = [(trial, metrics) for trial, metrics in pairs if key in metrics]
        if having:
            trials, heights = [trial for trial, _ in having], [metrics[study.metric] for _, metrics in having]
            marker = {"symbol": draw.hollow(study, trials), "opacity": 0.75}
            dots = draw.dots(study, trials, [metrics[key] for _, metrics in having], heights, **marker)
            traces.append({**dots, "hovertemplate": f"{ABOUT}<br>{COUNTED}<extra></extra>"})
    if not traces:
        return None
    counts = [count for trace in traces for count in trace["x"]]
    if len(set(counts)) == 1 < len(counts):
        same = f"all {len(counts):,} trials have the same count, {value_text(counts[0])}"
        return Panel(" · ".join(filter(None, (words, same))), [], {})
    rho = rank_correlation(counts, [height for trace in traces for height in trace["y"]])
    known = "" if rho is None else f"ρ = {number_text(rho, signed=True, decimals=2)}, {len(counts):,} trials"
    horizontal = draw.axis_of(metric_words(_without_direction(key)), counts)
    axes = {"xaxis": horizontal, "yaxis": draw.axis(metric_words(counted[0][0].metric))}
    return Panel(" · ".join(filter(None, (words, known))), traces, axes)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's correlation with mean ranks for ties; ``None`` below three pairs or for constant values."""
    a, b = _ranks(x), _ranks(y)
    if len(a) < 3 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


def weight_curves(loss: str, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the curves of a loss: one curve over Δ, or two over similarities; none for a loss not in ``CURVES``.

    With ``hardness`` the weight of a negative depends on its own similarity beside Δ, so there is no curve.

    ``parameters`` are hyper-parameters of the loss; left-out ones have their defaults.

    Returns:
        ``difference`` where the weight depends on Δ, or else ``positive`` and ``negative`` -> weights at ``POINTS``.
    """
    if loss not in CURVES or parameters.get("hardness"):
        return {}
    curve = CURVES[loss]
    # Parameters of the loss on which its weights do not depend are dropped.
    asked = signature(curve).parameters
    entries = LOSS_PARAMETERS[loss].items()
    settings = {name: parameters.get(name, entry.default) for name, entry in entries if name in asked}
    weights = curve(POINTS, **settings)
    names = ("difference",) if len(weights) == 1 else ("positive", "negative")
    return dict(zip(names, weights, strict=True))


def of_peak(weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights divided by their largest absolute value, and this value; zeros stay zeros.

    Curves are compared so, because Adam's steps do not depend on the scale of a gradient.
    """
    peak = float(np.abs(weights).max())
    return weights / peak if peak else weights, peak


def _hinge(delta: np.ndarray, *, margin: float) -> Weights:
    return ((delta > -margin).astype(float),)


def _smooth_ap(delta: np.ndarray, *, temperature: float) -> Weights:
    rank = _sigmoid(delta / temperature)
    return (rank * (1 - rank) / temperature / (1 + rank) ** 2,)


def _relative(delta: np.ndarray, *, coefficients: Sequence[float], gate: float | None) -> Weights:
    weights = _polynomial(delta, coefficients, hinge=True)
    return (weights if gate is None else np.where(delta > -gate, weights, 0.0),)


def _self(
    s: np.ndarray, *, positive_coefficients: Sequence[float], negative_coefficients: Sequence[float], hinge: str
) -> Weights:
    separate = hinge == "separate"
    return -_polynomial(s, positive_coefficients, separate), _polynomial(s, negative_coefficients, separate)


def _multi_similarity(s: np.ndarray, *, alpha: float, beta: float, base: float) -> Weights:
    return _sigmoid(-alpha * (s - base)), _sigmoid(beta * (s - base))


def _gradient_weights(
    points: np.ndarray,
    *,
    triplet_weight: str,
    pair_weight: str,
    margin: float,
    slope: float,
    temperature: float,
    positive_tilt: float,
    negative_tilt: float,
    balance: float,
    alpha: float,
    beta: float,
    base: float,
) -> Weights:
    if pair_weight == "linear":
        pull = np.maximum(1 - positive_tilt * points, 0.0)
        return pull, balance * np.maximum(1 - negative_tilt * (1 - points), 0.0)
    if pair_weight != "constant":
        positive, negative = _multi_similarity(points, alpha=alpha, beta=beta, base=base)
        return positive, balance * negative
    if triplet_weight == "circle":
        return np.ones_like(points), np.full_like(points, balance)
    if triplet_weight == "softmax":
        return (_sigmoid(points / temperature),)
    (kept,) = _hinge(points, margin=margin)
    return (kept * np.maximum(1 + (slope if triplet_weight == "linear" else 0.0) * (margin + points), 0.0),)


def _polynomial(points: np.ndarray, coefficients: Sequence[float], hinge: bool) -> np.ndarray:
    """Return the derivative, 0 where a hinge cuts the polynomial off; coefficients by ascending power."""
    polynomial = np.polynomial.Polynomial(np.asarray(coefficients, dtype=float))
    slope = polynomial.deriv()(points)
    return np.where(polynomial(points) > 0, slope, 0.0) if hinge else slope


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # tanh saturates where exp would overflow.
    return 0.5 * (1 + np.tanh(x / 2))


CURVES: dict[str, Callable[..., Weights]] = {
    **dict.fromkeys(("triplet", "triplet_sh", "triplet_selhn", "warp"), _hinge),
    "nt_xent": lambda delta, *, temperature: (_sigmoid(delta / temperature) / temperature,),
    "smooth_ap": _smooth_ap,
    "polynomial_relative": _relative,
    "polynomial_self": _self,
    "sigmoid": lambda s, *, temperature, bias: (
        _sigmoid(-s / temperature - bias) / temperature,
        _sigmoid(s / temperature + bias) / temperature,
    ),
    "decoupled": lambda delta, *, temperature: (np.full_like(delta, 1 / temperature),),
    "multi_similarity": _multi_similarity,
    "circle": lambda s, *, margin, scale: (
        scale * np.maximum(1 + margin - s, 0.0),
        scale * np.maximum(s + margin, 0.0),
    ),
    "gradient_weights": _gradient_weights,
}
"""Loss -> its weights at points, by the hyper-parameters of the loss on which the weights depend."""
