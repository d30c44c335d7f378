"""Trials per GPU from measured memory: numbers in, a share out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.experiment.sections import Resources
from orchestrator.machines.gpu_share import (
    CONTEXT_BYTES,
    MARGIN,
    MOST,
    choose_share,
    describe_fusion,
    describe_limit,
    share_after_oom,
)
from trainables import cost

GIB = 2**30


@pytest.mark.parametrize(
    ("footprints", "share"),
    [
        ([], 1.0),
        ([(4 * GIB, 20 * GIB)], 0.3333),
        ([(30 * GIB, 80 * GIB)], 0.5),
        ([(60 * GIB, 80 * GIB)], 1.0),
        ([(90 * GIB, 80 * GIB)], 1.0),
        ([(GIB // 10, 80 * GIB)], 0.125),
        ([(GIB // 10, 80 * GIB), (30 * GIB, 80 * GIB)], 0.5),
        ([(4 * GIB, 80 * GIB), (4 * GIB, 20 * GIB)], 0.3333),
    ],
    ids=["nothing", "three", "two", "one", "more than there is", "at most eight", "largest trial", "smallest GPU"],
)
def test_the_largest_trials_fit_beside_each_other(footprints: list[tuple[int, int]], share: float) -> None:
    assert choose_share(footprints) == share


@pytest.mark.parametrize(
    ("share", "halvings", "widened"),
    [
        (0.0625, 0, 0.0625),
        (0.0625, 1, 0.125),
        (0.0625, 3, 0.5),
        (0.0625, 9, 1.0),
        (0.3333, 1, 1.0),
        (0.2, 1, 0.5),
        (0.4, 0, 0.4),
        (0.4, 1, 1.0),
        (1.0, 1, 1.0),
        (2.0, 1, 2.0),
        (0.0, 3, 0.0),
    ],
)
def test_half_as_many_share_a_gpu_after_each_want_of_memory(share: float, halvings: int, widened: float) -> None:
    assert share_after_oom(share, halvings) == widened


@given(st.lists(st.tuples(st.integers(0, 100 * GIB), st.integers(1, 100 * GIB)), min_size=1, max_size=5))
def test_what_shares_a_gpu_fits_on_it(footprints: list[tuple[int, int]]) -> None:
    share = choose_share(footprints)
    trials = round(1 / share)
    assert 1 <= trials <= MOST
    # Ray lets as many run as shares fit into a whole.
    assert int(1 / share + 1e-6) == trials
    assert share * trials <= 1
    if trials > 1:
        for peak, room in footprints:
            assert trials * (peak * MARGIN + CONTEXT_BYTES) <= room * (1 + 1e-9)


def test_the_margin_is_that_of_fused_trials() -> None:
    assert MARGIN == cost.MARGIN


@pytest.mark.parametrize(
    ("resources", "gpus", "available", "fuse", "limit"),
    [
        ({"cpus": 1}, 0.25, {"CPU": 8, "GPU": 2}, 1, None),
        ({"cpus": 1}, 0.0, {"CPU": 2}, 1, None),
        ({"cpus": 4, "max_concurrent": 2}, 0.25, {"CPU": 8, "GPU": 2}, 1, None),
        ({"cpus": 4}, 0.25, {"CPU": 10, "GPU": 2}, 1, (8, 2, 1.25)),
        ({"cpus": 4, "max_concurrent": 4}, 1.0, {"CPU": 4.0, "GPU": 2.0}, 16, None),
        ({"cpus": 4}, 1.0, {"CPU": 8.0, "GPU": 2.0}, 16, None),
        ({"cpus": 4}, 1.0, {"CPU": 6.0, "GPU": 2.0}, 16, (32, 16, 3)),
        ({"cpus": 4, "max_concurrent": 17}, 1.0, {"CPU": 6.0, "GPU": 2.0}, 16, (17, 16, 3)),
    ],
    ids=[
        *("enough", "no GPU", "fewer asked for", "too few CPUs", "fused, fewer asked for", "fused, enough"),
        *("fused, too few CPUs", "fused, too few CPUs for those asked for"),
    ],
)
def test_cpus_that_limit_gpus_are_named(
    resources: dict[str, float],
    gpus: float,
    available: dict[str, float],
    fuse: int,
    limit: tuple[int, int, float] | None,
) -> None:
    message = describe_limit(Resources.model_validate(resources), gpus, available, fuse)
    if limit is None:
        assert message is None
    else:
        numbers = "take {} trials at a time, but {:g} CPUs let {} run at .*cpus=4; .*cpus={:g}$"
        assert re.search(numbers.format(limit[0], available["CPU"], *limit[1:]), message or "")


@pytest.mark.parametrize(
    ("fusions", "message"),
    [
        ({}, None),
        ({"vsepp": 16}, None),
        ({"vsepp": 16, "wsabie": 16}, None),
        ({"vsrn": 1}, None),
        ({"vsepp": 16, "vsrn": 1, "wsabie": 64}, "trials are not fused, because vsrn gains .* wsabie .* with 64: "),
        ({"vsepp": 4, "wsabie": 16}, "4 trials are fused, because vsepp gains nothing .* wsabie .* fastest with 16: "),
    ],
    ids=["nothing measured", "one study", "alike", "none gains", "one gains nothing", "one gains less"],
)
def test_a_study_that_keeps_others_from_fusing_is_named(fusions: dict[str, int], message: str | None) -> None:
    described = describe_fusion(fusions)
    assert described is None if message is None else re.match(message, described or "")
