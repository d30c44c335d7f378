"""``orchestrator evaluate`` where people's judgements lie beside the dataset."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import CommandLine
from tests.trainables.judgements.folders import write_flickr

PLACES = ("--data-root", "data", "--device", "cpu")


@pytest.fixture
def checkpoint(here: Path, cli: CommandLine) -> Path:
    """A training of one epoch on a dataset with judgements of its test split."""
    folder = write_flickr(here / "data")
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
    cli.shows("train", *given, *PLACES)
    return next((here / "runs" / "train").iterdir())


def test_judged_metrics_stand_beside_the_annotated_ones(checkpoint: Path, cli: CommandLine) -> None:
    arguments = ("evaluate", checkpoint, *PLACES)
    (judged,) = cli.json(*arguments)["judged"]
    assert judged["judgements"]["judged_pairs"] == 10
    metrics = judged["metrics"]
    assert metrics["i2t_r1"] >= metrics["i2t_r1_annotated"]
    assert 0 <= metrics["map_r"] <= metrics["r_precision"] <= 1
    out = cli.shows(*arguments, "--ranks", "ranks.npz")
    assert Path("ranks.npz").is_file()
    assert "R-Prec" in out and "without unjudged" in out and "of the first ten captions" in out

    for options in (("--split", "val"), ("--folds", 2)):
        assert "judged" not in cli.json(*arguments, *options)
    (Path("data") / "small" / "judgements" / "ExpertAnnotations.txt").write_text("nothing\n")
    code, out, err = cli.run(*arguments)
    assert (code, out) == (2, "") and "ExpertAnnotations.txt: line 1" in err
