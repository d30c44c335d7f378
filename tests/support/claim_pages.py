"""Simulated pages of claims: cells whose true means are known, each measured with five seeds."""

from collections.abc import Mapping

import numpy as np

from orchestrator.claims.cells import published_cells
from orchestrator.claims.engine import Cells
from orchestrator.results.statistics import Measure, measure

SEEDS = 5

Truth = Mapping[tuple[str, str], Mapping[str, Mapping[str, tuple[float, float]]]]
"""Group -> loss -> metric -> true mean and true standard deviation over seeds."""


def truth_of_the_paper() -> Truth:
    """Return the published means and deviations as if they were true; a deviation of 0 becomes 1 % of the mean."""
    return {
        group: {
            loss: {
                name: (one.mean, max(one.sample_std or 0.0, 0.01 * abs(one.mean), 1e-3))
                for name, one in measures.items()
            }
            for loss, measures in losses.items()
        }
        for group, losses in published_cells().items()
    }


def without_effects(truth: Truth) -> Truth:
    """Return a truth in which all losses are alike and every count lies on the bound of its claim."""
    bounds = {"negatives_per_query": 1.0, "share_without_gradient": 0.5}
    alike = {}
    for group, losses in truth.items():
        reference = losses["triplet_sh"]
        alike[group] = {
            loss: {name: _alike(name, values[name], reference.get(name, values[name]), bounds) for name in values}
            for loss, values in losses.items()
        }
    return alike


def _alike(
    name: str, own: tuple[float, float], reference: tuple[float, float], bounds: Mapping[str, float]
) -> tuple[float, float]:
    bound = next((bound for ending, bound in bounds.items() if name.endswith(ending)), None)
    return (reference[0], reference[1]) if bound is None else (bound, max(own[1], 0.05))


def equal_in_one_cell(truth: Truth) -> Truth:
    """Return the paper's truth with three losses equal in a single cell, so that claims 2 and 3 are just false."""
    group, metric = ("flickr30k", "vsepp"), "i2t_average_recall"
    losses = {loss: dict(values) for loss, values in truth[group].items()}
    for loss in ("triplet", "nt_xent"):
        losses[loss][metric] = losses["triplet_sh"][metric]
    return {**truth, group: losses}


def measured(truth: Truth, generator: np.random.Generator) -> Cells:
    """Return cells of a truth, each mean over ``SEEDS`` normal values."""
    return {
        group: {
            loss: {name: _measured(*values, generator) for name, values in measures.items()}
            for loss, measures in losses.items()
        }
        for group, losses in truth.items()
    }


def _measured(mean: float, std: float, generator: np.random.Generator) -> Measure:
    return measure(generator.normal(mean, std, SEEDS))


def shuffled(cells: Cells, generator: np.random.Generator) -> Cells:
    """Return the cells with the losses of each group exchanged, so that no loss keeps its own row."""
    exchanged = {}
    for group, losses in cells.items():
        names = list(losses)
        order = generator.permutation(len(names))
        while any(order == np.arange(len(names))):
            order = generator.permutation(len(names))
        exchanged[group] = {name: losses[names[place]] for name, place in zip(names, order, strict=True)}
    return exchanged
