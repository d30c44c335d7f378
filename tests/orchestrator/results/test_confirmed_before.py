"""A confirmation that version 0.1.0 finished keeps its winners, verdicts and p-values to the last digit."""

from pathlib import Path

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.results.answers import Summary

JOURNAL = Path(__file__).parents[2] / "fixtures" / "confirmed_search" / "journal.jsonl"

# What version 0.1.0 wrote into summary.json: dataset -> winner, the training whose model it is, its rsum on test.
WINNERS = {
    "pets": ("pets-vsepp-nt_xent-0000", "pets-vsepp-nt_xent-0000-seed2", 437.4200000000001),
    "birds": ("birds-vsepp-nt_xent-0000", "birds-vsepp-nt_xent-0000-seed2", 377.4200000000001),
}
VERDICTS = {"pets": "tie", "birds": "better"}

# Other candidate -> the word on the winner; then the difference, its 95 % interval, Welch's p, and p of the pair.
PAIRS = {
    "pets-vsepp-triplet_sh-0000": (
        "tie",
        (2.8600000000001273, -0.2943038991492246, 6.014303899149479, 0.06967224247425706, 0.06967224247425706),
    ),
    "birds-vsepp-nt_xent-0001": (
        "better",
        (3.900000000000091, 1.3489526799365916, 6.451047320063591, 0.007951969684619841, 0.007951969684619841),
    ),
    "birds-vsepp-triplet_sh-0000": (
        "better",
        (12.860000000000127, 9.705696100850776, 16.01430389914948, 1.755131369301082e-05, 1.755131369301082e-05),
    ),
}


def test_a_confirmation_of_version_0_1_0_has_its_winners_verdicts_and_p_values() -> None:
    summary = Summary(History.of(read_journal(JOURNAL)))
    assert set(summary.winners) == set(WINNERS)
    assert all(winner.confirmed for winner in summary.winners.values())
    winners = {
        name: (found.trial, found.model.id, (found.test or {})["rsum"]) for name, found in summary.winners.items()
    }
    assert winners == WINNERS
    assert {dataset: verdict.verdict for dataset, verdict in summary.verdicts.items()} == VERDICTS
    pairs = [pair for verdict in summary.verdicts.values() for pair in verdict.pairs]
    assert {pair.second for pair in pairs} == set(PAIRS)
    for pair in pairs:
        word, numbers = PAIRS[pair.second]
        assert pair.verdict == word and pair.interval is not None
        found = (pair.difference, *pair.interval, pair.comparison.p, pair.p)
        # Later digits are those of the processor's mathematics.
        assert found == pytest.approx(numbers, rel=1e-12, abs=0)
