"""Arguments and options that several commands share."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from orchestrator.reference.published import shipped_claims

ExperimentName = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="Name of an experiment under OUTPUT, or its folder.")
]
ExperimentNames = Annotated[
    list[str], typer.Argument(metavar="EXPERIMENT", help="Names of experiments under OUTPUT, or their folders.")
]
AnyExperimentNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="EXPERIMENT", help="Names of experiments under OUTPUT, or their folders; by default all of OUTPUT."
    ),
]
Dataset = Annotated[
    str, typer.Argument(metavar="DATASET", help="Name of a dataset's folder under DATA_ROOT, or its path.")
]
FeatureFolder = Annotated[
    Path | None, typer.Option("--out", help="Folder of the features; by default the dataset's own folder.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        metavar="english|words|characters|labels|FILE",
        help="How captions are cut into tokens; FILE is a tokenizer.json; by default inferred from the captions.",
    ),
]
Checkpoint = Annotated[
    Path, typer.Argument(metavar="CHECKPOINT", help="Folder of one epoch (epoch_NNNN), or of a whole training.")
]
DataRoot = Annotated[
    Path, typer.Option(envvar="ORCHESTRATOR_DATA_ROOT", help="Folder that holds the datasets, one folder each.")
]
SharedDataRoot = Annotated[
    str,
    typer.Option(
        envvar="ORCHESTRATOR_DATA_ROOT",
        help="Folder that holds the datasets, at the same path on every node, or s3://bucket/prefix.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="Ray cluster to join: host:port of its head, or auto; by default this machine alone is used."),
]
Storage = Annotated[
    str | None,
    typer.Option(
        help="Where checkpoints go: a folder that all nodes share, or s3://bucket/prefix; by default under OUTPUT."
    ),
]
Device = Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu, cuda or cuda:N.")]
Form = Annotated[
    Literal["table", "json", "csv", "markdown", "latex", "html"], typer.Option("--format", help="Form of the answers.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Output = Annotated[Path, typer.Option(envvar="ORCHESTRATOR_OUTPUT", help="Folder under which everything is written.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file: training.epochs=4. May be repeated."),
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
        help="Load losses, models, forms of data or samplers of your own; their code runs. May be repeated.",
    ),
]
TrustPlugins = Annotated[
    bool, typer.Option("--trust-plugins", help="Run the code of a plug-in that is packed with the model.")
]

ClaimsName = Annotated[
    str, typer.Argument(help=f"YAML file, or claims that ship: {', '.join(shipped_claims())}.", metavar="CLAIMS")
]
Models = Annotated[str, typer.Option(help="Models, separated by commas; empty takes those of the claims.")]
Seeds = Annotated[int, typer.Option(min=2, help="Fresh seeds of each cell.")]


def split_names(text: str) -> list[str]:
    """Return names that a comma separates."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _shared(
    data_root: SharedDataRoot = "data",
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Have the options of ``with_start_options``."""


def with_start_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that start an experiment; the command gets them as ``options``, a ``StartOptions``."""
    shared = inspect.signature(_shared).parameters
    own = [parameter for name, parameter in inspect.signature(command).parameters.items() if name != "options"]

    @wraps(command)
    def run(**arguments: Any) -> None:
        # Imported when a command runs: most commands take other options from this module, and start no experiment.
        from orchestrator.machines.cluster import Cluster, StartOptions

        data_root, output, uri, address, storage, quiet = (arguments.pop(name) for name in shared)
        command(**arguments, options=StartOptions(data_root, output, uri, Cluster(address, storage), quiet))

    signature = inspect.Signature([*own, *shared.values()])
    # The parameters of the command itself are not the parameters that a user types.
    del run.__wrapped__
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return run
