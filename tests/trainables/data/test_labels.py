"""Images with classes: the form ``labels.csv``, batches of whole classes, and trainings on them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.commands import run_command as main
from tests.trainables.data import folders
from tests.trainables.data.folders import CLASSES
from tests.trainables.data.test_scenes import digest_of
from trainables.checkpoint import save_epoch
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.batches import ResidentSplit, count_steps, epoch_batches
from trainables.data.dataset import check_batch_size, check_modality, load_dataset
from trainables.dataset_description import describe_dataset
from trainables.errors import ConfigError, DataError
from trainables.models import build_model
from trainables.seeding import generator
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

PER_CLASS = 5


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folders.labels(tmp_path / "data" / "birds")
    return tmp_path / "data"


def config(**changes: object) -> TrialConfig:
    training = TrainingConfig(embedding_size=4, batch_size=12, epochs=3, captions_per_image=3, learning_rate=0.01)
    return TrialConfig(**{"dataset": "birds", "model": "head", "loss": "nt_xent", "training": training, **changes})


def test_both_sides_are_the_images_and_their_classes(root: Path) -> None:
    data = load_dataset("birds", root, text=True)
    for name, split in data.splits.items():
        assert len(split.labels) == len(split.captions) == PER_CLASS * len(CLASSES[name])
        assert split.labels.tolist() == np.arange(len(CLASSES[name])).repeat(PER_CLASS).tolist()
        assert split.caption_rows.tolist() == split.image_rows.tolist()
        assert np.array_equal(split.caption_features, split.features)
    assert len(data.splits["val"].head(5).labels) == 5


def test_pictures_in_folders_of_their_classes_are_found_and_checked(root: Path, tmp_path: Path) -> None:
    labels = root / "birds" / "labels.csv"
    labels.write_text(re.sub(r"(\w)(\d\.jpg)", r"images/\1/\2", labels.read_text()))
    names = [line.split(",")[0] for line in labels.read_text().splitlines()[1:]]
    for name in names:
        (root / "birds" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 30)).save(root / "birds" / name)
    counts = describe_dataset("birds", root, decode_images=True)
    assert not counts.problems and sum(split["image_files"] for split in counts.splits.values()) == len(names)
    (root / "birds" / names[0]).write_bytes(b"")
    (root / "birds" / names[1]).unlink()
    problems = describe_dataset("birds", root, decode_images=True).problems
    assert f"{names[1]!r} is missing" in problems[0] and f"{names[0]}: cannot be decoded" in problems[1]
    (root / "birds" / names[1]).symlink_to(tmp_path / "outside.jpg")
    (tmp_path / "outside.jpg").write_bytes(b"")
    assert "images/a/1.jpg: is a link that leaves the data root" in describe_dataset("birds", root).problems[0]
    (root / "birds" / "images" / "b").rename(tmp_path / "b")
    (root / "birds" / "images" / "b").symlink_to(tmp_path / "b")
    assert "images/b: is a link that leaves the data root" in describe_dataset("birds", root).problems[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_holds_each_image_beside_others_of_its_class(root: Path, seed: int) -> None:
    split = ResidentSplit(load_dataset("birds", root).splits["train"], torch.device("cpu"))
    training = TrainingConfig(batch_size=10, captions_per_image=2)
    batches = list(epoch_batches(split, training, torch.Generator().manual_seed(seed)))
    # Each class is two groups, of 2 and 3 images; where both come last they are a batch of one class, and left out.
    assert sum(len(batch.images) for batch in batches) in (15, 10)
    for batch in batches:
        assert len(batch.images) <= 10
        assert torch.equal(batch.images, batch.tokens)
        assert torch.equal(batch.ignore, torch.eye(len(batch.images), dtype=torch.bool))
        assert batch.positives.any(0).all()
        assert not (batch.positives & batch.ignore).any()
        assert torch.equal(batch.positives, batch.positives.T)
        assert torch.equal(batch.image_groups[:, None] == batch.caption_groups, batch.positives | batch.ignore)
        assert not (batch.positives | batch.ignore).all()


def test_steps_are_those_of_the_first_epoch(root: Path) -> None:
    """Batches of one class are left out, more of them in one draw than in another."""
    train = load_dataset("birds", root).splits["train"]
    split, counts = ResidentSplit(train, torch.device("cpu")), set()
    training = TrainingConfig(batch_size=10, captions_per_image=2)
    for seed in range(20):
        taken = list(epoch_batches(split, training, generator(seed, "batches", 1)))
        assert count_steps(train, training, seed) == len(taken)
        counts.add(len(taken))
    assert len(counts) > 1


def test_some_batch_holds_two_classes_or_the_training_is_refused(root: Path) -> None:
    data = load_dataset("birds", root)
    split = ResidentSplit(data.splits["train"], torch.device("cpu"))
    for seed in range(20):
        # Two groups of two images fit, but not a group of two with one of three.
        training = TrainingConfig(batch_size=4, captions_per_image=2)
        check_batch_size(data, training)
        assert list(epoch_batches(split, training, torch.Generator().manual_seed(seed)))
    for batch_size, images_each, needed in ((3, 2, 4), (3, 3, 4), (7, 4, 10), (8, 5, 10)):
        training = TrainingConfig(batch_size=batch_size, captions_per_image=images_each)
        with pytest.raises(ConfigError, match=f"two classes of birds.*choose at least {needed}"):
            check_batch_size(data, training)
        with pytest.raises(ConfigError, match="has two classes"):
            list(epoch_batches(split, training, torch.Generator()))


def test_a_part_of_val_that_leaves_an_image_alone_is_refused(root: Path) -> None:
    with pytest.raises(DataError, match="val_images: among the first 6 images .* a class has one image alone"):
        load_dataset("birds", root, val_images=6)
    assert len(load_dataset("birds", root, val_images=7).splits["val"].labels) == 7


def test_a_model_that_reads_words_is_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="birds has images with classes and no captions, and vsepp reads words"):
        check_modality(config(model="vsepp"), load_dataset("birds", root))
    with pytest.raises(ConfigError, match="val/i2t_map5 is not measured on birds"):
        check_modality(config(metric="val/i2t_map5"), load_dataset("birds", root))
    with pytest.raises(ConfigError, match="caption_head: birds has images on both sides"):
        build_model(config(model_parameters={"caption_head": "mlp"}), load_dataset("birds", root))


def test_both_sides_share_one_head(root: Path) -> None:
    data = load_dataset("birds", root)
    model = build_model(config(model_parameters={"image_head": "mlp"}), data)
    features = torch.from_numpy(data.splits["val"].features[:3])
    assert torch.equal(model.encode_images(features), model.encode_captions(features, torch.ones(3)))
    assert len(list(model.parameters())) == len(model.state_dict()) == 4


LOSSES = ("triplet_sh", "triplet", "nt_xent", "smooth_ap", "multi_similarity", "gradient_weights")


@pytest.mark.parametrize("loss", LOSSES)
def test_a_training_learns_to_retrieve_classes_and_counts_contributions(root: Path, loss: str) -> None:
    reports = list(run_trial(config(loss=loss), load_dataset("birds", root), device="cpu"))
    metrics = reports[-1].metrics
    assert metrics["val/t2i_r1"] == metrics["val/i2t_r1"]
    assert 0 <= metrics["val/i2t_r1"] <= metrics["val/i2t_r2"] <= metrics["val/i2t_r4"] <= metrics["val/i2t_r8"] <= 100
    name = "cocos/{}_negatives_per_query"
    counted = next(report.metrics for report in reversed(reports) if name.format("i2t") in report.metrics)
    assert counted[name.format("i2t")] == pytest.approx(counted[name.format("t2i")])


def test_the_generated_dataset_is_described_and_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    place = ["--data-root", str(tmp_path)]
    assert main(["data", "generate", "classes", "--images", "100", *place]) == 0
    # The bytes are the same on every machine; the digest of the dataset knows them.
    assert digest_of(tmp_path / "classes")[:16] == "d152282b1ae26e33"
    assert main(["data", "generate", "classes", "--images", "100", *place]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(["data", "describe", "classes", "--json", *place]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [told["splits"][name]["images"] for name in ("train", "val", "test")] == [80, 10, 10]
    settings = {"dataset": "classes", "model": "head", "training.epochs": 1, "training.batch_size": 16}
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    assert main(["train", *options, *place, "--output", str(tmp_path / "runs"), "--json"]) == 0
    capsys.readouterr()
    (run,) = (tmp_path / "runs" / "train").iterdir()
    assert main(["evaluate", str(run), "--json", "--split", "test", *place]) == 0
    # One class of ten images alone is in test: whatever is found is right.
    assert json.loads(capsys.readouterr().out)["metrics"]["rsum"] == 600.0


@pytest.mark.parametrize("images", [0, 95, 105, 1210])
def test_other_numbers_of_generated_images_are_refused(images: int, tmp_path: Path) -> None:
    assert main(["data", "generate", "classes", "--images", str(images), "--data-root", str(tmp_path)]) == 2
    assert not (tmp_path / "classes").exists()


def test_a_packed_model_is_asked_by_image_and_answers_with_images(root: Path, tmp_path: Path) -> None:
    data = load_dataset("birds", root)
    *_, report = run_trial(config(), data, device="cpu")
    checkpoint = save_epoch(tmp_path / "trial", report)
    write_retriever(tmp_path / "packed", checkpoint, data, "test")
    answers = Retriever(tmp_path / "packed").captions_for("f0.jpg", 10)
    assert answers[0].filename == "f0.jpg"
    assert {answer.filename for answer in answers} == {f"{name}{n}.jpg" for name in "fg" for n in range(5)}
