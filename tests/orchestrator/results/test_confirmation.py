"""Confirmation: who is trained again, with which seeds, what comes of it, and what is said before that."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.answers import Summary, summarise
from orchestrator.results.confirmation import confirmations, current_plans, trainings_of
from orchestrator.results.confirmation_plan import choose_candidates, fresh_seeds, published_default, wanted_plans
from orchestrator.results.question import Verdict
from orchestrator.results.winner import find_champions
from orchestrator.winners.winners import selected
from tests.support.commands import CommandLine
from tests.support.experiments import add_repeat, add_repeats, add_trial, make_experiment, open_test, start

CONFIRM = make_experiment(confirm={"top": 2, "seeds": 3})


def vary(trial: Trial, value: float) -> Trial:
    """Give a trial a parameter of its own."""
    name = next(iter(trial.params))
    trial.params, trial.config = {name: value}, replace(trial.config, loss_parameters={name: value})
    return trial


def searched(ledger: Ledger, values: list[float], loss: str = "nt_xent") -> list[Trial]:
    """A finished trial a value; the first has the published settings."""
    start = 0.1 if loss == "nt_xent" else 0.2
    return [vary(add_trial(ledger, [value], loss=loss), start + index / 100) for index, value in enumerate(values)]


def test_the_best_of_each_study_and_the_best_published_settings_are_chosen(ledger: Ledger) -> None:
    nt_xent = searched(ledger, [10.0, 40.0, 30.0, 20.0])
    triplet = searched(ledger, [15.0, 25.0], "triplet_sh")
    chosen = choose_candidates(ledger.history, 2)
    assert chosen == [nt_xent[1], nt_xent[2], triplet[1], triplet[0]], "its published settings are among the best two"
    assert published_default(ledger.history, "pets") == triplet[0]
    triplet[0].epochs[1] = {"val/rsum": 5.0}
    assert published_default(ledger.history, "pets") == nt_xent[0]
    assert choose_candidates(ledger.history, 1) == [nt_xent[1], triplet[1], nt_xent[0]]
    assert choose_candidates(ledger.history, 1, per_study=True) == [nt_xent[1], triplet[1], nt_xent[0], triplet[0]]


def test_the_best_of_each_value_of_a_parameter_is_chosen(ledger: Ledger) -> None:
    trials = {}
    values = {(0.2, 1e-3): 40.0, (0.2, 2e-3): 41.0, (0.3, 1e-3): 12.0, (0.3, 2e-3): 11.0, (0.4, 1e-3): 90.0}
    for (temperature, rate), value in values.items():
        trials[temperature, rate] = trial = vary(add_trial(ledger, [value]), temperature)
        trial.params = {"temperature": temperature, "training.learning_rate": rate}
        trial.config = replace(trial.config, training=replace(trial.config.training, learning_rate=rate))
    chosen = choose_candidates(ledger.history, 1, each_of="temperature")
    assert chosen == [trials[0.4, 1e-3], trials[0.2, 2e-3], trials[0.3, 1e-3]]
    plan = make_experiment(
        confirm={"top": 1, "seeds": 3, "each_of": "temperature"}, search={"training": {"learning_rate": "default"}}
    )
    assert len(trainings_of(current_plans(plan, ledger.history), ledger.history)) == 9


@pytest.mark.parametrize("state", [TrialState.DIVERGED, TrialState.FAILED, TrialState.STOPPED_EARLY])
def test_only_trials_that_finished_are_among_the_best(ledger: Ledger, state: TrialState) -> None:
    good = vary(add_trial(ledger, [10.0]), 0.11)
    vary(add_trial(ledger, [90.0], state=state), 0.12)
    assert choose_candidates(ledger.history, 3) == [good]


def test_published_settings_that_were_stopped_early_are_a_baseline_unless_others_finished(ledger: Ledger) -> None:
    default = add_trial(ledger, [50.0], state=TrialState.STOPPED_EARLY)
    best = vary(add_trial(ledger, [10.0]), 0.11)
    assert choose_candidates(ledger.history, 3) == [best, default]
    finished = add_trial(ledger, [5.0], loss="triplet_sh")
    assert published_default(ledger.history, "pets") == finished


def test_published_settings_are_compared_by_the_metric_of_the_experiment(ledger: Ledger) -> None:
    """A study may select by a metric of its own, whose values lie elsewhere."""
    better, other = searched(ledger, [40.0]), searched(ledger, [15.0], "triplet_sh")
    better[0].config = replace(better[0].config, metric="val/i2t_r1")
    assert published_default(ledger.history, "pets") == better[0]
    for trial in (*better, *other):
        trial.state = TrialState.STOPPED_EARLY
    assert published_default(ledger.history, "pets") == better[0]


@pytest.mark.parametrize("published", ["best", "each"])
@pytest.mark.parametrize("has_plan", [True, False])
def test_a_confirmation_keeps_the_published_settings_that_it_began_with(
    ledger: Ledger, published: str, has_plan: bool
) -> None:
    """An older version compared published settings by other metrics; another choice would be another plan."""
    (better,), (other, *_) = searched(ledger, [40.0]), searched(ledger, [15.0, 60.0], "triplet_sh")
    experiment = make_experiment(confirm={"top": 1, "seeds": 2, "published": published})
    (plan,) = wanted_plans(experiment, ledger.history)
    assert plan.baseline == better.id, "it has the higher value of the experiment's metric"
    if has_plan:
        begun = structs.replace(plan, candidates=(*plan.candidates[:2], other.id), baseline=other.id)
        ledger.append(begun)
    else:
        add_repeats(ledger, [(other, [14.0, 15.0])])
    (again,) = current_plans(experiment, ledger.history)
    assert again.baseline == other.id and other.id in again.candidates
    if has_plan and published == "best":
        assert again == begun


def test_the_same_training_is_not_confirmed_twice(ledger: Ledger) -> None:
    first, again, other = (add_trial(ledger, [value]) for value in (10.0, 10.0, 9.0))
    vary(other, 0.3)
    assert choose_candidates(ledger.history, 2) == [first, other]
    assert again.config == first.config


def margins(ledger: Ledger, curves: list[list[float]]) -> list[Trial]:
    """A finished trial of the triplet loss a curve of val; the first has the published settings."""
    return [
        add_trial(ledger, curve, loss="triplet_sh", params={"margin": 0.2 + number / 10})
        for number, curve in enumerate(curves)
    ]


def test_settings_that_trained_alike_are_one_candidate_and_the_next_takes_the_free_place(ledger: Ledger) -> None:
    alike, again, other = margins(ledger, [[10.0, 20.0], [10.0, 20.0], [10.0, 19.0]])
    assert choose_candidates(ledger.history, 2) == [alike, other]
    again.epochs[1] = {**again.epochs[1], "train/loss": 7.0}
    assert choose_candidates(ledger.history, 2) == [alike, other], "a loss that is shifted by a constant has no effect"
    assert choose_candidates(ledger.history, 1, each_of="margin") == [alike, again, other], "each value is a point"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda trial: trial.epochs.update({1: {**trial.epochs[1], "val/i2t_r1": 0.5}}), id="another metric on val"
        ),
        pytest.param(lambda trial: trial.epochs.pop(1), id="another number of epochs"),
        pytest.param(lambda trial: setattr(trial, "config", replace(trial.config, seed=9)), id="another seed"),
    ],
)
def test_settings_that_trained_differently_are_candidates(ledger: Ledger, change: Callable[[Trial], object]) -> None:
    first, second = margins(ledger, [[10.0, 20.0], [10.0, 20.0]])
    change(second)
    assert choose_candidates(ledger.history, 2) == [first, second]


def test_the_verdict_says_whose_runs_settings_share_and_the_baseline_may_share_runs_too(ledger: Ledger) -> None:
    best, published, again = (
        add_trial(ledger, [10.0, 20.0], loss="triplet_sh", params={"margin": margin}) for margin in (0.3, 0.2, 0.4)
    )
    other = add_trial(ledger, [10.0, 15.0])
    (plan,) = current_plans(CONFIRM, ledger.history)
    assert (plan.candidates, plan.baseline) == ((best.id, other.id), best.id)
    ledger.append(plan)
    open_test(ledger, add_repeats(ledger, [(best, [30.0, 31.0, 32.0]), (other, [20.0, 21.0, 22.0])]))
    confirmation = confirmations(ledger.history)["pets"]
    assert confirmation.alike == {best.id: (published.id, again.id)}
    sentence = "3 settings that differ in margin gave identical results in every epoch; only margin = 0.3 was confirmed"
    assert confirmation.verdict.warnings[-1] == sentence
    assert not any("no baseline" in warning or "not confirmed" in warning for warning in confirmation.verdict.warnings)


def test_a_setting_that_was_trained_twice_is_no_finding(ledger: Ledger) -> None:
    first, again, other = (
        add_trial(ledger, [10.0, value], loss="triplet_sh", params={"margin": margin})
        for margin, value in ((0.2, 20.0), (0.2, 20.0), (0.3, 15.0))
    )
    open_test(ledger, add_repeats(ledger, [(first, [20.0]), (other, [20.0])]))
    confirmation = confirmations(ledger.history)["pets"]
    assert confirmation.alike == {first.id: (again.id,)}
    assert not any("identical results" in warning for warning in confirmation.verdict.warnings)


def test_a_confirmation_of_an_older_version_keeps_candidates_that_trained_alike(ledger: Ledger) -> None:
    trials = margins(ledger, [[10.0, 20.0], [10.0, 20.0], [10.0, 19.0]])
    (plan,) = current_plans(CONFIRM, ledger.history)
    assert plan.candidates == (trials[0].id, trials[2].id)
    older = structs.replace(plan, candidates=(trials[0].id, trials[1].id))
    begun = add_repeat(ledger, trials[1], 0, fresh_seeds(0, 1)[0], 20.0)
    assert current_plans(CONFIRM, ledger.history)[0].candidates == older.candidates, (
        "without a plan, its trainings count"
    )
    del ledger.history.trials[begun.id]
    ledger.append(older)
    assert current_plans(CONFIRM, ledger.history) == [older], "nothing has been seen, and yet it is the same plan"
    assert len(trainings_of([older], ledger.history)) == 6
    assert confirmations(ledger.history)["pets"].alike == {}, "both have runs of their own"


def test_seeds_are_fresh_and_a_longer_list_begins_with_the_shorter() -> None:
    seeds = fresh_seeds(7, 5)
    assert len({7, *seeds}) == 6
    assert fresh_seeds(7, 3) == seeds[:3]
    assert fresh_seeds(seeds[0], 3)[0] != seeds[0]
    assert set(fresh_seeds(8, 5)).isdisjoint(seeds)


def test_the_plan_goes_seed_by_seed_through_all_candidates(ledger: Ledger) -> None:
    searched(ledger, [10.0, 40.0])
    planned = trainings_of(current_plans(CONFIRM, ledger.history), ledger.history)
    name = "pets-vsepp-nt_xent"
    names = [f"{name}-000{number}-seed{index}" for index in range(3) for number in (1, 0)]
    assert [one.trial for one in planned] == names
    by_candidate = {
        label: [one.config["seed"] for one in planned if one.candidate == label]
        for label in (f"{name}-0000", f"{name}-0001")
    }
    assert set(map(tuple, by_candidate.values())) == {tuple(fresh_seeds(0, 3))}
    trial = ledger.history.trials[f"{name}-0001"]
    assert {{**one.config, "seed": 0} == trial.config.to_dict() for one in planned[::2]} == {True}
    assert trainings_of(current_plans(make_experiment(), ledger.history), ledger.history) == []


def confirmed(ledger: Ledger, values: dict[int, list[float | None]]) -> None:
    """Repeat trials of nt_xent by their numbers, with seeds from 100, then open the test split."""
    trials = ledger.history.study("pets-vsepp-nt_xent")
    repeats = add_repeats(ledger, [(trials[number], each) for number, each in values.items()])
    open_test(ledger, [one for one in repeats if one.state is TrialState.FINISHED])


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "journal.jsonl")
    start(made, CONFIRM)
    return made


def test_before_the_confirmation_is_over_there_is_no_verdict(ledger: Ledger) -> None:
    first, second = searched(ledger, [10.0, 40.0])
    assert Summary(ledger.history).verdicts == {}
    repeats = add_repeats(ledger, [(one, [20.0, 21.0]) for one in (first, second)])
    assert Summary(ledger.history).verdicts == {}, "nothing has been evaluated on test"
    open_test(ledger, repeats[:-1])
    assert Summary(ledger.history).verdicts == {}, "one has not"
    winner = summarise(ledger.history)["winners"]["pets"]
    assert (winner["trial"], winner["confirmed"], winner["seeds"]) == (second.id, False, 1)


def test_the_seeds_decide_and_not_the_search(ledger: Ledger) -> None:
    first, second = searched(ledger, [10.0, 40.0])
    confirmed(ledger, {0: [30.0, 31.0, 32.0], 1: [20.0, 21.0, 22.0]})
    (verdict,) = Summary(ledger.history).verdicts.values()
    assert (verdict.winner.label, verdict.verdict) == (first.id, Verdict.BETTER)
    assert verdict.baseline == first.id and not verdict.others("published"), "the winner is the baseline itself"
    champion = confirmations(ledger.history)["pets"].champion
    assert champion.id == f"{first.id}-seed2"
    assert find_champions(ledger.history) == {"pets": champion}
    summary = summarise(ledger.history)
    winner = summary["winners"]["pets"]
    assert (winner["trial"], winner["confirmed"], winner["seeds"]) == (first.id, True, 3)
    assert (winner["val"], winner["test"], winner["model_of"]) == ({"rsum": 31.0}, {"rsum": 31.0}, champion.id)
    assert (summary["verdicts"][0]["winner"], summary["test_openings"]) == (first.id, {"pets": 1})
    assert [row["stage"] for row in summary["trials"]] == ["search"] * 2 + ["confirm"] * 6
    assert second.id not in ledger.history.tests


def test_val_selects_and_test_alone_decides(ledger: Ledger) -> None:
    """The second is far ahead on val and far behind on test."""
    first, second = searched(ledger, [10.0, 40.0])
    repeats = add_repeats(ledger, [(first, [20.0, 21.0, 22.0]), (second, [30.0, 31.0, 32.0])])
    open_test(ledger, repeats, values=[70.0, 71.0, 72.0, 50.0, 51.0, 52.0])
    (verdict,) = Summary(ledger.history).verdicts.values()
    assert verdict.winner.label == second.id
    assert (verdict.selection, verdict.winner.mean("val/rsum")) == ("val/rsum", 31.0)
    assert (verdict.metric, verdict.winner.mean("test/rsum")) == ("test/rsum", 51.0)
    assert (verdict.verdict, verdict.pairs[0].difference) == (Verdict.WORSE, -20.0)


def test_a_candidate_that_diverges_with_another_seed_does_not_win_silently(ledger: Ledger) -> None:
    searched(ledger, [10.0, 40.0])
    confirmed(ledger, {0: [30.0, 31.0, 32.0], 1: [50.0, None, 52.0]})
    (verdict,) = Summary(ledger.history).verdicts.values()
    assert verdict.winner.label.endswith("0000")
    assert "pets-vsepp-nt_xent-0001 has 2 of 3 seeds: seed 101 diverged" in verdict.warnings[0]


def test_the_test_split_is_for_the_confirmed_alone(ledger: Ledger, tmp_path: Path) -> None:
    _, second = searched(ledger, [10.0, 40.0])
    assert selected(ledger.history) == [], "the search is over, and nothing is confirmed yet"
    repeats = add_repeats(ledger, [(second, [20.0, None])])
    assert selected(ledger.history) == repeats[:1]
    other = Ledger(tmp_path / "other.jsonl")
    start(other, make_experiment())
    assert selected(other.history) == []
    best = searched(other, [10.0, 40.0])[1]
    assert selected(other.history) == [best], "without a confirmation, the best of the search"


def test_without_a_finished_trial_there_is_nothing_to_confirm(ledger: Ledger, tmp_path: Path, cli: CommandLine) -> None:
    add_trial(ledger, [10.0], state=TrialState.STOPPED_EARLY)
    assert ledger.history.stage(Stage.CONFIRM) == []
    for arguments, message in (([], "nothing to confirm"), (["--seeds", "1"], "confirm.seeds")):
        assert message in cli.refuses("confirm", tmp_path, *arguments)
