"""``run_trials`` lets Ray Tune run the trials of a source; the first stage of a session starts Ray for all of them.

No state of Ray is ever read again. Ray's checkpoints are off, and Ray's storage is a scratch directory that is removed
when the process ends. The journal and the trials' own checkpoints hold all that must survive a crash. Tune ends before
the last trial for one of three reasons (``Interruption``): a signal, a limit of the budget, or a full disk.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Any

from ray import tune
from ray.tune.experiment import Trial as RayTrial

from orchestrator.machines.gpu_share import share_after_oom
from orchestrator.tuner.actor import trial_actor
from orchestrator.tuner.allocation import allocate, machines_that_run_trials
from orchestrator.tuner.callback import TrialCallback
from orchestrator.tuner.engines import fused
from orchestrator.tuner.issuer import Issuer
from orchestrator.tuner.runtime import Ray, RayLostError, ray_runtime, run_watched
from orchestrator.tuner.scheduler import RecordingScheduler
from orchestrator.tuner.session import Session
from orchestrator.tuner.source import TrialSource
from orchestrator.tuner.tune_patches import NotPickled, keep_secrets
from trainables.errors import PluginError


class Interruption(NotPickled, tune.Stopper):
    """Asks Ray Tune to end when a limit is reached, or when a signal asks the process to end.

    The first signal is noted and answered, and the search ends in order. A second signal raises ``KeyboardInterrupt``
    at once.

    ``is_over`` returns whether a limit is reached. ``answer`` is called in the handler of the first signal, whose
    number is ``signal`` from then on.
    """

    def __init__(self, is_over: Callable[[], bool], answer: Callable[[], None] = lambda: None) -> None:
        self.signal: int | None = None
        self._is_over, self._answer = is_over, answer

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Let every trial continue: this stopper ends all trials or none."""
        return False

    def stop_all(self) -> bool:
        """Say whether a signal has come or a limit is reached."""
        return self.signal is not None or self._is_over()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM inside a ``with`` block; outside of the main thread Python allows no handlers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        former = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        self._answer()


STOPPING = "stopping; every finished epoch is kept"


def run_trials(session: Session, source: TrialSource, scheduler: RecordingScheduler) -> int | None:
    """Run the remaining trials of a source until the last has ended, a limit is reached or a signal comes.

    Returns:
        The number of the signal that ended the stage, or ``None``.

    Raises:
        PluginError: If the sampler of a plug-in failed; the trials that ran by then have ended.
        ClusterError: If no machine that runs trials has joined the cluster in time.
        ConfigError: If no machine has the resources of a trial.
        OSError: If there is no room for the journal or a checkpoint; all that ran stays resumable.
        RayLostError: If a process of Ray died and no signal came; all that ran stays resumable.
    """
    if source.outstanding == 0 or session.limit() is not None:
        return None
    wants_another = partial(scheduler.places.wants_another, session.cluster.waiting)
    issuer = Issuer(source, session.at_a_time(), session.ledger.history.halvings, wants_another, session.announce)
    callback = TrialCallback(session, source, issuer)
    interruption = Interruption(
        lambda: session.limit() is not None or callback.problem is not None, partial(session.announce, STOPPING)
    )
    tune_config = tune.TuneConfig(
        search_alg=issuer,
        scheduler=scheduler,
        # Tune gets no limit, because Tune counts each new try of a trial as a sample; the source says when to end.
        num_samples=-1,
        reuse_actors=True,
        trial_name_creator=_name,
        trial_dirname_creator=_folder,
    )
    run_config = tune.RunConfig(
        name="tune",
        storage_path=str(session.scratch),
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
        callbacks=[callback],
        stop=interruption,
        verbose=0,
    )
    work = partial(_tune, session, tune_config, run_config, interruption.stop_all)
    # In this order, because a signal while Ray starts is to end the search at once: Ray's start takes seconds.
    runtime = session.ray.start(partial(_ray, session))
    with interruption.listening():
        lost = run_watched(work, runtime, session.ledger.take_over, lambda: interruption.signal is not None)
    if lost and interruption.signal is None:
        raise RayLostError(session.ledger.path.parent, lost, "the epochs under way are lost, nothing else")
    if callback.problem is not None:
        raise callback.problem
    if issuer.problem is not None and interruption.signal is None:
        raise no_further_trial(session, issuer.problem)
    return interruption.signal


def _ray(session: Session) -> AbstractContextManager[Ray]:
    address = session.cluster.address
    session.announce("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    return ray_runtime(session.scratch, address)


def no_further_trial(session: Session, problem: PluginError) -> PluginError:
    """Return the error about a plug-in's sampler that failed, raised after all running trials have ended."""
    return PluginError(
        f"{problem}; the search gets no further trial. What was trained is kept: `orchestrator summarise "
        f"{session.experiment.name}` shows it, and a new experiment with another sampler takes it over with "
        f"search.warm_start_from"
    )


def _tune(
    session: Session, tune_config: tune.TuneConfig, run_config: tune.RunConfig, is_over: Callable[[], bool]
) -> None:
    """Let Tune run the trials."""
    session.announce("waiting for the first epoch")
    keep_secrets()
    if not (nodes := machines_that_run_trials(session.experiment.resources, is_over)):
        return
    allocation = allocate(session, nodes)
    with fused(session.workload, allocation) as train:
        actor = trial_actor(train, session.checkpoints, session.workload.train)
        trainable = tune.with_resources(actor, partial(_resources, allocation.resources))
        try:
            tune.Tuner(trainable, tune_config=tune_config, run_config=run_config).fit()
        except tune.TuneError:
            # Tune turns an error in the handling of a result into the text of a traceback. The ledger keeps the error
            # itself, e.g. of a full disk, whose message is for people.
            if session.ledger.problem is not None:
                raise session.ledger.problem from None
            raise


def _resources(shares: Mapping[str, float], config: dict[str, Any]) -> tune.PlacementGroupFactory:
    """Return the resources of a trial; the trial's share of a GPU grew each time memory ran out before its issue."""
    return tune.PlacementGroupFactory(
        [{"CPU": shares["cpu"], "GPU": share_after_oom(shares["gpu"], config["halvings"])}]
    )


def _name(trial: RayTrial) -> str:
    return str(trial.config["trial"])


def _folder(trial: RayTrial) -> str:
    # Each attempt of a trial has a folder of its own, so that Ray's error files of two attempts do not mix.
    return str(trial.trial_id)
