"""Accepted results, the file beside a suite, and how the conditions of a new run differ from theirs.

A reference is one JSON file for each suite, meant to be kept under version control. Keys are sorted and each value has
a line of its own, so that a person can read the diff.
"""

import json
import math
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.results.runs import Runs
from trainables.config import TrainingConfig
from trainables.errors import UserError
from trainables.files import read_state, write_whole

FORMAT = 1


class AcceptedError(UserError):
    """A reference that is missing, damaged, or of another suite."""


class Conditions(msgspec.Struct, frozen=True):
    """The conditions, beside the seed, on which the numbers of a training depend.

    ``config`` is the ``TrialConfig`` without the seed; ``git_revision`` is ``None`` outside a repository.
    """

    config: Mapping[str, Any]
    data_digest: str
    git_revision: str | None
    versions: Mapping[str, str]
    machine: Mapping[str, Any]


class CellRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a cell's runs, one for each seed, as a reference or a summary keeps it; ``runs`` compares them.

    Attributes:
        values: Seed -> metric -> value: scores of the best epoch, training loss and COCOS of the first and last epoch.
        missing: Seed -> how the training ended, for seeds without values.
        when: Of the first accepted runs of a cell, time of the acceptance, ISO 8601, UTC; else empty.
    """

    conditions: Conditions
    values: Mapping[int, Mapping[str, float]]
    missing: Mapping[int, str] = {}
    when: str = ""

    def runs(self, label: str, metric: str) -> Runs | None:
        """Return the seeds that have a metric as a candidate to compare; ``None`` without such a seed."""
        values = {seed: run for seed, run in self.values.items() if metric in run}
        return Runs.of_seeds(label, values) if values else None

    def has_setting_of(self, other: "CellRecord") -> bool:
        """Whether both runs trained the same configuration on the same data, so that their scores should agree."""
        mine, theirs = self.conditions, other.conditions
        return mine.data_digest == theirs.data_digest and _whole(mine.config) == _whole(theirs.config)

    def is_identical(self, other: "CellRecord") -> bool:
        """Whether there are seeds that both runs have, all with the same numbers, of metrics that both have.

        Training is deterministic, so one equal seed says that nothing changed which a further seed could show. That
        seed would only add the spread between seeds, which is no change. A new version may measure more.
        """
        pairs = [(self.values[seed], other.values[seed]) for seed in self.values.keys() & other.values.keys()]
        shared = [(mine, theirs, name) for mine, theirs in pairs for name in mine.keys() & theirs.keys()]
        return bool(shared) and all(mine[name] == theirs[name] for mine, theirs, name in shared)


class Accepted(msgspec.Struct, frozen=True):
    """An accepted reference.

    Attributes:
        who, when, why: The person who accepted, the time (ISO 8601, UTC), and the reason.
        cells: Name of a cell -> its accepted runs, of two seeds at least.
        first: Name of a cell -> its first accepted runs; without cells whose reference has never been replaced.
    """

    suite: str
    who: str
    when: str
    why: str
    cells: Mapping[str, CellRecord]
    first: Mapping[str, CellRecord] = {}
    format: int = FORMAT


def default_path(suite_file: Path) -> Path:
    """Return the path of a suite's reference, in the folder of the suite's file."""
    return suite_file.with_name(f"{suite_file.stem}.accepted.json")


def write_accepted(path: Path, accepted: Accepted) -> None:
    """Write a reference whole, or not at all.

    Raises:
        AcceptedError: If the file cannot be written.
    """
    content = msgspec.to_builtins(accepted, str_keys=True, order="deterministic")
    try:
        write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise AcceptedError(f"{path}: cannot be written: {error.strerror}; name another --reference") from None


def read_accepted(path: Path, suite: str) -> Accepted | None:
    """Read a reference; return ``None`` where there is no file.

    Raises:
        AcceptedError: If the reference is damaged, or belongs to another suite.
    """
    if not path.exists():
        return None
    try:
        accepted = msgspec.convert(read_state(path), Accepted, str_keys=True)
        _check(accepted)
    except (OSError, ValueError) as error:
        raise AcceptedError(
            f"{path}: damaged ({type(error).__name__}: {error}); restore it, or remove it and accept a new run"
        ) from None
    if accepted.suite != suite:
        raise AcceptedError(f"{path}: accepted for suite {accepted.suite!r}, not {suite!r}; name another --reference")
    return accepted


def require_accepted(path: Path, suite: str, cells: Sequence[str], typed: str) -> None:
    """Refuse a reference that is lost, or lacks cells, before a rerun that could then find nothing.

    ``typed`` is the suite as the user has named it.

    Raises:
        AcceptedError: If something was not accepted; see also ``read_accepted``.
    """
    accepted = read_accepted(path, suite)
    missing = [cell for cell in cells if accepted is None or cell not in accepted.cells]
    if missing:
        lost = "is not there" if accepted is None else f"has no accepted runs of {', '.join(missing)}"
        raise AcceptedError(
            f"--require-accepted: {path} {lost}; restore the file, or run without the option, then "
            f"`orchestrator regress accept {shlex.quote(typed)} --why REASON`"
        )


def _check(accepted: Accepted) -> None:
    if accepted.format != FORMAT:
        raise ValueError(f"format {accepted.format} is not {FORMAT}")
    for name, runs in (*accepted.cells.items(), *accepted.first.items()):
        if len(runs.values) < 2:
            raise ValueError(f"cell {name} has {len(runs.values)} seeds, at least 2 are needed")
        if not all(math.isfinite(value) for run in runs.values.values() for value in run.values()):
            raise ValueError(f"cell {name} holds a value that is not finite")


def what_changed(accepted: Conditions, new: Conditions) -> list[str]:
    """Return a line for each condition that changed: config, data, code, versions and hardware, in this order."""
    lines = [f"config: {line}" for line in _differences(_whole(accepted.config), _whole(new.config))]
    if accepted.data_digest != new.data_digest:
        lines.append(f"data: the digest was {_short(accepted.data_digest)}, it is {_short(new.data_digest)}")
    if accepted.git_revision != new.git_revision:
        lines.append(f"code: {_code(accepted.git_revision, new.git_revision)}")
    elif new.git_revision is not None and new.git_revision.endswith("-dirty"):
        lines.append(f"code: {_short(new.git_revision)} with uncommitted changes in both, which may differ")
    lines += [f"version: {line}" for line in _differences(accepted.versions, new.versions)]
    lines += [f"hardware: {line}" for line in _differences(accepted.machine, new.machine)]
    return lines


def _whole(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config of an older version with the training keys of newer versions, at their current defaults."""
    return {**config, "training": {**asdict(TrainingConfig()), **config["training"]}}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in sorted({**old, **new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{prefix}{key}.")
        elif before != after:
            was, now = ("absent" if value is None else value for value in (before, after))
            yield f"{prefix}{key} was {was}, it is {now}"


def _code(old: str | None, new: str | None) -> str:
    """Return the change of the revision, with the newest titles of the commits between both where git knows them."""
    line = f"the revision was {_short(old)}, it is {_short(new)}"
    if old is None or new is None:
        return line
    root = Path(__file__).resolve().parent.parent.parent
    span = f"{old.removesuffix('-dirty')}..{new.removesuffix('-dirty')}"
    command = ["git", "-C", str(root), "log", "--format=%h %s", "--max-count=200", span, "--", "trainables"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return line
    commits = done.stdout.splitlines()
    shown = "; ".join(commits[:5]) + (" ..." if len(commits) > 5 else "")
    return f"{line}, {len(commits)} commits: {shown}" if commits else line


def _short(value: str | None) -> str:
    if value is None:
        return "unknown"
    commit, dash, rest = value.partition("-")
    return commit[:12] + dash + rest
