"""A race of candidates beside a fixed design of equal cost, by simulation: leads missed, and wrong verdicts.

    python -m tests.benchmarks race [--studies 20000] [--candidates 2 4 6 12] [--trainings 30]

Each study draws normal values, val and test alike (the worst case, in which the metric that is tested is the one that
selected), and goes through race and verdict. The fixed design shares the same trainings evenly among the candidates. A
cost is the share of the studies in percent, with its standard error: of those in which the best candidate leads by so
many standard deviations and the verdict is not *better*; of those without any difference whose verdict is not a tie;
and of those without a difference in which the baseline, the last candidate, is called beaten. Rows that begin with
"looks" have a fixed design that is looked at again and again as it grows, with the level spent (ours) and without.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from orchestrator.results.race import most_seeds
from orchestrator.results.spending import level_of_plan
from orchestrator.results.verdict import LEVEL
from tests.benchmarks.rows import Row
from tests.support.race_rates import Raced, draw_both, race_studies
from tests.support.study_rates import Array, Studies, judge_studies

WIDE = 4.0
"""Standard deviation of some candidates, where spreads are unequal."""

LOOKS = ((5,), (3, 5), tuple(range(3, 21)))
"""Seeds at which a growing fixed design is looked at."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """See ``command``."""
    parser.add_argument("--studies", type=int, default=20_000, help="of each row, simulated")
    parser.add_argument("--candidates", type=int, nargs="+", default=[2, 4, 6, 12, 48])
    parser.add_argument("--trainings", type=int, default=30, help="for six candidates; others in proportion")
    parser.add_argument("--leads", type=float, nargs="+", default=[1.0, 1.5, 2.0, 3.0])
    parser.add_argument("--likeness", type=float, default=1.0, help="correlation of val and test over seeds")
    parser.add_argument("--seed", type=int, default=0)


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Simulate power, then error rates."""
    for baseline in (False, True):
        for lead in options.leads:
            yield _missed(6, options, lead, baseline=baseline)
    for candidates in options.candidates:
        for name, spreads in _spreads(candidates).items():
            yield from _wrong(candidates, name, spreads, options)
    for looks in LOOKS:
        yield _growing(looks, options)


def _spreads(candidates: int) -> dict[str, Array]:
    quiet = np.r_[np.full(candidates - 1, WIDE), 1.0]
    half = np.r_[np.ones(candidates // 2), np.full(candidates - candidates // 2, WIDE)]
    return {"equal": np.ones(candidates), "quiet baseline": quiet, **({"half wide": half} if candidates > 2 else {})}


def _missed(candidates: int, options: argparse.Namespace, lead: float, *, baseline: bool) -> Row:
    """Count the leads that race and fixed design miss."""
    raced, fixed, seeds = _both(candidates, options, np.ones(candidates), lead, baseline=baseline)
    ours, other = raced.verdicts != 1, fixed.verdicts != 1
    used = f"{raced.trainings.mean():.1f} trainings, {raced.seeds.mean():.1f} seeds of the winner"
    right = f"winner right {_percent(raced.winner == 0):.1f} %"
    case = f"missed: {candidates} candidates, lead {lead:g}, {'' if baseline else 'no '}baseline"
    note = f"{_errors(ours, other)}; {used}, {right}"
    return Row(case, "%", _percent(ours), _percent(other), f"{seeds} seeds each", note=note)


def _wrong(candidates: int, name: str, spreads: Array, options: argparse.Namespace) -> Iterator[Row]:
    """Count the wrong verdicts where no candidate differs from another."""
    raced, fixed, seeds = _both(candidates, options, spreads, 0.0, baseline=True)
    for what, ours, other in (
        ("not a tie", raced.verdicts != 0, fixed.verdicts != 0),
        ("baseline beaten", raced.baseline == 1, fixed.baseline == 1),
    ):
        case = f"{what}: {candidates} candidates, {name}"
        yield Row(case, "%", _percent(ours), _percent(other), f"{seeds} seeds each", note=_errors(ours, other))


def _both(
    candidates: int, options: argparse.Namespace, spreads: Array, lead: float, *, baseline: bool
) -> tuple[Raced, Studies, int]:
    """Return races, fixed designs of at most as many trainings, and the seeds of each candidate in the latter."""
    trainings = max(2 * candidates, options.trainings * candidates // 6)
    seeds = trainings // candidates
    studies = max(1, options.studies * 6 // max(6, candidates))
    generator = np.random.default_rng([options.seed, candidates, round(10 * lead)])
    rest = {"lead": lead, "spreads": spreads, "likeness": options.likeness}
    val, test = draw_both(generator, studies, candidates, trainings, **rest)
    assert val.shape[2] == most_seeds(trainings, candidates)
    raced = race_studies(val, test, trainings, baseline=baseline)
    fixed = judge_studies(_fixed(generator, studies, candidates, seeds, lead, spreads), level=LEVEL, baseline=baseline)
    return raced, fixed, seeds


def _fixed(
    generator: np.random.Generator, studies: int, candidates: int, seeds: int, lead: float, spreads: Array
) -> Array:
    scores = spreads[:, None] * generator.standard_normal((studies, candidates, seeds))
    scores[:, 0] += lead * spreads[0]
    return scores


def _growing(looks: tuple[int, ...], options: argparse.Namespace) -> Row:
    """Look at two candidates that do not differ after so many seeds each, with the level spent and without."""
    generator = np.random.default_rng([options.seed, *looks])
    scores = generator.standard_normal((options.studies, 2, looks[-1]))
    levels = [level_of_plan(LEVEL, before) for before in range(len(looks))]
    ours, other = (
        np.any([_found(scores[..., :seeds], level) for seeds, level in zip(looks, each, strict=True)], axis=0)
        for each in (levels, [LEVEL] * len(looks))
    )
    after = " then ".join(map(str, looks)) if len(looks) < 4 else f"{looks[0]}, {looks[1]} ... {looks[-1]}"
    case, against = f"looks: not a tie after {after} seeds", "the whole level at each"
    return Row(case, "%", _percent(ours), _percent(other), against, note=_errors(ours, other))


def _found(scores: Array, level: float) -> Array:
    return judge_studies(scores, level=level, baseline=False).verdicts != 0


def _percent(those: Array) -> float:
    return 100 * float(those.mean())


def _errors(*shares: Array) -> str:
    """Return the standard errors of shares of the studies, in percent."""
    return "± " + " and ".join(f"{100 * np.sqrt(one.mean() * (1 - one.mean()) / len(one)):.2f}" for one in shares)
