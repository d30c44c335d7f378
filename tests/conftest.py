import random
import sys
from pathlib import Path

import pytest

SEED = 20260


@pytest.fixture(scope="module", autouse=True)
def seeded_module() -> None:
    """Draw what the fixtures of a module draw from the same seed, whatever was tested before."""
    seed_generators()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Draw what a test draws from the same seed, whatever was tested before, and whether it is run alone."""
    seed_generators()


def seed_generators() -> None:
    """Seed the global generators of Python, NumPy and torch; a library that nothing has imported stays unimported."""
    random.seed(SEED)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(SEED)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(SEED)


@pytest.fixture(scope="session")
def store_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty tracking database: to make one takes 7 to 11 s."""
    from orchestrator.tracking import Store, default_uri

    output = tmp_path_factory.mktemp("store")
    Store(default_uri(output), output, "empty")
    return output / "mlflow.db"
