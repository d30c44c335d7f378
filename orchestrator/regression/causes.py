"""The differences between the conditions of an accepted and of a new run, as lines for a person looking for a cause."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrator.regression.accepted import Conditions
from trainables.config import TrainingConfig


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
