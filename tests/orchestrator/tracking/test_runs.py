"""Where an experiment's artifacts go when it is made in the store."""

from pathlib import Path
from typing import cast

import pytest
from mlflow import MlflowClient

from orchestrator.tracking.runs import find_or_make


class NewStore:
    """As much of MLflow's client as making an experiment takes; notes the place of the artifacts."""

    location: str | None = "nothing was made"

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str, artifact_location: str | None) -> str:
        self.location = artifact_location
        return "7"


@pytest.mark.parametrize(
    ("uri", "is_ours"),
    [
        ("sqlite:////runs/mlflow.db", True),
        ("postgresql://me@host/db", True),
        ("postgresql+psycopg2://me@host/db", True),
        ("https://mlflow.example", False),
        ("databricks://profile", False),
    ],
)
def test_artifacts_of_a_database_lie_in_the_output_folder_and_a_server_chooses(
    tmp_path: Path, uri: str, is_ours: bool
) -> None:
    store = NewStore()
    assert find_or_make(cast(MlflowClient, store), "tiny", uri, tmp_path) == "7"
    assert store.location == ((tmp_path / "artifacts" / "tiny").as_uri() if is_ours else None)
