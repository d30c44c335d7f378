"""The dataset of moving things: its forms, and which systems are at chance on directions."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.commands import run_command as main
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import open_dataset
from trainables.data.scenes.generate import generate_motion
from trainables.dataset_description import describe_dataset
from trainables.evaluation import encode_captions, encode_images, evaluating
from trainables.trial import Trial

OPPOSITE = {"left": "right", "right": "left", "up": "down", "down": "up"}
SYSTEMS = {
    "vsepp": {"pooling": "gpo"},
    "hgr": {"dropout": 0.0, "graph_dropout": 0.0},
    "ce": {"clusters": 4, "text_clusters": 8},
}
CLIPS = 40


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets ``plain``, and ``moving`` with differences of frames."""
    folder = tmp_path_factory.mktemp("motion")
    assert generate_motion(folder / "plain", CLIPS, 0)
    assert generate_motion(folder / "moving", CLIPS, 0, motion_features=True)
    return folder


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def config_for(dataset: str, model: str, **training: object) -> TrialConfig:
    settings = {"epochs": 1, "batch_size": 16, "embedding_size": 32, "word_size": 16, "learning_rate": 5e-3, **training}
    return TrialConfig(
        dataset=dataset,
        model=model,
        loss="nt_xent",
        model_parameters=SYSTEMS[model],
        tokenizer="words",
        training=TrainingConfig(**settings),  # type: ignore[arg-type]
    )


def direction_accuracy(trial: Trial) -> float:
    """How often a clip of train is closer to its caption than to that of the other direction; a tie counts a half."""
    split = trial.data.splits["train"]
    with evaluating(trial.model):
        images, captions = (encode(trial.model, trial.train_split) for encode in (encode_images, encode_captions))
        similarity = trial.model.compare(images, captions)
    texts, right = list(split.captions), []
    for place, owner in enumerate(split.image_of_caption):
        words = texts[place].split()
        turned = " ".join(OPPOSITE.get(word, word) for word in words)
        difference = float(similarity[owner, place] - similarity[owner, texts.index(turned)])
        right.append(0.5 if abs(difference) < 1e-4 else float(difference > 0))
    return float(np.mean(right))


def test_the_dataset_is_described_without_problems(root: Path) -> None:
    description = describe_dataset("plain", root)
    assert description.problems == []
    assert {name: split["images"] for name, split in description.splits.items()} == {"train": 32, "val": 4, "test": 4}
    assert list(description.inputs) == ["boxes", "experts.frames", "role_graphs"]


def test_the_second_clip_of_a_pair_is_the_first_in_reverse(root: Path) -> None:
    frames, lengths = np.load(root / "plain" / "features_regions.npy"), np.load(root / "plain" / "region_lengths.npy")
    boxes = np.load(root / "plain" / "boxes.npy")
    for first in range(0, CLIPS, 2):
        count = lengths[first]
        np.testing.assert_array_equal(frames[first, :count], frames[first + 1, :count][::-1])
        np.testing.assert_array_equal(boxes[first, :count], boxes[first + 1, :count][::-1])
    captions = dict(line.split("\t")[::-1] for line in (root / "plain" / "captions.tsv").read_text().splitlines())
    moves_left = next(key for text, key in captions.items() if text.endswith("moves left"))
    path = boxes[int(moves_left), :, 0]
    assert path[0] > path[lengths[int(moves_left)] - 1]
    with Image.open(root / "plain" / "clips" / "000000.gif") as clip:
        assert clip.n_frames == lengths[0]


@pytest.mark.parametrize("model", SYSTEMS)
def test_systems_without_order_are_at_chance_unless_features_hold_motion(root: Path, model: str) -> None:
    """Reversed frames have the same score with every caption, so the accuracy is one half without any training."""
    for dataset, is_equal in (("plain", True), ("moving", False)):
        config = config_for(dataset, model)
        trial = Trial(config, open_dataset(config, root), torch.device("cpu"))
        split = ResidentSplit(trial.data.splits["train"], torch.device("cpu"))
        with evaluating(trial.model):
            images, captions = encode_images(trial.model, split), encode_captions(trial.model, split)
            similarity = trial.model.compare(images, captions)
        same = torch.allclose(similarity[::2], similarity[1::2], atol=1e-5)
        assert same == is_equal
        if is_equal:
            assert direction_accuracy(trial) == 0.5


@pytest.mark.proof
@pytest.mark.parametrize("model", SYSTEMS)
def test_features_that_hold_motion_are_learned(root: Path, model: str) -> None:
    accuracies = {}
    for dataset in ("plain", "moving"):
        config = config_for(dataset, model, epochs=40)
        trial = Trial(config, open_dataset(config, root), torch.device("cpu"))
        while not config.training.is_over(trial.epoch, trial.best_epoch):
            trial.run_epoch()
        accuracies[dataset] = direction_accuracy(trial)
    assert accuracies["plain"] == 0.5
    assert accuracies["moving"] > 0.8


def test_the_command_generates_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--data-root", str(tmp_path)]
    assert main(["data", "generate", "motion", "--images", "12", *place]) == 0
    assert main(["data", "generate", "motion", "--images", "12", *place]) == 0
    assert "is there already with 12 pictures" in " ".join(capsys.readouterr().out.split())
    assert main(["data", "generate", "motion", "--images", "13", *place]) == 2
    assert main(["data", "generate", "scenes", "--motion-features", *place]) == 2
    assert "--motion-features goes with motion" in " ".join(capsys.readouterr().err.split())
    assert replace(config_for("motion", "hgr")).inputs == ("role_graphs",)
