"""The accepted reference of a suite: the numbers of each cell and seed, and who accepted these numbers, when and why.

A reference is one JSON file for each suite, meant to be kept under version control: keys are sorted and each value has
a line of its own, so that a person can read the diff.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainables.errors import UserError
from trainables.files import write_whole
from trainables.json_files import read_state

FORMAT = 1


class AcceptedError(UserError):
    """A reference that is missing, damaged, or of another suite."""


@dataclass(frozen=True)
class Conditions:
    """The conditions, beside the seed, on which the numbers of a training depend.

    Attributes:
        config: The ``TrialConfig`` without the seed.
        data_digest: Digest of the dataset.
        git_revision: Revision of the code; ``None`` outside a repository.
        versions: Name -> version, of Python and of packages.
        machine: The machine, as ``machines.environment.describe_environment`` gives it.
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
        conditions: The conditions under which the runs were made.
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
        suite: Name of the suite.
        who: Name of the person who accepted the reference.
        when: Time of the acceptance, ISO 8601, UTC.
        why: The person's reason, in a sentence.
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
    content = {
        "format": FORMAT,
        "suite": accepted.suite,
        "who": accepted.who,
        "when": accepted.when,
        "why": accepted.why,
        "cells": {name: _written(runs) for name, runs in sorted(accepted.cells.items())},
        "first": {name: {"when": one.when, **_written(one.runs)} for name, one in sorted(accepted.first.items())},
    }
    write_whole(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _written(runs: CellRuns) -> dict[str, Any]:
    values = {str(seed): dict(sorted(values.items())) for seed, values in sorted(runs.values.items())}
    return {"conditions": asdict(runs.conditions), "values": values}


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
    values = {int(seed): {key: float(value) for key, value in run.items()} for seed, run in cell["values"].items()}
    if len(values) < 2:
        raise ValueError(f"cell {name} has {len(values)} seeds, at least 2 are needed")
    if not all(math.isfinite(value) for run in values.values() for value in run.values()):
        raise ValueError(f"cell {name} holds a value that is not finite")
    return CellRuns(Conditions(**cell["conditions"]), values, {})
