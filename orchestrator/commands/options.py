"""Options that several commands share, so that they are named and explained once."""

from pathlib import Path
from typing import Annotated

import typer

DataRoot = Annotated[
    Path, typer.Option(envvar="ORCHESTRATOR_DATA_ROOT", help="Folder that holds the datasets, one folder each.")
]
SharedDataRoot = Annotated[
    str,
    typer.Option(
        envvar="ORCHESTRATOR_DATA_ROOT",
        help="Folder that holds the datasets, the same on every node, or s3://bucket/prefix.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="Join a Ray cluster: host:port of its head, or auto; without it, this machine alone is used."),
]
Storage = Annotated[
    str | None,
    typer.Option(help="Checkpoints: a folder that all nodes share, or s3://bucket/prefix; by default under OUTPUT."),
]
Device = Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu, cuda or cuda:N.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Output = Annotated[Path, typer.Option(envvar="ORCHESTRATOR_OUTPUT", help="Root of everything that is written.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. training.epochs=4; may be repeated."),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(envvar="MLFLOW_TRACKING_URI", help="MLflow store; by default the database OUTPUT/mlflow.db."),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py|PACKAGE",
        help="Losses, models, forms of data or samplers of your own, whose code runs; may be repeated.",
    ),
]
TrustPlugins = Annotated[
    bool, typer.Option("--trust-plugins", help="Run the code of a plug-in that is packed with the model.")
]
