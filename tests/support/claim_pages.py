"""Simulated pages of claims: cells whose true means are known, each measured with five seeds."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from scipy import stats

from orchestrator.claims.cells import published_cells
from orchestrator.claims.claims import Claims, Part, load_claims
from orchestrator.claims.engine import Groups, Outcome, decide_claims
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure

SEEDS = 5

NOT_IN_THE_TABLES = ("nearly-all-triplets-at-the-start", "thresholds-change-little")
"""Claims of the paper whose counts no table prints."""

SCORES = ("i2t_average_recall", "t2i_average_recall", "i2t_map5")

Truth = Mapping[tuple[str, str], Mapping[str, Mapping[str, tuple[float, float]]]]
"""Group -> loss -> metric -> true mean and true standard deviation over seeds."""


def answerable_claims() -> Claims:
    """Return the claims of the paper that its tables can answer."""
    claims = load_claims("ecir-2022")
    kept = tuple(claim for claim in claims.claims if claim.id not in NOT_IN_THE_TABLES)
    return claims.model_copy(update={"claims": kept})


def truth_of_the_paper() -> Truth:
    """Return the published means and deviations as if they were true; a deviation of 0 becomes 1 % of the mean."""
    claims = answerable_claims()
    metrics = claims.metrics
    return {
        group: {
            loss: {
                name: (one.mean, max(one.sample_std or 0.0, 0.01 * abs(one.mean), 1e-3))
                for name, one in runs.means.items()
                if name in metrics
            }
            for loss, runs in losses.items()
        }
        for group, losses in published_cells(claims).items()
    }


def without_effects(truth: Truth) -> Truth:
    """Return a truth in which all losses are alike and every count lies on the bound of its claim."""
    bounds = {"negatives_per_query": 1.0, "share_without_gradient": 0.5}
    return {
        group: {
            loss: {name: _alike(name, own, losses["triplet_sh"].get(name, own), bounds) for name, own in values.items()}
            for loss, values in losses.items()
        }
        for group, losses in truth.items()
    }


def _alike(
    name: str, own: tuple[float, float], reference: tuple[float, float], bounds: Mapping[str, float]
) -> tuple[float, float]:
    bound = next((bound for ending, bound in bounds.items() if name.endswith(ending)), None)
    return reference if bound is None else (bound, max(own[1], 0.05))


def equal_in(truth: Truth, losses: Collection[str], groups: int, metrics: Collection[str] = SCORES) -> Truth:
    """Return the paper's truth with the scores of some losses equal to those of Triplet SH in the first groups.

    All other differences are those of the paper, so that a claim about these losses is false for one cell alone.
    """
    places = list(truth)[:groups]
    return {
        group: {
            loss: {
                name: cells["triplet_sh"][name] if group in places and loss in losses and name in metrics else own
                for name, own in values.items()
            }
            for loss, values in cells.items()
        }
        for group, cells in truth.items()
    }


def false_claims(claims: Claims, truth: Truth) -> set[str]:
    """Return the claims that a truth does not fulfil, by their forms and without noise."""
    return {claim.id for claim in claims.claims if not all(_is_true(part, truth) for part in claim.holds_if)}


def _is_true(part: Part, truth: Truth) -> bool:
    groups = [group for group in truth if not part.models or group[1] in part.models]
    if part.kind == "opposed":
        pairs = zip(part.metrics, part.and_metrics, strict=True)
        return all(np.mean([_slope(truth[group], part, *pair) for group in groups]) < 0 for pair in pairs)
    return all(_is_true_in(part, truth[group]) for group in groups)


def _slope(cell: Mapping[str, Mapping[str, tuple[float, float]]], part: Part, metric: str, other: str) -> float:
    """Return the slope of a metric over the ranks of another, by SciPy's ranks."""
    ranks = stats.rankdata([cell[loss][metric][0] for loss in part.losses])
    values = [cell[loss][other][0] for loss in part.losses]
    return float(np.cov(ranks, values)[0, 1])


def _is_true_in(part: Part, cell: Mapping[str, Mapping[str, tuple[float, float]]]) -> bool:
    def gaps() -> Iterator[float]:
        for metric in part.metrics:
            for other in part.against:
                yield cell[part.loss][metric][0] - cell[other][metric][0]

    def means() -> Iterator[float]:
        return (cell[part.loss][metric][0] for metric in part.metrics)

    margin, than = part.margin or 0.0, part.than or 0.0

    def best(metric: str, within: float) -> set[str]:
        highest = max(cell[loss][metric][0] for loss in part.losses)
        return {loss for loss in part.losses if cell[loss][metric][0] >= highest - within}

    if part.kind == "same_best":
        # Of several equal bests by the first metric, one that is best by the other is enough.
        pairs = zip(part.metrics, part.and_metrics, strict=True)
        return all(best(metric, 0.0) & best(other, margin) for metric, other in pairs)
    return {
        "beats": lambda: all(gap > part.by for gap in gaps()),
        "best": lambda: all(gap > -margin for gap in gaps()),
        "not_better": lambda: all(gap < margin for gap in gaps()),
        "alike": lambda: all(-margin < gap < margin for gap in gaps()),
        "above": lambda: all(mean > than for mean in means()),
        "below": lambda: all(mean < than for mean in means()),
    }[part.kind]()


def pages(truth: Truth, count: int, generator: np.random.Generator) -> Iterator[Groups]:
    """Yield pages of a truth, each with means over ``SEEDS`` normal values; all values are drawn at once."""
    places = [(group, loss, name) for group, cell in truth.items() for loss in cell for name in cell[loss]]
    true = np.array([truth[group][loss][name] for group, loss, name in places])
    values = generator.normal(true[:, 0], true[:, 1], (SEEDS, count, len(places)))
    means, deviations = values.mean(0).tolist(), values.std(0).tolist()
    for page_means, page_deviations in zip(means, deviations, strict=True):
        cells: dict[tuple[str, str], dict[str, dict[str, Measure]]] = {}
        for (group, loss, name), mean, deviation in zip(places, page_means, page_deviations, strict=True):
            cells.setdefault(group, {}).setdefault(loss, {})[name] = Measure(mean, deviation, SEEDS)
        yield runs_of(cells)


def runs_of(cells: Mapping[tuple[str, str], Mapping[str, Mapping[str, Measure]]]) -> Groups:
    """Return the cells of means as runs of losses."""
    return {group: {loss: Runs(loss, means=means) for loss, means in losses.items()} for group, losses in cells.items()}


def false_holds(claims: Claims, truth: Truth, count: int, generator: np.random.Generator) -> tuple[int, float]:
    """Return the number of simulated pages with a false *holds*, and the mean number of true claims that hold."""
    wrong, pages_wrong, right = false_claims(claims, truth), 0, 0
    for cells in pages(truth, count, generator):
        held = {one.claim.id for one in decide_claims(claims, cells) if one.outcome is Outcome.HOLDS}
        pages_wrong += bool(held & wrong)
        right += len(held - wrong)
    return pages_wrong, right / count


def shuffled(cells: Groups, generator: np.random.Generator) -> Groups:
    """Return the cells with the losses of each group exchanged, so that no loss keeps its own row."""
    exchanged = {}
    for group, losses in cells.items():
        names = list(losses)
        order = generator.permutation(len(names))
        while any(order == np.arange(len(names))):
            order = generator.permutation(len(names))
        exchanged[group] = {name: losses[names[place]] for name, place in zip(names, order, strict=True)}
    return exchanged
