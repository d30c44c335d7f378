"""A search from Python, in a script or a notebook; ``orchestrator search`` runs the same function.

import orchestrator as icr

found = icr.search("scenes-smoke", data_root="data")
found.trials.sort_values("val/rsum")
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.experiment.experiment import Experiment, load_experiment
from orchestrator.experiment.plugins import with_plugins
from orchestrator.experiment.sections import Resources
from orchestrator.experiment.yaml_files import Document, override, validate
from orchestrator.machines.cluster import Cluster, StartOptions, ignored_address
from orchestrator.searches.loaded import LoadedExperiment, load
from orchestrator.searches.search import SearchResult, run_search
from orchestrator.storage.bucket import is_bucket
from orchestrator.text.terminal import lasting_output, say
from orchestrator.workload.training import TrainablesWorkload
from trainables.data.source import find_source
from trainables.errors import DataError
from trainables.extras import require
from trainables.plugins.plugin import Plugin


def search(
    experiment: "str | Path | Experiment | Mapping[str, Any]",
    *,
    data_root: str | Path = "data",
    output: str | Path = "runs",
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
    tracking_uri: str | None = None,
    address: str | None = None,
    storage: str | None = None,
    quiet: bool = False,
) -> LoadedExperiment:
    """Search and confirm an experiment, or resume an interrupted one; see ``orchestrator search --help``.

    Args:
        experiment: Name of a shipped experiment, a YAML file, keys and values of such a file, or an ``Experiment``.
        data_root: Folder that holds the datasets, or ``s3://bucket/prefix``.
        output: Folder under which everything is written.
        overrides: ``KEY=VALUE``, as with ``--set``; not together with an ``Experiment``.
        plugins: Python files or installed distributions, as with ``--plugin``.
        tracking_uri: MLflow's store; by default a database under ``output``.
        address: Address of a Ray cluster, or ``auto``; by default this machine alone is used.
        storage: Where checkpoints are kept; by default under ``output``.
        quiet: Print nothing.

    Returns:
        The results, as data frames.

    Raises:
        UserError: If experiment, data, output or cluster is refused, or the experiment is running already.
        SearchInterruptedError: If a signal ended the search; the same call resumes it.
    """
    chosen = make_experiment(experiment, overrides, plugins)
    options = StartOptions(str(data_root), Path(output), tracking_uri, Cluster(address, storage), quiet)
    return load(run_experiment(chosen, options).directory)


def make_experiment(
    experiment: "str | Path | Experiment | Mapping[str, Any]",
    overrides: Sequence[str] = (),
    plugins: Sequence[str] = (),
) -> Experiment:
    """Return an experiment of which everything has been checked.

    Args:
        experiment: Name of a shipped experiment, a YAML file, keys and values of such a file, or an ``Experiment``.
        overrides: ``KEY=VALUE``, as with ``--set``.
        plugins: Python files or installed distributions, as with ``--plugin``.

    Raises:
        ConfigError: If the experiment is refused; the message lists all mistakes.

    Example:
        >>> made = make_experiment({"name": "mine", "datasets": ["scenes"], "losses": ["nt_xent"]})
        >>> [cell.name for cell in made.cells()]
        ['scenes-vsepp-nt_xent']
    """
    if isinstance(experiment, str | Path):
        return load_experiment(str(experiment), overrides, plugins)
    values = experiment.to_dict() if isinstance(experiment, Experiment) else dict(experiment)
    document = override(Document("experiment", values), overrides)
    return validate(Experiment, with_plugins(document, plugins, Path()))


def run_experiment(experiment: Experiment, options: StartOptions, *, confirm_alone: bool = False) -> SearchResult:
    """Search and confirm, or confirm alone, on the data under a root.

    Raises:
        UserError: See ``search``.
    """
    require("search", "a search")
    if warning := ignored_address(options.cluster):
        say(warning, error=True)
    experiment = with_formats(experiment, options.data_root)
    workload = make_workload(experiment.resources, options.data_root, experiment.plugins)
    # Also from Python, where nobody else looks after the output.
    with lasting_output():
        return run_search(
            experiment,
            workload,
            options.output,
            tracking_uri=options.tracking_uri,
            quiet=options.quiet,
            cluster=options.cluster,
            data_root=workload.data_root,
            confirm_alone=confirm_alone,
        )


def with_formats(experiment: Experiment, data_root: str) -> Experiment:
    """Return an experiment with the installed plug-ins that read its datasets, beside the plug-ins that it names.

    A plug-in has to be part of the experiment to be recorded and sent to the actors. Datasets in a bucket have not been
    fetched yet, so an experiment has to name the plug-ins that read such datasets.
    """
    if is_bucket(data_root):
        return experiment

    known = {plugin.name: plugin for plugin in experiment.plugins}
    for dataset in experiment.datasets:
        # Problems of a dataset are reported later, together with all other problems of the data.
        with suppress(DataError):
            if (plugin := find_source(dataset, Path(data_root)).plugin) is not None:
                known.setdefault(plugin.name, plugin)
    if len(known) == len(experiment.plugins):
        return experiment
    return experiment.model_copy(update={"plugins": tuple(known.values())})


def make_workload(resources: Resources, data_root: str, plugins: tuple[Plugin, ...] = ()) -> TrainablesWorkload:
    """Return the workload of trials with these resources, on the data under a root, with the code of plug-ins."""
    root = data_root if is_bucket(data_root) else str(Path(data_root).resolve())
    # The driver, which measures and evaluates with the workload, leaves the GPUs alone where trials get none.
    device = "cpu" if resources.gpus == 0 else "auto"
    return TrainablesWorkload(root, max(1, math.ceil(resources.cpus)), device, plugins=plugins)
