import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.tracking.address import default_uri


@pytest.fixture
def output(tmp_path: Path, store_template: Path) -> Path:
    """An output folder with an empty database."""
    shutil.copy(store_template, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture
def client(output: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=default_uri(output), registry_uri=default_uri(output))
