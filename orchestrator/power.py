"""What a tie is worth: how often a real lead would have been found with so many seeds.

Simulated with normal values of equal spread, a lead of 3 standard deviations, and the rules of ``verdicts.py`` (4,000
studies each; 2 candidates for one comparison, 4 for two).
"""

FOUND = {1: {2: 0.16, 3: 0.60, 4: 0.89, 5: 0.97}, 2: {2: 0.06, 3: 0.39, 4: 0.77, 5: 0.93}}
"""Comparisons -> seeds -> share of the studies in which the winner is called better."""

ENOUGH = 5
"""Seeds with which nine in ten such leads are found."""


def weakness_of_tie(comparisons: int, seeds: int) -> str | None:
    """Return a sentence about a tie after so few seeds that it says little, or ``None`` where they are enough.

    Args:
        comparisons: That were tested, >= 1.
        seeds: Of the candidate that has the fewest, >= 2.
    """
    found = FOUND[min(comparisons, max(FOUND))]
    if seeds >= ENOUGH:
        return None
    at_most = "at most " if comparisons > max(FOUND) else ""
    return (
        f"a tie after {seeds} seeds says little: a lead of 3 standard deviations is found in "
        f"{at_most}{found[seeds]:.0%} of such studies, with {ENOUGH} seeds in {found[ENOUGH]:.0%}"
    )
