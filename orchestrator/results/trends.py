"""Does a confirmed parameter, such as the number of hard negatives, have a trend over its values?

Candidates that differ in one positive number x, each with its own best other settings, are a dose-response curve. Its
means over fresh seeds have two contrasts on the scale of log2 x, which are orthogonal polynomials of the values:

    slope   change of the metric for each doubling of x
    bend    coefficient of (log2 x)^2; below 0 the metric is highest inside the range or rises ever less

Each is tested by Student's distribution without assuming equal spreads, with the degrees of freedom of Welch and
Satterthwaite [Satterthwaite1946], and both p-values are Holm-adjusted. Where the means are equal, one of the two is
significant in at most 5 % of experiments: 3.8 % of 4,000 simulated ones with six values and five seeds each, 3.2 % with
three seeds (``tests/orchestrator/results/test_trends.py`` repeats it). The band holds all means with 95 % [Sidak1967].

References:
    [Satterthwaite1946] Satterthwaite, An Approximate Distribution of Estimates of Variance Components. Biometrics
        Bulletin 2, 110-114
    [Sidak1967] Sidak, Rectangular confidence regions for the means of multivariate normal distributions, J. American
        Statistical Association 62, 626-633.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from orchestrator.results.candidates import DatasetVerdict
from orchestrator.results.statistics import CONFIDENCE, Interval, Sample, around, has_spread, holm, two_sided

FEWEST_VALUES = 3
"""Fewest values of a parameter for a trend: two values are a comparison."""

LEVEL = 1 - CONFIDENCE


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of the means of all values, zero where the means are equal.

    Attributes:
        estimate: The sum, in the metric's unit per doubling, or per squared doubling.
        interval: 95 % interval.
        p: Two-sided p-value, Holm-adjusted for both contrasts of the trend.
    """

    estimate: float
    interval: Interval
    p: float


@dataclass(frozen=True)
class Trend:
    """The curve of a metric over a parameter.

    Attributes:
        parameter: Name of the parameter.
        metric: Name of the metric.
        loss: Loss of the candidates.
        means: Value of the parameter, ascending -> mean over the seeds.
        band: Value -> simultaneous 95 % interval of its mean.
        seeds: Fewest seeds of a value.
        slope: Change for each doubling.
        bend: Curvature.
    """

    parameter: str
    metric: str
    loss: str
    means: Mapping[float, float]
    band: Mapping[float, Interval]
    seeds: int
    slope: Contrast
    bend: Contrast

    def to_dict(self) -> dict[str, Any]:
        """Return the trend as plain values for JSON; a value of the parameter that is a key becomes text."""
        curve = [{"value": x, "mean": mean, "band": asdict(self.band[x])} for x, mean in self.means.items()]
        named = {"parameter": self.parameter, "metric": self.metric, "loss": self.loss, "seeds": self.seeds}
        return {**named, "curve": curve, "slope": asdict(self.slope), "bend": asdict(self.bend)}


def trends_of(verdict: DatasetVerdict, parameter: str) -> list[Trend]:
    """Return the trend of each model and loss of a verdict whose candidates differ in a numeric parameter."""
    groups: dict[tuple[str, str], dict[float, Sample]] = {}
    for standing in verdict.standings:
        candidate = standing.candidate
        value = candidate.parameters.get(parameter)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            group = groups.setdefault((candidate.model, candidate.loss), {})
            # Standings are in the order of their values on val; the first of a value is its best setting.
            group.setdefault(float(value), candidate.sample(verdict.metric))
    found = [find_trend(samples, parameter, verdict.metric, loss) for (_, loss), samples in groups.items()]
    return [trend for trend in found if trend is not None]


def find_trend(samples: Mapping[float, Sample], parameter: str, metric: str, loss: str) -> Trend | None:
    """Return the trend of a metric over the values of a parameter.

    Args:
        samples: Value of the parameter, > 0 -> values of its seeds.
        parameter: Name of the parameter.
        metric: Name of the metric.
        loss: Loss of the candidates.

    Returns:
        ``None`` for fewer than three values, a value with one seed, or without spread.
    """
    ordered = sorted(samples)
    groups = [samples[x] for x in ordered]
    if len(groups) < FEWEST_VALUES or any(len(group) < 2 for group in groups):
        return None
    if not any(has_spread(group) for group in groups):
        return None
    x = np.log2(np.array(ordered))
    linear = x - x.mean()
    curved = x**2 - np.polyval(np.polyfit(x, x**2, 1), x)
    contrasts = [_contrast(weights / (weights**2).sum(), groups) for weights in (linear, curved)]
    adjusted = holm([p for _, _, p in contrasts])
    slope, bend = (
        Contrast(estimate, interval, p) for (estimate, interval, _), p in zip(contrasts, adjusted, strict=True)
    )
    return Trend(
        parameter=parameter,
        metric=metric,
        loss=loss,
        means={value: float(group.mean()) for value, group in zip(ordered, groups, strict=True)},
        band=_band(ordered, groups),
        seeds=min(map(len, groups)),
        slope=slope,
        bend=bend,
    )


def describe_trend(trend: Trend) -> list[str]:
    """Return sentences about a trend: slope, then bend."""
    metric = trend.metric.partition("/")[2]
    lowest, highest = min(trend.means), max(trend.means)
    best = max(trend.means, key=lambda value: trend.means[value])
    slope, bend = trend.slope, trend.bend
    rising = "rises" if slope.estimate > 0 else "falls"
    linear = f"{metric} {rising}" if slope.p <= LEVEL else f"no significant trend of {metric}"
    curved = "bends down" if bend.estimate < 0 else "bends up"
    curve = f"the curve {curved}" if bend.p <= LEVEL else "no significant bend"
    counts = f"{len(trend.means)} values, at least {trend.seeds} seeds each"
    return [
        f"{trend.loss}, {trend.parameter} from {lowest:g} to {highest:g}: {linear}, {slope.estimate:+.2f} a doubling, "
        f"95 % CI [{slope.interval.low:+.2f}, {slope.interval.high:+.2f}], p = {slope.p:.2g} ({counts})",
        f"{trend.loss}, {trend.parameter}: {curve}, p = {bend.p:.2g}; the highest mean is at {best:g} "
        f"(both p-values Holm-adjusted)",
    ]


def _contrast(weights: Sample, groups: Sequence[Sample]) -> tuple[float, Interval, float]:
    """Return estimate, 95 % interval and unadjusted p of a contrast; see the module's docstring."""
    variances = np.array([group.var(ddof=1) / len(group) for group in groups]) * weights**2
    freedoms = np.array([len(group) - 1 for group in groups])
    error = math.sqrt(variances.sum())
    freedom = float(variances.sum() ** 2 / (variances**2 / freedoms).sum())
    estimate = float(sum(weight * group.mean() for weight, group in zip(weights, groups, strict=True)))
    return estimate, around(estimate, error, freedom), two_sided(estimate / error, freedom)


def _band(values: Sequence[float], groups: Sequence[Sample]) -> dict[float, Interval]:
    """Return the intervals that hold all means at once with 95 %."""
    from scipy.special import stdtrit

    each = CONFIDENCE ** (1 / len(groups))
    band = {}
    for value, group in zip(values, groups, strict=True):
        reach = float(stdtrit(len(group) - 1, (1 + each) / 2)) * float(group.std(ddof=1)) / math.sqrt(len(group))
        band[value] = Interval(float(group.mean()) - reach, float(group.mean()) + reach)
    return band
