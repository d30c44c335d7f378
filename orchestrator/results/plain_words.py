"""Sentences about a verdict for people: the compared candidates, the findings, and what would change the verdict."""

from collections.abc import Sequence

from orchestrator.results.candidates import Candidate, Comparison, Verdict
from orchestrator.results.comparisons import Rules
from orchestrator.text.values import count_text


def what_was_compared(ranked: Sequence[Candidate], rules: Rules) -> str:
    """Return how many candidates with how many seeds were compared, and which metrics chose the winner and decided."""
    counts = sorted({len(one.values) for one in ranked if one.has_seeds})
    seeds = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]]))) + " fresh seeds" if counts else ""
    trained = count_text(len(ranked), "candidate") + (f", each trained with {seeds}" if seeds else "")
    without = [repr(one.label) for one in ranked if not one.has_seeds]
    images = f" on {len(ranked[0].image_runs()[0]):,} images" if rules.over_images else ""
    alone = f" ({' and '.join(without)} without seeds, as one run says all)" if without else ""
    return f"{trained}{alone}; {rules.selection} chose the winner, and {rules.metric}{images} decided"


def what_was_found(winner: str, comparison: Comparison) -> str:
    """Return a sentence about the result of a comparison, with its most important numbers."""
    words = {
        Verdict.BETTER: "is better than",
        Verdict.TIE: "is not told apart from",
        Verdict.WORSE: "won on validation but is worse than",
        Verdict.UNTESTED: "could not be tested against",
    }
    why = f": {comparison.reason}" if comparison.reason else ""
    opponent = f"{winner!r} {words[comparison.verdict]} the {comparison.roles_in_words} {comparison.label!r}"
    return f"{opponent} ({_numbers(comparison)}){why}"


def _numbers(comparison: Comparison) -> str:
    numbers = f"difference {comparison.difference:+.2f}"
    found = comparison.over_images
    if found is None:
        return numbers + (f", Welch p = {comparison.holm_p:.2g} corrected" if comparison.holm_p is not None else "")
    return (
        f"{numbers}; better on this test set: {ON_TEST_SET[found.on_this_test_set]}; "
        f"on new images of this kind: probability {share_text(found.probability)}; "
        f"by at least {found.smallest_difference:g}: {share_text(found.probability_of_smallest)}"
    )


ON_TEST_SET = {
    Verdict.BETTER: "yes",
    Verdict.TIE: "the seeds do not tell",
    Verdict.WORSE: "no, worse",
    Verdict.UNTESTED: "not tested",
}
"""Verdict -> answer to whether the winner is better on this test set, where only seeds vary."""


def share_text(probability: float) -> str:
    """Return a probability with two digits, never as 0 or 1.

    Example:
        >>> share_text(0.934), share_text(0.9996), share_text(0.001)
        ('0.93', 'above 0.99', 'below 0.01')
    """
    if probability > 0.99:
        return "above 0.99"
    return "below 0.01" if probability < 0.01 else f"{probability:.2f}"


def what_would_change(comparison: Comparison) -> str:
    """Return a sentence about the differences that a comparison over seeds and images finds, and with more of each."""
    found = comparison.over_images
    assert found is not None
    told = "is" if comparison.verdict is Verdict.TIE else "would not have been"
    missed = "not told from none" if comparison.verdict is Verdict.TIE else "told from none"
    return (
        f"against {comparison.label!r} a difference below {found.told_from:.1f} {told} {missed}: about "
        f"{found.share_of_images:.0%} of the uncertainty is the choice of the test images, {found.share_of_seeds:.0%} "
        f"the choice of the seeds, and the rest both at once; "
        f"twice the seeds would tell differences from {found.told_with_twice_the_seeds:.1f} on, "
        f"twice the test images from {found.told_on_twice_the_images:.1f} on"
    )
