"""``orchestrator certify``: which claims of a paper hold on your data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.claims.answers import answers_of
from orchestrator.claims.cells import confirmed_cells, published_cells
from orchestrator.claims.certificate import certificate
from orchestrator.claims.claims import Claims, load_claims
from orchestrator.claims.engine import Cells, decide
from orchestrator.commands.options import (
    Address,
    Json,
    Output,
    Overrides,
    SharedDataRoot,
    Storage,
    TrackingUri,
)
from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import Document, override, validate
from orchestrator.journal.directory import find_directory
from orchestrator.journal.reader import read_history
from orchestrator.machines.cluster import Cluster
from orchestrator.report.render import write_answers_page
from orchestrator.text.terminal import path_text, say
from orchestrator.views.terminal import show
from trainables.errors import ConfigError
from trainables.files import write_whole


def certify(
    claims: Annotated[str, typer.Argument(help="YAML file of claims, or the name of claims that ship: ecir-2022.")],
    datasets: Annotated[
        str, typer.Option(help="Datasets on which the claims are asked, separated by commas; empty reruns nothing.")
    ] = "",
    models: Annotated[str, typer.Option(help="Models, separated by commas.")] = "vsepp",
    seeds: Annotated[int, typer.Option(min=2, help="Fresh seeds of each cell.")] = 5,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with", help="An experiment whose confirmation has cells at the published settings. Repeatable."
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Ask the claims of the paper's own tables, and train nothing.")
    ] = False,
    overrides: Overrides = None,
    data_root: SharedDataRoot = "data",
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    address: Address = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Run a paper's losses at its published settings, and say which of its claims hold on your data.

    The same command resumes. The certificate is written beside the journal, as JSON and as a page.
    """
    asked = load_claims(claims)
    if published:
        _answer(asked, published_cells(), None, {}, as_json=as_json)
        return
    if not datasets and not beside:
        raise ConfigError(
            "--datasets must name a dataset, or --with an experiment; --published asks the paper's tables"
        )
    histories = [read_history(find_directory(name, output)) for name in beside or []]
    folder = None
    if datasets:
        experiment = cells_experiment(asked, datasets.split(","), models.split(","), seeds, overrides or [])
        folder = _train(experiment, data_root, output, tracking_uri, Cluster(address, storage), quiet=as_json)
        histories.append(read_history(folder))
    data = {name: digest for history in histories for name, digest in history.data.items()}
    _answer(asked, confirmed_cells(histories), folder, data, as_json=as_json)


def cells_experiment(
    claims: Claims, datasets: list[str], models: list[str], seeds: int, overrides: list[str]
) -> Experiment:
    """Return the experiment that trains the cells of claims.

    Raises:
        ConfigError: If the claims have no experiment, or any of its keys is refused.
    """
    if not claims.experiment:
        raise ConfigError(
            f"{claims.name}: has no key experiment, so there is nothing to train; name experiments by --with"
        )
    values = {
        "name": f"certify-{claims.name}",
        "datasets": datasets,
        "models": models,
        **claims.experiment,
        "confirm": {"top": 1, "published": "each", "seeds": seeds},
    }
    return validate(Experiment, override(Document(f"{claims.name}: experiment", values), overrides))


def _train(
    experiment: Experiment, data_root: str, output: Path, tracking_uri: str | None, cluster: Cluster, *, quiet: bool
) -> Path:
    from orchestrator.search.begin import run_experiment

    result = run_experiment(experiment, data_root, output, tracking_uri=tracking_uri, quiet=quiet, cluster=cluster)
    return result.directory


def _answer(asked: Claims, cells: Cells, folder: Path | None, data: dict[str, str], *, as_json: bool) -> None:
    findings = decide(asked, cells)
    answers = answers_of(asked, findings, sum(map(len, cells.values())))
    found = certificate(asked, findings, cells, data)
    if folder is not None:
        write_whole(folder / "certificate.json", json.dumps(found, indent=1) + "\n")
        write_answers_page(asked.name, "Claims of a paper", answers, folder / "certificate.html")
    if as_json:
        print(json.dumps(found, indent=2))
        return
    show(answers)
    if folder is not None:
        say(f"certificate: {path_text(folder / 'certificate.json')} and certificate.html")
