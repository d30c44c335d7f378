"""The work of an epoch, done once to measure its time and memory."""

from contextlib import suppress
from itertools import islice

from trainables.data.batches import epoch_batches
from trainables.errors import DivergedError
from trainables.losses import NotANumberError
from trainables.seeding import derive_seed, generator
from trainables.trial import Trial, train_epoch


class Rehearsal:
    """A trial whose steps and evaluations are only measured; the trial must not be trained further."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def whole(self, steps: int) -> None:
        """Do all memory-relevant work of an epoch, with ``steps`` >= 1 steps."""
        self.steps(steps)
        self.evaluation()

    def steps(self, steps: int) -> None:
        """Take the first ``steps`` >= 1 steps of an epoch, with a trained backbone if any epoch trains the backbone."""
        trial, training = self._trial, self._trial.config.training
        trial.learned.begin_epoch(trial.loss, training, 1)
        trial.model.train_backbone(training.trains_backbone(1) or training.trains_backbone(training.total_epochs))
        draw = derive_seed(trial.config.seed, "views", 1) if training.augment else None
        batches = epoch_batches(trial.train_split, training, generator(trial.config.seed, "batches", 1), draw)
        # A trial that diverges has already taken its memory.
        with suppress(DivergedError, NotANumberError):
            first = islice(batches, steps)
            train_epoch(trial.model, trial.loss, trial.optimizer, first, training.gradient_clip, 1, trial.learned)

    def evaluation(self) -> None:
        """Evaluate on val, with COCOS statistics."""
        with suppress(DivergedError, NotANumberError):
            self._trial.evaluate_on_val()
            self._trial.count_contributions()
