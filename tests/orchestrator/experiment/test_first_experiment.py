"""The first experiment that ``init`` writes: model, losses, batch and epochs follow what lies there."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.experiment.experiment import Experiment, load_experiment
from orchestrator.experiment.first_experiment import DatasetFacts, write_first
from trainables.errors import ConfigError


def begun(tmp_path: Path, dimensions: dict[str, int], **facts: Any) -> tuple[Experiment, str]:
    known = {"name": "mine", "images": 1_000, "captions": 5_000, **facts}
    text = write_first(DatasetFacts(dimensions=dimensions, **known), "first", "orchestrator search first.yaml")
    file = tmp_path / "first.yaml"
    file.write_text(text)
    return load_experiment(str(file)), text


@pytest.mark.parametrize(
    ("dimensions", "facts", "model", "losses"),
    [
        ({"global": 64, "text": 32}, {}, "head", ["triplet_sh", "nt_xent", "sigmoid"]),
        ({"global": 64, "text": 64}, {}, "head", ["triplet_sh", "nt_xent", "sigmoid", "triplet"]),
        ({"global": 64}, {}, "vsepp", ["triplet_sh", "nt_xent", "polynomial_relative"]),
        ({"regions": 64}, {}, "vsepp", ["triplet_sh", "nt_xent", "polynomial_relative"]),
        ({"global": 64}, {"has_classes": True}, "head", ["multi_similarity", "nt_xent"]),
        ({"global": 64}, {"has_labels": True}, "wsabie", ["warp", "triplet", "nt_xent"]),
    ],
    ids=["both sides", "one space", "vectors", "regions", "classes", "labels"],
)
def test_model_and_losses_suit_the_features(
    tmp_path: Path, dimensions: dict[str, int], facts: dict[str, Any], model: str, losses: list[str]
) -> None:
    experiment, text = begun(tmp_path, dimensions, **facts)
    assert (list(experiment.models), list(experiment.losses)) == ([model], losses)
    assert text.startswith("# The first search on mine: 1,000 train images with 5,000 captions.")
    configs = [experiment.trial_config(cell, {}) for cell in experiment.cells()]
    assert {config.dataset for config in configs} == {"mine"}
    assert {config.features for config in configs} == {"regions" if "regions" in dimensions else "global"}


def test_an_encoder_is_fine_tuned_beside_its_zero_shot_model(tmp_path: Path) -> None:
    facts = DatasetFacts("mine", 1_000, 5_000, {"global": 64, "text": 64}, has_pictures=True)
    file = tmp_path / "first.yaml"
    file.write_text(write_first(facts, "first", "orchestrator search first.yaml", "/models/my clip"))
    experiment = load_experiment(str(file))
    assert (list(experiment.models), list(experiment.losses)) == (["clip"], ["nt_xent", "sigmoid"])
    for cell in experiment.cells():
        assert cell.space.zero_shot == {"model.trained": "none"} and experiment.trials_in(cell) == 6
        config = experiment.trial_config(cell, {})
        assert (config.encoder, config.features) == ("/models/my clip", "pixels")
        assert {*experiment.search.fixed[cell.loss].values()} == {"learned"}
        assert (config.training.batch_size, config.training.micro_batch) == (256, 64)


@pytest.mark.parametrize(
    ("about", "message"),
    [({}, "the pictures of mine are not there"), ({"has_classes": True, "has_pictures": True}, "has classes in place")],
)
def test_an_encoder_without_pictures_or_captions_is_refused(about: dict[str, Any], message: str) -> None:
    facts = DatasetFacts("mine", 1_000, 5_000, {"global": 64}, **about)
    with pytest.raises(ConfigError, match=message):
        write_first(facts, "first", "orchestrator search first.yaml", "/models/clip")


def test_pictures_without_features_can_be_fine_tuned_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="train an encoder with --encoder FOLDER, make them with"):
        begun(tmp_path, {}, has_pictures=True)


def test_features_of_one_space_are_compared_with_themselves_untrained(tmp_path: Path) -> None:
    experiment, _ = begun(tmp_path, {"global": 64, "text": 64})
    (zero_shot,) = [cell for cell in experiment.cells() if cell.loss == "triplet"]
    config = experiment.trial_config(zero_shot, {})
    assert config.model_parameters == {"image_head": "identity", "caption_head": "identity"}
    assert (config.training.embedding_size, config.training.epochs) == (64, 1)
    assert experiment.confirm is not None and experiment.confirm.baseline == "triplet"


@pytest.mark.parametrize(("captions", "batch"), [(20, 2), (100, 8), (800, 64), (4_000, 256), (150_000, 256)])
def test_batches_and_epochs_follow_the_size(tmp_path: Path, captions: int, batch: int) -> None:
    experiment, _ = begun(tmp_path, {"global": 64, "text": 32}, captions=captions)
    (config, *_) = [experiment.trial_config(cell, {}) for cell in experiment.cells()]
    assert config.training.batch_size <= max(batch, 8) and config.training.batch_size <= captions
    assert 6 <= config.training.epochs <= 30
    assert config.training.epochs == 30 or captions > 10_000


@pytest.mark.parametrize(
    ("dimensions", "message"),
    [({}, "no features of its pictures; make them"), ({"text": 3}, "no features"), ({"clip": 3}, "clip, and none")],
)
def test_data_without_usable_features_are_refused_with_the_command(
    tmp_path: Path, dimensions: dict[str, int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        begun(tmp_path, dimensions)
