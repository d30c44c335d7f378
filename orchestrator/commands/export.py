"""``orchestrator export``: the trials of an experiment for other programs."""

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from orchestrator.commands.options import ExperimentName, Output
from orchestrator.exports.trial_run import WRITERS
from orchestrator.searches.loaded import load
from orchestrator.text.addresses import database_address
from orchestrator.text.terminal import say
from trainables.errors import ConfigError
from trainables.extras import require
from trainables.files import write_whole

TABLES = (".csv", ".parquet", ".jsonl")
"""Endings of files that hold a table."""


def export(
    experiment: ExperimentName,
    to: Annotated[
        Path,
        typer.Option(
            help="File or folder to write, by its ending. A table is .csv, .parquet or .jsonl, an Optuna storage .db. "
            "A folder is .tensorboard, or .wandb for offline runs of Weights & Biases."
        ),
    ],
    epochs: Annotated[
        bool, typer.Option("--epochs", help="In a table, give each epoch a row, not each trial.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file or folder of this name.")] = False,
    output: Output = Path("runs"),
) -> None:
    """Write an experiment's trials for other programs: tables, Optuna, TensorBoard, Weights & Biases."""
    if to.suffix not in (*TABLES, *STORES):
        named = ", ".join((*TABLES, ".db (an Optuna storage)", ".tensorboard"))
        raise ConfigError(f"--to {to}: must end in {named} or .wandb")
    store = STORES.get(to.suffix)
    if epochs and store is not None:
        raise ConfigError(f"--epochs: {store.name} has the epochs of every trial; leave it out with --to {to}")
    if to.is_symlink():
        raise ConfigError(f"--to {to}: is a link to {to.readlink()}; name that file or folder, or choose another name")
    if store is None and to.is_dir():
        raise ConfigError(f"--to {to}: is a folder; choose another name for a table")
    if to.exists() and not force:
        raise ConfigError(f"--to {to}: is there already; choose another name, or replace it with --force")
    if not to.parent.is_dir():
        raise ConfigError(f"--to {to}: no such folder: {to.parent}")
    if to.suffix == ".parquet":
        require("search", f"--to NAME{to.suffix}", "pyarrow")
    if store is not None:
        require(store.extra, f"--to NAME{to.suffix}", store.module)

    content = load(experiment, output=output)
    with _writing(to):
        if store is not None:
            module, _, name = store.writer.partition(":")
            count = getattr(import_module(module), name)(content.history, content.experiment, to)
            place = database_address(to) if store is OPTUNA else str(to)
            say(f"{to}: {count} trials; {store.opened.format(shlex.quote(place))}")
            return

        frame = content.epochs if epochs else content.trials
        write_whole(to, WRITERS[to.suffix](frame.reset_index()))
        say(f"{to}: {len(frame)} {'epochs' if epochs else 'trials'}")


@contextmanager
def _writing(to: Path) -> Iterator[None]:
    """Name the export, and not a temporary file of it, in the error of a full disk or of a folder that is read-only."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise ConfigError(f"--to {to}: cannot be written: {error.strerror}; choose another folder") from error
        raise OSError(error.errno, error.strerror, str(to)) from error


class StoreForm(NamedTuple):
    """A form of file or folder that holds trials with all their epochs.

    The name has its article. ``writer`` is MODULE:NAME of a function that returns the number of written trials; its
    module imports the extra. ``opened`` says how a user opens the path or address ``{}``.
    """

    name: str
    writer: str
    opened: str
    extra: str
    module: str


OPTUNA = StoreForm(
    "an Optuna storage",
    "orchestrator.studies.export:write_storage",
    "look at them with `optuna-dashboard {}` (a package of its own)",
    "search",
    "optuna",
)
STORES = {
    ".db": OPTUNA,
    ".sqlite": OPTUNA,
    ".sqlite3": OPTUNA,
    ".tensorboard": StoreForm(
        "a folder of event files",
        "orchestrator.exports.tensorboard:write_events",
        "look at them with `tensorboard --logdir {}` (a package of its own)",
        "tensorboard",
        "tensorboardX",
    ),
    ".wandb": StoreForm(
        "a folder of offline runs",
        "orchestrator.exports.offline_runs:write_offline_runs",
        "upload them with `wandb sync {}/wandb/*`",
        "wandb",
        "wandb",
    ),
}
"""Ending -> form of the written file or folder."""
