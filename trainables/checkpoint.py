"""Reports of epochs, read while the next trains, and checkpoints: whole or not there, verified, unable to run code.

A checkpoint is a directory such as ``epoch_0007``. ``state.pt`` resumes the trial after the epoch in the directory's
name. ``best.pt`` is the model of the best epoch so far, with all data needed for its evaluation. ``manifest.json``,
written last, holds the sizes and SHA-256 digests of both files; a directory without a matching manifest is no
checkpoint. Torch is imported only to read or write tensors, so finding or refusing a checkpoint is quick.
"""

import hashlib
import json
import os
import pickle
import re
import shutil
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from trainables.config import TrialConfig
from trainables.errors import CheckpointError, DivergedError, UserError
from trainables.files import aside, read_state, take_place, write_whole


@dataclass(frozen=True)
class EpochReport:
    """One finished epoch.

    Attributes:
        epoch: Number of epochs trained so far, from 1.
        metrics: Finite numbers under the names of the glossary: ``train/loss``, ``val/i2t_r1`` ... ``val/rsum``,
            ``val/rsum_best``, ``time/epoch_seconds``, and ``cocos/...`` where due.
        is_best: Whether this epoch has the highest selection metric so far (the first of equals).
        save: Writes ``state.pt`` (to resume after this epoch) and ``best.pt`` (the model of the best epoch, to
            evaluate) into a directory that exists. In a group of trials it must be called before the next epoch.
        not_replayed: Why no CUDA graph replays the steps, where ``training.graph`` asks for one; ``None`` otherwise.
    """

    epoch: int
    metrics: Mapping[str, float]
    is_best: bool
    save: Callable[[Path], None]
    not_replayed: str | None = None


Outcome = EpochReport | DivergedError | UserError
"""Result of one of several trials after an epoch: its report, or the error that ended it."""


NextReport = Future[EpochReport | None]
"""The next report, ``None`` after the last."""

_ONE_EPOCH = threading.Lock()
"""Held while an epoch trains: PyTorch's random numbers are of the process, and each epoch begins with its own seed."""


def run_ahead(
    start: Callable[..., Generator[EpochReport, None, None]], on_step: Callable[[int], None] = lambda step: None
) -> Generator[EpochReport, None, None]:
    """Yield the reports of a trial, and train the next epoch while the reader has one.

    A checkpoint is whole before its epoch is reported, and a reader may end the trial at any report. Neither makes the
    device wait: one thread trains on while the reader writes the snapshot that a report holds, and asks whether the
    trial goes on. An epoch that nobody wants any more ends with the step that it is in. The thread is at most one epoch
    ahead, so that at most two snapshots are held: of the report that is read, and of an epoch that has ended since.

    ``start`` is ``trial.run_trial`` with its arguments but for ``on_step``, which is called in another thread. An error
    of an epoch is raised when its report is asked for.
    """
    is_closed = threading.Event()

    def count(step: int) -> None:
        if is_closed.is_set():
            raise GeneratorExit
        on_step(step)

    stream = start(on_step=count)
    asked: SimpleQueue[NextReport | None] = SimpleQueue()
    # A daemon, because a process that is asked to end must not wait for the end of an epoch.
    thread = threading.Thread(target=_answer, args=(stream, asked), name="training", daemon=True)
    thread.start()
    try:
        answer = _ask(asked)
        while (report := answer.result()) is not None:
            answer = _ask(asked)
            yield report
            # Its snapshot takes memory of the device.
            del report
    finally:
        is_closed.set()
        asked.put(None)
        thread.join()


def _ask(asked: "SimpleQueue[NextReport | None]") -> NextReport:
    answer: NextReport = Future()
    asked.put(answer)
    return answer


def _answer(stream: Generator[EpochReport, None, None], asked: "SimpleQueue[NextReport | None]") -> None:
    while (answer := asked.get()) is not None:
        try:
            with _ONE_EPOCH:
                report = next(stream, None)
            answer.set_result(report)
            # Its snapshot takes memory of the device.
            del report
        except BaseException as error:  # noqa: BLE001  # of any kind: the reader gets it, who would wait forever
            answer.set_exception(error)
    stream.close()


FORMAT = 1
STATE = "state.pt"
BEST = "best.pt"
MANIFEST = "manifest.json"

_EPOCH = re.compile(r"epoch_([0-9]{4,})")
_PARTIAL = re.compile(r"\.epoch_[0-9]{4,}\.[0-9a-f]+")


def write_file(path: Path, payload: dict[str, Any]) -> None:
    """Write tensors and plain values with ``torch.save`` and force them to the disk."""
    import torch

    with path.open("wb") as file:
        try:
            torch.save({"format": FORMAT, **payload}, file)
        except RuntimeError as error:
            # On a full disk PyTorch still tries to close its archive, and the error of closing hides the OSError.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
        file.flush()
        os.fsync(file.fileno())


def read_file(directory: Path, name: str) -> dict[str, Any]:
    """Read ``state.pt`` or ``best.pt`` of a checkpoint directory after checking it against the manifest.

    Raises:
        CheckpointError: If the directory is no checkpoint, or the file is damaged or of another format.
    """
    damage = find_damage(directory)
    if damage:
        raise CheckpointError(damage)
    import torch

    try:
        payload = torch.load(directory / name, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise CheckpointError(f"{directory / name}: holds more than tensors and plain values; refused") from None
    if not isinstance(payload, dict):
        raise CheckpointError(f"{directory / name}: must hold a dict, got {type(payload).__name__}; train it again")
    if payload.get("format") != FORMAT:
        raise CheckpointError(f"{directory / name}: format {payload.get('format')} is not {FORMAT}; train it again")
    return dict(payload)


def find_damage(directory: Path) -> str | None:
    """Return the damage of a checkpoint directory in one line, or ``None`` for an undamaged checkpoint."""
    try:
        manifest = read_state(directory / MANIFEST)
        if not isinstance(manifest, dict):
            return f"{directory / MANIFEST}: damaged: not a JSON object"
        for name in (STATE, BEST):
            if name not in manifest:
                return f"{directory / MANIFEST}: damaged: does not name {name}"
        for name, expected in manifest.items():
            if _digest(directory / name) != expected:
                return f"{directory / name}: damaged: its content is not what manifest.json says"
    except FileNotFoundError as error:
        return f"{error.filename}: missing, so {directory} is no complete checkpoint"
    except ValueError:
        return f"{directory / MANIFEST}: damaged: not a JSON object"
    except OSError as error:
        return f"{error.filename}: cannot be read: {error.strerror}"
    return None


def save_epoch(
    root: Path, report: EpochReport, keep: int = 3, guard: AbstractContextManager[object] = nullcontext()
) -> Path:
    """Write the checkpoint of a report as ``root/epoch_NNNN`` and remove all but the newest ``keep``.

    Several, at least one, are kept, because a crash may damage the newest. ``guard`` is a context around the renaming
    that makes the checkpoint appear; an error of the context prevents renaming.

    Returns:
        The checkpoint's directory.
    """
    root.mkdir(parents=True, exist_ok=True)
    final = root / f"epoch_{report.epoch:04d}"
    with aside(final) as partial:
        report.save(partial)
        write_whole(partial / MANIFEST, json.dumps({path.name: _digest(path) for path in sorted(partial.iterdir())}))
        with guard:
            take_place(partial, final)
            for old in list_epochs(root)[:-keep]:
                shutil.rmtree(old)
    return final


def list_epochs(root: Path) -> list[Path]:
    """Return the checkpoint directories under ``root``, oldest epoch first; other files are ignored."""
    epochs = [(epoch, path) for path in root.glob("epoch_*") if (epoch := epoch_of(path.name)) is not None]
    return [path for _, path in sorted(epochs) if path.is_dir()]


def list_partial(root: Path) -> list[Path]:
    """Return the unfinished checkpoints under ``root`` of processes that were killed while writing."""
    return sorted(path for path in root.glob(".epoch_*") if _PARTIAL.fullmatch(path.name) and path.is_dir())


def epoch_of(name: str) -> int | None:
    """Return the epoch in a checkpoint directory's name; ``None`` for other names.

    Example:
        >>> epoch_of("epoch_0007"), epoch_of("epoch_0007.bak"), epoch_of("epoch_7")
        (7, None, None)
    """
    match = _EPOCH.fullmatch(name)
    return None if match is None else int(match[1])


def find_latest(root: Path) -> Path | None:
    """Return the newest undamaged checkpoint under ``root``, or ``None``."""
    return next((path for path in reversed(list_epochs(root)) if find_damage(path) is None), None)


def resolve_checkpoint(path: Path) -> Path:
    """Return the checkpoint at a path, or the newest undamaged one of a training's directory (``CheckpointError``)."""
    if (path / MANIFEST).exists():
        return path
    latest = find_latest(path)
    if latest is None:
        raise CheckpointError(f"{path}: no undamaged checkpoint here; name an epoch_NNNN directory or a training's")
    return latest


def read_best_config(directory: Path) -> TrialConfig:
    """Return the config of a checkpoint's best model."""
    return TrialConfig.from_dict(read_file(directory, BEST)["config"])


def _digest(path: Path) -> dict[str, int | str]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
