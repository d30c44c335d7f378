"""Reads an experiment from its journal, to resume it without its YAML file, and answers an early signal.

A signal is early if it comes while no trial runs, e.g. while Ray starts: a Ctrl-C or a SIGTERM.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from orchestrator.experiment.experiment import Experiment, known_experiment
from orchestrator.experiment.yaml_files import Document, override, validate
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.machines.processes import sigterm_as_ctrl_c
from orchestrator.results.confirmation_plan import choose_candidates
from orchestrator.text.terminal import path_text, say, typed_program
from trainables.errors import ConfigError, UserError


def begun_experiment(directory: Path, history: History, overrides: Sequence[str] = ()) -> Experiment:
    """Return the experiment of the newest start in a directory's history, with ``--set`` applied.

    Raises:
        ConfigError: If the experiment never started, or is refused.
    """
    if not history.experiment:
        raise ConfigError(f"{directory}: never began; start it (again) with `orchestrator search`")
    # The check of an experiment also brings its plug-ins into use, which another experiment may have replaced.
    if not overrides and not history.experiment.plugins and (experiment := known_experiment(history)) is not None:
        return experiment
    return validate(Experiment, override(Document(str(directory / JOURNAL_FILE), history.experiment.values), overrides))


def check_folder(directory: Path, experiment: Experiment) -> None:
    """Refuse to resume in a folder that was renamed, or copied under another name.

    The experiment's name is also the name of its checkpoints under ``--storage`` and of its runs in MLflow. Trials of a
    copy would be written into the original.

    Raises:
        ConfigError: If the folder does not have the experiment's name.
    """
    folder = directory.resolve()
    if folder.name != experiment.name:
        raise ConfigError(
            f"{directory}: holds the experiment {experiment.name!r}, whose folder must be called {experiment.name}; "
            f"rename the folder, or move it to another --output as OTHER/{experiment.name}, and give --output OTHER"
        )


def command_to_resume(directory: Path, history: History, verb: str | None = None) -> str | None:
    """Return the command line that resumes an experiment that no process runs, ready to be pasted.

    A limit of the budget that was reached is doubled. ``verb`` is the command, where the history does not show which
    command was interrupted.

    Returns:
        The command; ``None`` where nothing is left of the search, where the experiment never began, or where it is a
        rerun of a suite, which `orchestrator regress` resumes.
    """
    if history.searched or history.is_rerun or not history.experiment:
        return None
    return command_for(_verb(history) if verb is None else [verb], directory, history.options)


def command_for(verb: Sequence[str], directory: Path, options: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a command about an experiment, as a person types it in the working directory."""
    resolved = directory.resolve()
    options = {"output": path_text(resolved.parent), **options}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return shlex.join([typed_program(), *verb, resolved.name, *words])


def how_to_resume(directory: Path, history: History, verb: str | None) -> str:
    """Return a text with an experiment's directory, and the command that resumes it, see ``command_to_resume``."""
    command = command_to_resume(directory, history, verb)
    return f"{directory}: " + (f"resume with: {command}" if command else "resume with the same command")


def _verb(history: History) -> list[str]:
    """Return the command, with an option that doubles the limit that was reached."""
    limit = history.ended_by
    reached = None if limit is None else history.experiment.limits.get(limit)
    if history.outcome != "budget_spent" or reached is None:
        return ["resume"]
    larger = ["--hours", f"{reached:g}"] if limit == "hours" else ["--set", f"budget.{limit}={2 * reached:g}"]
    return ["extend", *larger]


def extend_experiment(
    directory: Path, history: History, trials: int | None, hours: float | None, overrides: Sequence[str]
) -> Experiment:
    """Return an experiment with larger limits.

    Each study gets ``trials`` in addition. The search may take ``hours`` from now on, whatever its limit was.

    Raises:
        ConfigError: If no limit is larger, or a value is refused.
    """
    before = begun_experiment(directory, history)
    settings = [] if trials is None else [f"search.trials={before.search.trials + trials}"]
    if hours is not None:
        if not hours > 0:
            raise ConfigError(f"--hours {hours:g}: must be greater than 0")
        settings.append(f"budget.hours={history.spending.searched_seconds / 3600 + hours}")
    after = begun_experiment(directory, history, [*settings, *overrides])
    if after == before:
        raise ConfigError(f"{directory}: extend it by what? --trials N, --hours H, or --set, e.g. budget.plateau=20")
    if trials is not None and not any(after.trials_in(cell) > before.trials_in(cell) for cell in before.cells()):
        raise ConfigError(f"--trials {trials}: {directory} is a grid that has had all its points; search another space")
    return after


def confirm_experiment(directory: Path, history: History, changes: Mapping[str, Any]) -> Experiment:
    """Return an experiment whose best trials are to be confirmed.

    ``changes`` has keys of ``confirm`` and their values; ``None`` leaves a key as it is.

    Raises:
        ConfigError: If no trial of the search has finished, or a value is refused.
    """
    before = begun_experiment(directory, history).to_dict()
    overrides = {key: value for key, value in changes.items() if value is not None}
    # A number of seeds (fixed design) and a number of trainings (race) exclude each other: the new number counts.
    designs = dict.fromkeys(("seeds", "trainings")) if {"seeds", "trainings"} & overrides.keys() else {}
    values = {**before, "confirm": {**(before["confirm"] or {}), **designs, **overrides}}
    places = {f"confirm.{key}": f"--{key}" if value is True else f"--{key} {value}" for key, value in overrides.items()}
    experiment = validate(Experiment, Document(str(directory / JOURNAL_FILE), values, places))
    if not choose_candidates(history, 1):
        raise ConfigError(f"{directory}: no trial of the search has finished, so there is nothing to confirm")
    return experiment


class SearchInterruptedError(UserError):
    """A search, or a rerun, that a signal stopped; the same command resumes it."""

    exit_code = 130


@contextmanager
def answered(interrupted: Callable[[], UserError]) -> Iterator[None]:
    """Answer a signal inside a ``with`` block as it is answered while trials run, see ``orchestrator.tuner.run``.

    Raises:
        UserError: The error that ``interrupted`` returns, in place of ``KeyboardInterrupt``.
    """
    try:
        with sigterm_as_ctrl_c():
            yield
    except KeyboardInterrupt:
        # Printed before MLflow gets its last records, which may take seconds.
        say("stopping; all records of the journal are kept", error=True)
        raise interrupted() from None
