"""Whether the engine of ``certify`` says *holds* where it should, on the paper's tables and on simulated pages.

    python -m tests.benchmarks claims [--pages 400] [--shuffles 100] [--cells 1000]

The first row counts the claims that come out as *holds* of those that the paper's tables can answer. The second counts
the claims about losses that hold on a page whose rows are exchanged, in the mean. The others are shares of simulated
pages, in percent, with a false *holds*: all losses alike and every count on its bound; or some losses truly better, as
in the paper, and others equal to the best in one cell, in two models, or everywhere (``tests/support/claim_pages.py``).
"""

import argparse
from collections.abc import Iterator

import numpy as np

from orchestrator.claims.cells import published_cells
from orchestrator.claims.claims import Claims
from orchestrator.claims.engine import Groups, Outcome, decide_claims
from tests.benchmarks.rows import Row
from tests.support.claim_pages import (
    Truth,
    answerable_claims,
    equal_in,
    false_claims,
    false_holds,
    shuffled,
    truth_of_the_paper,
    without_effects,
)
from tests.support.claim_rates import CASES, LOSSES, METRICS, TWELVE, Design, page_of, share_with_holds

COMPARISONS = ("best", "beats")
"""Kinds of claims that depend on which loss has which row."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pages", type=int, default=400, help="of each row, simulated")
    parser.add_argument("--shuffles", type=int, default=100, help="pages of exchanged rows")
    parser.add_argument("--cells", type=int, default=1000, help="of each design of a kind of claim, simulated")


def run(options: argparse.Namespace) -> Iterator[Row]:
    claims, paper = answerable_claims(), truth_of_the_paper()
    cells = published_cells(claims)
    found, count = len(held(claims, cells)), len(claims.claims)
    yield Row(
        "the paper's tables: claims that hold", "claims", found, count, "claims that the paper draws from its tables"
    )
    generator = np.random.default_rng([0, 1])
    compare = {claim.id for claim in claims.claims if claim.holds_if[0].kind in COMPARISONS}
    left = [len(held(claims, shuffled(cells, generator)) & compare) for _ in range(options.shuffles)]
    note = f"at most {max(left)} on a page"
    yield Row(
        "exchanged rows: claims that hold", "claims", float(np.mean(left)), len(compare), "claims of losses", note=note
    )
    for number, (case, truth) in enumerate(truths(paper).items(), start=2):
        generator = np.random.default_rng([0, number])
        false, right = false_holds(claims, truth, options.pages, generator)
        share, error = 100 * false / options.pages, 100 * np.sqrt(0.05 * 0.95 / options.pages)
        above = "; ABOVE" if share > 100 * claims.level + 2 * error else ""
        wrong = len(false_claims(claims, truth))
        note = f"{wrong} claims false; of {count - wrong} true ones {right:.1f} hold{above}"
        yield Row(case, "%", share, 100 * claims.level, "level of the page", note=note)
    yield from rates_of_kinds(options.cells)


def rates_of_kinds(cells: int) -> Iterator[Row]:
    for kind, case in CASES.items():
        claims = page_of([case.part])
        false = {
            f"{design}, truth {number}": share_with_holds(
                np.random.default_rng([2, number]), claims, design, means, cells
            )
            for number, means in enumerate(case.false, start=1)
            for design in case.designs
        }
        worst = max(false, key=false.__getitem__)
        true = [share_with_holds(np.random.default_rng(3), claims, one, case.true, cells // 10) for one in case.designs]
        note = f"worst: {worst}; true ones hold in {100 * min(true):.0f} to {100 * max(true):.0f} %"
        yield Row(f"{kind}: false holds", "%", 100 * false[worst], 100 * claims.level, "level of the page", note=note)
    claims, equal = page_of(TWELVE), dict.fromkeys(METRICS, (0.0,) * len(LOSSES))
    for images in (True, False):
        design = Design(spread=0.5)
        share = share_with_holds(np.random.default_rng(4), claims, design, equal, cells, images=images)
        tests = "seeds and images" if images else "seeds alone, as without kept ranks"
        yield Row("12 claims about equal losses", "%", 100 * share, 100 * claims.level, "level of the page", note=tests)


def truths(paper: Truth) -> dict[str, Truth]:
    everywhere = len(paper)
    return {
        "no effect: all losses alike": without_effects(paper),
        "NT-Xent, Triplet equal in one cell": equal_in(paper, ("triplet", "nt_xent"), 1, ("i2t_average_recall",)),
        "NT-Xent equal in two of four": equal_in(paper, ("nt_xent",), 2),
        "NT-Xent equal everywhere": equal_in(paper, ("nt_xent",), everywhere),
        "all but SmoothAP equal everywhere": equal_in(paper, ("triplet", "nt_xent"), everywhere),
    }


def held(claims: Claims, cells: Groups) -> set[str]:
    return {one.claim.id for one in decide_claims(claims, cells) if one.outcome is Outcome.HOLDS}
