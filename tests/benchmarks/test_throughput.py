"""A search of trials that cost nothing: all of them end well, and the driver does not grow with them."""

import sys
from pathlib import Path

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.trial import TrialState
from tests.benchmarks.throughput import STEEPEST, Measurement, Sample, measure

TRIALS = 150


@pytest.mark.proof
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason=f"{sys.platform} has no smaps_rollup")
def test_many_trials_end_well_and_leave_little_behind(tmp_path: Path) -> None:
    # The epochs sleep, so that the driver is looked at many times, however fast the machine is.
    found = measure("ours", TRIALS, 2, tmp_path, seconds=0.05)
    history = History.of(read_journal(tmp_path / "tiny" / "journal.jsonl"))
    states = [trial.state for trial in history.trials.values()]
    assert len(states) == found.trials == TRIALS
    assert set(states) == {TrialState.FINISHED, TrialState.STOPPED_EARLY}
    # Pools of Ray and MLflow still fill in the first few hundred trials; 5,000 are measured by the benchmark.
    assert found.kilobytes_a_trial < SLACK * STEEPEST
    assert found.delivering_a_trial > 0


SLACK = 3


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
