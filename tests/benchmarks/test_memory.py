import sys
from pathlib import Path

import pytest

from tests.benchmarks.memory import LIMIT, measure, write_features


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason=f"{sys.platform} has no smaps_rollup")
def test_trials_grow_by_less_than_their_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch reads all of a file that is larger than what a trial may grow by."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    size = write_features(tmp_path / "features", gigabytes=0.75)
    assert size / 2**20 > 1.5 * LIMIT
    for grown in measure(tmp_path, trials=2, embedding_size=64):
        assert 0 < grown["Pss"] <= LIMIT and grown["Rss"] <= LIMIT
