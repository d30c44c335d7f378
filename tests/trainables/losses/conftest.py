import pytest


@pytest.fixture(autouse=True)
def small_matrices(one_thread: None) -> None:
    """Test all losses on one thread."""
