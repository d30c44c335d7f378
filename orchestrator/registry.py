"""Winners in MLflow's model registry: ``icr-<dataset>``, alias ``champion``; imports MLflow, as ``tracking`` does.

A version is a pyfunc whose loader is ``trainables.retriever``, packed with it: tensors as safetensors, all else as
JSON, no pickle. What this product itself reads from a registry is the tensors and the JSON; no code of it is run.

The alias moves to a new version unless the champion there is on the same data and better founded: confirmed where the
new one is not, or equally founded with a higher value of the same metric.
"""

import re
import tempfile
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.champions import MODEL, Champion, packed_champions
from orchestrator.report.text import markdown
from orchestrator.tracking import choose_uri, first_line, store_failures, without_password
from trainables.errors import UserError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

ALIAS = "champion"
ARTIFACT = "champion"
"""Folder of the model among the artifacts of its run."""

REQUIREMENTS = ["torch", "torchvision", "numpy", "safetensors", "pillow", "nltk"]
"""What the packed code imports; no versions, because any that train will do."""


class RegistryError(UserError):
    """A registry that does not answer, or does not hold what is asked for."""


@dataclass(frozen=True)
class Registered:
    """A version in the registry.

    Attributes:
        name: ``icr-<dataset>``.
        version: From 1.
        is_champion: Whether the alias points to it.
    """

    name: str
    version: int
    is_champion: bool


def model_name(dataset: str) -> str:
    """Return the registered name of a dataset's winner, without what MLflow refuses in names."""
    return "icr-" + re.sub(r"[^A-Za-z0-9._-]", "-", Path(dataset).name)


def register(uri: str, packed: Path, champion: Champion) -> Registered:
    """Register a packed model as a new version, unless it is one already, and let the alias point to the better.

    Args:
        uri: The MLflow store, which holds the run of the champion's trial.
        packed: Folder of the model.
        champion: What it is.

    Raises:
        RegistryError: If the store does not answer, or has no such run.
    """
    client = _client(uri)
    name = model_name(champion.dataset)
    try:
        version = _find_version(client, name, champion) or _create_version(client, name, packed, champion)
        return Registered(name, int(version.version), _crown(client, name, version, champion))
    except store_failures() as error:
        raise RegistryError(f"{without_password(uri)}: {name} is not registered: {first_line(error)}") from None


def register_all(uri: str, directory: Path, unreachable: str | None = None) -> tuple[list[Registered], list[str]]:
    """Register what an experiment has packed; return what is registered, and why some is not.

    Args:
        uri: The MLflow store.
        directory: Of the experiment.
        unreachable: Why the store is known not to answer; it is not asked again then.
    """
    registered: list[Registered] = []
    problems: list[str] = []
    for packed, champion in packed_champions(directory).items():
        try:
            if unreachable is not None:
                raise RegistryError(f"{model_name(champion.dataset)} is not registered; `orchestrator sync` does it")
            registered.append(register(uri, packed, champion))
        except RegistryError as error:
            problems.append(str(error))
    return registered, problems


def find_store(given: str | None, output: Path) -> str:
    """Return the store that was named, or the one that the experiments under an output directory share.

    Raises:
        RegistryError: If there is none yet.
        ConfigError: If it is a server with the password that everybody knows.
    """
    if given is None and not (output / "mlflow.db").is_file():
        raise RegistryError(
            f"--output {output}: holds no mlflow.db; run `orchestrator search` first, or name its --output"
        )
    return choose_uri(given, output)


def fetch_champion(uri: str, dataset: str, folder: Path) -> tuple[Path, Registered]:
    """Return the packed model of a dataset's champion, downloaded into a folder where it lies elsewhere.

    Raises:
        RegistryError: If the store does not answer, or has no champion for the dataset.
    """
    client = _client(uri)
    name = model_name(dataset)
    try:
        version = _champion(client, name)
        if version is None:
            there = ", ".join(sorted(model.name for model in client.search_registered_models(max_results=100)))
            found = f"there are: {there or 'none'}. A search registers its winner"
            raise RegistryError(f"{without_password(uri)}: no champion {name}; {found}")
        from mlflow.artifacts import download_artifacts

        # The loader's code lies beside it, and stays there: only what holds no code is fetched.
        source = f"{client.get_model_version_download_uri(name, version.version).rstrip('/')}/data/{MODEL}"
        local = download_artifacts(artifact_uri=source, dst_path=str(folder), tracking_uri=uri)
    except store_failures() as error:
        raise RegistryError(f"{without_password(uri)}: {name} cannot be fetched: {first_line(error)}") from None
    return Path(local), Registered(name, int(version.version), True)


def _client(uri: str) -> "MlflowClient":
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _find_version(client: "MlflowClient", name: str, champion: Champion) -> "ModelVersion | None":
    """Return the newest version that was made of the same."""
    wanted = _tags(champion)
    versions = client.search_model_versions(f"name='{name}'", max_results=1000)
    same = [version for version in versions if wanted.items() <= version.tags.items()]
    return max(same, key=lambda version: int(version.version), default=None)


def _create_version(client: "MlflowClient", name: str, packed: Path, champion: Champion) -> "ModelVersion":
    """Put the model among the artifacts of its trial's run, and register it there."""
    run = _find_run(client, champion)
    with tempfile.TemporaryDirectory() as scratch:
        _save(packed, Path(scratch) / ARTIFACT)
        client.log_artifacts(run.info.run_id, str(Path(scratch) / ARTIFACT), ARTIFACT)
    if not client.search_registered_models(f"name='{name}'"):
        client.create_registered_model(name, description=f"Answers a caption with images of {champion.dataset}.")
    source = f"{run.info.artifact_uri}/{ARTIFACT}"
    return client.create_model_version(
        name, source, run.info.run_id, tags=_tags(champion), description=about_version(champion)
    )


def about_version(champion: Champion) -> str:
    """Return what MLflow's page of a version says of it, in Markdown."""
    return markdown(f"{champion.trial} of {champion.experiment}: {champion.parameters or 'defaults'}")


def _save(packed: Path, folder: Path) -> None:
    import mlflow.pyfunc

    import trainables

    code = [str(Path(trainables.__file__ or "").parent)]
    with warnings.catch_warnings():
        # It wants an example of the input, which would have to be run for that.
        warnings.simplefilter("ignore", UserWarning)
        mlflow.pyfunc.save_model(
            str(folder),
            loader_module="trainables.retriever",
            data_path=str(packed),
            code_paths=code,
            pip_requirements=REQUIREMENTS,
            signature=_signature(),
        )


def _signature() -> "ModelSignature":
    """Return what a query is: a caption, or an image of the gallery, and how many answers it gets."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    caption, image = (ColSpec("string", name, required=False) for name in ("caption", "image"))
    return ModelSignature(inputs=Schema([caption, image]), params=ParamSchema([ParamSpec("top", "long", 10)]))


def _find_run(client: "MlflowClient", champion: Champion) -> Any:
    experiment = client.get_experiment_by_name(champion.experiment)
    query = f"tags.trial = '{champion.trial}'"
    runs = [] if experiment is None else client.search_runs([experiment.experiment_id], query)
    if not runs:
        raise RegistryError(
            f"{champion.trial} has no run in MLflow yet; `orchestrator sync` brings it, and registers it"
        )
    return runs[0]


def _crown(client: "MlflowClient", name: str, version: "ModelVersion", champion: Champion) -> bool:
    """Let the alias point to a version unless a better one has it; say whether it does."""
    current = _champion(client, name)
    if current is not None and current.version != version.version and _is_better(current.tags, champion):
        return False
    client.set_registered_model_alias(name, ALIAS, version.version)
    return True


def _champion(client: "MlflowClient", name: str) -> "ModelVersion | None":
    models = client.search_registered_models(f"name='{name}'")
    if not models or ALIAS not in models[0].aliases:
        return None
    return client.get_model_version_by_alias(name, ALIAS)


def _is_better(current: dict[str, str], champion: Champion) -> bool:
    """Say whether the present champion is comparable with a new one, and ahead of it."""
    same = all(current.get(key) == _tags(champion)[key] for key in ("data_digest", "metric"))
    confirmed = current.get("confirmed") == "true"
    return same and (confirmed, float(current.get("value", "-inf"))) > (champion.confirmed, champion.value)


def _tags(champion: Champion) -> dict[str, str]:
    """Return the tags by which a version is found again, of those that older versions registered as well."""
    values = {one.name: getattr(champion, one.name) for one in fields(champion) if one.compare}
    return {name: str(value).lower() if name == "confirmed" else str(value) for name, value in values.items()}
