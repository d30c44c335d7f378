"""Checks an experiment, and opens its files and stores, before its first trial runs."""

import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.experiment.experiment import Experiment, changed_keys
from orchestrator.experiment.plugins import changed_plugins
from orchestrator.experiment.yaml_files import short, yaml_text
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.lock import hold, make_scratch
from orchestrator.journal.records import ExperimentStarted
from orchestrator.machines.cluster import Cluster, describe_environment
from orchestrator.machines.own_machine import check_machine, want_of_shared_memory
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.storage.set_aside import set_summary_aside
from orchestrator.text.terminal import path_text, say
from orchestrator.tracking.address import choose_uri
from orchestrator.tracking.tracker import TrackingProcess
from orchestrator.workload.workload import Workload
from trainables.errors import ConfigError
from trainables.files import make_writable, write_whole

TRACKING_SECONDS = 30.0
"""Seconds that the end of a search waits for a tracking store that is behind."""


@dataclass(frozen=True)
class Opened:
    """An experiment's directory that this process holds, after all checks that need no journal.

    Attributes:
        cluster: Where trials run; a named cluster has answered.
        digests, tokenizers, data_caveats: Dataset -> digest of its data, what cuts its captions into tokens, and
            sentences about repeats in it.
        scratch: A temporary directory of this process, which is removed in the end.
    """

    uri: str
    cluster: Cluster
    digests: Mapping[str, str]
    tokenizers: Mapping[str, str]
    data_caveats: Mapping[str, Sequence[str]]
    directory: Path
    scratch: Path


@contextmanager
def opened(
    experiments: Sequence[Experiment], workload: Workload, output: Path, *, tracking_uri: str | None, cluster: Cluster
) -> Iterator[Opened]:
    """Make all checks that need no journal, then hold the experiment's directory for a ``with`` block.

    An experiment may have several parts, of one name, whose data are checked one after the other.

    Raises:
        UserError: If experiment, data, output or cluster is refused, or another process holds the directory.
    """
    uri = choose_uri(tracking_uri, output)
    cluster = cluster.resolved()
    if cluster.address is None:
        check_machine(experiments[0].resources)
        if problem := want_of_shared_memory():
            say(f"warning: {'; '.join(problem)}", error=True)
    digests: dict[str, str] = {}
    tokenizers: dict[str, str] = {}
    data_caveats: dict[str, list[str]] = {}
    for experiment in experiments:
        digests |= workload.check(experiment)
        tokenizers |= workload.tokenizers(experiment)
        data_caveats |= workload.data_caveats(experiment)
    directory = open_directory(output, experiments[0].name)
    with make_scratch() as scratch, hold(directory, scratch):
        yield Opened(uri, cluster, digests, tokenizers, data_caveats, directory, scratch)


@contextmanager
def tracked(tracking: TrackingProcess) -> Iterator[TrackingProcess]:
    """Let a process deliver the journal during a ``with`` block, and close the process however the block ends."""
    tracking.start()
    try:
        yield tracking
    finally:
        tracking.close(TRACKING_SECONDS)


def start(ledger: Ledger, experiment: Experiment, here: Opened, cluster: Cluster, options: Mapping[str, str]) -> None:
    """Record the start: experiment, data, environment, storage and the options of the command line."""
    resolved = experiment.to_dict()
    write_whole(ledger.path.with_name("experiment.yaml"), yaml_text(resolved))
    ledger.append(
        ExperimentStarted(
            experiment=resolved,
            data=here.digests,
            environment=describe_environment(),
            storage=cluster.storage,
            options=options,
            tokenizers=here.tokenizers,
            data_caveats=here.data_caveats,
        )
    )


def open_directory(output: Path, name: str) -> Path:
    """Make an experiment's directory, which only its user may enter, and check that it can be written.

    A directory that others could enter is closed to them, and a warning says so.

    Raises:
        ConfigError: If the directory cannot be written.
    """
    directory = output.resolve() / name
    try:
        make_writable(output)
        was_there = directory.exists()
        make_writable(directory)
        mode = stat.S_IMODE(directory.stat().st_mode)
        directory.chmod(0o700)
        if was_there and mode & 0o077:
            say(
                f"warning: {directory}: others could enter it ({stat.filemode(mode)[1:]}); now only you can "
                f"(rwx------), because a journal decides what a resume runs",
                error=True,
            )
        (directory / "trials").mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output {output}: cannot be written: {error.strerror}; choose another folder") from None
    return directory


def check_unchanged(experiment: Experiment, digests: Mapping[str, str], history: History, directory: Path) -> None:
    """Refuse a change after which new trials could not be compared with the trials of the journal.

    Trials and settings of other experiments, which a start recorded before its first trial, fit that start alone.

    Raises:
        ConfigError: If experiment or data differ from those of the journal.
    """
    if not (history.trials or history.warmed_by or history.prior):
        return
    remedy = f"give the experiment another name (--set name=...) or remove {directory}"
    named = shlex.quote(path_text(directory))
    if plugins := changed_plugins(history.experiment.plugins, experiment.plugins):
        raise ConfigError(
            f"{directory}: was started with other plug-ins than now: {'; '.join(plugins)}; trials of both could not be "
            f"compared: {remedy}, or resume with the recorded code: `orchestrator resume {named}`"
        )
    changed = changed_keys(history.experiment.values, experiment.to_dict())
    if changed:
        changes = ", ".join(f"{key} ({short(before)} -> {short(after)})" for key, (before, after) in changed.items())
        raise ConfigError(
            f"{directory}: was started with other settings than now: {changes}; {remedy}; "
            f"`orchestrator resume {named}` resumes it as it was started"
        )
    for key, digest in history.data.items():
        if digests.get(key) != digest:
            raise ConfigError(f"{directory}: the data of {key} have changed since it was started; {remedy}")


def open_checkpoints(cluster: Cluster, history: History, directory: Path) -> Checkpoints:
    """Return the experiment's checkpoints, after moving away checkpoints that the journal does not know.

    They are named on standard error: a user who cut the journal by accident may want to restore it first.

    Raises:
        ConfigError: If the journal's checkpoints lie elsewhere, or the checkpoints found belong to another journal.
        StorageError: If checkpoints cannot be written there.
    """
    if history.trials and Cluster(storage=history.storage).place != cluster.place:
        place = f"with --storage {history.storage}" if history.storage else "without --storage"
        raise ConfigError(f"{directory}: was started {place}, where its checkpoints are; start it so again")
    checkpoints = cluster.checkpoints(directory)
    if not history.trials and checkpoints.entries():
        place = f"--storage {cluster.storage}" if cluster.storage else str(directory / "trials")
        raise ConfigError(
            f"{place}: holds checkpoints of {directory.name}, but {directory} has no journal of it: "
            f"copy the journal.jsonl of its last driver there, or search under another name (--set name=...)"
        )
    trials = history.trials.values()
    epochs, ended = {trial.id: trial.last_epoch for trial in trials}, [trial.id for trial in trials if trial.has_ended]
    moved = checkpoints.rewind(epochs, ended)
    summary = set_summary_aside(directory, history)
    for place in [*moved, *([] if summary is None else [str(summary)])]:
        say(f"warning: {place}: moved here, because the journal does not know it", error=True)
    return checkpoints
