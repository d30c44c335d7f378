"""What a tie is worth: how often a real lead would have been found with so many seeds.

Simulated with normal values of equal spread, a lead of 3 standard deviations, and the rules of ``verdicts.py`` (4,000
studies each; 2 candidates for one comparison, 4 for two, 6 with a rival for three).
"""

FOUND = {
    1: {2: 0.16, 3: 0.60, 4: 0.89, 5: 0.97},
    2: {2: 0.06, 3: 0.39, 4: 0.77, 5: 0.93},
    3: {2: 0.04, 3: 0.31, 4: 0.69, 5: 0.89},
}
"""Comparisons -> seeds -> share of the studies in which the winner is called better."""

ENOUGH = 5
"""Seeds with which nine in ten such leads are found."""


def weakness_of_tie(comparisons: int, seeds: int) -> str | None:
    """Return a sentence about a tie after so few seeds that it says little, or ``None`` where they are enough.

    Args:
        comparisons: That were tested, 1 to 3.
        seeds: Of the candidate that has the fewest, >= 2.
    """
    found = FOUND[comparisons]
    if seeds >= ENOUGH:
        return None
    return (
        f"a tie after {seeds} seeds says little: a lead of 3 standard deviations is found in {found[seeds]:.0%} of "
        f"such studies, with {ENOUGH} seeds in {found[ENOUGH]:.0%}"
    )
