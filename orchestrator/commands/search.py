"""``orchestrator search``: an experiment from its YAML to its winners."""

import json
import math
import os
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Json, Output, Overrides

TrackingUri = Annotated[
    str | None,
    typer.Option(envvar="MLFLOW_TRACKING_URI", help="MLflow store; by default the database OUTPUT/mlflow.db."),
]


def search(
    experiment: Annotated[str, typer.Argument(help="YAML file, or the name of an experiment that ships.")],
    overrides: Overrides = None,
    data_root: DataRoot = Path("data"),
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Search: [bold]orchestrator search scenes-smoke[/bold]. The same command goes on with one that was interrupted."""
    from orchestrator.experiment import load_experiment
    from orchestrator.search import run_search
    from orchestrator.workload import Training

    chosen = load_experiment(experiment, overrides or [])
    threads = max(1, math.ceil(chosen.resources.cpus))
    workload = Training(data_root.resolve(), threads)
    result = run_search(chosen, workload, output, tracking_uri=tracking_uri, quiet=as_json)
    if as_json:
        print(json.dumps({**result.summary, "tracking_problem": result.tracking_problem}, indent=2))
    else:
        from orchestrator.display import print_summary

        print_summary(result.summary)
        if result.tracking_problem is not None:
            typer.echo(f"warning: {result.tracking_problem}", err=True)
        print(f"summary: {os.path.relpath(result.directory / 'summary.json')}")
        print(f"compare in the browser: orchestrator ui --output {output}{_uri_option(tracking_uri)}")
    if set(result.summary["winners"]) != set(chosen.datasets):
        typer.echo("error: no trial finished, so there is no winner; see the errors of the trials above", err=True)
        raise typer.Exit(1)


def _uri_option(uri: str | None) -> str:
    return "" if uri is None else f" --tracking-uri {uri}"
