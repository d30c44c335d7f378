from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One Ray for all searches of this process: to start one takes 6 to 11 s. Its actors do not know the tests."""
    from ray import cloudpickle

    from tests.support import fake_workload
    from tests.support.shared_ray import shared_ray

    cloudpickle.register_pickle_by_value(fake_workload)
    with shared_ray():
        yield


@pytest.fixture(params=["in this process", pytest.param("on Ray", marks=pytest.mark.proof)])
def trials_run(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the trials of a test that is about what comes of them; CI waits for no actors, the proof on Ray does."""
    if request.param == "on Ray":
        request.getfixturevalue("ray_session")
        yield
        return
    from tests.support.in_process import without_ray

    with without_ray(places=2, tracked=True):
        yield


@pytest.fixture
def output(tmp_path: Path, store_template: Path) -> Path:
    """Root of the output of a search, with the database in place."""
    from tests.faults.searches import with_store

    return with_store(tmp_path / "runs", store_template)
