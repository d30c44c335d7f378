from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.trainables.scenes_folder import write_scenes


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute on one thread: on small matrices, more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the folder of a kind of encoder once."""
    # The libraries of the encoders, which few tests need.
    from tests.support import encoders

    root = tmp_path_factory.mktemp("encoders")

    def make(kind: str) -> Path:
        folder = root / kind
        made: Path = folder if folder.exists() else getattr(encoders, f"{kind}_folder")(folder)
        return made

    return make


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data root with a dataset of 20 pictures."""
    return write_scenes(tmp_path_factory.mktemp("data"), images=20)
