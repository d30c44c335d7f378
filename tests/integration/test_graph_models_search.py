"""Searches of models with boxes, role graphs and experts, and of passages, from the command line: killed, and asked."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.plugins import MEAN, write_plugin
from tests.test_end_to_end import KILLED, Done, run
from tests.trainables.data.test_passages import write_passages
from trainables.data.scenes.motion import FEWEST

pytestmark = pytest.mark.proof

SMALL = {"epochs": 2, "batch_size": 8, "embedding_size": 16, "word_size": 8, "learning_rate": 0.003}


def searched(folder: Path, name: str, *changes: str, **how: str) -> Done:
    done = run(folder, "search", f"{name}.yaml", *changes, **how)
    assert how or done.returncode == 0, done.stderr
    return done


def trials_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """What repeats of the trials of a search, which one kill must not change."""
    summary = json.loads((folder / name / "summary.json").read_text())
    rows = [row for row in summary["trials"] if row["stage"] == "search"]
    for row in rows:
        row["best"] = {key: value for key, value in row["best"].items() if not key.startswith("time/")}
    return [{key: row[key] for key in ("trial", "parameters", "best_epoch", "state", "best")} for row in rows]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a search on clips that nothing disturbed: GSMN, HGR and CE, with a loss of ours and a plug-in."""
    folder = tmp_path_factory.mktemp("clips") / "runs"
    motion = folder.parent / "data" / "motion"
    generated = run(folder, "data", "generate", "motion", "--images", "40", "--out", str(motion))
    assert generated.returncode == 0, generated.stderr
    lengths = np.load(motion / "experts" / "frames_lengths.npy")
    lengths[::3] = 0
    np.save(motion / "experts" / "frames_lengths.npy", lengths)
    np.save(motion / "experts" / "mean.npy", np.load(motion / "features_global.npy").astype(np.float32))
    # GSMN reads equally many regions of each image: the frames that every clip has.
    (motion / "region_lengths.npy").unlink()
    for name in ("features_regions.npy", "boxes.npy"):
        np.save(motion / name, np.load(motion / name)[:, :FEWEST])
    plugin = write_plugin(folder.parent, MEAN)
    experiment = {
        "name": "graphs",
        "datasets": ["motion"],
        "models": ["gsmn", "hgr", "ce"],
        "losses": ["triplet_sh", "mean_gap"],
        "training": {**SMALL, "cocos_every": 0},
        "overrides": [
            {"models": ["gsmn"], "model_parameters": {"graph": "paper"}},
            {"models": ["ce"], "model_parameters": {"clusters": 2, "text_clusters": 2}},
        ],
        "plugins": [str(plugin)],
        "search": {"sampler": "random", "trials": 1},
        "scheduler": {"name": "none"},
        "confirm": {"top": 1, "seeds": 2},
        "resources": {"max_concurrent": 1},
    }
    (folder.parent / "graphs.yaml").write_text(yaml.safe_dump(experiment))
    searched(folder, "graphs")
    return folder


def test_every_model_is_trained_with_both_losses_and_confirmed(clips: Path) -> None:
    trials = trials_of(clips, "graphs")
    names = {f"motion-{model}-{loss}-0000" for model in ("gsmn", "hgr", "ce") for loss in ("triplet_sh", "mean_gap")}
    assert {row["trial"] for row in trials} == names
    assert {row["state"] for row in trials} == {"finished"}
    answered = run(clips, "retrieve", "a red circle moves left", "--dataset", "motion", "--json")
    assert answered.returncode == 0 or "there is none of" in answered.stderr, answered.stderr


def test_a_killed_search_of_graphs_resumes_to_the_same_epochs(clips: Path) -> None:
    folder = clips.parent / "killed"
    assert searched(folder, "graphs", "--set", "confirm=null", program=KILLED).returncode == -signal.SIGKILL
    resumed = run(folder, "resume", "graphs")
    assert resumed.returncode == 0, resumed.stderr
    assert trials_of(folder, "graphs") == trials_of(clips, "graphs")


def test_gsmn_is_searched_on_scenes_whose_boxes_come_with_them(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    generated = run(folder, "data", "generate", "scenes", "--images", "120", "--out", str(tmp_path / "data" / "scenes"))
    assert generated.returncode == 0, generated.stderr
    described = run(folder, "data", "describe", "scenes")
    assert "input boxes: boxes.npy (120, 16, 4) float32" in described.stdout, described.stdout
    experiment = {
        "name": "scenes",
        "datasets": ["scenes"],
        "models": ["gsmn"],
        "losses": ["nt_xent"],
        # Enough to be above chance, without which there is no champion.
        "training": {"epochs": 6, "batch_size": 16, "embedding_size": 32, "learning_rate": 0.005, "cocos_every": 0},
        "overrides": [{"model_parameters": {"graph": "paper"}}],
        "search": {"sampler": "random", "trials": 1},
        "scheduler": {"name": "none"},
        "confirm": {"top": 1, "seeds": 2},
        "resources": {"max_concurrent": 1},
    }
    (tmp_path / "scenes.yaml").write_text(yaml.safe_dump(experiment))
    searched(folder, "scenes")
    assert {row["state"] for row in trials_of(folder, "scenes")} == {"finished"}
    asked = run(folder, "retrieve", "a red circle", "--dataset", "scenes", "--json")
    assert asked.returncode == 0, asked.stderr
    assert len(json.loads(asked.stdout)["answers"]) == 10


def test_queries_and_passages_are_searched_killed_and_asked(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    write_passages(tmp_path / "data" / "facts")
    extracted = run(folder, "data", "extract", "facts", "--text", "tfidf-svd", "--dimensions", "8")
    assert extracted.returncode == 0, extracted.stderr
    experiment = {
        "name": "passages",
        "datasets": ["facts"],
        "models": ["head"],
        "losses": ["nt_xent", "triplet_sh"],
        "training": {"epochs": 15, "batch_size": 16, "embedding_size": 8},
        "search": {"sampler": "random", "trials": 2, "training": {"learning_rate": [5e-3, 2e-2]}},
        "scheduler": {"name": "none"},
        "confirm": {"top": 1, "seeds": 2},
        "resources": {"max_concurrent": 1},
    }
    (tmp_path / "passages.yaml").write_text(yaml.safe_dump(experiment))
    assert searched(folder, "passages", program=KILLED).returncode == -signal.SIGKILL
    resumed = run(folder, "resume", "passages")
    assert resumed.returncode == 0, resumed.stderr
    trials = trials_of(folder, "passages")
    assert len(trials) == 4 and max(row["best"]["val/rsum"] for row in trials) > 400
    asked = run(folder, "retrieve", "is the tower beside the river", "--dataset", "facts", "--json")
    assert asked.returncode == 0, asked.stderr
    assert "river" in json.loads(asked.stdout)["answers"][0]["image"]
