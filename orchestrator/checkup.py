"""What must hold of an experiment's directory: each breach is found, and mended where that loses nothing.

The journal is the truth; everything else is compared with it. A damaged journal is named and left alone, because what
it said is said nowhere else.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from orchestrator.actors import has_ended
from orchestrator.checkpoints import FolderCheckpoints
from orchestrator.doctor import Finding
from orchestrator.history import History, Trial, TrialState
from orchestrator.journal import NAME, Journal, JournalError, Record, read_journal, torn_bytes
from orchestrator.leftovers import find_processes
from orchestrator.lock import find_holder, hold, read_lock
from orchestrator.storage import is_bucket
from orchestrator.summary import summarise
from orchestrator.yaml_text import YamlTextError, parse_yaml
from trainables.checkpoint import find_damage, list_epochs
from trainables.files import write_whole

SYNC_SECONDS = 120.0
"""How long a repair waits for a tracking store."""


@dataclass(frozen=True)
class Breach:
    """Something that does not hold.

    Attributes:
        finding: What, and the way out.
        mend: Makes it hold, and raises ``OSError`` where it cannot; ``None`` where a person has to decide.
    """

    finding: Finding
    mend: Callable[[], None] | None = None


def check_experiment(directory: Path, uri: str, *, repair: bool = False) -> list[Finding]:
    """Check an experiment, and mend it if asked to.

    Args:
        directory: Of the experiment.
        uri: MLflow's store.
        repair: Mend what can be mended; nobody else may run the experiment meanwhile.

    Returns:
        One finding a breach, ``fail``, or ``warn`` where it was mended; one in all where everything holds.

    Raises:
        AlreadyRunningError: If it is to be mended, and runs.
    """
    breaches = list(find_breaches(directory, uri))
    if repair:
        with hold(directory):
            findings = [_mended(breach) for breach in breaches]
    else:
        findings = [breach.finding for breach in breaches]
    if findings:
        return findings
    holder = find_holder(directory)
    running = "" if holder is None else f"; runs as process {holder['pid']} on {holder['host']}"
    return [Finding("experiment", "ok", f"{directory}: everything holds{running}")]


def find_breaches(directory: Path, uri: str) -> Iterator[Breach]:
    """Look at everything, the journal first; what runs is judged more mildly."""
    runs = find_holder(directory) is not None
    if not runs:
        yield from check_lock(directory)
    try:
        records = read_journal(directory / NAME)
    except JournalError as error:
        found, _, way_out = str(error).partition("; ")
        yield Breach(Finding("journal", "fail", found, way_out))
        return
    history = History.of(records)
    yield from check_journal(directory / NAME, records, history, runs=runs)
    yield from check_passed_over(history)
    if history.storage is None or not is_bucket(history.storage):
        yield from check_checkpoints(_trials(directory, history), history, runs=runs)
    if not runs:
        yield from check_derived(directory, history)
        yield from check_tracking(directory, history, records, uri)


def check_lock(directory: Path) -> Iterator[Breach]:
    """Nobody left a lock, processes or a scratch directory behind."""
    holder = read_lock(directory)
    if holder is None:
        return
    scratch = holder["scratch"]
    left = [] if scratch is None else find_processes(Path(scratch))
    found = f"left by process {holder['pid']}, which is gone, with {len(left)} processes and {scratch or 'no scratch'}"
    # Whoever takes the lock clears up after the former holder.
    yield Breach(Finding("lock", "fail", found, "--repair, or the next start, clears up"), lambda: None)


def check_journal(path: Path, records: list[Record], history: History, *, runs: bool) -> Iterator[Breach]:
    """Its last record is whole, and each trial has each epoch and one end."""
    torn = 0 if runs else torn_bytes(path)
    if torn:
        found = f"{path}: {torn} bytes of a record that was being written when the process was killed"
        yield Breach(Finding("journal", "fail", found, "--repair cuts it off; it happens again"), _cut(path))
    way_out = "the journal contradicts itself: restore it from a backup"
    ends = Counter(record["trial"] for record in records if has_ended(record))
    for trial in history.trials.values():
        if ends[trial.id] != (trial.state is not TrialState.RUNNING):
            yield Breach(Finding("trial", "fail", f"{trial.id}: ended {ends[trial.id]} times", way_out))
        if sorted(trial.epochs) != list(range(1, trial.last_epoch + 1)):
            yield Breach(Finding("trial", "fail", f"{trial.id}: has epochs {sorted(trial.epochs)}", way_out))
    epochs = Counter((record["trial"], record["epoch"]) for record in records if record["kind"] == "epoch")
    for (name, epoch), times in epochs.items():
        if times > 1:
            yield Breach(Finding("trial", "fail", f"{name}: epoch {epoch} is there {times} times", way_out))
    if history.ended_by == "trials" and history.running():
        names = ", ".join(trial.id for trial in history.running())
        yield Breach(Finding("trial", "fail", f"the search is finished, but these are not: {names}", way_out))


def check_checkpoints(trials: Path, history: History, *, runs: bool) -> Iterator[Breach]:
    """Each is whole, known to the journal, and there where it is needed."""
    for path in sorted(trials.glob("*/epoch_[0-9]*")):
        damage = find_damage(path)
        if damage is not None:
            way_out = "--repair sets it aside, so that the one before is used"
            yield Breach(Finding("checkpoint", "fail", damage, way_out), _set_aside(path))
    for trial in history.trials.values():
        yield from _check_kept(trials / trial.id, trial)
    if not runs:
        stray = sorted(path for path in trials.glob("*/.epoch_*"))
        stray += [path for path in trials.glob("*/epoch_[0-9]*") if _is_ahead(path, history)]
        epochs = {trial.id: trial.last_epoch for trial in history.trials.values()}
        for path in stray:
            found = f"{path}: half written, or beyond what the journal knows"
            way_out = "--repair, or the next start, removes it"
            yield Breach(
                Finding("checkpoint", "fail", found, way_out), lambda: FolderCheckpoints(trials).rewind(epochs)
            )


def check_passed_over(history: History) -> Iterator[Breach]:
    """No trial that runs had to go back to an older checkpoint; in a bucket, this is all that is known of damage."""
    for trial in history.running():
        for damage in trial.damage:
            way_out = "its epochs were trained again, with the same numbers; look at what damages files there"
            yield Breach(Finding("checkpoint", "warn", f"{trial.id}: passed over: {damage}", way_out))


def check_derived(directory: Path, history: History) -> Iterator[Breach]:
    """What is written from the journal says what the journal says."""
    if not history.experiment:
        return
    expected: dict[str, tuple[Any, Callable[[str], Any], str]] = {
        "experiment.yaml": (
            history.experiment,
            lambda text: parse_yaml(text)[0],
            yaml.safe_dump(dict(history.experiment), sort_keys=False),
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
    """MLflow has one run a trial, in its state, with all epochs."""
    from orchestrator.tracking import find_differences, first_line, store_failures

    try:
        differences = find_differences(uri, directory.resolve().parent, directory.resolve().name, history)
    except store_failures() as error:
        way_out = "start the server; a damaged database can be removed: --repair then makes it again from the journals"
        yield Breach(Finding("tracking", "fail", f"{uri}: {first_line(error)}", way_out))
        return
    if differences:
        shown = "; ".join(differences[:3]) + (f"; and {len(differences) - 3} more" if len(differences) > 3 else "")
        way_out = "--repair, or the next start, sends what is missing"
        mend = _deliver(directory.resolve(), records, uri)
        yield Breach(Finding("tracking", "fail", f"{uri}: {shown}", way_out), mend)


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
    newest = int(good[-1].name.removeprefix("epoch_")) if good else 0
    if trial.state is TrialState.FINISHED and not good:
        found = f"{trial.id}: finished, and has no good checkpoint left"
        yield Breach(Finding("checkpoint", "fail", found, "its numbers stand; restore its model from a backup"))
    if trial.state is TrialState.RUNNING and newest < trial.last_epoch:
        found = f"{trial.id}: {trial.last_epoch - newest} epochs of {trial.last_epoch} have no good checkpoint"
        yield Breach(Finding("checkpoint", "warn", found, "they are trained again, with the same numbers"))


def _is_ahead(path: Path, history: History) -> bool:
    trial = history.trials.get(path.parent.name)
    return int(path.name.removeprefix("epoch_")) > (-1 if trial is None else trial.last_epoch) + 1


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    with suppress(OSError, ValueError, RecursionError, YamlTextError):
        return parse(path.read_text(encoding="utf-8"))
    return None


def _cut(path: Path) -> Callable[[], None]:
    return lambda: Journal(path).close()


def _set_aside(path: Path) -> Callable[[], None]:
    def set_aside() -> None:
        path.rename(path.with_name(f"damaged_{path.name}"))

    return set_aside


def _write(path: Path, text: str) -> Callable[[], None]:
    return lambda: write_whole(path, text)


def _deliver(directory: Path, records: Iterable[Mapping[str, Any]], uri: str) -> Callable[[], None]:
    def deliver() -> None:
        from orchestrator.tracker import Tracker

        tracker = Tracker(uri, directory.parent, directory.name, records)
        tracker.start()
        tracker.close(SYNC_SECONDS)
        if tracker.problem is not None:
            raise OSError(tracker.problem)

    return deliver
