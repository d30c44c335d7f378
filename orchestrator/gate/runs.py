"""Bytes and runs of a proposal: its digest, the copy that is run, and the score that its command prints."""

import hashlib
import math
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from orchestrator.gate.stream import Contender, GateError
from trainables.errors import ConfigError, UserError
from trainables.files import whole_directory

TEXT = "text:"
"""Beginning of a proposal that is a text, such as ``text:--lr 0.1``, and no file."""

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b", re.I)

IGNORED = {".git", "__pycache__", ".venv"}
"""Folders below a proposal that are no part of it."""


class RunError(UserError):
    """A run of the champion or of a proposal gave no score; nothing is decided by it."""

    exit_code = 1


def entry_of(proposal: str) -> Contender:
    """Return name and digest of a proposal: a file, a folder, or a text after ``text:``.

    Raises:
        ConfigError: If there is no such file.
    """
    if proposal.startswith(TEXT):
        text = proposal.removeprefix(TEXT)
        return Contender(text, hashlib.sha256(f"{TEXT}{text}".encode()).hexdigest())
    path = Path(proposal)
    if not path.exists():
        raise ConfigError(f"{proposal}: no such file or folder; a proposal that is no file is written text:SETTINGS")
    digest = hashlib.sha256()
    for file in _files(path):
        # The length separates the bytes of files, so that no two folders have the same digest.
        content = file.read_bytes()
        name = "" if path.is_file() else str(file.relative_to(path))
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return Contender(path.name or path.resolve().name, digest.hexdigest(), str(path))


def keep_copy(state: Path, entry: Contender) -> Contender:
    """Return the entry with a copy of its file beside the state, which is run in its place.

    The file may change while it is tested, and the champion's file usually does.

    Raises:
        GateError: If the file changed while it was copied.
    """
    if entry.copy is None:
        return entry
    source, folder = Path(entry.copy), state.with_name(f"{state.name}.files") / entry.digest[:16]
    copy = folder / entry.name
    if not copy.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with whole_directory(folder) as partial:
            if source.is_dir():
                shutil.copytree(source, partial / entry.name, ignore=shutil.ignore_patterns(*IGNORED))
            else:
                shutil.copy2(source, partial / entry.name)
    kept = Contender(entry.name, entry.digest, str(copy.relative_to(state.parent)))
    check_copy(state, kept)
    return kept


def check_copy(state: Path, entry: Contender) -> None:
    """Refuse a copy whose bytes are not those that were proposed (``GateError``)."""
    if entry.copy is not None:
        copy = state.parent / entry.copy
        if not copy.exists() or entry_of(str(copy)).digest != entry.digest:
            raise GateError(f"{copy}: differs from what was proposed; restore this file, or begin a new stream")


def run_entry(state: Path, entry: Contender, command: str, seed: int) -> float:
    """Run the command of a stream for a champion or a proposal, and return its score.

    ``{proposal}`` in the command becomes the path of the copy, or the text's words, and ``{seed}`` the seed. The score
    is the last number of the last line that is not empty. The folders of the state and of the caller are on
    ``PYTHONPATH``, so that a script imports the modules beside it.

    Raises:
        RunError: If the command cannot start, fails, or prints no finite number.
    """
    # The command is cut into words before the proposal is put in: no text of a proposal becomes another command.
    own = [str(state.parent / entry.copy)] if entry.copy else shlex.split(entry.name)
    words = [
        word.replace("{proposal}", " ".join(own)).replace("{seed}", str(seed))
        for part in shlex.split(command)
        for word in (own if part == "{proposal}" else [part])
    ]
    folders = [str(state.parent.resolve()), str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    try:
        ended = subprocess.run(
            words, env=environment, stdout=subprocess.PIPE, check=False, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise RunError(f"{words[0]}: cannot be started: {error.strerror}") from error
    if ended.returncode:
        raise RunError(
            f"{entry.name}, seed {seed}: the command ended with exit code {ended.returncode}; nothing is decided. "
            "The same command tries again"
        )
    return score_of(ended.stdout, f"{entry.name}, seed {seed}")


def score_of(output: str, name: str) -> float:
    r"""Return the last number of the last line of an output that is not empty.

    Raises:
        RunError: If there is none, or it is not finite.

    Example:
        >>> score_of("epoch 3\nval accuracy: 71.25 %\n\n", "train.py")
        71.25
    """
    lines = [line for line in output.splitlines() if line.strip()]
    numbers = NUMBER.findall(lines[-1]) if lines else []
    score = float(numbers[-1]) if numbers else math.nan
    if not math.isfinite(score):
        shown = f"{lines[-1]:.80}" if lines else "nothing"
        raise RunError(f"{name}: the last line must end in a finite number, the score; it printed: {shown}")
    return score


def check_command(command: str) -> None:
    """Refuse a command without a place for the proposal and the seed (``ConfigError``)."""
    for place in ("{proposal}", "{seed}"):
        if place not in command:
            raise ConfigError(
                f"--run must have {place}, such as 'python {{proposal}} --seed {{seed}}'; got {command!r}"
            )
    try:
        shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"--run: {error}; got {command!r}") from error


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or the files below a folder in the order of their names."""
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and not IGNORED & set(file.relative_to(path).parts):
            yield file
