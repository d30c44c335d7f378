"""A search of trials that cost nothing: all of them end well, and the driver does not grow with them."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.trial import TrialState
from tests.benchmarks import many_trials, throughput
from tests.benchmarks.throughput import STEEPEST, Measurement, Sample, growth_rows, measure, watch
from tests.support.child_process import running

TRIALS = 150


@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason=f"{sys.platform} has no smaps_rollup")
def test_many_trials_end_well_and_leave_little_behind(tmp_path: Path) -> None:
    # The epochs sleep, so that the driver is looked at many times, however fast the machine is.
    found = measure("ours", TRIALS, 2, tmp_path, seconds=0.05)
    history = History.of(read_journal(tmp_path / "tiny" / "journal.jsonl"))
    states = [trial.state for trial in history.trials.values()]
    assert len(states) == found.trials == TRIALS
    assert set(states) == {TrialState.FINISHED, TrialState.STOPPED_EARLY}
    # Pools of Ray and MLflow still fill in the first few hundred trials; 5,000 are measured by the benchmark.
    assert found.kilobytes_a_trial is not None and found.kilobytes_a_trial < SLACK * STEEPEST
    assert found.delivering_a_trial > 0


SLACK = 3


@pytest.mark.proof
def test_a_driver_is_watched_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line counts once it is whole, also one that is written between the last look and the end of the process."""
    counted = tmp_path / "journal"
    with running([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:

        def write(text: str, ends: bool = False) -> None:
            with counted.open("a") as file:
                file.write(text)
            if ends:
                process.communicate(b"\n")

        between: list[Callable[[], None]] = [
            lambda: write('{"state":"finished"}\n{"state":"stopped_early"'),
            lambda: write("}\n{}\n"),
            lambda: write('{"state":"failed"}\n{"state":"diverged"}\n', ends=True),
        ]
        monkeypatch.setattr(throughput.time, "sleep", lambda seconds: between.pop(0)())
        samples = watch(process, counted)
    assert [sample.ended for sample in samples] == [0, 1, 2, 4] and not between
    assert samples[-1].kilobytes == samples[-2].kilobytes > 0


def test_pace_and_slope_are_those_of_the_samples() -> None:
    samples = [
        Sample(0.0, 0, 900.0),
        Sample(5.0, 0, 1000.0),
        *(Sample(6.0 + n, 10 * n, 2000 + 70 * n) for n in range(1, 11)),
    ]
    found = Measurement("ours", (*samples, Sample(98.0, 100, 2700.0, 9.0, 5.0), Sample(99.0, 100, 2700.0, 9.0)))
    assert found.seconds_a_trial == pytest.approx(0.1)
    assert found.kilobytes_a_trial == pytest.approx(7.0)
    assert found.delivering_a_trial == pytest.approx(0.05)
    assert [row.ours for row in growth_rows("", found, STEEPEST)] == [pytest.approx(7.0)]


def test_a_run_too_short_for_a_slope_has_none() -> None:
    # A fast machine ends a tiny run between two looks: all of its trials, or those after the warm-up, at once.
    at_once = Measurement("ours", (Sample(0.0, 0, 900.0), Sample(0.5, 1, 950.0), Sample(1.0, 20, 990.0)))
    once_between = Measurement("ours", (*at_once.samples[:2], Sample(0.7, 9, 960.0), at_once.samples[-1]))
    for found in (at_once, once_between):
        assert found.kilobytes_a_trial is None and not list(growth_rows("", found, STEEPEST))
        rows = list(many_trials.rows("", found, 1.0, ""))
        assert rows and all(math.isfinite(row.ours) for row in rows)


def test_the_processor_is_counted_from_the_first_trial_to_the_last() -> None:
    # Two seconds a trial in the first half, four in the second; what comes after the last trial counts apart.
    taken = [0.0, 50.0, *(50 + 2 * n for n in range(1, 11)), *(70 + 4 * n for n in range(1, 11)), 500.0]
    ended = [0, 0, *range(1, 21), 20]
    samples = [Sample(float(at), *pair) for at, pair in enumerate(zip(ended, [1.0] * 23, taken, strict=True))]
    found = Measurement("ours", tuple(samples))
    assert found.processor_a_trial(0.05, 0.5) == pytest.approx(2.0)
    assert found.processor_a_trial(0.5, 1.0) == pytest.approx(4.0)
    assert found.processor_a_trial() == pytest.approx((110 - 52) / 19)
    assert found.seconds_after == 1.0
