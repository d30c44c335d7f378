"""A real search from Python with a plug-in: its loss trains in actors, and what it breaks is its own trial."""

from pathlib import Path

import pytest

import orchestrator as icr
from tests.support.plugins import plugins_gone_afterwards, write_plugin
from tests.support.precomputed_folder import write_precomputed

FRAGILE = """
@loss(space={"scale": [1.0, -1.0]})
def fragile(similarity, positives, ignore, scale=1.0):
    if scale < 0:
        raise LookupError("no such scale")
    return scale * (similarity[~positives].mean() - similarity[positives].mean())
"""


@pytest.mark.proof
def test_two_searches_in_one_process_of_which_a_trial_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    write_precomputed(tmp_path / "data" / "pets")
    write_plugin(tmp_path, FRAGILE)
    keys = {
        "name": "own",
        "plugins": ["my_losses.py"],
        "datasets": ["pets"],
        "losses": ["fragile"],
        "training": {"epochs": 1, "batch_size": 16, "embedding_size": 16, "word_size": 8},
        "search": {"sampler": "grid", "trials": 2},
        "scheduler": {"name": "none"},
        "resources": {"cpus": 1, "gpus": 0},
    }
    with plugins_gone_afterwards():
        found = icr.search(keys, data_root="data", quiet=True)
        assert dict(found.trials["state"]) == {
            "pets-vsepp-fragile-0000": "finished",
            "pets-vsepp-fragile-0001": "failed",
        }
        assert found.trials.loc["pets-vsepp-fragile-0001", "error"] == "my_losses.py:7: LookupError: no such scale"
        assert found.trials.loc["pets-vsepp-fragile-0001", "retries"] == 0
        assert found.trials.loc["pets-vsepp-fragile-0000", "cocos/gradient_positives"] > 0
        assert found.experiment.plugins[0].files["my_losses.py"] == (tmp_path / "my_losses.py").read_text()
        assert found.best.retriever().images_for("a", 1)
        again = icr.search({**keys, "name": "own-again", "search": {"sampler": "grid", "trials": 1}}, quiet=True)
        assert list(again.trials["state"]) == ["finished"]
