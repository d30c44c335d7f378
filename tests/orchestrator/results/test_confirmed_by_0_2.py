"""Confirmations that version 0.2 finished keep their words, or their answers have one sentence that says why not."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.results.answers import Summary, dataset_answers
from orchestrator.results.verdict import WHICH_COEFFICIENTS, WHICH_LOSS

FOLDER = Path(__file__).parents[2] / "fixtures" / "confirmed_search"
SAID: dict[str, Any] = json.loads((FOLDER / "said.json").read_text())
CHOICE = "An interval is of its pair alone; p also counts the choice of the winner among its candidates."


def says_why(before: str, now: str, notes: Iterable[str], limits: Iterable[str]) -> bool:
    """Say whether notes of an answer, or limits of a verdict, have the reason for another word."""
    if (before, now) == ("better", "tie"):
        return CHOICE in notes
    return (before, now) == ("untested", "tie") and any(", and a test needs two" in limit for limit in limits)


@pytest.mark.parametrize("name", SAID)
def test_a_confirmation_of_version_0_2_has_its_words_or_says_why_not(name: str) -> None:
    summary = Summary(History.of(read_journal(FOLDER / f"{name}.jsonl")))
    assert set(summary.verdicts) == set(SAID[name])
    found: Counter[bool] = Counter()
    for dataset, verdict in summary.verdicts.items():
        said = SAID[name][dataset]
        assert verdict.winner is not None
        assert (verdict.winner.label, verdict.level, verdict.decided_by) == (
            said["winner"],
            said["level"],
            said["decided_by"],
        )
        answers = {answer.key: answer for answer in dataset_answers(summary, dataset)}
        answers[WHICH_LOSS] = answers.get("setting") or answers.get(WHICH_LOSS)  # type: ignore[assignment]
        words = [(key, word, answers[key].verdict) for key, word in said["answers"].items()]
        for label, word in said["pairs"].items():
            is_own = any(other.label == label for other in verdict.others(WHICH_COEFFICIENTS))
            pair = verdict.pair_of.get(label)
            # Of a candidate that lost its seeds there is no pair.
            words += [(WHICH_COEFFICIENTS if is_own else WHICH_LOSS, word, str(pair.verdict))] if pair else []
            assert pair is not None or word == "untested"
        for key, before, now in words:
            told = says_why(before, now, answers[key].notes, verdict.warnings)
            assert before == now or told, (dataset, key, before, now)
            found[before == now] += 1
    assert found[True] > 0
    assert (found[False] > 0) is (name != "better")
