"""The power of a verdict: how often a true lead is found with a given number of candidates and seeds.

The shares are simulated (20,000 studies each) with normal values of equal spread, a lead of 3 standard deviations over
all other candidates, which do not differ, and the rules of ``verdict.py``. One comparison is with the runner-up, two
add a baseline, three add the best of another loss, where half of the candidates have the winner's loss.
"""

FOUND = {
    1: {
        2: {2: 0.15, 3: 0.61, 4: 0.88, 5: 0.97, 6: 0.99, 8: 1.0, 10: 1.0},
        4: {2: 0.11, 3: 0.46, 4: 0.78, 5: 0.93, 6: 0.98, 8: 1.0, 10: 1.0},
        12: {2: 0.07, 3: 0.32, 4: 0.65, 5: 0.86, 6: 0.96, 8: 1.0, 10: 1.0},
        48: {2: 0.05, 3: 0.22, 4: 0.51, 5: 0.75, 6: 0.90, 8: 0.99, 10: 1.0},
    },
    2: {
        4: {2: 0.04, 3: 0.33, 4: 0.72, 5: 0.91, 6: 0.98, 8: 1.0, 10: 1.0},
        6: {2: 0.02, 3: 0.23, 4: 0.60, 5: 0.86, 6: 0.96, 8: 1.0, 10: 1.0},
        12: {2: 0.01, 3: 0.12, 4: 0.42, 5: 0.72, 6: 0.90, 8: 0.99, 10: 1.0},
        24: {2: 0.0, 3: 0.05, 4: 0.27, 5: 0.59, 6: 0.81, 8: 0.98, 10: 1.0},
        48: {2: 0.0, 3: 0.03, 4: 0.16, 5: 0.42, 6: 0.70, 8: 0.95, 10: 0.99},
    },
    3: {
        4: {2: 0.04, 3: 0.31, 4: 0.71, 5: 0.90, 6: 0.98, 8: 1.0, 10: 1.0},
        6: {2: 0.02, 3: 0.20, 4: 0.58, 5: 0.85, 6: 0.95, 8: 1.0, 10: 1.0},
        12: {2: 0.0, 3: 0.09, 4: 0.37, 5: 0.69, 6: 0.88, 8: 0.99, 10: 1.0},
        24: {2: 0.0, 3: 0.04, 4: 0.21, 5: 0.49, 6: 0.75, 8: 0.97, 10: 1.0},
        48: {2: 0.0, 3: 0.02, 4: 0.11, 5: 0.32, 6: 0.58, 8: 0.90, 10: 0.99},
    },
}
"""Comparisons -> candidates -> seeds -> share of the studies in which the winner is called better."""

ENOUGH = 0.9
"""Share of true leads that must be found for a tie to be informative."""


def weakness_of_tie(comparisons: int, candidates: int, seeds: int) -> str | None:
    """Return a sentence about a tie after too few seeds to be informative, or ``None`` after enough seeds.

    Args:
        comparisons: Number of comparisons that were tested, 1 to 3.
        candidates: Number of candidates that could have won, >= 2. Between two numbers of the table, the larger number
            is taken, with which a lead is found less often; beyond the table its last number, with which a lead is
            found more often.
        seeds: Number of seeds of the candidate with the fewest seeds, >= 2.
    """
    rows = FOUND[comparisons]
    row = rows[next((count for count in rows if count >= candidates), max(rows))]
    share = row[max(count for count in row if count <= seeds)]
    if share >= ENOUGH:
        return None
    needed = next(count for count in row if row[count] >= ENOUGH)
    bound = "at most " if candidates > max(rows) else "about "
    return (
        f"a tie after {seeds} seeds says little: a lead of 3 standard deviations over the others is found "
        f"in {bound}{share:.0%} of such studies, with {needed} seeds in {bound}{row[needed]:.0%}"
    )
