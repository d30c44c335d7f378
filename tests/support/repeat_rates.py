"""Studies of repeated searches by the thousand, in arrays: how often a loss is wrongly called the best, or rightly.

A search finds a setting whose true value is the mean of its loss plus luck. Its fresh training has luck of the seed, of
which val and test share the most, and all searches of a loss meet the same test images. Val chooses the winner, which
is *better* where it beats every other loss at the level, as ``verdict.judge`` says. The test is that of ``crossed``,
with a search as the unit; ``tests/orchestrator/results/test_repeat_rates.py`` compares both. Where searches are
simulated trial by trial, the test knows the luck that all trials show (``orchestrator/results/luck.py``).

Searches by TPE are the product's, by Optuna. They take milliseconds a trial, so that studies draw theirs from a pool.
All losses draw from one pool: they are equal at this number of trials.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import optuna
from scipy.special import stdtr

from orchestrator.results.comparison import UNLIKE, UNLIKE_LUCK
from orchestrator.studies.samplers import make_sampler
from tests.support.experiments import make_experiment

Array = np.ndarray

IMAGES = 1000
"""Test images: the degrees of freedom of their part."""

SHARED = 0.8
"""Share of a seed's luck on val that its test value has as well."""


@dataclass(frozen=True)
class Design:
    """Repeated searches of some losses.

    Attributes:
        means: True mean of each loss over searches, shape (L,), in rsum.
        searches: Searches of each loss, >= 2.
        luck: Standard deviation over searches of each loss, shape (L,).
        kind: Distribution of the luck: ``normal``; ``random``, the best of ``TRIALS`` random trials on a quadratic of
            two parameters; ``stopped``, the same where the worse half of the trials was stopped after a noisy look;
            ``tpe``, the best of ``pool``, whose luck is its own: ``luck`` says nothing.
        seed: Standard deviation over seeds.
        seeds: Fresh seeds of each search, >= 1.
        image: Standard error of a loss by the choice of images, in rsum.
    """

    means: Array
    searches: int
    luck: Array
    kind: str = "normal"
    seed: float = 1.5
    seeds: int = 1
    image: float = 1.5
    pool: "Pool | None" = None


TRIALS = 12
"""Trials of each search that is simulated trial by trial."""

HIGHEST = 40
"""Most of the highest trials of a loss that can be the best of another search."""


@dataclass(frozen=True)
class Pool:
    """S searches of n trials each.

    Attributes:
        seen: Value of each trial on val, shape (S, n), -inf where it was stopped early.
        chosen: True value of the trial with the highest value, shape (S,).
    """

    seen: Array
    chosen: Array

    @property
    def luck(self) -> float:
        """Standard deviation over searches."""
        return float(self.chosen.std())


TOP = np.array([0.65, 0.3])
"""Where the best setting lies in both ranges."""

LOOK = 0.3
"""Standard deviation of a look at half the epochs, as a share of what the worst setting loses."""


@cache
def searched_by_tpe(searches: int, trials: int, fall: float, stops: str = "", seed: float = 1.5) -> Pool:
    """Search by TPE as the product does: f falls by ``fall`` rsum from its top over the length of a range, squared.

    With ``stops``, a trial ends at a look where it is not in the upper third of the looks so far (``asha``), or below
    their median (``median``).
    """
    # The sampler asks a space whether parameters depend on others; here none do.
    space = make_experiment().cells()[0].space
    generator, verbosity = np.random.default_rng([searches, trials]), optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    seen, true = np.full((searches, trials), -np.inf), np.zeros((searches, trials))
    for search in range(searches):
        study, looks = optuna.create_study(direction="maximize"), []
        for number in range(trials):
            study.sampler = make_sampler("tpe", space, search, number, trials)
            trial = study.ask()
            place = np.array([trial.suggest_float(name, 0.0, 1.0) for name in ("a", "b")])
            true[search, number] = -fall * ((place - TOP) ** 2).sum()
            looks.append(true[search, number] + LOOK * fall * generator.standard_normal())
            rank = sum(look > looks[-1] for look in looks)
            if (stops == "asha" and rank >= max(1, len(looks) / 3)) or (stops == "median" and rank > len(looks) / 2):
                trial.report(looks[-1], 1)
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                seen[search, number] = true[search, number] + seed * generator.standard_normal()
                study.tell(trial, seen[search, number])
    optuna.logging.set_verbosity(verbosity)
    return Pool(seen, np.take_along_axis(true, seen.argmax(1)[:, None], 1)[:, 0])


def lucks(design: Design, studies: int, generator: np.random.Generator) -> tuple[Array, Array | None]:
    """Return the luck of searches, shape (studies, L, R), of mean 0 and the design's standard deviations.

    Beside it is the variance over searches by their trials, shape (studies, L); ``None`` without trials.
    """
    shape, scale = (studies, len(design.means), design.searches), np.asarray(design.luck)[:, None]
    if design.pool is not None:
        picks = generator.integers(len(design.pool.chosen), size=shape)
        moved = design.pool.chosen - design.pool.chosen.mean()
        return moved[picks], _variance_of_best(design.pool.seen[picks])
    if design.kind == "normal":
        return generator.standard_normal(shape) * scale, None
    # Losses of the settings against a peak of 0, from places in a square around it.
    below = (generator.uniform(-1, 1, (*shape, TRIALS, 2)) ** 2).sum(-1)
    ended = np.full(below.shape, True)
    if design.kind == "stopped":
        looks = below + 0.3 * generator.standard_normal(below.shape)
        ended = looks <= np.median(looks, axis=-1, keepdims=True)
    best = -np.where(ended, below, np.inf).min(-1)
    true = (-below - best.mean()) / best.std() * scale[..., None]
    # The best of a search is the best by its value on val, of trials that were trained to the end.
    seen = np.where(ended, true + design.seed * generator.standard_normal(true.shape), -np.inf)
    chosen = np.take_along_axis(true, seen.argmax(-1)[..., None], -1)[..., 0]
    return chosen - chosen.mean((0, 2))[None, :, None], _variance_of_best(seen)


def _variance_of_best(seen: Array) -> Array:
    """Return the variance of the best of another search, of trials of shape (studies, L, R, n), see ``luck``."""
    support = -np.sort(-seen.reshape(*seen.shape[:2], -1), axis=-1)[..., :HIGHEST]
    # What lies below the values that are kept is not the best of any search that matters.
    kept = np.where(np.isfinite(support), support, support.max(-1, keepdims=True))
    below = np.stack([(seen <= kept[..., k, None, None]).mean(2).prod(-1) for k in range(kept.shape[-1])], -1)
    order = np.argsort(kept, axis=-1, kind="stable")
    kept, below = np.take_along_axis(kept, order, -1), np.take_along_axis(below, order, -1)
    weights = np.diff(below, axis=-1, prepend=0.0)
    weights /= weights.sum(-1, keepdims=True)
    mean = (kept * weights).sum(-1, keepdims=True)
    return np.asarray(((kept - mean) ** 2 * weights).sum(-1))


def verdicts(design: Design, studies: int, level: float, generator: np.random.Generator) -> tuple[Array, Array]:
    """Return the winner of each study, and whether it is called better than every other loss."""
    moved, shown = lucks(design, studies, generator)
    true = np.asarray(design.means)[:, None] + moved
    spread = design.seed / np.sqrt(design.seeds)
    val = true + spread * generator.standard_normal(true.shape)
    own = np.sqrt(1 - SHARED**2) * spread * generator.standard_normal(true.shape)
    test = true + SHARED * (val - true) + own + design.image * generator.standard_normal((*true.shape[:2], 1))
    winner, every = val.mean(2).argmax(1), np.arange(studies)
    difference = test.mean(2)[every, winner][:, None] - test.mean(2)
    variance = test.var(2, ddof=1) / design.searches
    luck = None if shown is None else (shown[every, winner][:, None], shown)
    p = p_values(difference, variance[every, winner][:, None], variance, design.searches, 2 * design.image**2, luck)
    beaten = (difference > 0) & (p <= level)
    beaten[every, winner] = True
    return winner, beaten.all(1)


def against_constant(design: Design, studies: int, level: float, generator: np.random.Generator) -> Array:
    """Return whether the one loss of each study is called different from a constant that equals its mean."""
    moved, shown = lucks(design, studies, generator)
    true, noise = moved[:, 0], design.seed / np.sqrt(design.seeds)
    val = true + noise * generator.standard_normal(true.shape)
    own = np.sqrt(1 - SHARED**2) * noise * generator.standard_normal(true.shape)
    of_images = 2 * design.image**2
    test = true + SHARED * (val - true) + own + np.sqrt(of_images) * generator.standard_normal((studies, 1))
    # A constant has no luck, and is known to have none.
    luck = None if shown is None else (shown[:, 0], np.zeros(studies))
    variance = test.var(1, ddof=1) / design.searches
    p = p_values(test.mean(1), variance, np.zeros(studies), design.searches, of_images, luck)
    return np.asarray((p <= level) & (test.mean(1) * val.mean(1) > 0))


def p_values(
    difference: Array,
    ours: Array,
    theirs: Array,
    searches: int,
    of_images: float,
    luck: tuple[Array, Array] | None = None,
) -> Array:
    """Return two-sided p-values from the variances of two means over searches, and that of their images.

    ``luck`` are the variances over searches of both losses by their trials.
    """
    freedom = searches - 1
    caution = 1 + (2 / freedom if of_images else 0.0)
    known = np.zeros(np.broadcast_shapes(np.shape(ours), np.shape(theirs)), dtype=bool)
    if luck is not None:
        known = np.maximum(*luck) > UNLIKE_LUCK * np.minimum(*luck)
        ours, theirs = (
            np.where(known, np.maximum(of, least / searches), of)
            for of, least in zip((ours, theirs), luck, strict=True)
        )
    total = ours + theirs + of_images
    unlike = (np.maximum(ours, theirs) > UNLIKE * np.minimum(ours, theirs)) & ~known
    of_searches = ((caution * ours) ** 2 + (caution * theirs) ** 2) / np.where(unlike, freedom / 2, freedom)
    squares = of_searches + of_images**2 / (IMAGES - 1)
    degrees = (caution * (ours + theirs) + of_images) ** 2 / squares
    return np.asarray(2 * stdtr(degrees, -np.abs(difference) / np.sqrt(total)))
