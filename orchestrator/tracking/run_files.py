"""The files of a run, which lie beside MLflow's database: in a folder, in a bucket, or behind MLflow's server."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.tracking.runs import Run

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository


def send_texts(run: Run, texts: Mapping[str, str], uri: str) -> None:
    """Send files by their names; an existing file of the run is overwritten.

    Args:
        run: Run to which the files belong.
        texts: Name -> content.
        uri: Address of MLflow's store.
    """
    if not texts:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        _repository(run, uri).log_artifacts(folder)


def send_files(run: Run, files: list[Path], uri: str) -> None:
    """Send files under their own names; an existing file of the run is overwritten."""
    repository = _repository(run, uri)
    for file in files:
        repository.log_artifact(str(file))


def _repository(run: Run, uri: str) -> "ArtifactRepository":
    """Return the place of a run's files.

    MLflow's client would ask the store for the place of the run's files, which the run has in ``artifacts``, and keep
    7 KB and a pool of threads for each of the newest 1,024 runs.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(run.artifacts, tracking_uri=uri)
