"""The command line: one table of commands, and how an error becomes an exit code.

The module of a command is imported when the command is called. So ``--help`` imports none of these modules, and a
command imports at its top what it needs.
"""

import atexit
import errno
import gc
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.environment import set_for_answers
from orchestrator.machines.processes import sigterm_as_ctrl_c
from orchestrator.text.addresses import hide_arguments, without_password
from orchestrator.text.terminal import lasting_output, remember_places, say
from trainables.errors import WANT_OF_MEMORY, DivergedError, UserError
from trainables.extras import EXTRAS, missing_extra

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of the system where a file does not fit."""

FAILING = (errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV, errno.EROFS, errno.ETIMEDOUT)
"""Error numbers of the system where a disk fails, or is not there any more."""

NEW_OBJECTS = 50_000
"""Objects that a command makes before Python looks for garbage, in place of Python's own 700."""

OBJECTS_OF_ANSWERS = 1_000_000
"""The same of a command that shows a journal and ends: those of a report of 20,000 trials, of which none is garbage."""

# Typer does not export Click's UsageError; whether Click is a package of its own depends on the version of Typer.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


GROUPS = {
    "Search": {
        "init": "Write an experiment file on your data, with all other keys as comments with their meaning.",
        "search": "Search an experiment and confirm its best trials. The same command resumes an interrupted search.",
        "resume": "Resume a search that was interrupted or killed, with the settings that it started with.",
        "extend": "Give a search that has ended more trials, more hours, or another limit by --set.",
        "confirm": "Train the best trials of a search again with fresh seeds. The same command resumes.",
        "judge": "Say which candidate is better: of tables of results, or of an experiment. Writes nothing.",
        "gate": "Keep or discard a proposal. At most 5 % of streams, however long, keep a proposal that is no better.",
        "status": "Show the state of an experiment that runs or has ended: stages, trials, budget, winners.",
        "watch": "Serve live pages about experiments that run, will run or have ended; Ctrl-C ends the server.",
    },
    "Read results": {
        "summarise": "Print all answers and the result tables as text, JSON, CSV, Markdown, LaTeX or HTML.",
        "report": "Write each experiment as one HTML file that needs no network; of several, also an overview.",
        "compare": "Compare two trials: which is better, in what they differ, and MLflow's page of both.",
        "export": "Write an experiment's trials for other programs: tables, Optuna, TensorBoard, Weights & Biases.",
        "retrieve": 'Query the best model: orchestrator retrieve "two dogs on a beach" --dataset flickr8k.',
        "ui": "Serve MLflow's pages of the newest experiment, best trials first; Ctrl-C ends the server.",
    },
    "Models and data": {
        "train": "Train one model: orchestrator train --set dataset=flickr8k --set loss=nt_xent.",
        "evaluate": "Evaluate a checkpoint, or files of embeddings of any model, on val or test.",
        "cocos": "Count the samples of the train split that contribute to the gradient, in the training's batches.",
        "data": "Make, describe and check datasets.",
        "list": "List experiments, suites, losses, models, samplers, metrics, keys.",
        "plugins": "List installed plug-ins and those of --plugin, with what they offer. Installed code is not run.",
        "check-plugin": "Check a plug-in by the tests that our own losses, models and samplers pass.",
    },
    "Operate": {
        "regress": "Rerun baselines and compare them with accepted results. Exit code 5: a regression.",
        "certify": "Run a paper's losses at its published settings, and say which of its claims hold on your data.",
        "mcp": "Serve datasets, experiments, answers, judge and gate to an assistant by the Model Context Protocol.",
        "sync": "Send MLflow the records that it missed, or all records to another store. Safe to repeat.",
        "doctor": "Check this machine and the services that a search uses, or an experiment. Exit code 1: a problem.",
    },
}
"""Group of ``orchestrator --help`` -> name of a command -> its summary, the first line of the function's docstring."""

COMMANDS = {name: (group, summary) for group, commands in GROUPS.items() for name, summary in commands.items()}

MODULES = {
    "list": "list_names",
    "check-plugin": "plugins",
    **dict.fromkeys(("resume", "extend", "confirm"), "search"),
    "cocos": "evaluate",
    **dict.fromkeys(("ui", "sync"), "mlflow_store"),
    **dict.fromkeys(("summarise", "report", "compare"), "results"),
}
"""Name of a command -> module under ``orchestrator/commands/``, where the two differ."""

FUNCTIONS = {"list": "list_names", "check-plugin": "check_plugin"}
"""Name of a command -> function of its module, where the two differ."""


def load_command(name: str) -> Any:
    """Import a command of ``COMMANDS``, and return it as the parser of the command line takes it."""
    module = import_module(f"orchestrator.commands.{MODULES.get(name, name)}")
    application = getattr(module, "app", None)
    if application is None:
        # Typer makes a command from an application alone.
        application = typer.Typer(add_completion=False, rich_markup_mode="rich")
        application.command(name)(getattr(module, FUNCTIONS.get(name, name)))
    command = typer.main.get_command(application)
    command.name = name
    return command


def _key_of(error: Any) -> str | None:
    """Return the key of a file that an unknown option of a command with ``--set`` means, or ``None``."""
    command = error.ctx.command if error.ctx is not None else None
    kind = KINDS_OF_FILE.get(str(command and command.name))
    if kind is None:
        return None
    # Imported for the message alone, because the keys are those of pydantic's classes.
    list_keys = import_module("orchestrator.commands.keys").list_keys
    our_name = import_module("search_spaces.other_names").our_name

    wanted = error.option_name.lstrip("-").replace("-", "_")
    keys = [key["name"] for key in list_keys(kind) if "[]" not in key["name"]]
    names = (f"{wanted}es", wanted, f"{wanted}s", our_name(wanted))
    return next((key for name in names for key in keys if key.rpartition(".")[2] == name), None)


KINDS_OF_FILE = {"search": "experiment", "certify": "experiment", "train": "training", "regress": "suite"}
"""Command that takes ``--set`` -> the kind of file whose keys it sets."""


class Commands(TyperGroup):
    """All commands as ``--help`` and the shell's completion show them; the command that is called is imported.

    The error about a refused command line quotes none of its passwords.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: TyperCommand(name, help=summary, rich_help_panel=group, rich_markup_mode="rich")
            for name, (group, summary) in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the called command, the command, and its arguments."""
        name, command, arguments = super().resolve_command(ctx, args)
        if MODULES.get(str(name), name) in ("results", "status"):
            gc.set_threshold(OBJECTS_OF_ANSWERS)
            if "numpy" not in sys.modules:
                set_for_answers()
        return name, command and load_command(str(name)), arguments

    def invoke(self, ctx: Any) -> Any:
        """Run the named command."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            vars(error)["message"] = without_password(vars(error)["message"])
            if type(error).__name__ == "NoSuchOption" and (key := _key_of(error)) is not None:
                vars(error)["message"] += f": give --set {key}=VALUE"
                vars(error)["possibilities"] = None
            raise


app = typer.Typer(
    name="orchestrator",
    cls=Commands,
    help="Hyper-parameter search for image-caption retrieval: losses, COCOS statistics, winners you can defend.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


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
    problems: list[OSError] = []
    try:
        with lasting_output(problems.append):
            _run(arguments)
    except SystemExit as ended:
        if problems and not ended.code:
            with suppress(OSError):
                say(f"error: some output could not be written: {problems[0].strerror}", error=True)
            sys.exit(1)
        raise


def _run(arguments: Sequence[str] | None) -> NoReturn:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    remember_places([without_password(argument) for argument in given])
    _warn_of_secrets(given)
    gc.set_threshold(NEW_OBJECTS)
    # Whatever the umask of a container or a cluster says, no file of ours can be written by everybody.
    os.umask(os.umask(0o077) | stat.S_IWOTH)
    atexit.register(_spare_last_collection)
    try:
        with sigterm_as_ctrl_c():
            app(args=arguments)
        sys.exit(0)
    except UserError as error:
        word = "interrupted" if error.exit_code == 130 else "error"
        say(f"{word}: {without_password(str(error))}", error=True)
        end(error)
    except ModuleNotFoundError as error:
        # A command imports torch at its top; whether it is there is asked where it is missing.
        if error.name not in EXTRAS["train"]:
            raise
        say(f"error: {missing_extra('train', 'this command', [error.name])}", error=True)
        sys.exit(2)
    except (DivergedError, MemoryError, RuntimeError, OSError) as error:
        if (remedy := _remedy(error)) is None:
            raise
        say(f"error: {remedy}", error=True)
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted", error=True)
        sys.exit(130)


def _remedy(error: Exception) -> str | None:
    """Return an error of data or machine with what helps; ``None`` for an error of the software."""
    if isinstance(error, DivergedError):
        return f"diverged: {error}; lower the learning rate, or look at the loss's parameters"
    if isinstance(error, OSError):
        if error.errno in FAILING and error.filename is not None:
            return (
                f"{error.filename}: {error.strerror}: its disk fails or is gone (see `dmesg`); when it answers again, "
                f"give the same command again, or copy the folder to another disk"
            )
        if error.errno not in FULL:
            return None
        return (
            f"{error.filename or 'output'}: {error.strerror}; files written before are whole: "
            f"make room and give the same command again (train: with --resume)"
        )
    # PyTorch reports lack of memory as a RuntimeError, a class that it uses for other errors too.
    said = f"{type(error).__name__}: {error}".strip(": ").splitlines()[0]
    if not WANT_OF_MEMORY.search(said):
        return None
    return (
        f"out of memory ({said:.200}); written files are whole: lower training.batch_size or the model's "
        f"sizes, or end other programs, and repeat the command (train: with --resume)"
    )


def _warn_of_secrets(arguments: list[str]) -> None:
    """Hide the passwords of the command line from ``ps``, and warn where passwords belong."""
    if all(without_password(argument) == argument for argument in arguments):
        return
    hide_arguments(arguments)
    say(
        "warning: other users can read a password on a command line (ps), and the shell's history keeps it; for a "
        "tracking server, set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead",
        error=True,
    )


if __name__ == "__main__":
    main()
