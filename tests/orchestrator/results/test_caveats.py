"""What qualifies results: versions that changed, settings without effect, whose the learning rate was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.epochs import Epochs
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, TrialState
from orchestrator.report.page import Page
from orchestrator.results.answers import summarise
from orchestrator.results.caveats import caveats, comparability, remarks
from tests.support.experiments import add_trial, begun, make_experiment, start
from tests.support.records import append

OLD = {"git_revision": "0123456789abcdef", "versions": {"torch": "2.14.1", "ray": "2.60.0"}}
BOTH = "torch 2.14.1 and 2.15.0"


def environment(**changes: Any) -> dict[str, Any]:
    return {**OLD, **changes}


def write(folder: Path, second: dict[str, Any], *, trains: bool = True) -> Ledger:
    """Write a journal of two starts, of which the second trains a trial, or does not come to that."""
    folder.mkdir(exist_ok=True)
    ledger = Ledger(folder / JOURNAL_FILE)
    experiment = make_experiment(losses=["nt_xent"])
    start(ledger, experiment, environment=OLD)
    add_trial(ledger, [30.0])
    start(ledger, experiment, environment=second)
    if trains:
        add_trial(ledger, [20.0])
    append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    return ledger


@pytest.mark.parametrize(
    ("second", "mixed"),
    [
        (OLD, None),
        (environment(machine={"host": "another"}), None),
        (environment(versions={"torch": "2.15.0", "ray": "2.60.0"}), BOTH),
        (environment(versions={"torch": "2.15.0"}), f"{BOTH}, with ray 2.60.0 and none"),
        (environment(git_revision="fedcba9876543210-dirty"), "code 0123456789 and fedcba9876-dirty"),
        (environment(git_revision=None), "code 0123456789 and unknown"),
    ],
    ids=["the same", "another machine", "a library", "a library less", "the code", "code that nobody knows"],
)
def test_what_differed_between_two_starts_is_named(tmp_path: Path, second: dict[str, Any], mixed: str | None) -> None:
    ledger = write(tmp_path, second)
    ledger.close()
    expected = [f"Trials were trained with {mixed}; values may differ for that alone."] if mixed else []
    assert caveats(list(ledger.history.trials.values())) == expected


def test_what_the_start_found_in_the_data_is_a_caveat_of_every_summary(tmp_path: Path) -> None:
    sentence = "pets: 1 of 4 test images have the features of train images, bit for bit."
    ledger = Ledger(tmp_path / JOURNAL_FILE)
    start(ledger, make_experiment(losses=["nt_xent"]), environment=OLD, data_caveats={"pets": [sentence]})
    add_trial(ledger, [30.0])
    append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    ledger.close()
    assert summarise(ledger.history)["caveats"]["pets"][0] == sentence


def test_a_start_that_trained_nothing_mixes_nothing(tmp_path: Path) -> None:
    ledger = write(tmp_path, environment(git_revision="other"), trains=False)
    assert caveats(list(ledger.history.trials.values())) == []
    # The same trial, resumed by another start, was trained by both.
    running = add_trial(ledger, [10.0], state=TrialState.RUNNING)
    start(ledger, make_experiment(losses=["nt_xent"]), environment=OLD)
    ledger.report(running, 2, {"val/rsum": 11.0}, TrialState.FINISHED)
    assert [one["git_revision"] for one in running.environments] == ["other", OLD["git_revision"]]
    ledger.close()


@pytest.mark.parametrize(
    "output",
    [
        "status",
        "caveats of status --json",
        "summary.json",
        "summarise --format table",
        "summarise --format json",
        "summarise --format markdown",
        "summarise --format html",
        "answers of the report",
    ],
)
def test_mixed_versions_are_said_with_the_verdict(
    tmp_path: Path, read: Callable[[str, Path], str], output: str
) -> None:
    write(tmp_path / "tiny", environment(versions={"torch": "2.15.0", "ray": "2.60.0"})).close()
    assert f"rained with {BOTH}; values may differ" in read(output, tmp_path / "tiny")


def test_a_single_trial_that_cannot_win_is_named_and_not_counted_again(ledger: Ledger) -> None:
    add_trial(ledger, [30.0])
    higher = add_trial(ledger, [40.0], state=TrialState.STOPPED_EARLY)
    named = f"{higher.id} reached 40.0 val rsum, above the best, and stopped early: it cannot win."
    assert caveats(list(ledger.history.trials.values())) == [named]
    add_trial(ledger, [10.0], state=TrialState.DIVERGED)
    add_trial(ledger, [20.0], state=TrialState.STOPPED_EARLY)
    trials = list(ledger.history.trials.values())
    assert caveats(trials) == [named], "what ended early limits nothing"
    assert remarks(trials) == ["2 trials stopped early, which cannot win.", "1 trial diverged, which cannot win."]


def test_a_trial_is_above_the_best_only_by_one_metric(ledger: Ledger) -> None:
    """Studies may have metrics of their own, whose values cannot be compared."""
    finished = add_trial(ledger, [30.0])
    finished.config = replace(finished.config, metric="val/i2t_r1")
    add_trial(ledger, [40.0], state=TrialState.STOPPED_EARLY, loss="triplet_sh")
    trials = list(ledger.history.trials.values())
    assert (caveats(trials), remarks(trials)) == ([], ["1 trial stopped early, which cannot win."])


def test_no_deviation_is_pooled_over_metrics_and_each_rise_has_its_own_metric(ledger: Ledger) -> None:
    trials = [add_trial(ledger, [10.0 * (n + 1) for n in range(6)], loss=loss) for loss in (*PAIR, *PAIR)]
    for trial, first in zip(trials[2:], trials, strict=False):
        trial.candidate = first.id
    for trial in trials[::2]:
        trial.config = replace(trial.config, metric="val/i2t_r1")
    assert remarks(trials) == ["2 trials repeated 2 settings with other seeds; each setting has their mean."]
    assert caveats(trials) == [
        "Rise of val rsum an epoch at the full learning rate: Triplet SH with VSE++ 17 %. "
        "Longer training may change the order.",
        "Rise of val i2t R@1 an epoch at the full learning rate: NT-Xent with VSE++ 17 %. "
        "Longer training may change the order.",
    ]


def test_settings_that_trained_exactly_as_the_best_are_said_to_have_no_effect(ledger: Ledger) -> None:
    start(ledger, make_experiment(losses=["triplet_sh"]))
    for margin in (0.2, 0.4, 0.6):
        add_trial(ledger, [10.0, 20.0 if margin < 0.5 else 19.0], params={"margin": margin}, loss="triplet_sh")
    trials = list(ledger.history.trials.values())
    assert caveats(trials) == []
    assert remarks(trials) == [
        "2 of 3 settings of Triplet SH, the best, differ in margin and had identical results in every epoch."
    ]


@pytest.mark.parametrize("curves", [([20.0], [20.0]), ([10.0, 20.0], [11.0, 20.0])], ids=["an epoch", "another curve"])
def test_equal_best_values_alone_say_nothing_about_effects(ledger: Ledger, curves: tuple[list[float], ...]) -> None:
    start(ledger, make_experiment(losses=["triplet_sh"]))
    for margin, curve in zip((0.2, 0.4), curves, strict=True):
        add_trial(ledger, curve, params={"margin": margin}, loss="triplet_sh")
    assert remarks(list(ledger.history.trials.values())) == []


RATE = 3e-4
PAIR = ["nt_xent", "triplet_sh"]


def history(tmp_path: Path, losses: list[str], **fields: Any) -> History:
    experiment = make_experiment(losses=losses, **{"training": {"learning_rate": RATE}, **fields})
    with begun(tmp_path, experiment) as ledger:
        add_trial(ledger, [10.0], loss=losses[0])
        return ledger.history


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param(
            {}, "All losses were trained at learning rate 0.0003: another rate may suit another loss better.", id="held"
        ),
        pytest.param(
            {"search": {"trials": 24, "training": {"learning_rate": [2e-4, 3e-3], "gradient_clip": [1, 8]}}},
            "Each loss had its own search of learning rate in [0.0002, 0.003] and gradient clip in [1, 8], "
            "beside its parameters, in 24 trials.",
            id="searched",
        ),
        pytest.param(
            {"overrides": [{"losses": ["nt_xent"], "training": {"learning_rate": 1e-3}}]},
            "The losses were trained at learning rates 0.001, 0.0003, which were not searched.",
            id="overridden",
        ),
    ],
)
def test_summary_and_report_say_whose_learning_rate_it_was(
    tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    found, key = history(tmp_path, PAIR, **fields), "remarks" if "own search" in sentence else "caveats"
    summary = summarise(found)
    assert {name for name in ("caveats", "remarks") if sentence in summary[name]["pets"]} == {key}
    assert {answer.key for answer in Page(found).answers["pets"] if sentence in answer.notes} == {key}


def test_a_baseline_that_a_space_leaves_out_stands_there_too(tmp_path: Path) -> None:
    found = history(
        tmp_path, ["triplet_sh", "polynomial_relative"], search={"space": {"polynomial_relative": {"slope_0": [0, 2]}}}
    )
    _, told = comparability(found, "pets")
    assert told.startswith("Polynomial (relative) could be Triplet SH with margin = 0.2, which is outside its space")


def test_of_one_loss_nothing_is_compared(tmp_path: Path) -> None:
    assert comparability(history(tmp_path, ["nt_xent"]), "pets") == []


def test_a_loss_that_still_rose_at_the_full_rate_is_named(ledger: Ledger) -> None:
    start(ledger, make_experiment())
    add_trial(ledger, [80.0, 88.0, 90.0, 93.0, 96.0])
    add_trial(ledger, [10.0, 40.0, 60.0, 80.0, 100.0], loss="triplet_sh")
    worse = add_trial(ledger, [10.0, 20.0, 30.0, 40.0, 50.0], loss="triplet_sh", params={"margin": 0.4})
    trials = list(ledger.history.trials.values())
    rise = "Rise of val rsum an epoch at the full learning rate:"
    after = "Longer training may change the order."
    # Over a third of the epochs: (100 - 80) / 100, and (96 - 93) / 96.
    assert caveats(trials) == [f"{rise} Triplet SH with VSE++ 20 % and NT-Xent with VSE++ 3 %. {after}"]
    # Trainings with fresh seeds count in place of the best of the search: (50 - 50) / 50.
    values = enumerate([10.0, 48.0, 49.0, 50.0, 50.0], start=1)
    flat = Epochs({epoch: {"val/rsum": value} for epoch, value in values})
    fresh = replace(worse, stage=Stage.CONFIRM, epochs=flat)
    assert caveats([*trials, fresh]) == [f"{rise} NT-Xent with VSE++ 3 %. {after}"]


@pytest.mark.parametrize(("drop", "share"), [(4, None), (3, "6 %"), (6, None), (2, None)])
def test_the_rise_is_that_before_the_learning_rate_dropped(ledger: Ledger, drop: int, share: str | None) -> None:
    start(ledger, make_experiment())
    trial = add_trial(ledger, [80.0, 88.0, 94.0, 95.0, 95.1, 95.1])
    training = replace(trial.config.training, learning_rate_drop_epochs=drop)
    found = caveats([replace(trial, config=replace(trial.config, training=training))])
    assert [f" {share}. " in sentence for sentence in found] == [True] * (share is not None)
