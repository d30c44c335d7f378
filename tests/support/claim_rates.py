"""How often a claim of each kind is called true where it is false: simulated cells of seeds and images.

The truth is about the population of seeds and images. Values are in units of the standard error that images alone give
a difference of two losses. A claim that is false lies on its bound, where a false *holds* is most frequent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.claims.claims import Claims
from orchestrator.claims.engine import Groups, Outcome, decide_claims
from orchestrator.experiment.yaml_files import validate
from orchestrator.results.runs import Runs

Array = np.ndarray

LOSSES = ("a", "b", "c", "d")
METRICS = ("rsum", "map5")
IMAGES = 60


@dataclass(frozen=True)
class Design:
    """Spread of the seeds of each loss, number of seeds, correlation of both metrics over seeds and images."""

    seeds: int = 5
    spread: float = 1.0
    first_spread: float = 1.0
    likeness: float = 0.0

    def __str__(self) -> str:
        unlike = f", a's times {self.first_spread:g}" if self.first_spread != 1 else ""
        like = f", metrics correlate {self.likeness:g}" if self.likeness else ""
        return f"{self.seeds} seeds of spread {self.spread:g}{unlike}{like}"


DESIGNS = (
    Design(),
    Design(spread=0.2),
    Design(spread=3.0, first_spread=4.0),
    Design(seeds=3, spread=1.5, first_spread=4.0),
    Design(seeds=3, spread=0.5),
)

Means = Mapping[str, Sequence[float]]
"""Metric -> true mean of each loss."""


@dataclass(frozen=True)
class Case:
    """A part, means for which it is false, on its bound, and means for which it is true."""

    part: Mapping[str, Any]
    false: Sequence[Means]
    true: Means
    designs: Sequence[Design] = DESIGNS


def _first(value: float, rest: float = 0.0) -> Means:
    return {"rsum": (value, rest, rest, rest), "map5": (0.0,) * 4}


_CORRELATED = tuple(
    Design(seeds=seeds, spread=2.0, first_spread=first, likeness=likeness)
    for seeds, first, likeness in ((5, 1, -0.9), (5, 1, 0.9), (3, 4, -0.9), (5, 4, 0.0))
)
_TIED = (0.02, 0.0, 0.0, 0.0)
_ORDERED = (0.0, 20.0, 40.0, 60.0)

CASES: Mapping[str, Case] = {
    "beats": Case({"kind": "beats", "loss": "a", "against": ["b"]}, [_first(0.0)], _first(6.0)),
    "best": Case(
        {"kind": "best", "loss": "a", "against": ["b", "c"], "margin": 3.0},
        [{"rsum": (0, 3, -20, 0), "map5": (0,) * 4}],
        _first(3.0),
    ),
    "not_better": Case(
        {"kind": "not_better", "loss": "a", "against": ["b"], "margin": 3.0}, [_first(3.0)], _first(-3.0)
    ),
    "alike": Case({"kind": "alike", "loss": "a", "against": ["b"], "margin": 6.0}, [_first(6.0)], _first(0.0)),
    "above": Case({"kind": "above", "loss": "a", "than": 0.0}, [_first(0.0)], _first(6.0)),
    "below": Case({"kind": "below", "loss": "a", "than": 0.0}, [_first(0.0)], _first(-6.0)),
    "same_best": Case(
        {"kind": "same_best", "losses": LOSSES, "and_metrics": ["map5"], "margin": 2.0},
        [
            {"rsum": (0.02, 0, -20, -20), "map5": (-2, 0, -20, -20)},
            {"rsum": (0.02, 0, -20, -20), "map5": (-20, 0, -20, -20)},
            {"rsum": _TIED, "map5": (-20, 0, 0, 0)},
            {"rsum": (0.02, 0, 0, 0), "map5": (-2, 0, 0, 0)},
        ],
        {"rsum": (12, 0, 0, 0), "map5": (4, 0, 0, 0)},
        (*DESIGNS, *_CORRELATED),
    ),
    "opposed": Case(
        {"kind": "opposed", "losses": LOSSES, "and_metrics": ["map5"]},
        [
            {"rsum": (0,) * 4, "map5": (0,) * 4},
            {"rsum": _ORDERED, "map5": (0,) * 4},
            {"rsum": (0, 3, 6, 9), "map5": (0,) * 4},
            # Opposed in the order that b and c have by chance, and not in the true one.
            {"rsum": (0, 10, 10.1, 0), "map5": (0, 9, -9, 0)},
        ],
        {"rsum": _ORDERED, "map5": (9, 6, 3, 0)},
        (*DESIGNS, *_CORRELATED),
    ),
}


TWELVE = tuple(
    {"kind": "beats", "loss": first, "against": [second]} for first in LOSSES for second in LOSSES if first != second
)
"""A page on which each loss beats each other one."""


def page_of(parts: Sequence[Mapping[str, Any]]) -> Claims:
    """Return a page with a claim for each part, at the level of 5 %."""
    listed = [
        {
            "id": f"c{number}",
            "number": number,
            "statement": "s",
            "where": "w",
            "holds_if": [{"metrics": ["rsum"], **part}],
        }
        for number, part in enumerate(parts, start=1)
    ]
    return validate(Claims, {"name": "p", "source": "s", "claims": listed}, "p.yaml")


def draw_cells(generator: np.random.Generator, design: Design, means: Means, *, images: bool = True) -> Groups:
    """Return a group of four losses with both metrics; without ``images`` the tests see the seeds alone."""
    shape = (len(LOSSES), design.seeds, IMAGES)
    scale = np.sqrt(IMAGES)
    spreads = np.array([design.first_spread, 1.0, 1.0, 1.0])[:, None, None]
    own, together, of_image = (
        _alike(generator, design.likeness, size) for size in ((*shape[:2], 1), shape, (shape[0], 1, shape[2]))
    )
    found = {}
    rows = {}
    for place, metric in enumerate(METRICS):
        centre = np.asarray(means[metric], dtype=np.float64)[:, None, None]
        noise = design.spread * spreads * (own[place] + 0.5 * scale * together[place])
        rows[metric] = centre + noise + scale / np.sqrt(2) * of_image[place]
    for place, loss in enumerate(LOSSES):
        values = {s: {metric: float(rows[metric][place, s].mean()) for metric in METRICS} for s in range(design.seeds)}
        kept = {metric: dict(enumerate(rows[metric][place])) for metric in METRICS} if images else None
        found[loss] = Runs.of_seeds(loss, values, images=kept)
    return {("pets", "vsepp"): found}


def _alike(generator: np.random.Generator, likeness: float, shape: tuple[int, ...]) -> Array:
    """Return normal values of two metrics that correlate, shape (2, ...)."""
    drawn = generator.standard_normal((2, *shape))
    drawn[1] = likeness * drawn[0] + np.sqrt(1 - likeness**2) * drawn[1]
    return drawn


def share_with_holds(
    generator: np.random.Generator, claims: Claims, design: Design, means: Means, pages: int, *, images: bool = True
) -> float:
    """Return the share of simulated pages of which a claim holds."""
    held = 0
    for _ in range(pages):
        results = decide_claims(claims, draw_cells(generator, design, means, images=images))
        held += any(result.outcome is Outcome.HOLDS for result in results)
    return held / pages
