"""Sentences about a verdict for people: the compared candidates, the findings, and what would change the verdict."""

from collections.abc import Sequence

from orchestrator.results.candidates import Candidate, Comparison, OverImages, Verdict
from orchestrator.results.comparisons import Rules
from orchestrator.results.statistics import POWER
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


def what_would_change(comparison: Comparison, level: float) -> str:
    """Return a sentence about the differences that a comparison finds at the level of the verdict, and with more data.

    Args:
        comparison: A comparison that was tested.
        level: The level at which the winner must beat each candidate.
    """
    found, images = comparison.detectable, comparison.over_images
    assert found is not None
    more = f"; with twice the seeds it is {found.with_twice_the_seeds:.3g}"
    if found.on_twice_the_images is not None:
        more += f", on twice the test images {found.on_twice_the_images:.3g}"
    return (
        f"against {comparison.label!r} the smallest detectable difference is {found.smallest:.3g} "
        f"(found in {POWER:.0%} of studies, p <= {level:.2g}){more}{_seeds_needed(comparison)}{_uncertainty(images)}"
    )


def _seeds_needed(comparison: Comparison) -> str:
    """Return how many seeds would detect the measured difference of a tie."""
    found = comparison.detectable
    if found is None or comparison.verdict is not Verdict.TIE or comparison.difference <= 0:
        return ""
    if found.seeds is not None:
        return f"; {found.seeds} seeds of each, planned at once, would detect {comparison.difference:.3g}"
    return f"; no affordable number of seeds would detect {comparison.difference:.3g}"


def _uncertainty(images: OverImages | None) -> str:
    if images is None:
        return ""
    return (
        f"; {images.share_of_images:.0%} of the uncertainty comes from the choice of test images, "
        f"{images.share_of_seeds:.0%} from the seeds"
    )
