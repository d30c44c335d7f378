"""Accepted results, the file beside a suite, and how the conditions of a new run differ from theirs.

A reference is one JSON file for each suite, meant to be kept under version control: keys are sorted and each value has
a line of its own, so that a person can read the diff.

Where conditions differ, each difference is a line for a person looking for a cause.
"""

import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainables.config import TrainingConfig
from trainables.errors import UserError
from trainables.files import read_state, write_whole

FORMAT = 1


class AcceptedError(UserError):
    """A reference that is missing, damaged, or of another suite."""


@dataclass(frozen=True)
class Conditions:
    """The conditions, beside the seed, on which the numbers of a training depend.

    Attributes:
        config: The ``TrialConfig`` without the seed.
        git_revision: Revision of the code; ``None`` outside a repository.
        versions: Name -> version, of Python and of packages.
    """

    config: Mapping[str, Any]
    data_digest: str
    git_revision: str | None
    versions: Mapping[str, str]
    machine: Mapping[str, Any]


@dataclass(frozen=True)
class CellRuns:
    """The runs of a cell, one for each seed.

    Attributes:
        values: Seed -> metric -> value: scores of the best epoch, training loss and COCOS of the first and last epoch.
        missing: Seed -> how the training ended, for seeds without values.
    """

    conditions: Conditions
    values: Mapping[int, Mapping[str, float]]
    missing: Mapping[int, str]


@dataclass(frozen=True)
class FirstRuns:
    """The first accepted scores of a cell, from which the cell's drift is measured.

    Attributes:
        when: Time of the acceptance, ISO 8601, UTC.
        runs: The runs, with the config and data that the cell still has.
    """

    when: str
    runs: CellRuns


@dataclass(frozen=True)
class Accepted:
    """An accepted reference.

    Attributes:
        when: Time of the acceptance, ISO 8601, UTC.
        cells: Name of a cell -> its accepted runs.
        first: Name of a cell -> its first accepted runs; without cells whose reference has never been replaced.
    """

    suite: str
    who: str
    when: str
    why: str
    cells: Mapping[str, CellRuns]
    first: Mapping[str, FirstRuns] = field(default_factory=dict)


def default_path(suite_file: Path) -> Path:
    """Return the path of a suite's reference, in the folder of the suite's file."""
    return suite_file.with_name(f"{suite_file.stem}.accepted.json")


def write_accepted(path: Path, accepted: Accepted) -> None:
    """Write a reference whole, or not at all."""

    def complete(runs: CellRuns) -> dict[str, Any]:
        # No run of a reference is missing.
        return {key: value for key, value in written_runs(runs).items() if key != "missing"}

    content = {
        "format": FORMAT,
        "suite": accepted.suite,
        "who": accepted.who,
        "when": accepted.when,
        "why": accepted.why,
        "cells": {name: complete(runs) for name, runs in sorted(accepted.cells.items())},
        "first": {name: {"when": one.when, **complete(one.runs)} for name, one in sorted(accepted.first.items())},
    }
    write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def written_runs(runs: CellRuns) -> dict[str, Any]:
    """Return the runs of a cell as plain values for a file."""
    values = {str(seed): dict(sorted(values.items())) for seed, values in sorted(runs.values.items())}
    missing = {str(seed): fate for seed, fate in runs.missing.items()}
    return {"conditions": asdict(runs.conditions), "values": values, "missing": missing}


def read_runs(cell: Mapping[str, Any]) -> CellRuns:
    """Return the runs of a cell from a file's values.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: If these are no runs.
    """
    values = {int(seed): {key: float(value) for key, value in run.items()} for seed, run in cell["values"].items()}
    missing = {int(seed): fate for seed, fate in cell.get("missing", {}).items()}
    return CellRuns(Conditions(**cell["conditions"]), values, missing)


def read_accepted(path: Path, suite: str) -> Accepted | None:
    """Read a reference; return ``None`` where there is no file.

    Raises:
        AcceptedError: If the reference is damaged, or belongs to another suite.
    """
    if not path.exists():
        return None
    try:
        found = _accepted(read_state(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise AcceptedError(
            f"{path}: damaged ({type(error).__name__}: {error}); restore it, or remove it and accept a new run"
        ) from None
    if found.suite != suite:
        raise AcceptedError(f"{path}: accepted for suite {found.suite!r}, not {suite!r}; name another --reference")
    return found


def _accepted(content: dict[str, Any]) -> Accepted:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']} is not {FORMAT}")
    cells = {name: _runs(name, cell) for name, cell in content["cells"].items()}
    # References of older versions have no ``first``; their own runs are taken for the first accepted runs.
    first = {name: FirstRuns(str(one["when"]), _runs(name, one)) for name, one in content.get("first", {}).items()}
    return Accepted(content["suite"], content["who"], content["when"], content["why"], cells, first)


def _runs(name: str, cell: dict[str, Any]) -> CellRuns:
    runs = read_runs(cell)
    if len(runs.values) < 2:
        raise ValueError(f"cell {name} has {len(runs.values)} seeds, at least 2 are needed")
    if not all(math.isfinite(value) for run in runs.values.values() for value in run.values()):
        raise ValueError(f"cell {name} holds a value that is not finite")
    return runs


def asks_the_same(accepted: Conditions, new: Conditions) -> bool:
    """Say whether two runs trained the same configuration on the same data, so that their scores should agree."""
    same_data = accepted.data_digest == new.data_digest
    return same_data and _whole(accepted.config) == _whole(new.config)


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
            yield f"{prefix}{key} was {_shown(before)}, it is {_shown(after)}"


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)


def _code(old: str | None, new: str | None) -> str:
    line = f"the revision was {_short(old)}, it is {_short(new)}"
    commits = _commits_between(old, new)
    if commits:
        shown = "; ".join(commits[:5])
        line += f", {len(commits)} commits: {shown}" + (" ..." if len(commits) > 5 else "")
    return line


def _commits_between(old: str | None, new: str | None) -> list[str]:
    """Return the titles of the commits between two revisions, newest first; empty where git cannot tell."""
    if old is None or new is None:
        return []
    root = Path(__file__).resolve().parent.parent.parent
    span = f"{old.removesuffix('-dirty')}..{new.removesuffix('-dirty')}"
    command = ["git", "-C", str(root), "log", "--format=%h %s", "--max-count=200", span, "--", "trainables"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def _short(value: str | None) -> str:
    if value is None:
        return "unknown"
    commit, dash, rest = value.partition("-")
    return commit[:12] + dash + rest
