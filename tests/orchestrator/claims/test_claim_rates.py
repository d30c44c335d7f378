"""A false claim of each kind, on its bound, is called true in at most 5 % of pages, over seeds and images."""

import numpy as np
import pytest
from scipy import stats

from tests.support.claim_rates import CASES, LOSSES, METRICS, TWELVE, Design, page_of, share_with_holds

PAGES = 100
MOST = stats.binom.ppf(0.999, PAGES, 0.05) / PAGES


@pytest.mark.parametrize("kind", list(CASES))
def test_a_false_claim_seldom_holds_and_a_clear_one_does(kind: str) -> None:
    case = CASES[kind]
    claims, design = page_of([case.part]), case.designs[-2 if kind in ("same_best", "opposed") else 0]
    for number, means in enumerate(case.false):
        assert share_with_holds(np.random.default_rng(number), claims, design, means, PAGES) <= MOST, number
    assert share_with_holds(np.random.default_rng(9), claims, case.designs[0], case.true, 20) >= 0.8


@pytest.mark.parametrize("likeness", [-0.9, 0.9])
def test_metrics_of_the_same_trainings_do_not_oppose_each_other_by_chance(likeness: float) -> None:
    claims, equal = page_of([CASES["opposed"].part]), dict.fromkeys(METRICS, (0.0,) * len(LOSSES))
    design = Design(spread=2.0, likeness=likeness)
    assert share_with_holds(np.random.default_rng(1), claims, design, equal, PAGES) <= MOST


def test_images_that_do_not_vary_would_make_equal_losses_differ() -> None:
    claims, equal = page_of(TWELVE), dict.fromkeys(METRICS, (0.0,) * len(LOSSES))
    design = Design(spread=0.5)
    with_images, without = (
        share_with_holds(np.random.default_rng(2), claims, design, equal, PAGES, images=images)
        for images in (True, False)
    )
    assert with_images <= MOST < 0.3 < without
