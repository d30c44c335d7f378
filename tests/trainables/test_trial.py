"""A trial learns, repeats itself, resumes where it stopped, and says where it diverged."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.trainables.runs import numbers, resumed, stopped, trained
from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.checkpoint import BEST, STATE, read_file, save_epoch
from trainables.cocos import count_contributions
from trainables.config import Change, TrainingConfig, TrialConfig
from trainables.errors import CheckpointError, ConfigError, DivergedError
from trainables.evaluation import evaluate_checkpoint, similarities
from trainables.metric_table import may_select
from trainables.metrics import class_metrics, metrics_of_ranks
from trainables.trial import Trial, run_trial

DATA = tiny_dataset()


SMALL = tiny_dataset(images=24)
"""For what does not depend on how well a trial learns: an epoch of 7 steps of 16 pairs."""


@pytest.mark.parametrize("loss", ["triplet", "triplet_sh", "nt_xent", "circle"])
def test_it_learns(loss: str) -> None:
    reports = list(run_trial(tiny_config(loss=loss, epochs=5), DATA, device="cpu"))
    assert [report.epoch for report in reports] == [1, 2, 3, 4, 5]
    assert reports[-1].metrics["train/loss"] < reports[0].metrics["train/loss"]
    # Chance for 20 images and 100 captions is about 5 + 25 + 50 per direction.
    assert reports[-1].metrics["val/rsum_best"] > 300


def test_a_metric_that_no_epoch_reports_is_refused_before_the_first() -> None:
    with pytest.raises(ConfigError, match=r"metric must be one of val/rsum, .*, got 'val/rsun'"):
        next(run_trial(replace(tiny_config(), metric="val/rsun"), SMALL, device="cpu"))
    ranks = torch.ones(2, dtype=torch.int64)
    reported = {*metrics_of_ranks(ranks, ranks, torch.arange(2)), *class_metrics(ranks)}
    assert {*may_select()} == {f"val/{name}" for name in reported if not name.endswith(("medr", "meanr"))}


def test_of_epochs_that_are_equally_good_the_first_is_kept(tmp_path: Path) -> None:
    # Steps so small that no weight changes: every epoch has the value of the first.
    reports = list(run_trial(tiny_config(epochs=3, learning_rate=1e-30), SMALL, device="cpu"))
    assert len({report.metrics["val/rsum"] for report in reports}) == 1
    assert [report.is_best for report in reports] == [True, False, False]
    assert read_file(save_epoch(tmp_path, reports[-1]), BEST)["epoch"] == 1


@pytest.mark.parametrize(("stop", "bank"), [(1, None), (2, None), (4, None), (2, 40)])
def test_a_resumed_trial_ends_like_an_undisturbed_one(tmp_path: Path, stop: int, bank: int | None) -> None:
    config = tiny_config(epochs=4, learning_rate_drop_epochs=2, warmup_epochs=2)
    if bank is not None:
        config = replace(config, training=replace(config.training, bank=bank))
    resumed(config, SMALL, tmp_path, stop)


USUAL_TODAY = {
    "learning_rate_schedule": "cosine",
    "warmup_epochs": 1,
    "weight_decay": 0.1,
    "weight_decay_of": "matrices",
    "weight_average": 0.9,
    "loss_learning_rate": 0.05,
}


@pytest.mark.parametrize("stop", [1, 3])
def test_a_trial_with_schedule_groups_and_average_ends_alike_when_resumed(tmp_path: Path, stop: int) -> None:
    config = replace(tiny_config(epochs=4, **USUAL_TODAY), loss_parameters={"temperature": "learned"})
    resumed(config, SMALL, tmp_path, stop)


def test_the_average_is_evaluated_and_kept_as_the_best_and_the_weights_are_trained(tmp_path: Path) -> None:
    plain, averaged = (tiny_config(epochs=3, weight_average=average) for average in (0.0, 0.95))
    (*_, without), (*_, with_average) = (run_trial(config, SMALL, device="cpu") for config in (plain, averaged))
    assert with_average.metrics["train/loss"] == without.metrics["train/loss"]
    assert with_average.metrics["val/rsum"] != without.metrics["val/rsum"]
    checkpoint = save_epoch(tmp_path, with_average)
    state, best = read_file(checkpoint, STATE), read_file(checkpoint, BEST)
    unlike = [
        name for name, value in state["average"]["weights"].items() if not torch.equal(value, state["model"][name])
    ]
    assert unlike and with_average.is_best
    assert all(torch.equal(value, best["model"][name]) for name, value in state["average"]["weights"].items())
    found = evaluate_checkpoint(checkpoint, SMALL, "val", device="cpu")
    assert found["rsum"] == pytest.approx(with_average.metrics["val/rsum"], abs=1e-9)


def test_with_a_cosine_another_number_of_epochs_is_another_training(tmp_path: Path) -> None:
    config = tiny_config(epochs=2, learning_rate_schedule="cosine")
    checkpoint = save_epoch(tmp_path, next(run_trial(config, SMALL, device="cpu")))
    longer = replace(config, training=replace(config.training, epochs=3))
    with pytest.raises(CheckpointError, match="another config"):
        list(run_trial(longer, SMALL, checkpoint, device="cpu"))


def test_the_checkpoint_holds_the_model_of_the_best_epoch(tmp_path: Path) -> None:
    # A rate far too high soon makes an epoch worse than the best.
    for report in run_trial(tiny_config(epochs=30, learning_rate=0.2), DATA, device="cpu"):
        checkpoint = save_epoch(tmp_path, report)
        if report.metrics["val/rsum"] < report.metrics["val/rsum_best"]:
            break
    evaluated = evaluate_checkpoint(checkpoint, DATA, "val", device="cpu")
    assert report.metrics["val/rsum"] < report.metrics["val/rsum_best"]
    assert evaluated["rsum"] == pytest.approx(report.metrics["val/rsum_best"], abs=1e-9)
    assert set(evaluate_checkpoint(checkpoint, DATA, "test", device="cpu")) == set(evaluated)


def test_more_epochs_resume_the_same_trial_but_another_config_does_not(tmp_path: Path) -> None:
    config = tiny_config(epochs=1)
    checkpoint = save_epoch(tmp_path, next(run_trial(config, SMALL, device="cpu")))
    longer = replace(config, training=replace(config.training, epochs=2))
    assert [report.epoch for report in run_trial(longer, SMALL, checkpoint, device="cpu")] == [1, 2]
    with pytest.raises(CheckpointError, match="another config"):
        list(run_trial(replace(config, seed=5), SMALL, checkpoint, device="cpu"))
    with pytest.raises(CheckpointError, match="other data"):
        list(run_trial(config, tiny_dataset(digest="other"), checkpoint, device="cpu"))
    with pytest.raises(CheckpointError, match="here has other"):
        evaluate_checkpoint(checkpoint, tiny_dataset(digest="other"), "val", device="cpu")


def test_coefficients_as_a_tuple_and_as_a_list_are_one_trial(tmp_path: Path) -> None:
    made = replace(tiny_config(loss="polynomial_relative", epochs=2), loss_parameters={"coefficients": (0.2, 1.0)})
    checkpoint = save_epoch(tmp_path, next(run_trial(made, SMALL, device="cpu")))
    read = TrialConfig.from_dict(json.loads(json.dumps(made.to_dict())))
    assert trained(read, SMALL, checkpoint) == trained(made, SMALL)


SCHEDULES = {
    "loss": Change(epoch=3, loss_parameters={"temperature": 0.5}),
    "rate": Change(epoch=3, training={"learning_rate": 1e-4}),
    "decay": Change(epoch=3, training={"weight_decay": 0.5}),
    "batch size": Change(epoch=3, training={"batch_size": 4}),
}


@pytest.mark.parametrize("change", SCHEDULES.values(), ids=SCHEDULES)
def test_a_schedule_is_the_same_trial_until_it_changes(tmp_path: Path, change: Change) -> None:
    plain = tiny_config(loss="nt_xent", epochs=4)
    scheduled = replace(plain, schedule=(change,))
    before = trained(plain, SMALL)
    whole = trained(scheduled, SMALL)
    assert whole[:2] == before[:2]
    assert whole[2]["train/loss"] != before[2]["train/loss"] or whole[3]["train/loss"] != before[3]["train/loss"]
    stream = run_trial(plain, SMALL, device="cpu")
    next(stream)
    checkpoint = save_epoch(tmp_path, next(stream))
    assert trained(scheduled, SMALL, checkpoint) == whole[1:]
    later = save_epoch(tmp_path, next(stream))
    with pytest.raises(CheckpointError, match="another config"):
        list(run_trial(scheduled, SMALL, later, device="cpu"))


def test_a_loss_that_is_not_finite_ends_the_trial_at_that_step() -> None:
    with pytest.raises(DivergedError, match=r"train/(loss|similarity) is (nan|inf) in epoch 1, step [23]"):
        list(run_trial(tiny_config(learning_rate=1e38, gradient_clip=None), DATA, device="cpu"))


def test_to_adam_a_loss_times_c_is_the_loss_with_the_clip_divided_by_c() -> None:
    reports = []
    for scale in (1.0, 16.0):
        config = tiny_config(loss="polynomial_relative", epochs=2, gradient_clip=0.8 * scale)
        config = replace(config, loss_parameters={"coefficients": (0.2 * scale, scale)})
        reports.append(trained(config, DATA))
    for mean, total in zip(*reports, strict=True):
        assert total["train/loss"] == pytest.approx(16 * mean["train/loss"], rel=1e-3)
        assert total["val/rsum"] == pytest.approx(mean["val/rsum"])


def test_cocos_is_counted_at_the_best_epochs_and_when_due() -> None:
    counted, best = set(), set()
    for report in run_trial(tiny_config(epochs=12, cocos_every=5, learning_rate=0.05), DATA, device="cpu"):
        best |= {report.epoch} if report.is_best else set()
        counted |= {report.epoch} if "cocos/i2t_negatives_per_batch" in report.metrics else set()
    assert counted == best | {5, 10}
    assert counted != set(range(1, 13))


def test_cocos_has_the_batch_size_in_force() -> None:
    """With a margin that no pair keeps, every query has all other pairs of its batch for contributing negatives."""
    config = tiny_config(loss="triplet", epochs=3, cocos_every=1, batch_size=16, duplicates="negatives")
    change = Change(epoch=2, training={"batch_size": 8})
    scheduled = replace(config, loss_parameters={"margin": 4.0}, schedule=(change,))
    reports = run_trial(scheduled, DATA, device="cpu")
    assert [report.metrics["cocos/i2t_negatives_per_query"] for report in reports] == [15, 7, 7]


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_training_ends_when_its_patience_is_over_resumed_or_not(tmp_path: Path, stop: int) -> None:
    # Steps so small that no weight changes: no epoch improves on the first.
    config = tiny_config(epochs=9, learning_rate=1e-30, patience=2)
    assert [report.epoch for report in run_trial(config, SMALL, device="cpu")] == [1, 2, 3]
    checkpoint = stopped(config, SMALL, tmp_path, stop)
    resumed = [report.epoch for report in run_trial(config, SMALL, checkpoint, device="cpu")]
    assert resumed == list(range(stop, 4))
    longer = replace(config, training=replace(config.training, patience=4))
    assert [report.epoch for report in run_trial(longer, SMALL, checkpoint, device="cpu")] == list(range(stop, 6))


def test_patience_waits_from_the_best_epoch_on() -> None:
    training = TrainingConfig(epochs=10, patience=3)
    assert [epoch for epoch in range(1, 11) if training.is_over(epoch, 4)] == [7, 8, 9, 10]
    assert not any(TrainingConfig(epochs=10).is_over(epoch, 1) for epoch in range(1, 10))
    assert TrainingConfig(epochs=10, scale_epochs=True).is_over(10, 10), "pairs have nothing to scale"
    scaled = TrainingConfig(epochs=10, patience=3, batches="images", captions_per_image=5, scale_epochs=True)
    assert not scaled.is_over(15, 1)
    assert scaled.is_over(16, 1)


@pytest.mark.parametrize("loss", ["triplet", "warp"])
def test_the_first_steps_are_counted_and_nothing_else_changes(loss: str) -> None:
    with_counts, without = (
        [numbers(report) for report in run_trial(tiny_config(loss=loss, epochs=2, cocos_steps=steps), SMALL)]
        for steps in (3, 0)
    )
    assert not any(name.startswith("cocos_start/") for name in with_counts[1])
    name = "cocos/i2t_negatives_per_query"
    half, usual, twice = (with_counts[0][name + ending] for ending in ("_half_epsilon", "", "_twice_epsilon"))
    assert half >= usual >= twice
    start = {name for name in with_counts[0] if name.startswith("cocos_start/")}
    assert {f"cocos_start/{name}" for name in ("i2t_negatives_per_query", "t2i_gradient_share_hardest5")} <= start
    added = start | {name for name in with_counts[0] if "_epsilon" in name}
    assert [{name: value for name, value in epoch.items() if name not in added} for epoch in with_counts] == without


def test_the_first_step_is_counted_on_the_first_batch_of_the_untrained_model() -> None:
    config = tiny_config(loss="triplet", epochs=1, cocos_steps=1)
    report = next(iter(run_trial(config, DATA, device="cpu")))
    trial = Trial(config, DATA, torch.device("cpu"))
    trial.begin_epoch()
    batch = next(iter(trial.batches()))
    with torch.no_grad():
        counts = count_contributions(trial.loss, similarities(trial.model, batch), batch.positives, batch.ignore)
    for name, value in counts.items():
        assert report.metrics[f"cocos_start/{name}"] == pytest.approx(float(value))
        assert report.metrics[f"cocos_start/{name}_std"] == 0
    # The margin is large beside the differences of untrained similarities.
    assert report.metrics["cocos_start/i2t_negatives_per_query"] > 0.5 * config.training.batch_size
