"""CLIP is trained from pixels: what is trained, what is stored, and that a step is that of the library."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy, normalize

from tests.support import encoders as tiny
from tests.trainables.runs import numbers, resumed, stopped, trained
from trainables import extras
from trainables.checkpoint import save_epoch
from trainables.config import TrainingConfig, TrialConfig
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import Dataset, open_dataset
from trainables.encoders import read_encoder
from trainables.encoders.pretrained import NoEncoderError
from trainables.errors import CheckpointError, ConfigError
from trainables.evaluation import evaluate, evaluate_checkpoint
from trainables.models import build_model
from trainables.models.clip import CLIP
from trainables.serving.packed import ENCODER, read_about, write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import Trial, run_trial

KINDS = ("open_clip", "clip", "siglip")
CPU = torch.device("cpu")


@pytest.fixture
def data(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return open_dataset(config_of(tmp_path), root)


def config_of(folder: Path, *, loss_parameters: dict[str, Any] | None = None, **changes: Any) -> TrialConfig:
    """Make a config of a folder; settings of the training are those that it has."""
    training = {"epochs": 1, "batches": "images", "batch_size": 8, "captions_per_image": 2, "learning_rate": 1e-3}
    settings = {name: changes.pop(name) for name in list(changes) if name in TrainingConfig.__dataclass_fields__}
    return TrialConfig(
        dataset="scenes",
        model="clip",
        loss="nt_xent",
        loss_parameters=loss_parameters or {},
        model_parameters={"encoder": str(folder), **changes},
        training=TrainingConfig(**{**training, **settings}),
    )


def inputs_of(model: CLIP) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pixels, and token ids with their lengths."""
    pixels = torch.randn(5, 3, tiny.SIZE, tiny.SIZE, generator=torch.Generator().manual_seed(0))
    ids = [torch.from_numpy(part) for part in model.reading.number(["a dog", "a picture with number 3 .", "dog"])]
    return pixels, torch.nn.utils.rnn.pad_sequence(ids, batch_first=True), torch.tensor([len(part) for part in ids])


def vectors_of(model: CLIP) -> torch.Tensor:
    pixels, tokens, lengths = inputs_of(model)
    with torch.inference_mode():
        return torch.cat([model.encode_images(pixels), model.encode_captions(tokens, lengths)])


@pytest.mark.parametrize("kind", KINDS)
def test_training_begins_with_the_zero_shot_model(folders: Callable[[str], Path], kind: str) -> None:
    folder = folders(kind)
    built = {part: build_model(config_of(folder, trained=part), None).eval() for part in ("none", "lora")}
    zero_shot, adapted = (vectors_of(model) for model in built.values())
    assert torch.equal(zero_shot, adapted), "to the last bit, whatever the rank"
    assert list(built["none"].parameters()) == []
    assert {name.split("/")[-3] for name, _ in built["lora"].named_parameters()} == {"lora_A", "lora_B"}
    encoder = read_encoder(str(folder))
    captions = encoder.encode_captions(["a dog", "a picture with number 3 .", "dog"])
    np.testing.assert_allclose(zero_shot[5:].numpy(), captions, atol=1e-6)
    images = encoder.encode_images(inputs_of(built["none"])[0].numpy())
    np.testing.assert_allclose(zero_shot[:5].numpy(), images, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["whole", "blocks", "lora"])
def test_what_is_frozen_stays_and_is_in_no_optimiser_nor_checkpoint(
    folders: Callable[[str], Path], data: Dataset, tmp_path: Path, kind: str, part: str
) -> None:
    more = {"blocks": 1} if part == "blocks" else {}
    trial = Trial(config_of(folders(kind), trained=part, weight_average=0.9, **more), data, CPU)
    network = trial.model._encoder.network
    own = {id(parameter) for parameter in trial.model.parameters()}
    assert own == {id(parameter) for group in trial.optimizer.param_groups for parameter in group["params"]}
    frozen = {name: value.clone() for name, value in network.named_parameters() if id(value) not in own}
    begun = {name: value.detach().clone() for name, value in trial.model.named_parameters()}
    checkpoint = save_epoch(tmp_path, trial.run_epoch())
    now = dict(network.named_parameters())
    assert all(torch.equal(now[name], value) for name, value in frozen.items()), "to the last bit, after some steps"
    assert all(now[name].grad is None for name in frozen)
    moved = {name for name, value in trial.model.named_parameters() if not torch.equal(value, begun[name])}
    # The softmax of attention does not see a bias of the keys, and most words are in no caption.
    assert moved >= {name for name in begun if "embed" not in name and not name.endswith("k_proj/bias")}
    for file in ("state.pt", "best.pt"):
        stored = torch.load(checkpoint / file, weights_only=True)
        assert stored["model"].keys() == begun.keys() and len(stored["encoder"]) == 64
    assert trial.average.weights.keys() == begun.keys()
    if part == "blocks":
        assert begun.keys() < set(dict(build_model(config_of(folders(kind), trained="whole"), None).named_parameters()))


@pytest.mark.parametrize("kind", ["open_clip", "clip"])
def test_a_step_is_that_of_an_independent_loop_over_the_library_s_own_model(
    folders: Callable[[str], Path], data: Dataset, kind: str
) -> None:
    sgd = {
        "batches": "pairs",
        "duplicates": "negatives",
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "gradient_clip": None,
    }
    trial = Trial(config_of(folders(kind), trained="whole", loss_parameters={"temperature": 0.07}, **sgd), data, CPU)
    trial.begin_epoch()
    batch = next(trial.batches())
    loss = trial.train(1)
    model, encode_images, encode_captions = of_library(folders(kind), kind)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.nn.functional.pad(batch.tokens, (0, 77))
    images = normalize(encode_images(batch.images), dim=-1)
    logits = images @ normalize(encode_captions(tokens, batch.lengths), dim=-1).T / 0.07
    own = torch.arange(len(logits))
    expected = (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
    expected.backward()
    optimizer.step()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    theirs = dict(model.named_parameters())
    for name, value in trial.model.named_parameters():
        torch.testing.assert_close(value, theirs[name.replace("/", ".")], rtol=0, atol=1e-6)


def of_library(folder: Path, kind: str) -> tuple[torch.nn.Module, Callable, Callable]:
    if kind == "open_clip":
        model = open_clip.create_model(f"local-dir:{folder}")
        return model, model.encode_image, lambda tokens, lengths: model.encode_text(tokens[:, :77])
    from transformers import CLIPModel

    model = CLIPModel.from_pretrained(folder)

    def encode_captions(tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = (torch.arange(tiny.LENGTH) < lengths[:, None]).long()
        return model.get_text_features(input_ids=tokens[:, : tiny.LENGTH], attention_mask=mask).pooler_output

    return model, lambda pixels: model.get_image_features(pixel_values=pixels).pooler_output, encode_captions


@pytest.mark.parametrize(
    "changes",
    [{"rank": 4}, {"trained": "blocks", "blocks": 1, "precision": "bf16"}, {"crop_area": 0.5, "weight_average": 0.9}],
    ids=["lora", "blocks in bf16", "crops and average"],
)
def test_a_resumed_trial_ends_like_an_undisturbed_one(
    folders: Callable[[str], Path], data: Dataset, tmp_path: Path, changes: dict[str, Any]
) -> None:
    config = config_of(folders("open_clip"), epochs=2, loss_parameters={"temperature": "learned"}, **changes)
    resumed(config, data, tmp_path, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_take_the_step_of_the_whole_batch(
    folders: Callable[[str], Path], data: Dataset, kind: str
) -> None:
    sgd = {"optimizer": "sgd", "learning_rate": 0.1}
    trials = []
    for size in (None, 3):
        config = config_of(folders(kind), trained="whole", micro_batch=size, **sgd)
        trial = Trial(config, data, CPU)
        trial.begin_epoch()
        trial.train(2)
        trials.append(dict(trial.model.named_parameters()))
    whole, in_parts = trials
    for name, value in whole.items():
        torch.testing.assert_close(in_parts[name], value, rtol=0, atol=1e-6)


def test_a_random_encoder_learns_a_few_scenes_by_heart(folders: Callable[[str], Path], data: Dataset) -> None:
    flat = {"epochs": 40, "learning_rate_drop_factor": 1.0}
    trial = Trial(config_of(folders("open_clip"), trained="whole", captions_per_image=5, **flat), data, CPU)
    trial.train_split = ResidentSplit(data.splits["train"].head(6), CPU, trial.model.reading)
    before = evaluate(trial.model, trial.train_split)["rsum"]
    for _ in range(trial.config.training.epochs):
        trial.begin_epoch()
        trial.train()
    # Some of the captions fit two of the scenes.
    assert before < 500 < 560 < evaluate(trial.model, trial.train_split)["rsum"]


def test_a_learned_temperature_begins_with_that_of_the_encoder(folders: Callable[[str], Path], data: Dataset) -> None:
    config = config_of(folders("clip"), loss_parameters={"temperature": "learned"})
    trial = Trial(config, data, CPU)
    trial.begin_epoch()
    scale = read_encoder(str(folders("clip"))).network.logit_scale
    assert trial.learned.numbers(trial.loss)["temperature"] == pytest.approx(1 / float(scale.detach().exp()), rel=1e-6)


def test_random_views_are_off_unless_asked_for(folders: Callable[[str], Path], data: Dataset) -> None:
    plain = trained(config_of(folders("clip"), augment=False), data)
    assert trained(config_of(folders("clip")), data) == plain
    cropped = trained(config_of(folders("clip"), crop_area=0.5), data)
    assert cropped != plain and trained(config_of(folders("clip"), crop_area=0.5), data) == cropped


def test_zero_shot_is_the_same_after_any_training(folders: Callable[[str], Path], data: Dataset) -> None:
    first, second = trained(config_of(folders("clip"), trained="none", epochs=2), data)
    trial = Trial(config_of(folders("clip")), data, CPU)
    assert first["val/rsum"] == second["val/rsum"] == evaluate(trial.model, trial.val_split)["rsum"]


def test_a_folder_that_has_changed_is_refused(folders: Callable[[str], Path], data: Dataset, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for path in folders("clip").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = config_of(folder, epochs=2)
    checkpoint = stopped(config, data, tmp_path / "trial", 1)
    rsum = evaluate_checkpoint(checkpoint, data, "val", device="cpu")["rsum"]
    report = next(run_trial(config, data, checkpoint, device="cpu"))
    assert numbers(report)["val/rsum"] == rsum
    other = tiny.clip_folder(tmp_path / "other")
    state = torch.nn.Module.state_dict(read_encoder(str(other)).network)
    changed = {name: value + 1 for name, value in state.items()}
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
    for use in (
        lambda: next(run_trial(config, data, checkpoint, device="cpu")),
        lambda: evaluate_checkpoint(checkpoint, data, "val", device="cpu"),
    ):
        with pytest.raises(CheckpointError, match=rf"trained from other files than {folder} holds now"):
            use()


def test_a_packed_model_answers_new_pictures_and_captions_without_the_folder(
    folders: Callable[[str], Path], data: Dataset, root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for path in folders("open_clip").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    trial = Trial(config_of(folder), data, CPU)
    checkpoint = save_epoch(tmp_path / "trial", trial.run_epoch())
    write_retriever(tmp_path / "packed", checkpoint, data, "test")
    for path in folder.iterdir():
        path.unlink()
    retriever = Retriever(tmp_path / "packed")
    assert (tmp_path / "packed" / read_about(tmp_path / "packed")[ENCODER]).is_dir() and retriever.reads_pictures
    picture = tmp_path / "new.png"
    Image.new("RGB", (50, 40), "red").save(picture)
    answers = retriever.captions_for(picture, 3)
    with torch.inference_mode():
        trial.model.eval()
        pixels = torch.from_numpy(trial.model.reading.view(Image.open(picture).convert("RGB"), None))[None]
        vector = trial.model.encode_images(pixels)
        (ids,) = map(torch.from_numpy, trial.model.reading.number([answers[0].caption]))
        caption = trial.model.encode_captions(ids[None], torch.tensor([len(ids)]))
    assert answers[0].score == pytest.approx(float(vector[0] @ caption[0]), abs=1e-3)
    found = retriever.images_for("a zebra nobody drew", 2)
    assert len(found) == 2 and not any("does not know" in doubt for doubt in retriever.doubts_about("a zebra", found))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": None}, "model_parameters.encoder: clip needs the folder of an encoder"),
        ({"encoder": "models/clip"}, "model_parameters.encoder must be the absolute path of a folder"),
        ({"trained": "all"}, "model_parameters.trained must be"),
        ({"trained": "whole", "rank": 4}, "model_parameters.rank: goes with trained: lora, and trained is whole"),
        ({"blocks": 2}, "model_parameters.blocks: goes with trained: blocks, and trained is lora"),
        ({"crop_area": 0.0}, "model_parameters.crop_area must be a number above 0 and at most 1"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_read(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        given = {"encoder": "/x", **changes}
        kept = {name: value for name, value in given.items() if value is not None}
        TrialConfig(dataset="x", model="clip", model_parameters=kept)
    with pytest.raises(ConfigError, match="training.finetune: clip always reads pixels"):
        config_of(Path("/x"), finetune=True)


def test_encoders_that_cannot_be_trained_so_are_refused(folders: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(NoEncoderError, match="model_parameters.encoder: dinov2:dinov2 makes features of one side"):
        build_model(config_of(folders("dinov2")), None)
    with pytest.raises(NoEncoderError, match=r"model_parameters.blocks: .* has 1 blocks, got 3; choose at most 1"):
        build_model(config_of(folders("clip"), trained="blocks", blocks=3), None)
    with pytest.raises(NoEncoderError, match=rf"model_parameters.encoder {tmp_path}/none: is neither"):
        build_model(config_of(tmp_path / "none"), None)


def test_a_missing_package_is_one_line_with_its_extra(
    folders: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda name: name != "peft")
    build_model(config_of(folders("clip"), trained="whole"), None)
    with pytest.raises(extras.MissingExtraError, match=r"lora needs peft, which is .*icr-orchestrator\[encoders\]"):
        build_model(replace(config_of(folders("clip"))), None)
