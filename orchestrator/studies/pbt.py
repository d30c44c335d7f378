"""Population-based training: which trials of a study resume from another trial's model, and how [Jaderberg2017].

All trials of a study train side by side, and wait for each other after every ``perturbation_epochs`` epochs. Each of
the worst trials then takes the checkpoint of one of the best trials (exploit), and hyper-parameters near those of the
copied trial (explore). The decision depends on the journal and on seeds alone, not on the order in which trials arrive.

A trial that moved has the whole past of its model: the epochs, and a config whose schedule lists every change, so that
its training can be repeated from the start with any seed.

References:
    [Jaderberg2017] Jaderberg et al., Population Based Training of Neural Networks. arXiv:1711.09846
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from orchestrator.experiment.experiment import Cell
from orchestrator.experiment.sections import Scheduler
from orchestrator.experiment.spaces import movable
from orchestrator.journal.history import History
from orchestrator.journal.ledger import PlannedMove
from orchestrator.journal.trial import Trial, best_first
from search_spaces import Suggestion, perturb
from trainables.config import CHANGEABLE, Change, derive_seed


def waits(trial: Trial, rules: Scheduler, history: History) -> bool:
    """Say whether a trial has reached an epoch after which its population has not moved yet."""
    epoch = trial.last_epoch
    is_due = not trial.has_ended and rules.pauses_after(epoch, trial.total_epochs)
    return is_due and epoch > history.moved.get(trial.study, 0)


def moving_trials(rules: Scheduler, living: int) -> int:
    """Return how many of ``living`` trials move, which is also the number of trials that are copied."""
    return min(math.ceil(rules.quantile * living), living // 2)


def plan_moves(cell: Cell, rules: Scheduler, waiting: Sequence[Trial]) -> list[PlannedMove]:
    """Return the moves of the trials that wait after an epoch; none where the trials are too few.

    The best value so far decides; of trials with equal values the earlier trial counts as better.
    """
    ranked = best_first(waiting)
    count = moving_trials(rules, len(ranked))
    return [_plan(cell, trial, ranked[:count]) for trial in ranked[len(ranked) - count :]]


def _plan(cell: Cell, trial: Trial, best: Sequence[Trial]) -> PlannedMove:
    epoch = trial.last_epoch
    draw = Random(derive_seed(cell.seed, "population", epoch, trial.number))
    source = draw.choice(best)
    kept = set(source.params) - set(movable(cell.space))
    params, suggestion = perturb(cell.space, source.params, kept, draw)
    config = source.config
    changed = replace(config, schedule=(*config.schedule, _change(cell, epoch + 1, suggestion)))
    return PlannedMove(trial, source, params, changed)


def _change(cell: Cell, epoch: int, suggestion: Suggestion) -> Change:
    fixed = cell.space.losses[suggestion.loss].fixed
    return Change(
        epoch=epoch,
        loss_parameters={name: value for name, value in suggestion.loss_parameters.items() if name not in fixed},
        training={name: value for name, value in suggestion.training.items() if name in CHANGEABLE},
    )
