"""Fetches the winners' models from MLflow's model registry, without the files that hold code."""

from pathlib import Path

from orchestrator.text.addresses import without_password
from orchestrator.tracking.address import choose_uri
from orchestrator.tracking.connection import StoreMovedError, count_experiments, first_line, store_failures
from orchestrator.tracking.registry import Registered, RegistryError, champion_version, client_of, model_name
from orchestrator.winners.winners import MODEL
from trainables.extras import require


def find_store(given: str | None, output: Path) -> str:
    """Return the named store, or the default store of an output directory.

    Raises:
        RegistryError: If there is no store yet.
        ConfigError: If MLflow's default password is in use.
        MissingExtraError: If MLflow is not installed.
    """
    require("tracking", "MLflow's store")
    if given is None and not (output / "mlflow.db").is_file():
        raise RegistryError(
            f"--output {output}: holds no mlflow.db; run `orchestrator search` first, or name its --output"
        )
    return choose_uri(given, output)


def fetch_champion(uri: str, dataset: str, folder: Path) -> tuple[Path, Registered]:
    """Return the packed model of a dataset's champion; a model that does not lie on this machine is downloaded.

    Raises:
        RegistryError: If the store does not answer, or has no champion for the dataset.
    """
    name = model_name(dataset)
    try:
        client = client_of(uri)
        version = champion_version(client, name)
        if version is None:
            there = ", ".join(sorted(model.name for model in client.search_registered_models(max_results=100)))
            found = f"there are: {there or 'none'}. A search registers its winner"
            raise RegistryError(f"{without_password(uri)}: no champion {name}; {found}")
        from mlflow.artifacts import download_artifacts

        # The loader's code, which lies beside the model, is not fetched.
        source = f"{client.get_model_version_download_uri(name, version.version).rstrip('/')}/data/{MODEL}"
        local = download_artifacts(artifact_uri=source, dst_path=str(folder), tracking_uri=uri)
    except store_failures() as error:
        raise RegistryError(_why_not_fetched(uri, name, error)) from None
    return Path(local), Registered(name, int(version.version), True)


def _why_not_fetched(uri: str, name: str, error: Exception) -> str:
    try:
        count_experiments(uri)
    except StoreMovedError as moved:
        return str(moved)
    except ConnectionError:
        # The error that is known already says so.
        pass
    return f"{without_password(uri)}: {name} cannot be fetched: {first_line(error)}"
