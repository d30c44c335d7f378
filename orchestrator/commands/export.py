"""``orchestrator export``: the trials of an experiment for other programs."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.commands.options import Output
from orchestrator.text.terminal import say
from trainables.errors import ConfigError
from trainables.extras import require

if TYPE_CHECKING:
    from pandas import DataFrame

STORAGES = (".db", ".sqlite", ".sqlite3")
"""Endings of a file that becomes an Optuna storage."""


ENGINES = {".parquet": "pyarrow"} | dict.fromkeys(STORAGES, "optuna")
"""Ending of a file -> the module that writes the file, where it is none of [report]."""


def export(
    experiment: Annotated[str, typer.Argument(help="Name of an experiment under OUTPUT, or its folder.")],
    to: Annotated[
        Path, typer.Option(help="File to write: .csv, .parquet, .jsonl, or .db for an Optuna storage of the search.")
    ],
    epochs: Annotated[bool, typer.Option("--epochs", help="A row an epoch instead of a row a trial.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file where there is one.")] = False,
    output: Output = Path("runs"),
) -> None:
    """Write trials, or their epochs, as a table, or as a storage that optuna-dashboard opens."""
    if to.suffix not in (*WRITERS, *STORAGES):
        raise ConfigError(f"--to {to}: must end in {', '.join(WRITERS)} or {STORAGES[0]} (an Optuna storage)")
    if epochs and to.suffix in STORAGES:
        raise ConfigError(f"--epochs: an Optuna storage has the epochs of every trial; leave it out with --to {to}")
    if to.exists() and not force:
        raise ConfigError(f"--to {to}: is there already; choose another name, or replace it with --force")
    if not to.parent.is_dir():
        raise ConfigError(f"--to {to}: no such folder: {to.parent}")
    if to.suffix in ENGINES:
        require("search", f"a {to.suffix} file", ENGINES[to.suffix])
    from orchestrator.search.loaded import load

    found = load(experiment, output=output)
    if to.suffix in STORAGES:
        from orchestrator.studies.export import write_storage

        count = write_storage(found.history, found.experiment, to)
        say(f"{to}: {count} trials; look at them with `optuna-dashboard sqlite:///{to}` (a package of its own)")
        return
    from trainables.files import write_whole

    frame = found.epochs if epochs else found.trials
    write_whole(to, WRITERS[to.suffix](frame.reset_index()))
    say(f"{to}: {len(frame)} {'epochs' if epochs else 'trials'}")


def _as_csv(frame: "DataFrame") -> bytes:
    return bytes(frame.to_csv(index=False).encode())


def _as_parquet(frame: "DataFrame") -> bytes:
    buffer = io.BytesIO()
    # Parameters of one name may be numbers in one loss and words or lists in another; a column has one type.
    mixed = [name for name in frame if frame[name].dtype == object and frame[name].dropna().map(type).nunique() > 1]
    frame.assign(**{name: frame[name].map(str, na_action="ignore") for name in mixed}).to_parquet(buffer, index=False)
    return buffer.getvalue()


def _as_lines(frame: "DataFrame") -> bytes:
    return bytes(frame.to_json(orient="records", lines=True).encode())


WRITERS: dict[str, Callable[["DataFrame"], bytes]] = {".csv": _as_csv, ".parquet": _as_parquet, ".jsonl": _as_lines}
"""Ending of a file -> what its content is."""
