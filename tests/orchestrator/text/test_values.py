"""Counts stand with the plural of their noun."""

import pytest

from orchestrator.text.values import count_text


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("trial", "trials"),
        ("study", "studies"),
        ("loss", "losses"),
        ("search", "searches"),
        ("batch", "batches"),
        ("epoch", "epochs"),
    ],
)
def test_a_count_has_the_plural_of_its_noun(noun: str, plural: str) -> None:
    said = [count_text(count, noun) for count in (0, 1, 2, 1200)]
    assert said == [f"0 {plural}", f"1 {noun}", f"2 {plural}", f"1,200 {plural}"]
