from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def store_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty tracking database: to make one takes 7 to 11 s."""
    from orchestrator.tracking import Store, default_uri

    output = tmp_path_factory.mktemp("store")
    Store(default_uri(output), output, "empty")
    return output / "mlflow.db"
