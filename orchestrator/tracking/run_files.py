"""The files of a run, which lie beside MLflow's database: in a folder, in a bucket, or behind MLflow's server."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator.tracking.runs import Run


def send_texts(run: Run, texts: Mapping[str, str], uri: str) -> None:
    """Send files by their names; a file that is there already is written over.

    Args:
        run: Whose files they are.
        texts: Name -> content.
        uri: Of MLflow's store.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        send_files(run, [Path(folder) / name for name in texts], uri)


def send_files(run: Run, files: list[Path], uri: str) -> None:
    """Send files under their own names; a file that is there already is written over.

    MLflow's client would ask the store again where the run has its files, and keep 7 KB and a pool of threads for
    each of the newest 1,024 runs; the run knows where.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    place = get_artifact_repository(run.artifacts, tracking_uri=uri)
    for file in files:
        place.log_artifact(str(file))
