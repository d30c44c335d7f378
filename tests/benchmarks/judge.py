"""How often `orchestrator judge` says a wrong word on a table, by simulation, beside Welch's test of each pair at 5 %.

    python -m tests.benchmarks judge [--studies 2000]

All candidates of a table are equal; the share of tables, in percent, in which some candidate is called better or worse.
*Missed*: one candidate is better by so many standard deviations, and is not called better than each other.
"""

import argparse
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from scipy.stats import ttest_ind

from orchestrator.results.runs import Runs
from orchestrator.results.table_verdicts import VALUE, Circumstances, TableVerdict
from tests.benchmarks.rows import Row


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--studies", type=int, default=2000, help="tables of each row")


def run(options: argparse.Namespace) -> Iterator[Row]:
    for candidates in (2, 4, 8):
        for seeds in (2, 3, 5, 10):
            for name, spreads in {"": [1.0], ", one with four times the spread": [4.0, 1.0]}.items():
                spread = np.array([*spreads, *[1.0] * candidates])[:candidates]
                case = f"wrong: {candidates} candidates, {seeds} seeds{name}"
                yield _row(case, np.zeros(candidates), spread, seeds, options.studies)
    for lead in (2.0, 4.0):
        for seeds in (3, 5, 10):
            means = np.array([lead, 0.0, 0.0])
            yield _row(
                f"missed: lead {lead:g} of 3 candidates, {seeds} seeds", means, np.ones(3), seeds, options.studies
            )


def _row(case: str, means: np.ndarray, spreads: np.ndarray, seeds: int, studies: int) -> Row:
    generator = np.random.default_rng([len(means), seeds])
    count = np.zeros(2)
    for _ in range(studies):
        drawn = means[:, None] + spreads[:, None] * generator.standard_normal((len(means), seeds))
        p = [ttest_ind(*pair, equal_var=False).pvalue for pair in combinations(drawn, 2)]
        runs = [
            Runs.of_seeds(f"c{place}", {seed: {VALUE: float(value)} for seed, value in enumerate(values)})
            for place, values in enumerate(drawn)
        ]
        answer = TableVerdict("", runs, Circumstances("score")).answer()
        if case.startswith("missed"):
            best = answer.table is not None and answer.table.rows[0][0] == "c0"
            count += [
                answer.verdict != "better" or not best,
                max(p[:2]) > 0.05 or drawn[0].mean() < drawn[1:].mean(1).max(),
            ]
        else:
            assert answer.table is not None
            words = {row["verdict"] for row in answer.table.to_dict()["rows"]}
            count += [bool(words & {"better", "worse"}), min(p) <= 0.05]
    shares = (100 * count / studies).tolist()
    return Row(case, "%", *shares, "Welch at 5 % each")
