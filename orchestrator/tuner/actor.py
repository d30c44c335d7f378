"""A Ray actor that runs one trial after another and lives on between them.

It knows no journal, no Optuna and no MLflow: each step is one epoch, whose checkpoint is safe before the driver hears
of it. A trial finds its own newest good checkpoint, so that it goes on wherever and however often it is started.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ray.tune import Trainable

from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.workload.workload import Stream, TrialRunner
from trainables.config import TrialConfig
from trainables.errors import ConfigError, DivergedError, UserError
from trainables.reports import EpochReport


@dataclass(frozen=True)
class Step:
    """What an actor tells the driver after an epoch, or instead of one.

    Attributes:
        epoch: Epochs trained so far; 0 where none was.
        metrics: Finite numbers by name.
        diverged: What stopped being finite, where that ended the trial.
        refused: Why the trial cannot run, where trying again would not help.
        damage: What is wrong with newer checkpoints than the one that the trial goes on from, a line each.
    """

    epoch: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    diverged: str | None = None
    refused: str | None = None
    damage: tuple[str, ...] = ()


class TrialActor(Trainable):
    """Ray's class trainable around a stream of epoch reports."""

    # Ray passes the config alone; ``trial_actor`` adds the rest.
    def setup(  # type: ignore[override]
        self, config: dict[str, Any], workload: TrialRunner, checkpoints: Checkpoints, alone: TrialRunner | None = None
    ) -> None:
        """Take the first trial.

        Args:
            config: ``trial``: the id of the trial to run; ``config``: its ``TrialConfig`` as JSON; ``alone``: whether
                it is to share its process with no other.
            workload: What a trial runs.
            checkpoints: Where those of the trials lie.
            alone: What a trial runs that is to be alone, where that differs.
        """
        self._workload, self._checkpoints, self._alone = workload, checkpoints, alone or workload
        self._stream: Stream | None = None
        self._take(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Drop the trial so far and take the next; nothing of the former is left."""
        self.cleanup()
        self._take(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Train one epoch and write its checkpoint."""
        try:
            return {"step": self._next()}
        except DivergedError as error:
            return {"step": Step(error.epoch, diverged=str(error))}
        except UserError as error:
            return {"step": Step(refused=str(error))}

    def cleanup(self) -> None:
        """End the stream, so that its model, optimiser and open files go before those of the next trial come."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _take(self, config: dict[str, Any]) -> None:
        # Nothing is opened yet: what goes wrong with a trial is to go wrong in its step, where it is reported.
        self._trial = TrialConfig.from_dict(json.loads(config["config"]))
        self._id, self._trains = config["trial"], self._alone if config.get("alone") else self._workload

    def _next(self) -> Step:
        if self._stream is None:
            found = self._checkpoints.find(self._id)
            self._stream = self._trains.train(self._trial, found.path)
            report, damage = next(self._stream), found.damage
            # The first report of a resumed trial is that of the checkpoint it comes from.
            is_saved = found.path is not None
        else:
            report, is_saved, damage = next(self._stream), False, ()
        _check(report, self._trial.metric)
        if not is_saved:
            self._checkpoints.save(self._id, report)
        return Step(report.epoch, dict(report.metrics), damage=damage)


def trial_actor(workload: TrialRunner, checkpoints: Checkpoints, alone: TrialRunner) -> type[TrialActor]:
    """Return the actors' class with what their trials run, for whose arguments see ``TrialActor.setup``.

    The class carries them itself, and so is a few kilobytes larger. ``tune.with_parameters`` would put them into Ray's
    object store, as objects of the driver. Of a raylet that is told to end, Ray's library tries to recover such
    objects into the store that has just gone, and thereupon ends the driver with exit code 1.
    """

    class BoundTrialActor(TrialActor):
        def setup(self, config: dict[str, Any]) -> None:  # type: ignore[override]
            super().setup(config, workload, checkpoints, alone)

    # The name by which Ray shows the processes of its actors.
    BoundTrialActor.__name__ = TrialActor.__name__
    return BoundTrialActor


def _check(report: EpochReport, metric: str) -> None:
    """Refuse what would poison the journal, the sampler or the verdict."""
    for name, value in report.metrics.items():
        if not math.isfinite(value):
            raise DivergedError(name, value, report.epoch, 0)
    if metric not in report.metrics:
        raise ConfigError(f"search.metric: a trial reports no {metric!r}, but {', '.join(sorted(report.metrics))}")
