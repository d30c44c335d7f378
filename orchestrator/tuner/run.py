"""How trials run: Ray is started, told what to run, and ended.

With ``allocation``, ``extraction_workers``, ``fusion``, ``issuer``, ``scheduler``, ``trial_actor``, ``tune_places`` and
``witness`` the only user of Ray.

Ray keeps no state that we read again: its checkpoints are off, its storage is a scratch directory that goes with the
process, and whatever must survive stands in the journal and in the trials' own checkpoints.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

# Read by Ray when it is imported: no statistics are sent, and what we don't use is not written or printed.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ |= {
    # By itself Ray lets a process that asked for no GPU see all of them.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Work that is left behind when Ray dies is to start no other Ray.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # That there are many for few CPUs is what is meant where trials are fused, or share a GPU.
    # What a raylet that died had last written says nothing to who searches.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "worker processes have been started|Raylet is terminated",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
    # How many is the issuer's business.
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "86400",
}

import logging

import psutil
import ray
from ray import tune
from ray.exceptions import AuthenticationError
from ray.tune.experiment import Trial as RayTrial

import orchestrator
import search_spaces
import trainables
from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.machines.cluster import Cluster, ClusterError
from orchestrator.machines.gpu_share import widen
from orchestrator.machines.nodes import alive
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.tuner.actor import TrialActor
from orchestrator.tuner.allocation import allocate
from orchestrator.tuner.callback import Witness
from orchestrator.tuner.engines import fused
from orchestrator.tuner.issuer import Issuer, TrialSource
from orchestrator.tuner.not_pickled import Ephemeral
from orchestrator.tuner.ray_watch import JoinedRay, OwnRay, Ray, RayLostError, RayWork
from orchestrator.tuner.scheduler import Judge
from orchestrator.workload.workload import Workload

HIDING = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
"""Nodes that were started before us have to be told as well."""

OBJECT_STORE_BYTES = 100 * 2**20
"""Results are small; Ray would set a third of the machine's memory aside."""


class Interruption(Ephemeral, tune.Stopper):
    """Asks Tune to end when there is a reason to, or the process is told to end.

    The first signal is noted, a second one is obeyed at once.

    Attributes:
        signal: The signal that came; ``None`` while there was none.
    """

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.signal: int | None = None
        self._is_over = is_over

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """End no single trial."""
        return False

    def stop_all(self) -> bool:
        """Say whether a signal came or there is another reason."""
        return self.signal is not None or self._is_over()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM for the length of a ``with`` block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@dataclass(frozen=True)
class Session:
    """What the stages of one start of an experiment share.

    Attributes:
        experiment: What is run.
        ledger: Where everything is written down, and what was written before.
        workload: What a trial runs.
        checkpoints: Where those of the trials lie.
        scratch: Directory of this process alone; short, because paths of sockets are made under it.
        on_step: Called several times a second, e.g. to draw.
        limit: Asked as often; anything but ``None`` ends the stage, and what runs stays resumable.
        cluster: Where trials run.
    """

    experiment: Experiment
    ledger: Ledger
    workload: Workload
    checkpoints: Checkpoints
    scratch: Path
    on_step: Callable[[], None] = lambda: None
    limit: Callable[[], str | None] = lambda: None
    cluster: Cluster = field(default_factory=Cluster)

    def at_a_time(self) -> int | None:
        """Return how many trials may run at once: what was asked for, or less where memory was short before."""
        limits = (self.experiment.resources.max_concurrent, self.ledger.history.concurrency)
        return min((limit for limit in limits if limit is not None), default=None)


def run_trials(session: Session, source: TrialSource, scheduler: Judge) -> int | None:
    """Run what is left of a source's trials until the last has ended, a limit is reached or a signal comes.

    Args:
        session: Of the process.
        source: Which trials.
        scheduler: Judges every epoch, and puts it in the journal.

    Returns:
        The signal that ended it, or ``None``.

    Raises:
        ConfigError: If the machine does not have what a trial needs.
        OSError: If there is no room for the journal or a checkpoint; all that ran stays resumable.
        RayLostError: If a process of Ray died and no signal came; all that ran stays resumable.
    """
    if source.outstanding == 0 or session.limit() is not None:
        return None
    has_room = partial(scheduler.places.has_room, session.cluster.waiting)
    issuer = Issuer(source, session.at_a_time(), session.ledger.history.halvings, has_room)
    witness = Witness(session, source, issuer)
    interruption = Interruption(lambda: session.limit() is not None or witness.problem is not None)
    tune_config = tune.TuneConfig(
        search_alg=issuer,
        scheduler=scheduler,
        # As many as the source has; what is tried again counts again.
        num_samples=-1,
        reuse_actors=True,
        trial_name_creator=_name,
        trial_dirname_creator=_folder,
    )
    run_config = tune.RunConfig(
        name="tune",
        storage_path=str(session.scratch),
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
        callbacks=[witness],
        stop=interruption,
        verbose=0,
    )
    work = RayWork(partial(_tune, session, tune_config, run_config))
    # In this order: starting Ray puts a handler of its own in the place of one for SIGTERM.
    with ray_runtime(session.scratch, session.cluster.address) as own, interruption.listening():
        lost = work.finish(own, session.ledger.take_over)
    if lost and interruption.signal is None:
        raise RayLostError(
            f"{session.ledger.path.parent}: Ray is gone ({', '.join(lost)}): "
            f"somebody ended it, or the memory of the machine was short; the epochs under way are lost, nothing else: "
            f"the same command goes on from here"
        )
    if witness.problem is not None:
        raise witness.problem
    return interruption.signal


def _tune(session: Session, tune_config: tune.TuneConfig, run_config: tune.RunConfig) -> None:
    """Let Tune run the trials."""
    resources, fuse = allocate(session, alive(ray.nodes()))
    with fused(session.workload, fuse, resources) as workload:
        trainable = tune.with_parameters(
            TrialActor, workload=workload, checkpoints=session.checkpoints, alone=session.workload
        )
        trainable = tune.with_resources(trainable, partial(_resources, resources))
        _fit(tune.Tuner(trainable, tune_config=tune_config, run_config=run_config), session.ledger)


def _fit(tuner: tune.Tuner, ledger: Ledger) -> None:
    try:
        tuner.fit()
    except tune.TuneError:
        # Whatever goes wrong while a result is handled reaches us as the text of a traceback.
        if ledger.problem is not None:
            raise ledger.problem from None
        raise


@contextmanager
def ray_runtime(scratch: Path, address: str | None = None) -> Iterator[Ray]:
    """Start a Ray of our own on this machine and end it, or join a cluster and leave it.

    What the process has started or joined already is used as it is. The ``with`` block gets what tells whether Ray is
    gone.

    Raises:
        ClusterError: If the cluster cannot be joined, or none of our own be started.
    """
    if ray.is_initialized():
        yield JoinedRay()
        return
    for name in ("ray", "ray.tune", "ray.data", "ray.train"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    before = set(psutil.Process().children())
    if address is None:
        _start(scratch)
    else:
        _join(address)
    try:
        started = [process for process in psutil.Process().children() if process not in before]
        yield OwnRay(started) if address is None else JoinedRay(address)
    finally:
        ray.shutdown()


def _start(scratch: Path) -> None:
    try:
        ray.init(
            address="local",
            include_dashboard=False,
            configure_logging=False,
            log_to_driver=False,
            object_store_memory=OBJECT_STORE_BYTES,
            # Ray lets everybody into its folder; a scratch directory that others can enter would not prove to be ours.
            _temp_dir=str(scratch / "r"),
        )
    except (ConnectionError, RuntimeError, TimeoutError) as error:
        reason = str(error).splitlines()[0]
        raise ClusterError(
            f"Ray did not start on this machine: {reason}; where the machine was too busy, run the same command again: "
            f"nothing is lost"
        ) from None


def _join(address: str) -> None:
    """Join a cluster, whose nodes get the code that runs here."""
    modules = [str(Path(module.__file__ or "").parent) for module in (orchestrator, search_spaces, trainables)]
    try:
        ray.init(
            address=address,
            configure_logging=False,
            log_to_driver=False,
            runtime_env={"py_modules": modules, "excludes": ["__pycache__"], "env_vars": {HIDING: os.environ[HIDING]}},
        )
    except (AuthenticationError, ConnectionError, RuntimeError) as error:
        if _is_unauthenticated(error):
            raise ClusterError(
                f"--address {address}: refuses our token, or wants one: copy ~/.ray/auth_token (or what "
                f"RAY_AUTH_TOKEN_PATH names there) from its head to this machine, and set RAY_AUTH_MODE=token"
            ) from None
        raise ClusterError(
            f"--address {address}: cannot be joined: {str(error).splitlines()[0]}; is this machine a node of it? "
            f"`ray start --address={address} --num-cpus=0` makes it one that runs no trials"
        ) from None


def _is_unauthenticated(error: BaseException | None) -> bool:
    """Say whether a token is what an error, or what it came from, is about."""
    while error is not None:
        if isinstance(error, AuthenticationError) or "AuthenticationError" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _resources(shares: Mapping[str, float], config: dict[str, Any]) -> tune.PlacementGroupFactory:
    """Return what a trial asks for, which knows how often memory had run out when it was issued."""
    return tune.PlacementGroupFactory([{"CPU": shares["cpu"], "GPU": widen(shares["gpu"], config["halvings"])}])


def _name(trial: RayTrial) -> str:
    return str(trial.config["trial"])


def _folder(trial: RayTrial) -> str:
    # Of its own for each attempt, so that what went wrong is found apart.
    return str(trial.trial_id)
