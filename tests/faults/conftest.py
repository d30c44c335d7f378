from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.faults.invariants")

from tests.faults.searches import Searches, SearchesHere, with_store  # noqa: E402


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """Address of a Ray that outlives the drivers: to start one takes 6 to 11 s.

    Whatever starts a process of ``CONTEXT`` asks for it first: its token is in the environment from then on, and the
    processes get the environment that there is when the first of them starts.
    """
    import ray

    from tests.support.shared_ray import shared_ray

    with shared_ray():
        yield ray.get_runtime_context().gcs_address


@pytest.fixture
def searches(tmp_path: Path, store_template: Path, cluster: str) -> Iterator[Searches]:
    """Searches in processes of their own, which share a Ray and are gone in the end."""
    with closing(Searches(with_store(tmp_path / "runs", store_template), cluster)) as made:
        yield made


@pytest.fixture(params=["in this process", pytest.param("in processes", marks=pytest.mark.proof)])
def any_searches(request: pytest.FixtureRequest, tmp_path: Path, store_template: Path) -> SearchesHere:
    """Searches of which it does not matter how they end: CI runs them in its own process, the proof kills processes."""
    if request.param == "in processes":
        made: Searches = request.getfixturevalue("searches")
        return made
    return SearchesHere(with_store(tmp_path / "runs", store_template))
