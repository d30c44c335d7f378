"""A search that fine-tunes CLIP, from the command line: its zero-shot model, a kill, a changed folder, and queries."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from tests.support.encoders import open_clip_folder
from tests.test_end_to_end import KILLED, Done, run

pytestmark = pytest.mark.proof

NAME = "clip-scenes"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a search that nothing disturbed; data, encoder and experiment lie beside it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "runs"
    beside = folder.parent
    data = str(beside / "data" / "scenes")
    generated = run(folder, "data", "generate", "scenes", "--images", "40", "--seed", "0", "--out", data)
    assert generated.returncode == 0, generated.stderr
    experiment = {
        "name": NAME,
        "datasets": ["scenes"],
        "models": ["clip"],
        "losses": ["nt_xent"],
        "model_parameters": {"encoder": str(open_clip_folder(beside / "encoder"))},
        "training": {"epochs": 2, "batch_size": 16, "micro_batch": 8, "precision": "bf16"},
        "search": {
            "trials": 3,
            "space": {"nt_xent": {"temperature": [0.01, 0.2]}},
            "training": {"learning_rate": [1e-4, 1e-2]},
            "model_parameters": {"rank": "default"},
        },
        "confirm": {"top": 1, "seeds": 2},
        "resources": {"max_concurrent": 1},
    }
    (beside / "clip.yaml").write_text(yaml.safe_dump(experiment))
    searched = search(folder)
    assert searched.returncode == 0, searched.stderr
    assert "registered: icr-scenes version 1, the champion" in searched.stdout
    return folder


def search(folder: Path, *changes: str, **how: str) -> Done:
    return run(folder, "search", "clip.yaml", *changes, **how)


def searched_trials(folder: Path) -> list[dict[str, Any]]:
    summary = json.loads((folder / NAME / "summary.json").read_text())
    return [row for row in summary["trials"] if row["stage"] == "search"]


def test_the_zero_shot_model_is_the_published_setting_that_must_be_beaten(undisturbed: Path) -> None:
    first, *others = searched_trials(undisturbed)
    assert first["parameters"] == {"model.trained": "none"} and first["epochs"] == 1
    assert all({"temperature", "training.learning_rate", "model.rank"} == row["parameters"].keys() for row in others)
    answers = run(undisturbed, "summarise", NAME).stdout
    assert "Better than the published settings?" in answers and "(zero-shot)" in answers
    trials = undisturbed / NAME / "trials"
    sizes = {row["trial"]: sum(file.stat().st_size for file in (trials / row["trial"]).rglob("*.pt")) for row in others}
    weights = (undisturbed.parent / "encoder" / "open_clip_model.safetensors").stat().st_size
    assert all(0 < size < weights / 4 for size in sizes.values()), "the encoder is not stored in each checkpoint"


def test_a_search_whose_driver_is_killed_resumes_to_the_same_numbers(undisturbed: Path) -> None:
    folder = undisturbed.parent / "killed"
    # The confirmation comes after these trials, which it does not change.
    assert search(folder, "--set", "confirm=null", program=KILLED).returncode == -signal.SIGKILL
    encoder = undisturbed.parent / "encoder" / "open_clip_config.json"
    content = encoder.read_text()
    encoder.write_text(content + "\n")
    refused = run(folder, "resume", NAME)
    assert refused.returncode == 2 and "encoder have changed since it was started" in refused.stderr
    encoder.write_text(content)
    resumed = run(folder, "resume", NAME)
    assert resumed.returncode == 0, resumed.stderr
    ours, theirs = (list(map(without_times, searched_trials(output))) for output in (folder, undisturbed))
    assert ours == theirs and len(ours) == 3


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    best = {name: value for name, value in row["best"].items() if not name.startswith("time/")}
    return {**{name: row[name] for name in ("trial", "parameters", "best_epoch", "state")}, "best": best}


def test_the_champion_answers_a_new_caption_and_a_new_picture(undisturbed: Path) -> None:
    picture = undisturbed.parent / "new.png"
    Image.new("RGB", (50, 40), "red").save(picture)
    for query in (["a red ball that nobody drew"], ["--image", str(picture)]):
        answered = run(undisturbed, "retrieve", *query, "--dataset", "scenes", "--json")
        assert answered.returncode == 0, answered.stderr
        assert len(json.loads(answered.stdout)["answers"]) > 0
