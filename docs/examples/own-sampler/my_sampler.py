import random

from search_spaces import Range
from trainables.plugins import sampler


@sampler()
def nearby(study, seed):
    """Steps around the best point so far, shorter from trial to trial."""
    chance = random.Random(seed)
    known = [trial for trial in study.trials if trial.best is not None]
    if len(known) < 4:
        return {}
    best, length = max(known, key=lambda trial: trial.best), 0.3 * (1 - study.number / study.size)
    point = {}
    for name, bound in study.bounds.items():
        if isinstance(bound, Range):
            share = bound.share_of(best.params[name]) + chance.gauss(0, length)
            point[name] = bound.at(min(max(share, 0), 1))
    return point
