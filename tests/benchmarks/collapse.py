"""How often a candidate whose seeds collapse is falsely called better, by simulation.

    python -m tests.benchmarks collapse [--studies 5000]

Two losses have some settings each, all of equal mean over seeds. The seeds of the first loss end 8 standard deviations
lower at a rate. A row is the share of studies, in percent, whose winner is called better than all settings of the other
loss by Welch's test, and is not taken back (``orchestrator/results/collapse.py``), beside the share without the latter.
The note has the share of losses without collapses in which one is found, and leads of 2 that are found with both rules.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from orchestrator.results.collapse import find_collapse
from orchestrator.results.verdict import LEVEL
from tests.benchmarks.rows import Row
from tests.support.race_rates import Scores

DEPTH = 8.0
"""How far a collapsed seed ends below the others, in their standard deviations."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--studies", type=int, default=5000, help="of each row")


def run(options: argparse.Namespace) -> Iterator[Row]:
    for seeds in (3, 5, 10):
        for settings in (1, 2, 3):
            _, _, falsely = _shares(options.studies, settings, seeds, 0.0, 0.0)
            plain, kept, _ = _shares(options.studies, settings, seeds, 0.0, 2.0)
            note = f"found where there is none {falsely:.1f}; leads of 2 {plain:.1f}, not taken back {kept:.1f}"
            for rate in (0.1, 0.2):
                plain, kept, _ = _shares(options.studies, settings, seeds, rate, 0.0)
                case = f"{seeds} seeds, {settings} settings, collapse in {rate:.0%}"
                yield Row(case, "%", kept, plain, "without taking back", note=note)


def _shares(studies: int, settings: int, seeds: int, rate: float, lead: float) -> tuple[float, float, float]:
    """Return the shares in percent called better, of these not taken back, and in which a collapse is found."""
    generator = np.random.default_rng([seeds, settings, round(10 * rate)])
    values = generator.standard_normal((studies, 2 * settings, seeds))
    collapsed = generator.random((studies, settings, seeds)) < rate
    values[:, :settings] += DEPTH * (rate - collapsed) + lead
    counts, rows = np.full((studies, 2 * settings), seeds), np.arange(studies)
    winner = values.mean(2).argmax(1)
    p = Scores(values).lead_p(counts, winner, rows)
    own = (np.arange(2 * settings) // settings)[None] == (winner // settings)[:, None]
    better = (np.where(own, 0.0, p) <= LEVEL).all(1)
    found = np.array([find_collapse(list(of[mine])) is not None for of, mine in zip(values, own, strict=True)])
    return tuple(100 * float(share.mean()) for share in (better, better & ~found, found))  # type: ignore[return-value]
