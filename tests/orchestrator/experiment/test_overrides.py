"""Studies of one experiment that differ in their training, and the published settings that ship."""

import pytest

from orchestrator.experiment.experiment import Experiment, load_experiment
from trainables.errors import ConfigError


def settings(experiment: Experiment) -> dict[str, tuple[int, int, int, str]]:
    """Return epochs, epoch of the first drop, embedding size and selection metric of each study."""
    return {
        cell.name: (
            cell.training.total_epochs,
            cell.training.learning_rate_drop_epochs * cell.training.epoch_scale,
            cell.training.embedding_size,
            cell.metric,
        )
        for cell in experiment.cells()
    }


@pytest.mark.parametrize("dataset", ["f30k", "coco"])
def test_the_baselines_have_the_settings_of_the_study(dataset: str) -> None:
    vsrn_drop = {"f30k": 10, "coco": 15}[dataset]
    expected = {}
    for loss in ("triplet", "triplet_sh", "nt_xent", "smooth_ap"):
        scale = 5 if loss == "smooth_ap" else 1
        expected[f"{dataset}-vsepp-{loss}"] = (30 * scale, 15 * scale, 1024, "val/rsum")
        expected[f"{dataset}-vsrn-{loss}"] = (30 * scale, vsrn_drop * scale, 2048, "val/r1_r5_sum")
    experiment = load_experiment(f"{dataset}-baselines")
    assert settings(experiment) == expected
    configs = [experiment.trial_config(cell, {}) for cell in experiment.cells()]
    assert {config.training.duplicates for config in configs} == {"negatives"}
    assert {config.training.batches for config in configs if config.loss == "smooth_ap"} == {"images"}
    assert {config.model_parameters.get("norm_before_reasoning") for config in configs if config.model == "vsrn"} == {
        dataset == "coco"
    }


def test_a_dataset_can_have_a_tokenizer_of_its_own() -> None:
    changes = ["datasets=[a, b]", "tokenizer=english", "overrides=[{datasets: [b], tokenizer: characters}]"]
    made = load_experiment("scenes-smoke", changes)
    assert {cell.dataset: made.trial_config(cell, {}).tokenizer for cell in made.cells()} == {
        "a": "english",
        "b": "characters",
    }


def test_later_overrides_win_over_earlier_ones() -> None:
    change = "overrides=[{losses: [nt_xent], training: {epochs: 7, batch_size: 8}}, {training: {epochs: 9}}]"
    cells = {cell.loss: cell.training for cell in load_experiment("scenes-smoke", [change]).cells()}
    assert (cells["nt_xent"].epochs, cells["nt_xent"].batch_size) == (9, 8)
    assert (cells["triplet_sh"].epochs, cells["triplet_sh"].batch_size) == (9, 32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("[{losses: [nope]}]", "overrides.0.losses.0: unknown name 'nope'"),
        ("[{training: {epoch: 3}}]", "overrides.0.training: epoch: unknown key; did you mean 'epochs'"),
        ("[{training: {epochs: 0}}]", "overrides.0.training: epochs: must be at least 1, got 0"),
        ("[{losses: [nt_xent], tokenizer: words}]", "overrides.0.tokenizer: belongs to datasets"),
        ("[{metric: val/x}]", "overrides.0.metric: unknown name"),
        ("[{model_parameters: {a: 1}}]", "vsepp has no such parameter"),
        ("[{grace_epochs: 2}]", "overrides.0.grace_epochs: a setting of asha, hyperband, median, but"),
    ],
)
def test_a_wrong_override_is_refused_with_its_place(change: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_experiment("scenes-smoke", ["scheduler={name: none}", f"overrides={change}"])
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"--set overrides={change}: overrides.0")
