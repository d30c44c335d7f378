"""Training from pixels: the backbone stands still, learns, is saved and resumes; scenes are the pictures."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.trainables.runs import numbers, resumed
from tests.trainables.scenes_folder import pixel_config, write_scenes
from trainables.checkpoint import save_epoch
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.dataset import Dataset, open_dataset
from trainables.errors import ConfigError, DataError
from trainables.evaluation import evaluate_checkpoint
from trainables.models import build_model
from trainables.trial import run_trial


@pytest.fixture
def data(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return open_dataset(pixel_config(), root)


def backbone_of(directory: Path) -> dict[str, torch.Tensor]:
    model = torch.load(directory / "state.pt", weights_only=True)["model"]
    return {name: value for name, value in model.items() if name.startswith("backbone.")}


def test_a_backbone_stands_still_batch_norms_included_until_it_is_trained(data: Dataset, tmp_path: Path) -> None:
    config = pixel_config(epochs=2, frozen_epochs=1)
    start = {f"backbone.{name}": value for name, value in build_model(config, data).backbone.state_dict().items()}
    frozen, trained = (backbone_of(save_epoch(tmp_path, report)) for report in run_trial(config, data, device="cpu"))
    assert all(torch.equal(value, start[name]) for name, value in frozen.items())
    changed = {name for name, value in trained.items() if not torch.equal(value, start[name])}
    assert changed >= {"backbone.network.conv1.0.weight", "backbone.network.conv1.1.running_mean"}


@pytest.mark.parametrize("stop", [1, 2])
def test_a_resumed_trial_ends_like_an_undisturbed_one(data: Dataset, tmp_path: Path, stop: int) -> None:
    """Stopped before and after the backbone was let go."""
    config = pixel_config(epochs=3, frozen_epochs=1, finetune_learning_rate=1e-4)
    resumed(config, data, tmp_path, stop)


def test_a_backbone_has_a_rate_of_its_own(data: Dataset, tmp_path: Path) -> None:
    config = pixel_config(epochs=1, backbone_learning_rate=1e-30)
    start = dict(build_model(config, data).named_parameters())
    trial = save_epoch(tmp_path, next(run_trial(config, data, device="cpu")))
    trained = torch.load(trial / "state.pt", weights_only=True)["model"]
    # A bias of 0 moves by the rate itself.
    still = {name for name, value in start.items() if float((value.detach() - trained[name]).abs().max()) < 1e-20}
    assert still == {name for name in start if name.startswith("backbone.")}
    resumed(pixel_config(epochs=2, backbone_learning_rate=1e-4), data, tmp_path / "resumed", 1)


def test_a_checkpoint_is_evaluated_and_resumed_without_the_weights_file(data: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save(build_model(pixel_config(), data).backbone.network.state_dict(), path)
    config = replace(pixel_config(epochs=1), model_parameters={**pixel_config().model_parameters, "weights": str(path)})
    config.check_weights()
    report = next(run_trial(config, data, device="cpu"))
    checkpoint = save_epoch(tmp_path / "trial", report)
    path.unlink()
    with pytest.raises(ConfigError, match="there is no file"):
        config.check_weights()
    assert evaluate_checkpoint(checkpoint, data, "val", device="cpu")["rsum"] == report.metrics["val/rsum"]
    assert numbers(next(run_trial(config, data, checkpoint, device="cpu"))) == numbers(report)


def test_augmentation_changes_training_and_can_be_left_out(data: Dataset) -> None:
    trials = [run_trial(pixel_config(augment=augment), data, device="cpu") for augment in (True, False, True)]
    losses = [next(trial).metrics["train/loss"] for trial in trials]
    assert losses[0] == losses[2] != losses[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "vsrn"}, "training.finetune: vsrn reads regions features and cannot be trained from pixels"),
        ({"model": "wsabie"}, "training.finetune: wsabie reads global features and cannot be trained from pixels"),
        ({"training": TrainingConfig()}, "model_parameters.backbone: goes with training.finetune: true"),
    ],
    ids=["vsrn", "wsabie", "backbone of features"],
)
def test_what_does_not_go_with_pixels_is_refused(changes: dict, message: str) -> None:
    parameters = {} if "model" in changes else pixel_config().model_parameters
    with pytest.raises(ConfigError) as caught:
        TrialConfig(**{"dataset": "x", "training": pixel_config().training, "model_parameters": parameters, **changes})
    assert message in str(caught.value)


def test_a_broken_image_ends_the_trial_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = write_scenes(tmp_path, images=20)
    data = open_dataset(pixel_config(), root)
    path = next((root / "scenes" / "images").glob("*3.jpg"))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=f"image '.*': {path}: cannot be decoded"):
        list(run_trial(pixel_config(), data, device="cpu"))
