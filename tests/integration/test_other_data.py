"""Searches of data that are no images with captions of words: classes in place of captions, and zero-shot features."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.directory import read_history
from orchestrator.results.answers import Summary
from orchestrator.results.tables import tables_of
from orchestrator.searches.search import run_search
from orchestrator.workload.training import TrainablesWorkload
from tests.support.in_process import without_ray

SIZE = 8
SCHEDULER = {"name": "none"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data"


def search(root: Path, **asked: Any) -> Path:
    """Run an experiment in this process and return its folder."""
    plain = {"name": "other", "models": ["head"], "scheduler": SCHEDULER, "search": {"sampler": "random", "trials": 2}}
    experiment = validate(Experiment, {**plain, **asked})
    with without_ray(places=2):
        run_search(experiment, TrainablesWorkload(str(root), device="cpu"), root.parent / "runs", quiet=True)
    return root.parent / "runs" / "other"


def write_classes(folder: Path) -> None:
    """Ten classes of four images; features are a direction a class, with noise."""
    folder.mkdir(parents=True)
    splits = ["train"] * 6 + ["val"] * 2 + ["test"] * 2
    lines = [f"{name}-{n}.jpg,class {name},{split}" for name, split in enumerate(splits) for n in range(4)]
    (folder / "labels.csv").write_text("\n".join(["filename,class,split", *lines]) + "\n")
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(10, SIZE)).repeat(4, 0) + 0.5 * generator.normal(size=(40, SIZE))
    np.save(folder / "features_global.npy", rows.astype(np.float32))


def write_pairs(folder: Path) -> None:
    """Twenty images with two captions, whose features point the other way: as they are, they retrieve the worst."""
    folder.mkdir(parents=True)
    splits = ["train"] * 10 + ["val"] * 5 + ["test"] * 5
    sentences = [[{"raw": f"picture {n} seen {times}"} for times in ("once", "twice")] for n in range(20)]
    images = [
        {"filename": f"{n}.jpg", "imgid": n, "split": split, "sentences": said}
        for n, (split, said) in enumerate(zip(splits, sentences, strict=True))
    ]
    (folder / "dataset_pairs.json").write_text(json.dumps({"dataset": "pairs", "images": images}))
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(20, SIZE))
    np.save(folder / "features_global.npy", rows.astype(np.float32))
    noisy = -rows.repeat(2, 0) + 0.1 * generator.normal(size=(40, SIZE))
    np.save(folder / "features_text.npy", noisy.astype(np.float32))


def test_images_with_classes_are_searched_confirmed_and_summarised(root: Path) -> None:
    write_classes(root / "birds")
    folder = search(
        root,
        datasets=["birds"],
        losses=["nt_xent", "gradient_weights"],
        training={"epochs": 1, "batch_size": 8, "embedding_size": 4, "captions_per_image": 2},
        resources={"cpus": 1, "fuse": 2},
        confirm={"top": 1, "seeds": 2},
    )
    result = Summary(read_history(folder))
    (verdict,) = result.verdicts.values()
    assert len(verdict.candidates) >= 2
    retrieval, classes, *_ = tables_of([result], cocos=True)
    assert (retrieval.key, classes.key) == ("retrieval", "classes")
    for row in classes.table.to_dict()["rows"]:
        recalls = [row[f"i2t_r{k}"]["value"] for k in (1, 2, 4, 8)]
        assert recalls == sorted(recalls)
        assert row["seeds"] == 2


def test_zero_shot_is_the_baseline_of_a_verdict(root: Path) -> None:
    """The head that is the identity stands under a loss of its own, since it learns nothing whatever the loss is."""
    write_pairs(root / "pairs")
    identity = {"image_head": "identity", "caption_head": "identity"}
    folder = search(
        root,
        datasets=["pairs"],
        losses=["nt_xent", "triplet"],
        training={"epochs": 10, "batch_size": 4, "embedding_size": SIZE, "learning_rate": 0.01},
        search={"trials": 2, "fixed": {"triplet": {"margin": 0.2}}},
        overrides=[
            {"losses": ["triplet"], "model_parameters": identity, "training": {"epochs": 1, "embedding_size": SIZE}}
        ],
        confirm={"top": 1, "seeds": 2, "baseline": "triplet"},
    )
    (verdict,) = Summary(read_history(folder)).verdicts.values()
    zero_shot = next(one for one in verdict.candidates if one.loss == "triplet")
    assert zero_shot.measure(verdict.metric).std == 0.0
    assert zero_shot.mean(verdict.metric) < verdict.candidates[0].mean(verdict.metric)
    assert verdict.baseline == zero_shot.label in verdict.pair_of
