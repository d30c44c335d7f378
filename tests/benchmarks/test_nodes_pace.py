"""Paces come from the times of the journal."""

from tests.benchmarks.nodes import on_paper, seconds_a_trial, steady_seconds

ENDS = [0.0, 10.0, 11.0, 12.0, 13.0, 14.0]
RECORDS = [
    {"kind": "epoch", "trial": str(number), "state": "finished", "time": time} for number, time in enumerate(ENDS)
]


def test_paces_count_the_first_epoch_and_leave_out_the_start() -> None:
    assert seconds_a_trial(RECORDS, 4.0) == (14.0 + 4.0) / 6
    assert steady_seconds(RECORDS) == 1.0


def test_the_driver_is_the_bottleneck_of_short_trials() -> None:
    driver, *rows = on_paper(0.25)
    assert "16.0 s" in driver.note
    assert [row.ours for row in rows] == [0.25, 60 / 64, 600 / 64]
    assert ["the driver" in row.note for row in rows] == [True, False, False]
