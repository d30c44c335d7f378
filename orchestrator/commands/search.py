"""``orchestrator search``, ``resume``, ``extend`` and ``confirm``: an experiment from its file to its winners."""

import json
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.mlflow_store import choose_port
from orchestrator.commands.options import ExperimentName, Overrides, Plugins, with_start_options
from orchestrator.commands.watch import PORT, page_beside
from orchestrator.experiment.experiment import Experiment, load_experiment
from orchestrator.journal.directory import JOURNAL_FILE, find_directory, read_history
from orchestrator.journal.history import History
from orchestrator.machines.cluster import StartOptions
from orchestrator.machines.own_machine import check_machine
from orchestrator.results.search_designs import USUAL, measured_luck
from orchestrator.results.winner import find_champions
from orchestrator.searches.begin import make_workload, run_experiment
from orchestrator.searches.budget import SPENT
from orchestrator.searches.display import print_summary
from orchestrator.searches.dry_run import dry_run, print_dry_run
from orchestrator.searches.resuming import (
    begun_experiment,
    check_folder,
    command_for,
    command_to_resume,
    confirm_experiment,
    extend_experiment,
)
from orchestrator.searches.search import SearchResult
from orchestrator.studies.past_searches import read_prior, read_sources
from orchestrator.text.terminal import path_text, say
from orchestrator.tracking.address import store_command
from orchestrator.tracking.registry import Registered
from trainables.errors import ConfigError
from trainables.extras import require


@with_start_options
def search(
    experiment: Annotated[str, typer.Argument(help="YAML file, or the name of a shipped experiment.")],
    overrides: Overrides = None,
    plugins: Plugins = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show search spaces, first points and forecast hours; do not search.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Serve a live page beside the search; its address goes to standard error.")
    ] = False,
    *,
    options: StartOptions,
) -> None:
    """Search an experiment and confirm its best trials. The same command resumes an interrupted search."""
    chosen = load_experiment(experiment, overrides or [], plugins or [])
    if dry_run:
        show_plan(chosen, options)
        return
    if watch:
        require("watch", "--watch")
    with page_beside(options.output, chosen.name, choose_port(PORT)) if watch else nullcontext():
        run_and_print(chosen, options)


def show_plan(experiment: Experiment, options: StartOptions) -> None:
    """Print what a search would try on this machine, and how long it would take.

    Raises:
        ConfigError: If ``--address`` names another machine.
        UserError: If the search would be refused.
    """
    require("search", "`orchestrator search --dry-run`")
    if options.cluster.address is not None:
        raise ConfigError("--dry-run measures this machine, not a cluster: leave out --address, or run it on a node")
    check_machine(experiment.resources)
    read_sources(experiment, options.output)
    prior = read_prior(experiment, options.output)
    begun = options.output / experiment.name
    luck = measured_luck(read_history(begun)) if (begun / JOURNAL_FILE).is_file() else USUAL
    workload = make_workload(experiment.resources, options.data_root, experiment.plugins)
    plan = dry_run(experiment, workload, prior, luck)
    if options.quiet:
        print(json.dumps(asdict(plan), indent=2))
    else:
        print_dry_run(plan)


def run_and_print(experiment: Experiment, options: StartOptions, *, search: bool = True) -> None:
    """Search and confirm, or confirm alone, then print the result and exit with its code."""
    result = run_experiment(experiment, options, confirm_alone=not search)
    if options.quiet:
        registered = [asdict(model) for model in result.registered]
        registry = {"registered": registered, "unregistered": list(result.unregistered)}
        print(json.dumps({**result.summary, "tracking_problem": result.tracking_problem, **registry}, indent=2))
    else:
        print_summary(result.history, _closing(result, options.output))
        problems = filter(None, (result.tracking_problem, *result.unregistered))
        say(*(f"warning: {problem}" for problem in problems), error=True)
    _exit(result, experiment)


def resume_experiment(
    name: str, wanted: Callable[[Path, History], Experiment], options: StartOptions, *, search: bool = True
) -> None:
    """Resume an experiment that has begun; ``wanted`` makes the experiment from its folder and history."""
    directory = find_directory(name, options.output)
    history = read_history(directory)
    experiment = wanted(directory, history)
    check_folder(directory, experiment)
    cluster = replace(options.cluster, storage=options.cluster.storage or history.storage)
    run_and_print(experiment, replace(options, cluster=cluster, output=directory.resolve().parent), search=search)


def _standing(model: Registered) -> str:
    """Return whether a registered model is the champion, and why it cannot be."""
    if model.is_champion:
        return "the champion"
    return f"not the champion: {model.reason}" if model.reason else "behind the champion"


def _closing(result: SearchResult, output: Path) -> list[str]:
    """Return the commands that show all answers and MLflow's pages, with the registered models, and the next one."""
    answers = f"all answers: {command_for(['summarise'], result.directory)}"
    models = [f"{model.name} version {model.version}, {_standing(model)}" for model in result.registered]
    registered = f"registered: {'; '.join(models)}; " if models else ""
    browser = f"{registered}in the browser: {store_command('ui', result.tracking_uri, output)}"
    left = command_to_resume(result.directory, result.history) if result.ended_by in (None, "signal") else None
    not_ended = [] if left is None else [f"confirmed before the end of the search, which goes on with: {left}"]
    return [answers, browser, *not_ended, f"next: {_next(result)}"]


def _next(result: SearchResult) -> str:
    """Return the next command, ready to be pasted: of an unconfirmed winner the confirmation."""
    if result.history.experiment.confirm is None and result.ended_by not in SPENT:
        return command_for(["confirm"], result.directory, result.history.options)
    return command_for(["report"], result.directory)


def _exit(result: SearchResult, experiment: Experiment) -> None:
    if result.ended_by in SPENT:
        key, spent = f"budget.{result.ended_by}", getattr(experiment.budget, result.ended_by)
        named = shlex.quote(path_text(result.directory))
        say(
            f"budget spent: {key}={spent:g} ended the search; resume with more, e.g. with "
            f"`orchestrator extend {named} --set {key}={2 * spent:g}`",
            error=True,
        )
        raise typer.Exit(4)
    if set(find_champions(result.history)) != set(experiment.datasets):
        say("error: no trial finished, so there is no winner; see the errors of the trials above", error=True)
        raise typer.Exit(1)


@with_start_options
def resume(experiment: ExperimentName, *, options: StartOptions) -> None:
    """Resume a search that was interrupted or killed, with the settings that it started with."""
    resume_experiment(experiment, begun_experiment, options)


@with_start_options
def extend(
    experiment: ExperimentName,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials to add to each study.")] = None,
    hours: Annotated[float | None, typer.Option(help="Hours that the search may take from now on.")] = None,
    overrides: Overrides = None,
    *,
    options: StartOptions,
) -> None:
    """Give a search that has ended more trials, more hours, or another limit by --set."""
    wanted = partial(extend_experiment, trials=trials, hours=hours, overrides=overrides or [])
    resume_experiment(experiment, wanted, options)


@with_start_options
def confirm(
    experiment: ExperimentName,
    top: Annotated[
        int | None, typer.Option(help="Best trials of each study to confirm; by default as in the search, or 3.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Fresh seeds for each candidate; by default as in the search, or 5.")
    ] = None,
    trainings: Annotated[
        int | None,
        typer.Option(help="Run a race: at most this many trainings a dataset, the last of them for the two in front."),
    ] = None,
    surface: Annotated[
        bool,
        typer.Option(
            "--surface",
            help="First train the setting to use of each study's surface, and confirm it too; continues the search.",
        ),
    ] = False,
    baseline: Annotated[
        str | None, typer.Option(help="Loss to compare the winner with, instead of the best published settings.")
    ] = None,
    looks: Annotated[
        str | None, typer.Option(help="output: the level counts openings of the test split by other experiments too.")
    ] = None,
    *,
    options: StartOptions,
) -> None:
    """Train the best trials of a search again with fresh seeds. The same command resumes."""
    changes = {"top": top, "seeds": seeds, "trainings": trainings, "baseline": baseline, "looks": looks}
    changes["surface"] = surface or None
    wanted = partial(confirm_experiment, changes=changes)
    resume_experiment(experiment, wanted, options, search=surface)
