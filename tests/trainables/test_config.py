"""The config of a training: what changes during it, and what it refuses."""

import json
from dataclasses import replace

import pytest

from trainables.config import Change, TrainingConfig, TrialConfig, idle_rates, similarity_notes
from trainables.errors import ConfigError

SCHEDULED = TrialConfig(
    dataset="pets",
    loss="nt_xent",
    loss_parameters={"temperature": 0.1},
    schedule=(
        Change(epoch=3, loss_parameters={"temperature": 0.2}),
        Change(epoch=5, training={"learning_rate": 1e-3, "gradient_clip": None}),
    ),
)


@pytest.mark.parametrize(
    ("epoch", "temperature", "rate", "clip"),
    [(1, 0.1, 2e-4, 2.0), (2, 0.1, 2e-4, 2.0), (3, 0.2, 2e-4, 2.0), (5, 0.2, 1e-3, None), (30, 0.2, 1e-3, None)],
)
def test_a_change_stays_until_the_next(epoch: int, temperature: float, rate: float, clip: float | None) -> None:
    now = SCHEDULED.at(epoch)
    assert now.loss_parameters == {"temperature": temperature}
    assert (now.training.learning_rate, now.training.gradient_clip, now.schedule) == (rate, clip, ())


def test_a_config_comes_back_from_json_and_mentions_nothing_that_it_has_not() -> None:
    for config in (SCHEDULED, TrialConfig(dataset="pets", val_images=1000)):
        assert TrialConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert not {"schedule", "val_images"} & SCHEDULED.at(5).to_dict().keys()
    assert SCHEDULED.until(4).schedule == SCHEDULED.schedule[:1]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ([{"epoch": 1}], "epoch 2 at the earliest, got 1"),
        ([{"epoch": 3, "training": {"embedding_size": 8}}], "training.embedding_size cannot change"),
        ([{"epoch": 4}, {"epoch": 3}], "they ascend, got"),
        ([{"epoch": 4, "training": {"learning_rate": 0}}], "learning_rate: must be"),
        ([{"epoch": 4, "training": {"batch_size": None}}], "training.batch_size must be at least 2, got null"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(schedule: list[dict], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrialConfig.from_dict({"dataset": "pets", "training": vars(TrainingConfig()), "schedule": schedule})


@pytest.mark.parametrize(
    ("model", "parameters", "loss", "note"),
    [
        ("gsmn", {}, "circle", "gsmn: its similarities go beyond [-1, 1], and circle pulls positives to 1"),
        ("scan", {}, "polynomial_self", "scan: its similarities go beyond [-1, 1], and polynomial_self bounds its"),
        ("wsabie", {}, "my_loss", "wsabie: its similarities go beyond [-1, 1], and my_loss is a plug-in's loss"),
        ("scan", {"aggregation": "mean"}, "polynomial_self", None),
        ("gsmn", {}, "triplet_sh", None),
        ("hgr", {}, "my_loss", None),
    ],
)
def test_losses_of_cosines_are_named_beside_similarities_that_are_none(
    model: str, parameters: dict, loss: str, note: str | None
) -> None:
    config = TrialConfig(dataset="pets", model=model, model_parameters=parameters, loss=loss)
    notes = list(similarity_notes(config))
    assert [sentence[: len(note)] for sentence in notes] == [note] if note else not notes


def test_rates_that_step_nothing_are_named() -> None:
    rates = TrainingConfig(backbone_learning_rate=1e-5, loss_learning_rate=1e-3)
    plain = TrialConfig(dataset="pets", loss="nt_xent", training=rates)
    of_backbone = "training.backbone_learning_rate has no effect: vsepp trains no backbone"
    of_loss = "training.loss_learning_rate has no effect: nt_xent learns no hyper-parameter"
    assert list(idle_rates(plain)) == [of_backbone, of_loss]
    assert list(idle_rates(plain, may_learn=True)) == [of_backbone]
    used = replace(
        plain,
        training=replace(rates, finetune=True),
        schedule=(Change(epoch=2, loss_parameters={"temperature": "learned"}),),
    )
    assert list(idle_rates(used)) == []
    unset = replace(plain, training=TrainingConfig())
    assert list(idle_rates(unset)) == [] and list(idle_rates(unset, ["loss_learning_rate"])) == [of_loss]
