"""The command line: which commands there are, and how an error becomes an exit code.

A command lives in ``orchestrator/commands/``; it parses, calls one function and prints. Whatever is heavy is imported
inside the command that needs it, so that ``--help`` answers at once and a bad config is refused before torch loads.
"""

import errno
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
from orchestrator.text.addresses import hide_arguments, without_password
from orchestrator.text.terminal import say
from trainables.errors import WANT_OF_MEMORY, DivergedError, UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a file that it has no room for."""

# Typer does not export it, and brings Click along or has it inside, as its version will.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """All commands; what is said of a command line that is refused quotes no password of it."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
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
    """End the process with the exit code of an error that was told."""
    if error.ends_at_once:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(error.exit_code)
    sys.exit(error.exit_code)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    0 done, 1 failed, 2 bad usage or input, 3 already running, 4 budget spent, 5 regression found, 130 interrupted.
    """
    _warn_of_secrets(list(sys.argv[1:] if arguments is None else arguments))
    try:
        app(args=arguments)
    except UserError as error:
        word = "interrupted" if error.exit_code == 130 else "error"
        say(f"{word}: {without_password(str(error))}", error=True)
        end(error)
    except DivergedError as error:
        say(f"error: diverged: {error}; lower the learning rate, or look at the loss's parameters", error=True)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        # PyTorch says it with a RuntimeError, which may be about anything else as well.
        said = f"{type(error).__name__}: {error}".strip(": ").splitlines()[0]
        if not WANT_OF_MEMORY.search(said):
            raise
        say(
            f"error: out of memory ({said:.200}); what was written before is whole: lower training.batch_size or the "
            f"sizes of the model, or end other programs, and give the same command again (train: with --resume)",
            error=True,
        )
        sys.exit(1)
    except OSError as error:
        if error.errno not in FULL:
            raise
        say(
            f"error: {error.filename or 'output'}: {error.strerror}; what was written before is whole: "
            f"make room and give the same command again (train: with --resume)",
            error=True,
        )
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted", error=True)
        sys.exit(130)


def _warn_of_secrets(arguments: list[str]) -> None:
    """Hide the passwords of the command line from ``ps``, and say where they belong."""
    if all(without_password(argument) == argument for argument in arguments):
        return
    hide_arguments(arguments)
    say(
        "warning: a password on a command line can be read by other users of this machine (ps), and in the shell's "
        "history; for a tracking server, set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead",
        error=True,
    )
