"""``orchestrator evaluate`` where people's judgements lie beside the dataset."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run_command, what_a_command_says
from tests.trainables.judgements.folders import write_flickr


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A training of one epoch on a dataset with judgements of its test split."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = write_flickr(tmp_path / "data")
    np.save(folder / "features_global.npy", np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32))
    settings = {
        "dataset": "small",
        "loss": "nt_xent",
        "vocabulary": "published",
        "training.epochs": 1,
        "training.batch_size": 2,
        "training.embedding_size": 4,
        "training.word_size": 4,
    }
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    assert run_command(["train", *given, "--data-root", "data", "--device", "cpu"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    return next((tmp_path / "runs" / "train").iterdir())


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return what_a_command_says(capsys, ["evaluate", *arguments, "--data-root", "data", "--device", "cpu"])


def test_judged_metrics_stand_beside_the_annotated_ones(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, str(checkpoint), "--json")
    assert code == 0, err
    (judged,) = json.loads(out)["judged"]
    assert judged["judgements"]["judged_pairs"] == 10
    metrics = judged["metrics"]
    assert metrics["i2t_r1"] >= metrics["i2t_r1_annotated"]
    assert 0 <= metrics["map_r"] <= metrics["r_precision"] <= 1
    code, out, _ = run(capsys, str(checkpoint), "--ranks", "ranks.npz")
    assert code == 0 and Path("ranks.npz").is_file()
    assert "R-Prec" in out and "without unjudged" in out and "of the first ten captions" in out

    code, out, _ = run(capsys, str(checkpoint), "--json", "--split", "val")
    assert code == 0 and "judged" not in json.loads(out)
    code, out, _ = run(capsys, str(checkpoint), "--json", "--folds", "2")
    assert code == 0 and "judged" not in json.loads(out)

    (Path("data") / "small" / "judgements" / "ExpertAnnotations.txt").write_text("nothing\n")
    code, out, err = run(capsys, str(checkpoint))
    assert (code, out) == (2, "") and "ExpertAnnotations.txt: line 1" in err
