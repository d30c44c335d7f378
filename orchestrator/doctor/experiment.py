"""Finds each broken rule of an experiment's folder, and mends it if mending loses nothing.

The journal is the truth; checkpoints, derived files and MLflow are compared with the journal. No other file repeats the
content of a damaged line of the journal: a repair says which records are lost, and keeps a copy of the damaged journal.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from orchestrator.doctor.machine import Finding
from orchestrator.experiment.yaml_text import YamlTextError, parse_yaml
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import (
    Journal,
    JournalError,
    copy_name,
    is_damaged,
    read_journal,
    refuse_taken,
    torn_bytes,
)
from orchestrator.journal.leftovers import find_processes
from orchestrator.journal.lock import find_holder, hold, left_scratch, read_lock
from orchestrator.journal.record import Record
from orchestrator.journal.salvage import salvage
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.journal.trial_records import EpochEnded, has_ended
from orchestrator.results.summary import summarise
from orchestrator.storage.bucket import is_bucket
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.storage.folder_store import FolderStore
from trainables.checkpoint import epoch_of, find_damage, list_epochs
from trainables.extras import is_installed
from trainables.files import write_whole

SYNC_SECONDS = 120.0
"""How many seconds a repair waits for a tracking store."""


@dataclass(frozen=True)
class Breach:
    """A rule about an experiment's folder that does not hold.

    Attributes:
        finding: Which rule is broken where, and the way out.
        mend: Makes the rule hold again, and raises ``OSError`` where that fails; ``None`` where a person has to decide.
        hides: Whether this breach keeps other breaches from being found.
    """

    finding: Finding
    mend: Callable[[], None] | None = None
    hides: bool = False


def check_experiment(directory: Path, uri: str, *, repair: bool = False) -> list[Finding]:
    """Check an experiment, and mend the experiment if asked to.

    Args:
        directory: The experiment's folder.
        uri: Address of the MLflow store.
        repair: Mend what can be mended; no other process may run the experiment meanwhile.

    Returns:
        One finding for each breach, in the state ``fail``, or ``warn`` where the breach was mended; a single finding
        in the state ``ok`` if all rules hold.

    Raises:
        AlreadyRunningError: If ``repair`` is asked for while another process runs the experiment.
    """
    breaches = list(find_breaches(directory, uri))
    if repair:
        with hold(directory):
            if (directory / JOURNAL_FILE).is_file():
                with (directory / JOURNAL_FILE).open("rb") as journal:
                    refuse_taken(journal, directory / JOURNAL_FILE)
            findings = [_mended(breach) for breach in breaches]
        if any(breach.hides for breach in breaches):
            # These breaches are named, not mended: a person may first look up the lost records about checkpoints in the
            # copy of the damaged journal.
            findings += check_experiment(directory, uri)
    else:
        findings = [breach.finding for breach in breaches]
    if findings:
        return findings
    holder = find_holder(directory)
    running = "" if holder is None else f"; runs as {holder}"
    return [Finding("experiment", "ok", f"{directory}: everything holds{running}")]


def find_breaches(directory: Path, uri: str) -> Iterator[Breach]:
    """Look at everything, the journal first.

    While another process runs the experiment, records and checkpoints that are being written are no breach.
    """
    runs = find_holder(directory) is not None
    if not runs:
        yield from check_lock(directory)
    try:
        records = read_journal(directory / JOURNAL_FILE)
    except JournalError as error:
        yield _salvaged(directory / JOURNAL_FILE, error)
        return
    history = History.of(records)
    yield from check_journal(directory / JOURNAL_FILE, records, history, runs=runs)
    yield from check_passed_over(history)
    if history.storage is None or not is_bucket(history.storage):
        yield from check_checkpoints(_trials(directory, history), history, runs=runs)
    if not runs:
        yield from check_derived(directory, history)
        yield from check_tracking(directory, history, records, uri)


def check_lock(directory: Path) -> Iterator[Breach]:
    """No process that died left a lock, child processes or a scratch folder behind."""
    holder = read_lock(directory)
    if holder is None:
        return
    scratch = left_scratch(directory, holder)
    left = [] if scratch is None else find_processes(scratch)
    found = f"left by process {holder.pid}, which is gone, with {len(left)} processes and {scratch or 'no scratch'}"
    # `check_experiment` mends while it holds the lock, and `hold` has already cleared up after the former holder.
    yield Breach(Finding("lock", "fail", found, "--repair, or the next start, clears up"), lambda: None)


def check_journal(path: Path, records: list[Record], history: History, *, runs: bool) -> Iterator[Breach]:
    """The journal's last record is whole, and each trial has every epoch once and one end."""
    torn = 0 if runs else torn_bytes(path)
    if torn:
        content = path.read_bytes()
        found = f"{path}: {torn} bytes of a record that was being written when the process was killed"
        way_out = "--repair cuts it off; it happens again"
        if is_damaged(content, len(content) - torn):
            found = f"{path}: line {len(records) + 1}, the last one: damaged"
            way_out = f"--repair cuts it off, and keeps the file as it is as {copy_name(path, content).name}"
        yield Breach(Finding("journal", "fail", found, way_out), _cut(path))
    way_out = "the journal contradicts itself: restore it from a backup"
    ends = Counter(record.trial for record in records if has_ended(record))
    for trial in history.trials.values():
        if ends[trial.id] != (trial.state is not TrialState.RUNNING):
            yield Breach(Finding("trial", "fail", f"{trial.id}: ended {ends[trial.id]} times", way_out))
        if sorted(trial.epochs) != list(range(1, trial.last_epoch + 1)):
            yield Breach(Finding("trial", "fail", f"{trial.id}: has epochs {sorted(trial.epochs)}", way_out))
    epochs = Counter((record.trial, record.epoch) for record in records if isinstance(record, EpochEnded))
    for (name, epoch), times in epochs.items():
        if times > 1:
            yield Breach(Finding("trial", "fail", f"{name}: epoch {epoch} is there {times} times", way_out))
    if history.ended_by == "trials" and history.running():
        names = ", ".join(trial.id for trial in history.running())
        yield Breach(Finding("trial", "fail", f"the search is finished, but these are not: {names}", way_out))


def check_checkpoints(trials: Path, history: History, *, runs: bool) -> Iterator[Breach]:
    """Each checkpoint is whole and known to the journal, and each trial that needs a checkpoint has one."""
    for path in (path for folder in sorted(trials.glob("*/")) for path in list_epochs(folder)):
        damage = find_damage(path)
        if damage is not None:
            way_out = "--repair sets it aside, so that the one before is used"
            yield Breach(Finding("checkpoint", "fail", damage, way_out), _set_aside(path))
    for trial in history.trials.values():
        yield from _check_kept(trials / trial.id, trial)
    if not runs:
        epochs = {trial.id: trial.last_epoch for trial in history.trials.values()}
        store = FolderStore(trials)
        checkpoints = Checkpoints(store)
        for place in [*store.partial(), *(entry.address for entry in checkpoints.ahead(epochs))]:
            found = f"{place}: half written, or beyond what the journal knows"
            way_out = "--repair, or the next start, removes it"
            yield Breach(Finding("checkpoint", "fail", found, way_out), lambda: checkpoints.rewind(epochs))


def check_passed_over(history: History) -> Iterator[Breach]:
    """No running trial had to go back to an older checkpoint.

    The checkpoints in a bucket are not read here, so for a bucket these records are all that is known of damage.
    """
    for trial in history.running():
        for damage in trial.damage:
            way_out = "the trial trained those epochs again, with the same numbers; find out what damages files there"
            yield Breach(Finding("checkpoint", "warn", f"{trial.id}: passed over: {damage}", way_out))


def check_derived(directory: Path, history: History) -> Iterator[Breach]:
    """The files that are made from the journal say what the journal says."""
    if not history.experiment:
        return
    expected: dict[str, tuple[Any, Callable[[str], Any], str]] = {
        "experiment.yaml": (
            history.experiment.values,
            lambda text: parse_yaml(text)[0],
            yaml.safe_dump(dict(history.experiment.values), sort_keys=False),
        )
    }
    if history.outcome in ("finished", "budget_spent"):
        summary = json.dumps(summarise(history), indent=2) + "\n"
        expected["summary.json"] = (json.loads(summary), json.loads, summary)
    for name, (value, parse, text) in expected.items():
        if _read(directory / name, parse) != value:
            found = f"{directory / name}: missing, damaged, or not what the journal says"
            mend = _write(directory / name, text)
            yield Breach(Finding("file", "fail", found, "--repair writes it again from the journal"), mend)


def check_tracking(directory: Path, history: History, records: list[Record], uri: str) -> Iterator[Breach]:
    """MLflow has one run for each trial, in the trial's state, with all epochs, and knows where the run's files are."""
    if not is_installed("tracking"):
        way_out = "pip install 'icr-orchestrator[tracking]'"
        found = "MLflow is not installed, so nobody looked at what MLflow holds"
        yield Breach(Finding("tracking", "warn", found, way_out))
        return
    from orchestrator.tracking import (
        ExperimentDeletedError,
        find_differences,
        find_former_folders,
        first_line,
        store_failures,
        without_password,
    )

    shown, mend = without_password(uri), _deliver(directory.resolve(), records, uri)
    try:
        differences = find_differences(uri, directory.resolve().parent, directory.resolve().name, history)
        former = find_former_folders(uri)
    except ExperimentDeletedError as error:
        way_out = "--repair brings it back; a start of the search, or sync of all experiments, does not"
        yield Breach(Finding("tracking", "fail", f"{shown}: {error}", way_out), mend)
        return
    except store_failures() as error:
        way_out = "start the server; a damaged database can be removed: --repair then makes it again from the journals"
        yield Breach(Finding("tracking", "fail", f"{shown}: {first_line(error)}", way_out))
        return
    if former:
        found = f"{shown}: looks for files in {', '.join(former)}, from where this folder was moved or copied"
        way_out = "--repair, `orchestrator sync` or the next start corrects it"
        yield Breach(Finding("tracking", "fail", found, way_out), mend)
    if differences:
        named = "; ".join(differences[:3]) + (f"; and {len(differences) - 3} more" if len(differences) > 3 else "")
        way_out = "--repair, or the next start, sends what is missing"
        yield Breach(Finding("tracking", "fail", f"{shown}: {named}", way_out), mend)


def _mended(breach: Breach) -> Finding:
    if breach.mend is None:
        return breach.finding
    try:
        breach.mend()
    except OSError as error:
        return replace(breach.finding, way_out=f"could not be repaired: {error}")
    return replace(breach.finding, state="warn", way_out="repaired")


def _trials(directory: Path, history: History) -> Path:
    root = directory if history.storage is None else Path(history.storage) / directory.resolve().name
    return root / "trials"


def _check_kept(folder: Path, trial: Trial) -> Iterator[Breach]:
    good = [path for path in list_epochs(folder) if find_damage(path) is None]
    newest = (epoch_of(good[-1].name) if good else None) or 0
    if trial.state is TrialState.FINISHED and not good:
        found = f"{trial.id}: finished, and has no good checkpoint left"
        yield Breach(Finding("checkpoint", "fail", found, "its numbers stand; restore its model from a backup"))
    if trial.state is TrialState.RUNNING and newest < trial.last_epoch:
        found = f"{trial.id}: {trial.last_epoch - newest} epochs of {trial.last_epoch} have no good checkpoint"
        yield Breach(Finding("checkpoint", "warn", found, "they are trained again, with the same numbers"))


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    with suppress(OSError, ValueError, RecursionError, YamlTextError):
        return parse(path.read_text(encoding="utf-8"))
    return None


def _salvaged(path: Path, error: JournalError) -> Breach:
    """Describe the records of a damaged journal that can be kept; a journal without any is left as it is."""
    try:
        found = salvage(path)
    except (JournalError, FileNotFoundError):
        reason, _, way_out = str(error).partition("; ")
        return Breach(Finding("journal", "fail", reason, way_out))
    return Breach(Finding("journal", "fail", found.statement, found.way_out), found.write, hides=True)


def _cut(path: Path) -> Callable[[], None]:
    return lambda: Journal(path).close()


def _set_aside(path: Path) -> Callable[[], None]:
    def set_aside() -> None:
        path.rename(path.with_name(f"damaged_{path.name}"))

    return set_aside


def _write(path: Path, text: str) -> Callable[[], None]:
    return lambda: write_whole(path, text)


def _deliver(directory: Path, records: Iterable[Record], uri: str) -> Callable[[], None]:
    def deliver() -> None:
        from orchestrator.tracking import first_line, restore, store_failures
        from orchestrator.tracking.tracker import Tracker

        try:
            # The user named this experiment, so an MLflow experiment that was deleted is restored before the delivery.
            restore(uri, directory.parent, directory.name)
        except store_failures() as error:
            raise OSError(first_line(error)) from None
        tracker = Tracker(uri, directory.parent, directory.name, records)
        tracker.start()
        tracker.close(SYNC_SECONDS)
        if tracker.problem is not None:
            raise OSError(tracker.problem)

    return deliver
