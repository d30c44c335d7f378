"""The Ray actor that trains trials, one after another.

The actor knows no journal, no Optuna and no MLflow. Each step of the actor trains one epoch, whose checkpoint is on the
disk before the driver hears of the epoch. A trial begins at its own newest undamaged checkpoint, so that the trial
resumes wherever and however often it is started.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ray.tune import Trainable

from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.workload.workload import Stream, Train
from trainables.checkpoint import EpochReport
from trainables.config import TrialConfig
from trainables.errors import ConfigError, DivergedError, UserError


@dataclass(frozen=True)
class Step:
    """The answer of an actor to the driver, after an epoch or instead of an epoch.

    Attributes:
        epoch: Epochs trained so far; 0 before the first epoch.
        diverged: Which loss or metric stopped being finite, if the trial diverged.
        refused: Why the trial cannot run, if trying again would not help.
        damage: A line for each damaged checkpoint that is newer than the checkpoint from which the trial resumes.
        not_replayed: See ``EpochReport``.
    """

    epoch: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    diverged: str | None = None
    refused: str | None = None
    damage: tuple[str, ...] = ()
    not_replayed: str | None = None


class TrialActor(Trainable):
    """A Ray Tune ``Trainable`` whose steps are the epoch reports of a trial."""

    # Ray passes the config alone; ``trial_actor`` adds the other arguments.
    def setup(  # type: ignore[override]
        self, config: dict[str, Any], train: Train, checkpoints: Checkpoints, alone: Train | None = None
    ) -> None:
        """Take the first trial: ``trial`` of the config is its id, ``config`` its ``TrialConfig`` as JSON.

        ``alone`` trains a trial whose config says ``alone``, in this process rather than in an engine with others.
        """
        self._together, self._checkpoints, self._alone = train, checkpoints, alone or train
        self._stream: Stream | None = None
        self._take(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Drop the former trial, of which nothing is left, and take the next trial."""
        self.cleanup()
        self._take(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Train one epoch and write its checkpoint.

        Errors that end the trial are returned as values: Ray would pass an exception on as the text of a traceback.
        """
        try:
            return {"step": self._next()}
        except DivergedError as error:
            return {"step": Step(error.epoch, diverged=str(error))}
        except UserError as error:
            return {"step": Step(refused=str(error))}

    def cleanup(self) -> None:
        """End the stream, so that the model, optimiser and open files of one trial are freed before the next trial."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _take(self, config: dict[str, Any]) -> None:
        # The data are opened in ``step``, which returns an error as a sentence. An error in ``setup`` would reach the
        # driver as the text of a traceback.
        self._trial = TrialConfig.from_dict(json.loads(config["config"]))
        self._id, self._train_trial = config["trial"], self._alone if config.get("alone") else self._together

    def _next(self) -> Step:
        if self._stream is None:
            checkpoint, damage = self._checkpoints.find(self._id)
            self._stream = self._train_trial(self._trial, checkpoint)
            report = next(self._stream)
            # A resumed trial first reports the epoch of its checkpoint again, which needs no second checkpoint.
            is_saved = checkpoint is not None
        else:
            report, is_saved, damage = next(self._stream), False, ()
        _check(report, self._trial.metric)
        # The checkpoint is written before the step is returned, because the driver records each step that it gets. An
        # epoch in the journal without a checkpoint could not be resumed.
        if not is_saved:
            self._checkpoints.save(self._id, report)
        return Step(report.epoch, dict(report.metrics), damage=damage, not_replayed=report.not_replayed)


def trial_actor(train: Train, checkpoints: Checkpoints, alone: Train) -> type[TrialActor]:
    """Return the class of actors that train trials; ``TrialActor.setup`` explains the arguments.

    The class carries the arguments itself, and so is a few kilobytes larger. ``tune.with_parameters`` would put the
    arguments into Ray's object store, as objects that the driver owns. When a raylet is asked to end, Ray's library
    tries to recover such objects into the store that has just gone. It then ends the driver with exit code 1.
    """

    class BoundTrialActor(TrialActor):
        def setup(self, config: dict[str, Any]) -> None:  # type: ignore[override]
            super().setup(config, train, checkpoints, alone)

    # The name by which Ray shows the processes of its actors.
    BoundTrialActor.__name__ = TrialActor.__name__
    return BoundTrialActor


def _check(report: EpochReport, metric: str) -> None:
    """Refuse numbers that are not finite, and a missing metric, before the journal or the sampler sees them."""
    for name, value in report.metrics.items():
        if not math.isfinite(value):
            raise DivergedError(name, value, report.epoch, 0)
    if metric not in report.metrics:
        raise ConfigError(f"search.metric: a trial reports no {metric!r}, but {', '.join(sorted(report.metrics))}")
