"""What needs no Ray of fused trials: how many engines share a place."""

import pytest

from orchestrator.tuner.engines import engines_that_fit

ROOM = [
    pytest.param({"cpu": 1, "gpu": 0.25}, 64, 1, 4, id="four to a GPU"),
    pytest.param({"cpu": 1, "gpu": 16 * 0.0156}, 64, 1, 4, id="put together from rounded parts"),
    pytest.param({"cpu": 1, "gpu": 0.3}, 64, 1, 3, id="no engine beyond the last whole one"),
    pytest.param({"cpu": 1, "gpu": 10 * 0.1}, 64, 1, 1, id="a whole GPU"),
    pytest.param({"cpu": 1, "gpu": 2.0}, 64, 2, 1, id="two GPUs to an engine"),
    pytest.param({"cpu": 1, "gpu": 2.0}, 64, 1, 1, id="two GPUs to an engine, whose trials see one each"),
    pytest.param({"cpu": 2, "gpu": 0.0}, 7, 0, 3, id="by CPUs where there is no GPU"),
    pytest.param({"cpu": 3 * 0.3333, "gpu": 0.0}, 2, 0, 2, id="CPUs put together"),
    pytest.param({"cpu": 4, "gpu": 0.0}, 2, 0, 1, id="one at least"),
    pytest.param({"cpu": 0.0, "gpu": 0.0}, 2, 0, 1, id="parts that were rounded to nothing"),
]


@pytest.mark.parametrize(("share", "cpus", "gpus", "engines"), ROOM)
def test_so_many_engines_share_a_place(share: dict[str, float], cpus: float, gpus: int, engines: int) -> None:
    assert engines_that_fit(share, cpus, gpus) == engines
