"""How often verdicts err, where the truth is known: simulated studies, and halves of Flickr8k.

    python -m tests.benchmarks verdicts                             # 400 studies a case, to a percent or so
    python -m tests.benchmarks verdicts --studies 5000 --splits 0   # simulated alone, with more digits
    python -m tests.benchmarks verdicts --data-root DATA            # with Flickr8k from there

A row is a share of studies in percent in which the rule of ``confirm.verdict: seeds_and_images`` errs, beside the same
share of another rule: ``seeds``, which takes the test images for the world, or the crossed bootstrap, which draws seeds
and images again. Val and test of a simulated study share the models and have images of their own. Effects of seeds, and
of seed and image together, are in units of the error that images give a difference; see ``tests/support/crossed_runs``.

On Flickr8k nothing is simulated: canonical correlation analysis, fitted on 3,000 images (or, as a model with a seed, on
a random half of them), is judged on 500 of the other 5,000 images. Its 95 % interval is that of the difference of two
models; it should hold what other seeds say on 500 other images, as often as the errors of both together promise.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, permutations
from pathlib import Path

import numpy as np

from orchestrator.results.crossed import crossed_test
from orchestrator.results.question import Verdict
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import DifferenceTest
from orchestrator.results.verdict import LEVEL, DatasetVerdict, judge
from tests.benchmarks.closed_form import Pairs, fit, read_pairs
from tests.benchmarks.flickr8k import NAME, SHARED
from tests.benchmarks.rows import Row
from tests.support.crossed_runs import Effects, candidates_of, draw_runs
from trainables.metric_values import image_values
from trainables.ranks import Ranks

RESAMPLES = 999
"""Of the crossed bootstrap."""

TRUST = (0.5, 0.7, 0.9, 0.98, 1.0)
"""Ends of the ranges in which a stated probability is compared with how often it came true."""

PAIRS = {
    "images alone": (Effects(seeds=0.0), (5, 5)),
    **{f"seeds and images, {count} seeds": (Effects(), (count,) * 2) for count in (2, 3, 5)},
    **{f"seeds most, {count} seeds": (Effects(seeds=8.0), (count,) * 2) for count in (2, 3, 5)},
    **{
        f"one spread 4 times the other, {count} seeds": (Effects(seeds=3.0, spreads=(4.0, 1.0)), (count,) * 2)
        for count in (3, 5)
    },
    **{f"one without seeds, {count} seeds": (Effects(seeds=3.0), (count, 0)) for count in (3, 5)},
}
"""Two candidates without a difference, compared once: what the test alone does, beside the crossed bootstrap."""

SIZES = {f"{count} candidates, {seeds} seeds": (seeds,) * count for count, seeds in ((2, 3), (2, 5), (4, 5), (12, 5))}

STUDIES = {
    **{case: (Effects(), seeds) for case, seeds in SIZES.items()},
    "2 candidates, 5 seeds, seeds most": (Effects(seeds=8.0), (5,) * 2),
    "2 candidates, spread 4 times": (Effects(spreads=(4.0, 1.0)), (5,) * 2),
    "12 candidates, a quiet baseline": (Effects(spreads=(4.0,) * 11 + (1.0,)), (5,) * 12),
    "2 candidates, one without seeds": (Effects(), (5, 0)),
}
"""Whole confirmations without a difference, from the choice of the winner on val to the verdict."""

LEADS = {case: (Effects(lead=5.0), seeds) for case, seeds in SIZES.items()}
"""Whole confirmations in which the first candidate is five errors of the images better than all others."""

MODELS = ((32, 0.1), (64, 0.1), (64, 1.0))
"""Dimensions and ridge of what is judged on Flickr8k."""

FITTED, SET, SEEDS = 3000, 500, 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--studies", type=int, default=400, help="of each simulated case; 0 leaves them out")
    parser.add_argument("--splits", type=int, default=2, help="random splits of Flickr8k; 0 leaves it out")
    parser.add_argument("--data-root", type=Path, help="holds flickr8k; by default what lies beside the checkout")


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.studies:
        yield from simulated_rows(options.studies)
    folder = (options.data_root or SHARED) / NAME
    if options.splits and folder.is_dir():
        yield from flickr8k_rows(read_pairs(folder, dimensions=128), options.splits)


def simulated_rows(studies: int) -> Iterator[Row]:
    """Return how often verdicts err on runs whose effects are known."""
    for case, (effects, seeds) in PAIRS.items():
        yield pair_row(case, effects, seeds, studies)
    for case, (effects, seeds) in STUDIES.items():
        yield study_row(f"not a tie: {case}", effects, seeds, studies, lambda one: one is not Verdict.TIE)
    for case, (effects, seeds) in LEADS.items():
        yield study_row(f"lead missed: {case}", effects, seeds, studies, lambda one: one is not Verdict.BETTER)
    for spread in (0.5, 1.0, 2.0):
        yield trust_row(spread, studies)


def pair_row(case: str, effects: Effects, seeds: tuple[int, ...], studies: int) -> Row:
    """Return how often two candidates without a difference are called different."""
    generator = np.random.default_rng(1)
    ours = bootstrap = 0
    for _ in range(studies):
        (runs,) = draw_runs(generator, effects, seeds)
        test = crossed_test(runs[0], runs[1])
        assert test is not None
        ours += test.p <= LEVEL
        bootstrap += bootstrap_p(generator, runs[0], runs[1]) <= LEVEL
    shares = [100 * count / studies for count in (ours, bootstrap)]
    return Row(f"different: {case}", "%", *shares, "crossed bootstrap", note=f"level {LEVEL:.1%}")


def bootstrap_p(generator: np.random.Generator, first: np.ndarray, second: np.ndarray) -> float:
    """Return the two-sided p-value of a bootstrap that draws seeds and images, each with replacement."""
    images = first.shape[1]
    weights = generator.multinomial(images, np.full(images, 1 / images), RESAMPLES) / images
    means = []
    for runs in (first, second):
        drawn = generator.multinomial(len(runs), np.full(len(runs), 1 / len(runs)), RESAMPLES) / len(runs)
        means.append(((drawn @ runs) * weights).sum(1))
    below = float((means[0] <= means[1]).mean())
    return 2 * min(below, 1 - below)


def study_row(
    case: str, effects: Effects, seeds: tuple[int, ...], studies: int, errs: Callable[[Verdict], bool]
) -> Row:
    """Return how often whole confirmations come to a wrong verdict, by both rules."""
    generator = np.random.default_rng(2)
    wrong = np.zeros(2)
    for _ in range(studies):
        val, test = draw_runs(generator, effects, seeds, splits=2)
        candidates = candidates_of(val, test, seeds)
        wrong += [errs(judged(candidates, over_images).verdict) for over_images in (True, False)]
    return Row(case, "%", *(100 * wrong / studies).tolist(), "seeds alone")


def judged(candidates: Sequence[Runs], over_images: bool) -> DatasetVerdict:
    """Judge one study, whose last candidate is the baseline; the intervals of the means decide nothing."""
    return judge(candidates, baseline=candidates[-1].label, over_images=over_images)


def trust_row(spread: float, studies: int) -> Row:
    """Return how often the winner is not better than the runner-up although 0.9 to 0.98 is said."""
    generator = np.random.default_rng(3)
    told, true = [], []
    for _ in range(studies):
        worth = spread * generator.standard_normal(4)
        val, test = draw_runs(generator, Effects(), (5,) * 4, splits=2)
        runs = [[one + better for one, better in zip(split, worth, strict=True)] for split in (val, test)]
        verdict = judged(candidates_of(*runs, (5,) * 4), over_images=True)
        assert verdict.winner is not None
        winner, second = (int(one.label[1:]) for one in verdict.candidates[:2])
        found = verdict.pairs[0].comparison.test
        assert found is not None
        told.append(found.probability_beyond(0.0))
        true.append(worth[winner] > worth[second])
    ranges = list(pairwise(TRUST))
    shares = [came_true(np.array(told), np.array(true), low, high) for low, high in ranges]
    words = ", ".join(f"{low:g} to {high:g}: {one:.2f}" for (low, high), one in zip(ranges, shares, strict=True))
    promised = 100 * (1 - (TRUST[2] + TRUST[3]) / 2)
    case = f"said 0.9 to 0.98, untrue: spread {spread:g}"
    return Row(case, "%", 100 * (1 - shares[2]), promised, "what was said", note=f"came true where said {words}")


def came_true(told: np.ndarray, true: np.ndarray, low: float, high: float) -> float:
    """Return the share of the statements within a range of probabilities that are true; 1 where there are none."""
    within = (told >= low) & (told < high)
    return float(true[within].mean()) if within.any() else 1.0


def flickr8k_rows(pairs: Pairs, splits: int) -> Iterator[Row]:
    """Return how often a 95 % interval misses, with seeds and without, beside seeds alone and images alone."""
    generator = np.random.default_rng(4)
    order = generator.permutation(len(pairs.images))
    fitted, held = order[:FITTED], order[FITTED:]
    sets = [part for _ in range(splits) for part in generator.permutation(held).reshape(-1, SET)]
    halves = [[generator.choice(fitted, FITTED // 2, replace=False) for _ in range(2 * SEEDS)] for _ in MODELS]
    with_seeds = [
        np.stack([values_on(pairs, one, model, sets) for one in of]) for model, of in zip(MODELS, halves, strict=True)
    ]
    without = [values_on(pairs, fitted, model, sets)[None] for model in MODELS]
    per_split = len(held) // SET
    variances: tuple[Callable[[DifferenceTest], float], ...] = (
        lambda test: test.error**2,
        lambda test: test.seed_variance + test.joint_variance,
    )
    for case, runs, groups in (
        ("3 seeds", with_seeds, (slice(0, SEEDS), slice(SEEDS, None))),
        ("without seeds", without, (slice(0, 1), slice(0, 1))),
    ):
        tests = list(compared(runs, groups, per_split))
        shares = [100 * np.mean([not agrees(*two, variance) for two in tests]) for variance in variances]
        other, against = (shares[1], "seeds alone") if case == "3 seeds" else (None, "")
        note = f"promised 5 %; {len(tests):,} comparisons of {len(sets)} sets of {SET} images"
        yield Row(f"Flickr8k, interval misses: {case}", "%", shares[0], other, against, note=note)
    alone = [one - other for one, other in compared_alone(without, per_split)]
    missed = 100 * float(np.mean(np.abs(alone) > 1.96))
    width = float(np.sqrt(np.mean(np.square(alone))))
    yield Row("Flickr8k, interval misses: one model", "%", missed, None, "", note=f"spread {width:.2f} of what is said")


def values_on(pairs: Pairs, images: np.ndarray, model: tuple[int, float], sets: Sequence[np.ndarray]) -> np.ndarray:
    """Fit a model and return rsum per image on each set, shape (sets, SET)."""
    import torch

    from trainables.positive_ranks import rank_positives

    dimensions, ridge = model
    fitted = fit(pairs.at(images), ridge=ridge, dimensions=dimensions)
    owner = np.repeat(np.arange(SET, dtype=np.int32), 5)
    found = []
    for part in sets:
        vectors = [torch.from_numpy(one) for one in fitted.vectors(pairs.at(part))]
        i2t, t2i = (one.numpy().astype(np.int32) for one in rank_positives(*vectors, torch.from_numpy(owner).long()))
        found.append(image_values(Ranks(i2t, t2i, owner, "", "test"), "rsum"))
    return np.stack(found)


def compared(
    runs: Sequence[np.ndarray], groups: tuple[slice, slice], per_split: int
) -> Iterator[tuple[DifferenceTest, DifferenceTest]]:
    """Yield two tests of the same two models: on disjoint sets of images, with seeds of their own if there are any."""
    for first, second in combinations(runs, 2):
        for start in range(0, first.shape[1], per_split):
            places = range(start, start + per_split)
            tests = [[crossed_test(first[group, place], second[group, place]) for place in places] for group in groups]
            for one, other in permutations(range(per_split), 2):
                left, right = tests[0][one], tests[1][other]
                assert left is not None and right is not None
                yield left, right


def compared_alone(runs: Sequence[np.ndarray], per_split: int) -> Iterator[tuple[float, float]]:
    """Yield the rsum of one model on two disjoint sets of images, in errors of their difference."""
    for (values,) in runs:
        for start in range(0, len(values), per_split):
            for one, other in combinations(values[start : start + per_split], 2):
                error = np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / SET)
                yield float(one.mean() / error), float(other.mean() / error)


def agrees(one: DifferenceTest, other: DifferenceTest, variance: Callable[[DifferenceTest], float]) -> bool:
    """Say whether two differences are within what their errors allow 95 % of the time."""
    return bool(abs(one.difference - other.difference) <= 1.96 * np.sqrt(variance(one) + variance(other)))
