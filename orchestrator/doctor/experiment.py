"""Finds each broken rule of an experiment's folder, and mends it if mending loses nothing.

The journal is the truth; checkpoints, derived files and MLflow are compared with the journal. No other file repeats the
content of a damaged line of the journal. So a repair says which records are lost, and keeps a copy of the journal.
A repair deletes no result: a file that the journal does not know, or contradicts, is moved to the folder ``set_aside``.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.doctor.machine import Check, refused
from orchestrator.experiment.yaml_files import parse_yaml, yaml_text
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError, JournalReader, copy_name, keep_copy
from orchestrator.journal.ledger import Ledger, refuse_taken
from orchestrator.journal.lock import find_holder, find_processes, hold, left_scratch, read_lock
from orchestrator.journal.records import EpochEnded, Record, has_ended
from orchestrator.journal.salvage import salvage
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.answers import summarise
from orchestrator.storage.set_aside import (
    FOLDER,
    SUMMARY,
    find_unknown,
    move_aside,
    name_occasion,
    set_summary_aside,
    some,
    trials_folder,
)
from orchestrator.storage.stores import FolderStore
from orchestrator.text.addresses import without_password
from orchestrator.tracking.connection import ExperimentDeletedError, StoreMovedError
from orchestrator.tracking.failures import failure_of, store_failures
from orchestrator.tracking.sync import DeliveryError, deliver, find_differences
from trainables.checkpoint import epoch_of, find_damage, list_epochs
from trainables.extras import is_installed
from trainables.files import write_whole


def check_experiment(directory: Path, uri: str, *, repair: bool = False) -> list[Check]:
    """Check an experiment's folder against its journal and the MLflow store, and mend it if asked to.

    Returns:
        One finding for each breach, in the state ``fail``, or ``warn`` where the breach was mended. If all rules hold,
        a single finding in the state ``ok``. The ``way_out`` of a finding says what a repair did.

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
                findings += [_mended(breach) for breach in find_breaches(directory, uri, held=True)]
    else:
        findings = breaches
    if findings:
        return findings
    holder = find_holder(directory)
    running = "" if holder is None else f"; runs as {holder}"
    return [Check("experiment", "ok", f"{directory}: everything holds{running}")]


def find_breaches(directory: Path, uri: str, *, held: bool = False) -> Iterator[Check]:
    """Look at everything, the journal first.

    While another process runs the experiment, records and checkpoints that are being written are no breach. No other
    process runs it where this process holds the folder.
    """
    runs = not held and find_holder(directory) is not None
    if not runs and not held:
        yield from check_lock(directory)
    reader = JournalReader(directory / JOURNAL_FILE)
    try:
        records = list(reader.read_on())
    except JournalError as error:
        yield _salvaged(reader.path, error)
        return
    history = History.of(records)
    if reader.rest and not runs:
        yield _torn(reader)
    yield from check_journal(records, history)
    yield from check_passed_over(history)
    if not runs:
        yield from check_unknown(directory, history)
    trials = trials_folder(directory, history)
    if trials is not None:
        yield from check_checkpoints(trials, history, runs=runs)
    if not runs:
        yield from check_derived(directory, history)
        yield from check_tracking(directory, history, uri)


def check_lock(directory: Path) -> Iterator[Check]:
    """No process that died left a lock, child processes or a scratch folder behind."""
    holder = read_lock(directory)
    if holder is None:
        return
    scratch = left_scratch(directory, holder)
    left = [] if scratch is None else find_processes(scratch)
    problem = f"left by process {holder.pid}, which is gone, with {len(left)} processes and {scratch or 'no scratch'}"
    # `check_experiment` mends while it holds the lock, and `hold` has already cleared up after the former holder.
    yield Check("lock", "fail", problem, "--repair, or the next start, clears up", lambda: "cleared up")


def _torn(reader: JournalReader) -> Check:
    """Describe the end of a journal whose last record is not whole."""
    path = reader.path
    problem = f"{path}: {len(reader.rest)} bytes of a record that was being written when the process was killed"
    if reader.rest.endswith(b"\n"):
        problem = f"{path}: line {reader.count + 1}, the last: damaged"
    remedy = f"--repair cuts it off, and keeps the file as it is as {copy_name(path).name}"

    def cut() -> str:
        copy = keep_copy(path)
        Ledger(path).close()
        return f"cut off, and its event happens again; the file as it was: {copy}"

    return Check("journal", "fail", problem, remedy, cut)


def check_journal(records: list[Record], history: History) -> Iterator[Check]:
    """Each trial has every epoch once and one end."""
    remedy = "the journal contradicts itself: restore it from a backup"
    ends = Counter(record.trial for record in records if has_ended(record))
    for trial in history.trials.values():
        if ends[trial.id] != (trial.state is not TrialState.RUNNING):
            yield Check("trial", "fail", f"{trial.id}: ended {ends[trial.id]} times", remedy)
        if sorted(trial.epochs) != list(range(1, trial.last_epoch + 1)):
            yield Check("trial", "fail", f"{trial.id}: has epochs {sorted(trial.epochs)}", remedy)
    epochs = Counter((record.trial, record.epoch) for record in records if isinstance(record, EpochEnded))
    for (name, epoch), times in epochs.items():
        if times > 1:
            yield Check("trial", "fail", f"{name}: epoch {epoch} is there {times} times", remedy)
    if history.ended_by == "trials" and history.running():
        names = ", ".join(trial.id for trial in history.running())
        yield Check("trial", "fail", f"the search is finished, but these are not: {names}", remedy)


def check_checkpoints(trials: Path, history: History, *, runs: bool) -> Iterator[Check]:
    """Each checkpoint is whole and known to the journal, and each trial that needs a checkpoint has one."""
    newest: dict[str, int] = {}
    for path in (path for folder in sorted(trials.glob("*/")) for path in list_epochs(folder)):
        damage = find_damage(path)
        if damage is None:
            newest[path.parent.name] = epoch_of(path.name) or 0
        elif not (runs and not path.exists()):
            # A process that runs the experiment removes older checkpoints.
            remedy = "--repair sets it aside, so that the one before is used"
            yield Check("checkpoint", "fail", damage, remedy, partial(_set_aside, path))
    for trial in history.trials.values():
        yield from _check_kept(trial, newest.get(trial.id, 0))
    if not runs:
        epochs = {trial.id: trial.last_epoch for trial in history.trials.values()}
        checkpoints = FolderStore(trials)
        if halves := checkpoints.partial():
            problem = f"half written when its process was killed: {some(map(str, halves))}"
            remedy = "--repair, or the next start, removes it; its epoch is trained again"
            yield Check("checkpoint", "fail", problem, remedy, partial(_remove_partial, checkpoints))
        if beyond := checkpoints.ahead(epochs):
            problem = f"beyond what the journal knows: {some(entry.address for entry in beyond)}"
            remedy = f"--repair, or the next start, moves it to {trials.parent / FOLDER}"
            yield Check("checkpoint", "fail", problem, remedy, lambda: f"moved to {some(checkpoints.rewind(epochs))}")


def check_passed_over(history: History) -> Iterator[Check]:
    """No running trial had to go back to an older checkpoint.

    The checkpoints in a bucket are not read here, so for a bucket these records are all that is known of damage.
    """
    for trial in history.running():
        for damage in trial.damage:
            remedy = "the trial trained those epochs again, with the same numbers; find out what damages files there"
            yield Check("checkpoint", "warn", f"{trial.id}: passed over: {damage}", remedy)


def check_unknown(directory: Path, history: History) -> Iterator[Check]:
    """The journal knows all trials of the checkpoints and of ``summary.json``."""
    unknown = find_unknown(directory, history)
    if unknown.lost is not None:
        remedy = f"restore {directory / JOURNAL_FILE} from a backup; without one, resume trains again what is lost"
        yield Check("journal", "fail", unknown.lost, remedy)
    if unknown.moved is not None:
        remedy = "move them back if the journal that knows them is restored; else remove them when nobody needs them"
        yield Check("set aside", "warn", unknown.moved, remedy)
    if unknown.summarised:
        problem = f"{directory / SUMMARY}: has {unknown.summarised} trials that the journal does not know"
        remedy = f"--repair, or the next start, moves it to {directory / FOLDER}"
        yield Check("file", "fail", problem, remedy, lambda: f"moved to {set_summary_aside(directory, history)}")


def check_derived(directory: Path, history: History) -> Iterator[Check]:
    """The files that are made from the journal say what the journal says."""
    if not history.experiment:
        return
    texts = {"experiment.yaml": yaml_text(dict(history.experiment.values))}
    if history.outcome in ("finished", "budget_spent"):
        texts["summary.json"] = json.dumps(summarise(history), indent=2) + "\n"
    for name, text in texts.items():
        if not _says(directory / name, text):
            problem = f"{directory / name}: missing, damaged, or not what the journal says"
            remedy = f"--repair writes it again from the journal, and keeps a former file in {directory / FOLDER}"
            yield Check("file", "fail", problem, remedy, partial(_write, directory / name, text))


def check_tracking(directory: Path, history: History, uri: str) -> list[Check]:
    """MLflow has one run for each trial, in the trial's state, with all epochs, and knows where the run's files are."""
    if not is_installed("tracking"):
        remedy = "pip install 'icr-orchestrator[tracking]'"
        problem = "MLflow is not installed, so nobody looked at what MLflow holds"
        return [Check("tracking", "warn", problem, remedy)]
    shown, mend = without_password(uri), partial(_deliver, directory.resolve(), uri)
    try:
        differences = find_differences(uri, directory.resolve().parent, history)
    except ExperimentDeletedError as error:
        remedy = "--repair brings it back; a start of the search, or sync of all experiments, does not"
        return [Check("tracking", "fail", f"{shown}: {error}", remedy, mend)]
    except StoreMovedError as error:
        return [refused("tracking", error, ". ")]
    except store_failures() as error:
        failure = failure_of(error, uri)
        return [Check("tracking", "fail", f"{shown}: {failure.reason}", failure.remedy)]
    if not differences:
        return []
    named = "; ".join(differences[:3]) + (f"; and {len(differences) - 3} more" if len(differences) > 3 else "")
    remedy = "--repair, or the next start, sends what is missing"
    return [Check("tracking", "fail", f"{shown}: {named}", remedy, mend)]


def _mended(breach: Check) -> Check:
    if breach.mend is None:
        return breach
    try:
        done = breach.mend()
    except (OSError, DeliveryError) as error:
        return replace(breach, way_out=f"could not be repaired: {error}")
    return replace(breach, state="warn", way_out=f"repaired: {done}")


def _check_kept(trial: Trial, newest: int) -> Iterator[Check]:
    """Check a trial by the epoch of its newest good checkpoint, which is 0 where it has none."""
    if trial.state is TrialState.FINISHED and not newest:
        problem = f"{trial.id}: finished, and has no good checkpoint left"
        yield Check("checkpoint", "fail", problem, "its numbers are kept; restore its model from a backup")
    if trial.state is TrialState.RUNNING and newest < trial.last_epoch:
        problem = f"{trial.id}: {trial.last_epoch - newest} epochs of {trial.last_epoch} have no good checkpoint"
        yield Check("checkpoint", "warn", problem, "they are trained again, with the same numbers")


def _says(path: Path, text: str) -> bool:
    """Whether a file holds the values of a text, however they are written."""

    def parse(content: str) -> Any:
        return json.loads(content) if path.suffix == ".json" else parse_yaml(content)[0]

    with suppress(OSError, ValueError, RecursionError):
        return bool(parse(path.read_text(encoding="utf-8")) == parse(text))
    return False


def _salvaged(path: Path, error: JournalError) -> Check:
    """Describe the records of a damaged journal that can be kept; a journal without any is left as it is."""
    try:
        repair = salvage(path)
    except (JournalError, FileNotFoundError):
        return refused("journal", error)

    def write() -> str:
        copy = repair.write()
        return f"kept {len(repair.kept)} records; the journal as it was: {copy}; resume trains again what is lost"

    return Check("journal", "fail", repair.statement, repair.way_out, write, hides=True)


def _set_aside(path: Path) -> str:
    target = path.with_name(f"damaged_{path.name}")
    if target.exists():
        target = path.with_name(f"{target.name}-{name_occasion()}")
    path.rename(target)
    return f"renamed to {target}"


def _remove_partial(checkpoints: FolderStore) -> str:
    checkpoints.remove_partial()
    return "removed"


def _write(path: Path, text: str) -> str:
    former = move_aside(path, path.parent, name_occasion()) if path.is_file() else None
    write_whole(path, text)
    return "written from the journal" + (f"; the former file: {former}" if former else "")


def _deliver(directory: Path, uri: str) -> str:
    # The user named this experiment, so an MLflow experiment that was deleted is restored.
    deliver(directory, directory.parent, uri, restores=True, held=True)
    return "delivered"
