"""The next trainings of a confirmation, read from the journal: fixed designs, races, and the level that looks leave."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec import structs

from orchestrator.experiment.experiment import Cell, Experiment, load_experiment, shipped_experiments
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import ConfirmationPlan, TrialCreated
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results import confirmation
from orchestrator.results.answers import Summary, analyses_of, summarise
from orchestrator.results.confirmation import (
    LEVEL_OF_0_2,
    confirmations,
    current_plans,
    most_trainings,
    race_names,
    trainings_of,
)
from orchestrator.results.confirmation_plan import RESERVE, fresh_seeds, level_of_plan
from orchestrator.results.question import Verdict
from orchestrator.results.race import LEVEL as RACE_LEVEL
from orchestrator.results.race import first_seeds, race_outcome, run_race
from orchestrator.results.verdict import LEVEL, DatasetVerdict, judge
from orchestrator.searches.display import PlainDisplay, Progress, race_lines
from orchestrator.searches.dry_run import describe_dry_run, dry_run
from orchestrator.searches.resuming import confirm_experiment
from orchestrator.searches.status import Followed, read_status
from orchestrator.tuner.source import PlannedTrials
from orchestrator.winners.winners import selected
from orchestrator.workload.training import TrainablesWorkload
from tests.support.commands import CommandLine
from tests.support.experiments import make_experiment, open_test, start
from trainables.cost import Pace

MEANS = (50.0, 49.5, 40.0, 49.0)
"""Of the candidates over their seeds; the first candidate has the published settings."""


def racing(datasets: Sequence[str] = ("pets",), **confirm: object) -> Experiment:
    return make_experiment(datasets=list(datasets), losses=["nt_xent"], confirm={"top": 4, **confirm})


def searched(folder: Path, experiment: Experiment) -> Ledger:
    """A search of four candidates."""
    ledger = Ledger(folder / "journal.jsonl")
    start(ledger, experiment, options={})
    (cell,) = experiment.cells()
    search_cell(ledger, experiment, cell)
    return ledger


def search_cell(ledger: Ledger, experiment: Experiment, cell: Cell) -> None:
    """The trials of one study."""
    for number, mean in enumerate(MEANS):
        params = {"temperature": 0.1 + number / 100}
        trial = ledger.create(cell.name, number, params, experiment.trial_config(cell, params))
        ledger.report(trial, 1, {"val/rsum": mean}, TrialState.RUNNING)
        ledger.report(trial, 6, {"val/rsum": mean}, TrialState.FINISHED)


def train(ledger: Ledger, trial: Trial, luck: float = 0.0) -> None:
    """Finish a training: a value that depends on its candidate and its seed alone, and on luck."""
    mean = MEANS[ledger.history.trials[str(trial.candidate)].number]
    value = mean + float(np.random.default_rng(trial.config.seed + round(mean)).normal()) + luck
    ledger.report(trial, 1, {"val/rsum": value}, TrialState.FINISHED)


def confirm(ledger: Ledger, experiment: Experiment, most: int | None = None) -> int:
    """Run a confirmation as ``confirm_stage`` does, for so many trainings at most; return how many it took."""
    plans = current_plans(experiment, ledger.history)
    for plan in plans:
        if ledger.history.plans.get(plan.dataset) != plan:
            ledger.append(plan)
    source = PlannedTrials(lambda: trainings_of(plans, ledger.history), ledger)
    done = 0
    while done != most and (trial := source.next()) is not None:
        train(ledger, trial)
        source.observe(trial)
        done += 1
    return done


def verdict_of(ledger: Ledger) -> DatasetVerdict:
    """Open the test split for what was not opened yet, and return the verdict."""
    new = [trial for trial in selected(ledger.history) if trial.id not in ledger.history.tests]
    if new:
        open_test(ledger, new)
    (verdict,) = Summary(ledger.history).verdicts.values()
    return verdict


def level_of(ledger: Ledger) -> float:
    return confirmations(ledger.history)["pets"].level


RACING = racing(trainings=20)


def test_a_race_gives_its_later_trainings_to_the_two_in_front(tmp_path: Path) -> None:
    ledger = searched(tmp_path, RACING)
    done = confirm(ledger, RACING)
    race = Summary(ledger.history).races["pets"]
    assert done == race.used == len(ledger.history.stage(Stage.CONFIRM)) == 20
    far_behind = "pets-vsepp-nt_xent-0002"
    assert race.seeds[far_behind] == 3 < max(race.seeds.values())
    assert race.rounds[-1].seeds == race.seeds, "each has as many fresh seeds as it was given"
    own = [trial.config.seed for trial in ledger.history.stage(Stage.CONFIRM) if trial.candidate == far_behind]
    assert own == fresh_seeds(0, 3)
    assert race_outcome(race, far_behind) == "3 seeds"
    assert race_outcome(race, race.rounds[-1].leader).endswith(" seeds, leader")
    assert Summary(ledger.history).verdicts == {}, "test was not opened yet"
    verdict = verdict_of(ledger)
    assert verdict.level == RACE_LEVEL
    assert {one.label: len(one.values) for one in verdict.candidates} == dict(race.seeds)
    assert verdict.candidates[-1].label == far_behind
    # Fewer seeds are what a race is for; what is said is that the fake evaluation keeps no ranks.
    assert [warning for warning in verdict.warnings if "ranks" not in warning] == []


def test_a_race_that_was_killed_after_any_training_resumes_to_the_same_end(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    undisturbed = searched(tmp_path / "whole", RACING)
    trainings = confirm(undisturbed, RACING)
    verdict_of(undisturbed)
    for killed_after in (0, 1, 7, 8, 12, trainings - 1):
        folder = tmp_path / str(killed_after)
        folder.mkdir()
        ledger = searched(folder, RACING)
        confirm(ledger, RACING, killed_after)
        # One more was begun, and is resumed.
        plan = ledger.history.plans["pets"]
        known = ledger.history.trials
        begun = next((one for one in trainings_of([plan], ledger.history) if one.trial not in known), None)
        if begun is not None:
            race = Summary(ledger.history).races
            ledger.begin(begun)
            assert Summary(ledger.history).races == race, "a training that runs has lost no seed"
        ledger.close()
        again = Ledger(folder / "journal.jsonl")
        confirm(again, RACING)
        verdict_of(again)
        assert summarise(again.history)["verdicts"] == summarise(undisturbed.history)["verdicts"]
        assert Summary(again.history).races == Summary(undisturbed.history).races
        again.close()


def test_a_start_without_a_confirmation_leaves_the_verdict_of_the_former_one(tmp_path: Path) -> None:
    fixed = racing(seeds=2, baseline="nt_xent", smallest_difference=0.1, each_of="temperature", top=1)
    ledger = searched(tmp_path, fixed)
    confirm(ledger, fixed)
    verdict_of(ledger)
    before = summarise(ledger.history)
    start(ledger, make_experiment(losses=["nt_xent"]), options={})
    after, told = summarise(ledger.history), ("verdicts", "answers", "trends")
    assert {name: after[name] for name in told} == {name: before[name] for name in told}


def test_a_confirmation_that_was_killed_when_all_so_far_had_diverged_is_not_over(tmp_path: Path) -> None:
    fixed = racing(seeds=3)
    ledger = searched(tmp_path, fixed)
    confirm(ledger, fixed, 0)
    first = ledger.begin(trainings_of(list(ledger.history.plans.values()), ledger.history)[0])
    ledger.end(first, TrialState.DIVERGED, "train/loss is nan")
    assert not confirmations(ledger.history)["pets"].is_over
    confirm(ledger, fixed)
    assert verdict_of(ledger).winner is not None


@pytest.mark.parametrize("is_planned", [True, False])
def test_results_are_read_also_where_this_version_refuses_the_experiment(tmp_path: Path, is_planned: bool) -> None:
    """As without a plug-in; the plan then says which candidate has the published settings."""
    fixed = racing(seeds=2)
    ledger = searched(tmp_path, fixed)
    (cell,) = fixed.cells()
    for number in range(len(MEANS), 8):
        params = {"temperature": 0.1 + number / 100}
        trial = ledger.create(cell.name, number, params, fixed.trial_config(cell, params))
        for epoch, value in enumerate((10.0 + number, 40.0 - number), start=1):
            ledger.report(trial, epoch, {"val/rsum": value}, TrialState.FINISHED if epoch == 2 else TrialState.RUNNING)
    confirm(ledger, fixed)
    verdict_of(ledger)
    history = ledger.history
    assert summarise(history)["early_epochs"] and verdict_of(ledger).baseline == "pets-vsepp-nt_xent-0000"
    history.experiment = BegunExperiment.of({**fixed.to_dict(), "losses": ["nt_xent", "loss_of_a_plugin"]})
    if not is_planned:
        history.plans["pets"] = structs.replace(history.plans["pets"], baseline=None)
    (verdict,) = summarise(history)["verdicts"]
    assert summarise(history)["early_epochs"] == {}
    assert verdict_of(ledger).baseline == ("pets-vsepp-nt_xent-0000" if is_planned else None)
    assert any("published settings are not known" in warning for warning in verdict["warnings"]) is not is_planned


def test_the_design_is_written_down_before_its_trainings_and_once(tmp_path: Path) -> None:
    ledger = searched(tmp_path, RACING)
    confirm(ledger, RACING, 3)
    confirm(ledger, RACING)
    records = read_journal(tmp_path / "journal.jsonl")
    kinds = [record.kind for record in records]
    assert kinds.count("confirmation_planned") == 1
    created = [isinstance(record, TrialCreated) and record.stage is Stage.CONFIRM for record in records]
    assert kinds.index("confirmation_planned") < created.index(True)
    assert ledger.history.plans["pets"] == ConfirmationPlan(
        dataset="pets",
        candidates=tuple(f"pets-vsepp-nt_xent-{number:04d}" for number in (0, 1, 3, 2)),
        seeds=None,
        trainings=20,
        baseline="pets-vsepp-nt_xent-0000",
        looks=0,
        first=3,
        level=RACE_LEVEL,
    )


def test_every_further_look_has_a_part_of_the_reserve_and_says_so(tmp_path: Path) -> None:
    ledger = searched(tmp_path, racing(seeds=2))
    levels, warnings = [], []
    for seeds in (2, 2, 3, 4):
        confirm(ledger, racing(seeds=seeds))
        verdict = verdict_of(ledger)
        levels.append(level_of(ledger))
        assert verdict.level == levels[-1]
        warnings.append([one for one in verdict.warnings if "looked at" in one])
    assert levels == [LEVEL, LEVEL, RESERVE / 2, RESERVE / 4], "the same seeds again are no further look"
    assert warnings[:2] == [[], []]
    assert "looked at once before" in warnings[2][0]
    assert "at most 0.005; plan all seeds" in warnings[2][0]
    assert "looked at 2 times before" in warnings[3][0]


def test_a_race_after_a_fixed_design_uses_its_trainings_and_what_level_is_left(tmp_path: Path) -> None:
    ledger = searched(tmp_path, racing(seeds=2))
    confirm(ledger, racing(seeds=2))
    verdict_of(ledger)
    assert confirm(ledger, RACING) == Summary(ledger.history).races["pets"].used - 8
    assert verdict_of(ledger).level == RESERVE / 2


@pytest.mark.parametrize(("watched", "level"), [(20, RESERVE / 2), (8, RESERVE / 2), (5, RACE_LEVEL)])
def test_a_plan_that_replaces_one_whose_values_were_seen_pays_for_it(
    tmp_path: Path, watched: int, level: float
) -> None:
    """Test is still closed, but val can be watched: raising ``--trainings`` until it pleases is a look each time."""
    ledger = searched(tmp_path, RACING)
    confirm(ledger, RACING, watched)
    confirm(ledger, racing(trainings=40))
    assert level_of(ledger) == level
    confirm(ledger, racing(trainings=40))
    assert level_of(ledger) == level, "the same plan again is no further look"
    confirm(ledger, racing(trainings=60))
    verdict = verdict_of(ledger)
    assert verdict.level == level_of_plan(RACE_LEVEL, 1 if level == RACE_LEVEL else 2)
    assert any("its values had been looked at" in warning for warning in verdict.warnings)


def test_a_summary_runs_each_race_once_and_judges_each_dataset_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = ["pets", "birds", "boats", "trees"]
    experiment = racing(trainings=20, datasets=datasets)
    ledger = Ledger(tmp_path / "journal.jsonl")
    start(ledger, experiment, options={}, data={f"{dataset}:global": "d1" for dataset in datasets})
    for cell in experiment.cells():
        search_cell(ledger, experiment, cell)
    confirm(ledger, experiment)
    open_test(ledger, selected(ledger.history))
    races, verdicts = Mock(wraps=run_race), Mock(wraps=judge)
    monkeypatch.setattr(confirmation, "run_race", races)
    monkeypatch.setattr(confirmation, "judge", verdicts)
    summary = Summary(ledger.history)
    assert {race["used"] for race in summary.to_dict()["races"].values()} == {20}
    for dataset in datasets:
        assert analyses_of(summary, dataset)
    assert (races.call_count, verdicts.call_count) == (len(datasets), len(datasets))


def test_a_fixed_design_of_version_0_2_keeps_the_level_of_its_verdict(tmp_path: Path) -> None:
    experiment = racing(seeds=5)
    ledger = searched(tmp_path, experiment)
    (plan,) = current_plans(experiment, ledger.history)
    assert plan.level == LEVEL < LEVEL_OF_0_2
    ledger.append(structs.replace(plan, level=None))
    assert confirm(ledger, experiment) == 20, "the version alone is no reason for another plan"
    assert verdict_of(ledger).level == level_of(ledger) == LEVEL_OF_0_2
    confirm(ledger, racing(seeds=6))
    assert level_of(ledger) == RESERVE / 2


def test_status_and_summary_say_who_leads_and_who_is_closest(tmp_path: Path, cli: CommandLine) -> None:

    def shown() -> str:
        return " ".join(cli.shows("status", tmp_path).split())

    ledger = searched(tmp_path, RACING)
    confirm(ledger, RACING, 9)
    status = read_status(Followed(tmp_path))
    confirming = status.stages[1]
    assert (confirming.total, confirming.states["finished"]) == (20, 9)
    assert "pets · Round 1 runs: 12 of at most 20 trainings are given out." in shown()
    confirm(ledger, RACING, 4)
    assert "pets · Round 2 runs: 14 of at most 20 trainings are given out." in shown()
    race = Summary(ledger.history).races["pets"]
    (first,), names = race.rounds, race_names(ledger.history, race)
    assert f"pets · Round 1: {names[first.closest or '']} is " in shown()
    assert f" val rsum behind {names[first.leader]}, p " in shown()
    told = cli.json("status", tmp_path)["races"]["pets"]
    assert (told["ended"], told["rounds"][0]["leader"]) == (None, first.leader)
    confirm(ledger, RACING)
    verdict_of(ledger)
    said = [text for answer in analyses_of(Summary(ledger.history), "pets") for text in answer.sentences]
    assert said[0].startswith("The race ended after ")
    assert said[0].endswith(": the trainings are used up.")
    used = Summary(ledger.history).races["pets"].used
    assert read_status(Followed(tmp_path)).stages[1].to_dict()["total"] == used
    assert most_trainings(current_plans(RACING, ledger.history), ledger.history) == used


def test_the_live_output_has_a_line_for_each_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = searched(tmp_path, RACING)
    progress = Progress(ledger.history, 20, 6, Stage.CONFIRM)
    ledger.listeners.append(PlainDisplay(progress).listen)
    confirm(ledger, RACING)
    lines = [line for line in capsys.readouterr().out.splitlines() if "· Round" in line]
    rounds = Summary(ledger.history).races["pets"].rounds
    assert [line.partition(":")[0] for line in lines] == [f"pets · Round {n + 1}" for n in range(len(rounds))]
    assert " val rsum behind " in lines[0]
    assert race_lines(ledger.history)[0].startswith("pets · The race ended after ")


def test_a_fixed_design_is_no_race(tmp_path: Path) -> None:
    ledger = searched(tmp_path, racing())
    assert confirm(ledger, racing()) == 20, "five seeds each, where nothing is said"
    assert (Summary(ledger.history).races, summarise(ledger.history)["races"]) == ({}, {})
    verdict = verdict_of(ledger)
    assert (verdict.level, verdict.verdict) == (LEVEL, Verdict.TIE)


@pytest.mark.parametrize("name", [name for name in shipped_experiments() if load_experiment(name).confirm])
def test_an_experiment_that_ships_has_the_design_that_finds_more(name: str) -> None:
    """A race from three candidates on, except where its first round would take all trainings, or each value counts.

    Each value counts on a curve, and where each loss is compared with its own published settings.
    """
    experiment = load_experiment(name)
    design = experiment.confirm
    trainings = sum(experiment.most_confirmations().values()) // len(experiment.datasets)
    if design.seeds is not None and design.each_of is None and design.published != "each":
        candidates = trainings // design.seeds
        assert candidates < 3 or first_seeds(trainings, candidates) == design.seeds


def test_another_design_takes_the_place_of_the_one_of_the_search(tmp_path: Path, cli: CommandLine) -> None:
    ledger = searched(tmp_path, racing(seeds=3))
    ledger.close()
    none = {"top": None, "baseline": None}
    raced = confirm_experiment(tmp_path, ledger.history, {**none, "seeds": None, "trainings": 20})
    assert (raced.confirm.seeds, raced.confirm.trainings) == (None, 20)
    assert confirm_experiment(tmp_path, ledger.history, {**none, "seeds": None, "trainings": None}).confirm.seeds == 3
    assert "leave out one of the two" in cli.refuses("confirm", tmp_path, "--seeds", 3, "--trainings", 20)


def test_a_forecast_has_the_trainings_of_a_race_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    two = make_experiment(losses=["nt_xent", "triplet_sh"], confirm={"top": 2, "trainings": 15})
    fields = {name: 1.0 for name in Pace.__dataclass_fields__ if name != "device"}
    monkeypatch.setattr(TrainablesWorkload, "check", lambda self, experiment: {})
    monkeypatch.setattr(TrainablesWorkload, "pace", lambda self, config: Pace(**fields, device="cpu"))
    found = dry_run(two, TrainablesWorkload("nowhere", 1, "cpu"))
    assert found.forecast.confirmations == 15
    assert any("race for at most 15 trainings on each dataset" in one for one in describe_dry_run(found))
