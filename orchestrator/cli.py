"""The command line: which commands there are, and how an error becomes an exit code.

The commands stand in ``orchestrator/commands/``. Modules that take long to import are imported inside the command that
needs them, so that ``--help`` answers at once and a bad config is refused before torch loads.
"""

import atexit
import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from orchestrator.commands import (
    cocos,
    compare,
    confirm,
    data,
    doctor,
    evaluate,
    export,
    extend,
    init,
    judge,
    list_names,
    plugins,
    regress,
    report,
    resume,
    retrieve,
    search,
    status,
    summarise,
    sync,
    train,
    ui,
    watch,
)
from orchestrator.machines.processes import sigterm_as_ctrl_c
from orchestrator.text.addresses import hide_arguments, without_password
from orchestrator.text.terminal import say
from trainables.errors import WANT_OF_MEMORY, DivergedError, UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of the system where a file does not fit."""

NEW_OBJECTS = 50_000
"""Objects that a command makes before Python looks for garbage, in place of Python's own 700."""

# Typer does not export Click's UsageError; whether Click is a package of its own depends on the version of Typer.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """All commands; the error about a refused command line quotes none of its passwords."""

    def invoke(self, ctx: Any) -> Any:
        """Run the named command."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            vars(error)["message"] = without_password(vars(error)["message"])
            raise


app = typer.Typer(
    name="orchestrator",
    cls=Commands,
    help="Hyper-parameter search for image-caption retrieval: losses, COCOS statistics, winners you can defend.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(data.app, name="data")
app.add_typer(regress.app, name="regress")
app.command()(init.init)
app.command()(search.search)
app.command()(resume.resume)
app.command()(extend.extend)
app.command()(confirm.confirm)
app.command()(judge.judge)
app.command()(status.status)
app.command()(watch.watch)
app.command()(summarise.summarise)
app.command()(report.report)
app.command()(compare.compare)
app.command()(export.export)
app.command()(sync.sync)
app.command()(retrieve.retrieve)
app.command()(ui.ui)
app.command()(doctor.doctor)
app.command("list")(list_names.list_names)
app.command()(plugins.plugins)
app.command("check-plugin")(plugins.check_plugin)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(cocos.cocos)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"icr-orchestrator {version('icr-orchestrator')}")
        raise typer.Exit


@app.callback()
def _options(
    wanted: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def end(error: UserError) -> NoReturn:
    """End the process with the exit code of an error whose message has been printed."""
    if error.ends_at_once:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(error.exit_code)
    sys.exit(error.exit_code)


def _spare_last_collection() -> None:
    """Leave what is there at the end to the end of the process: a last collection takes a tenth of a second."""
    # Triton, which torchvision loads, prints a page about each object of its own that was not collected.
    if "triton" not in sys.modules:
        gc.freeze()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    0 done, 1 failed, 2 bad usage or input, 3 already running, 4 budget spent, 5 regression found, 130 interrupted.
    """
    _warn_of_secrets(list(sys.argv[1:] if arguments is None else arguments))
    # Of a command that looks at a long journal, collections took a tenth of the time, and found nothing.
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(_spare_last_collection)
    try:
        with sigterm_as_ctrl_c():
            app(args=arguments)
    except UserError as error:
        word = "interrupted" if error.exit_code == 130 else "error"
        say(f"{word}: {without_password(str(error))}", error=True)
        end(error)
    except DivergedError as error:
        say(f"error: diverged: {error}; lower the learning rate, or look at the loss's parameters", error=True)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        # PyTorch reports lack of memory as a RuntimeError, a class that it uses for other errors too.
        said = f"{type(error).__name__}: {error}".strip(": ").splitlines()[0]
        if not WANT_OF_MEMORY.search(said):
            raise
        say(
            f"error: out of memory ({said:.200}); files written before are whole: lower training.batch_size or the "
            f"sizes of the model, or end other programs, and give the same command again (train: with --resume)",
            error=True,
        )
        sys.exit(1)
    except OSError as error:
        if error.errno not in FULL:
            raise
        say(
            f"error: {error.filename or 'output'}: {error.strerror}; files written before are whole: "
            f"make room and give the same command again (train: with --resume)",
            error=True,
        )
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted", error=True)
        sys.exit(130)


def _warn_of_secrets(arguments: list[str]) -> None:
    """Hide the passwords of the command line from ``ps``, and warn where passwords belong."""
    if all(without_password(argument) == argument for argument in arguments):
        return
    hide_arguments(arguments)
    say(
        "warning: a password on a command line can be read by other users of this machine (ps), and in the shell's "
        "history; for a tracking server, set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead",
        error=True,
    )
