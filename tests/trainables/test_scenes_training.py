"""One step of every model on scenes lowers the loss of its batch."""

from pathlib import Path

import pytest
import torch

from tests.trainables.scenes_folder import pixel_config, write_scenes
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.batches import ResidentSplit, pair_batches
from trainables.data.dataset import open_dataset
from trainables.evaluation import similarities
from trainables.losses import build_loss
from trainables.models import build_model
from trainables.optimizers import build_optimizer
from trainables.training_steps import train_epoch

FEATURES = TrainingConfig(learning_rate=1e-3, embedding_size=16, word_size=8)
MODELS = {
    "vsepp": TrialConfig(dataset="scenes", model="vsepp", loss="nt_xent", training=FEATURES),
    "vsrn": TrialConfig(dataset="scenes", model="vsrn", loss="nt_xent", training=FEATURES),
    "wsabie": TrialConfig(dataset="scenes", model="wsabie", loss="warp", training=FEATURES),
    "vsepp from pixels": pixel_config(),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenes(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_one_step_lowers_the_loss(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: TrialConfig
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data = open_dataset(config, root)
    torch.manual_seed(0)
    model = build_model(config, data)
    model.train_backbone(config.training.finetune)
    split = ResidentSplit(data.splits["train"], torch.device("cpu"), model.crop_size)
    (batch,) = pair_batches(split, [torch.arange(0, 80, 5)], mask_duplicates=True)
    objective = build_loss(config.loss)

    @torch.no_grad()
    def expected() -> float:
        """The mean over draws; WARP alone draws."""
        torch.manual_seed(1)
        matrix = similarities(model.train(), batch)
        return float(torch.stack([objective(matrix, batch.positives, batch.ignore) for _ in range(100)]).mean())

    before = expected()
    train_epoch(model, objective, build_optimizer(model.parameters(), config.training), [batch], 2.0, epoch=1)
    assert expected() < before
