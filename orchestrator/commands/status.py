"""``orchestrator status``: the state of an experiment, from another terminal or after its end."""

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from orchestrator.commands.options import ExperimentName, Json, Output
from orchestrator.journal.directory import find_directory
from orchestrator.journal.trial import Stage
from orchestrator.results.answers import Summary, headline_of, summarise
from orchestrator.results.caveats import without_graphs
from orchestrator.searches.display import memory_lines, race_lines
from orchestrator.searches.resuming import command_for
from orchestrator.searches.status import Followed, Status, read_status
from orchestrator.searches.trial_table import ROWS, count_words, trials_table
from orchestrator.text.terminal import make_console, path_text
from orchestrator.text.values import value_text
from trainables.extras import require

MOST = 40
"""Most trials of a stage that are listed without ``--all``."""

SECONDS = 2.0
"""Seconds between two readings of the journal with ``--watch``."""


def status(
    experiment: ExperimentName,
    output: Output = Path("runs"),
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every two seconds until the run ends.")] = False,
    every: Annotated[bool, typer.Option("--all", help=f"List all trials, not the best {MOST} of each stage.")] = False,
    as_json: Json = False,
) -> None:
    """Show the state of an experiment that runs or has ended: stages, trials, budget, winners."""
    require("report", "`orchestrator status`")

    followed = Followed(find_directory(experiment, output))
    now = read_status(followed)
    is_live = watch and not as_json and sys.stdout.isatty()
    rows = ROWS if is_live else None if every else MOST
    with Live(console=make_console(), auto_refresh=False) if is_live else nullcontext() as live:
        while True:
            if live is not None:
                live.update(_drawn(now, rows), refresh=True)
            elif as_json:
                results = summarise(now.history) if now.history.experiment else {}
                print(json.dumps({**now.to_dict(), **results}), flush=True)
            else:
                make_console().print(_drawn(now, rows))
            if not watch or now.holder is None:
                return
            time.sleep(SECONDS)
            now = read_status(followed)


def _drawn(now: Status, rows: int | None) -> Group:
    """Return a table of at most ``rows`` trials for each stage with trials, and lines about the whole experiment."""
    title = f"{now.name}: {now.words}"
    tables = [
        trials_table(now.history, title if stage in (Stage.SEARCH, Stage.REGRESS) else stage.value, rows, stage=stage)
        for stage in Stage
        if (stage is Stage.SEARCH and not now.history.is_rerun) or now.history.stage(stage)
    ]
    lines = [f"{progress.stage}: {count_words(progress.states)} of {progress.total}" for progress in now.stages]
    lines += [f"test: {now.test}"] if now.test else []
    lines += [str(now.left)] if now.left and now.left.stages else []
    lines += [f"resumed from an older checkpoint: {damage}" for damage in now.damage]
    lines += [f"warning: {warning}" for warning in now.warnings]
    lines += [f"budget.{name}: {value_text(used)} of {limit:g}" for name, (used, limit) in now.budget.items()]
    lines += memory_lines(now.history)
    lines += without_graphs(now.history.trials.values())
    lines += [f"to resume: {now.command}"] if now.command else []
    lines += race_lines(now.history)
    if now.holder is None and now.history.is_rerun:
        page = now.directory / "report.html"
        lines += [f"compared with the accepted runs: {path_text(page)}"] if page.is_file() else []
        lines += [] if now.history.finished else ["to resume: `orchestrator regress` with the same suite"]
    elif now.holder is None and now.history.experiment:
        summary = Summary(now.history)
        for name in summary.datasets:
            headline = headline_of(summary, name)
            said = [headline.headline, *headline.taken_back, *summary.caveats.get(name, ())]
            lines += [f"{name}: {sentence}" for sentence in said]
        lines += [f"all answers: {command_for(['summarise'], now.directory)}"]
    return Group(*tables, *(Text(line) for line in lines))
