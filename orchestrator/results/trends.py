"""Does a confirmed parameter, such as the number of hard negatives, have a trend over its values?

Candidates that differ in one positive number x, each with its own best other settings, are a dose-response curve. Its
means over fresh seeds have two contrasts on the scale of log2 x, which are orthogonal polynomials of the values:

    slope   change of the metric for each doubling of x
    bend    coefficient of (log2 x)^2; below 0, the metric is highest inside the range or rises ever less

Both are tested by Student's distribution without assuming equal spreads, with the degrees of freedom of Welch and
Satterthwaite [Satterthwaite1946]. Both p-values are Holm-adjusted. Where the means are equal, one of the two is
significant in at most 5 % of experiments. With six values and five seeds each, it was in 3.8 % of 4,000 simulated
experiments; with three seeds, in 3.2 % (``tests/orchestrator/results/test_trends.py`` repeats it). The band holds all
means with 95 % [Sidak1967].

References:
    [Satterthwaite1946] Satterthwaite, An Approximate Distribution of Estimates of Variance Components. Biometrics
        Bulletin 2, 110-114
    [Sidak1967] Sidak, Rectangular confidence regions for the means of multivariate normal distributions, J. American
        Statistical Association 62, 626-633.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.results.answer import Answer, Column, Json, Quantity, table_of
from orchestrator.results.statistics import (
    CONFIDENCE,
    SAME,
    Interval,
    Sample,
    around,
    has_spread,
    holm,
    quantile,
    satterthwaite,
    two_sided,
)
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.text.values import value_text
from orchestrator.text.wording import interval_text, loss_of_model, metric_name, number_text, p_equals, parameter_names
from trainables.parameter_values import is_number

FEWEST_VALUES = 3
"""Fewest values of a parameter for a trend: two values are a comparison."""

LEVEL = 1 - CONFIDENCE


def trends_of(verdict: DatasetVerdict, parameter: str) -> list[Json]:
    """Return the trend of each model and loss of a verdict whose candidates differ in a numeric parameter."""
    groups: dict[tuple[str, str], dict[float, Sample]] = {}
    for candidate in verdict.candidates:
        # Where the search chose the loss, the name that samplers use begins with the name of the loss.
        value = candidate.parameters.get(parameter.removeprefix(f"{candidate.loss}."), 0)
        if is_number(value) and value > 0:
            group = groups.setdefault((candidate.model, candidate.loss), {})
            # Candidates are in the order of their values on val; the first of a value is its best setting.
            group.setdefault(float(value), candidate.sample(verdict.metric, candidate.unit))
    trends = [find_trend(samples, parameter, verdict.metric, loss, model) for (model, loss), samples in groups.items()]
    return [trend for trend in trends if trend is not None]


def find_trend(samples: Mapping[float, Sample], parameter: str, metric: str, loss: str, model: str) -> Json | None:
    """Return the trend of a metric over the values of a parameter of a model's loss.

    ``samples`` are value of the parameter, > 0 -> values of its seeds.

    Returns:
        The names; ``seeds``, the fewest of a value; ``curve``, the mean of each value with its part of the band that
        holds all means with 95 %; ``slope`` and ``bend``, each with its ``estimate`` in the metric's unit per doubling
        or squared doubling, its 95 % ``interval`` and its ``p``, Holm-adjusted for both. ``None`` for fewer than three
        values, a value with one seed, or without spread in the values on which slope or bend rests.
    """
    ordered = sorted(samples)
    groups = [samples[x] for x in ordered]
    if len(groups) < FEWEST_VALUES or any(len(group) < 2 for group in groups):
        return None
    varies = np.array([has_spread(group) for group in groups])
    x = np.log2(np.array(ordered))
    linear = x - x.mean()
    curved = x**2 - np.polyval(np.polyfit(x, x**2, 1), x)
    # The value in the middle has no part in the slope, so its spread alone says nothing about the slope.
    if not all(varies[np.abs(weights) > SAME].any() for weights in (linear, curved)):
        return None
    contrasts = [_contrast(weights / (weights**2).sum(), groups) for weights in (linear, curved)]
    adjusted = holm([p for _, _, p in contrasts])
    slope, bend = (
        {"estimate": estimate, "interval": interval._asdict(), "p": p}
        for (estimate, interval, _), p in zip(contrasts, adjusted, strict=True)
    )
    curve = [
        {"value": value, "mean": float(group.mean()), "band": interval._asdict()}
        for value, group, interval in zip(ordered, groups, _band(groups), strict=True)
    ]
    about = {"parameter": parameter, "metric": metric, "model": model, "loss": loss, "seeds": min(map(len, groups))}
    return {**about, "curve": curve, "slope": slope, "bend": bend}


OF_SETTINGS = "Each value has the setting that one search found for it: the trend is one of these settings."
"""What limits a trend after a single search of each study."""


def trend_answer(dataset: str, trends: Sequence[Json], *, repeated: bool = False) -> Answer | None:
    """Return the answer about a dataset's trends; ``None`` without a trend.

    After a single search of each study (not ``repeated``) it is one of the settings that the search found.
    """
    if not trends:
        return None
    metric = trends[0]["metric"]
    (parameter,) = parameter_names([trends[0]["parameter"]]).values()
    columns = [
        Column("loss", "loss", hidden=True),
        Column("name", "loss"),
        Column("value", parameter, unit="number"),
        Column("mean", "mean", unit=metric, shows="both"),
    ]
    several = len({trend["model"] for trend in trends}) > 1
    names = [loss_of_model(trend["loss"], trend["model"] if several else None) for trend in trends]
    rows = [
        (trend["loss"], name, point["value"], Quantity(point["mean"], None, **point["band"]))
        for trend, name in zip(trends, names, strict=True)
        for point in trend["curve"]
    ]
    described = map(describe_trend, trends, names)
    headline, *notes = (sentence for sentences in described for sentence in sentences)
    notes.append("Both p-values of a trend are Holm-adjusted; the intervals hold all means with 95 %.")
    notes += [] if repeated else [OF_SETTINGS]
    question, table = f"Is there a trend over {parameter}?", table_of(columns, rows)
    return Answer("trends", dataset, question, headline, table=table, notes=tuple(notes), data={"trends": list(trends)})


def describe_trend(trend: Json, name: str) -> list[str]:
    """Return sentences about a trend of a loss of this name: slope, then bend."""
    metric = metric_name(trend["metric"])
    slope, bend = trend["slope"], trend["bend"]
    (parameter,) = parameter_names([trend["parameter"]]).values()
    rising = "rises" if slope["estimate"] > 0 else "falls"
    said = f"{name}: {metric} {rising} by" if slope["p"] <= LEVEL else f"{name}: {metric} has no significant slope:"
    gap = number_text(slope["estimate"], metric, signed=slope["p"] > LEVEL).lstrip("−" if slope["p"] <= LEVEL else "")
    ends = interval_text(**slope["interval"], unit=metric)
    bends = (
        f"the curve bends {'down' if bend['estimate'] < 0 else 'up'}" if bend["p"] <= LEVEL else "no significant bend"
    )
    best = max(trend["curve"], key=lambda point: point["mean"])["value"]
    return [
        f"{said} {gap} a doubling of {parameter}, 95 % CI {ends}, {p_equals(slope['p'])}.",
        f"{name}: {bends}, {p_equals(bend['p'])}; the highest mean is at {value_text(best)}.",
    ]


def _contrast(weights: Sample, groups: Sequence[Sample]) -> tuple[float, Interval, float]:
    """Return estimate, 95 % interval and unadjusted p of a contrast; see the module's docstring."""
    variances = np.array([group.var(ddof=1) / len(group) for group in groups]) * weights**2
    error, freedom = math.sqrt(variances.sum()), satterthwaite(variances, [len(group) - 1 for group in groups])
    estimate = float(sum(weight * group.mean() for weight, group in zip(weights, groups, strict=True)))
    return estimate, around(estimate, error, freedom), two_sided(estimate / error, freedom)


def _band(groups: Sequence[Sample]) -> list[Interval]:
    """Return the intervals that hold all means at once with 95 %."""
    share = (1 + CONFIDENCE ** (1 / len(groups))) / 2
    reaches = [quantile(share, len(g) - 1) * float(g.std(ddof=1)) / math.sqrt(len(g)) for g in groups]
    means = [float(group.mean()) for group in groups]
    return [Interval(mean - reach, mean + reach) for mean, reach in zip(means, reaches, strict=True)]
