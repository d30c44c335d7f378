"""The next trainings of a confirmation, by what is measured so far, and the level of its verdict.

A fixed design knows all its trainings beforehand. A race (``race.py``) knows the trainings of its next round. Both are
read from the journal, so a confirmation that was killed resumes as if nothing had happened.
"""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.confirmation_plan import ConfirmationPlan
from orchestrator.journal.history import History
from orchestrator.journal.ledger import PlannedTrial
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.candidates import Candidate
from orchestrator.results.confirmation import fresh_seeds, repeat, wanted_plans
from orchestrator.results.race import LEVEL as RACE_LEVEL
from orchestrator.results.race import Race, RaceRules, most_seeds, run_race
from orchestrator.results.spending import level_of_plan
from orchestrator.results.verdict import LEVEL


def current_plans(experiment: Experiment, history: History) -> list[ConfirmationPlan]:
    """Return the plan of each dataset: the recorded one, or a new one where another design needs further trainings."""
    return [_current(plan, history) for plan in wanted_plans(experiment, history)]


def trainings_of(plans: Sequence[ConfirmationPlan], history: History) -> list[PlannedTrial]:
    """Return the trainings of plans as far as they are known now, those that have ended included.

    They come seed by seed, so that a confirmation which is interrupted compares fairly.
    """
    due: list[tuple[int, PlannedTrial]] = []
    for plan in plans:
        counts = _seeds_given(plan, history)
        seeds = fresh_seeds(history.seed, max(counts.values(), default=0))
        due += [
            (index, repeat(history.trials[name], index, seed))
            for index, seed in enumerate(seeds)
            for name in plan.candidates
            if index < counts[name]
        ]
    return [training for _, training in sorted(due, key=lambda one: one[0])]


def most_trainings(plans: Sequence[ConfirmationPlan], history: History) -> int:
    """Return how many trainings a confirmation comes to at most; trainings of former plans count."""
    known = {trial.id for trial in history.stage(Stage.CONFIRM)}
    races = (race_of(plan, history) for plan in plans)
    to_come = sum(race.trainings - race.used for race in races if race is not None and race.ended is None)
    return len(known | {one.id for one in trainings_of(plans, history)}) + to_come


def race_of(plan: ConfirmationPlan, history: History) -> Race | None:
    """Return how the race of a plan stands; ``None`` where the plan is a fixed design."""
    if plan.trainings is None:
        return None
    metric = history.metric
    seeds = fresh_seeds(history.seed, most_seeds(plan.trainings, len(plan.candidates)))
    level = level_of_plan(RACE_LEVEL, plan.looks)
    rules = RaceRules(plan.trainings, seeds, metric, plan.baseline, level)
    return run_race([_entrant(name, history, metric) for name in plan.candidates], rules)


def races_of(history: History) -> dict[str, Race]:
    """Return the race of each dataset whose newest plan is one."""
    races = {dataset: race_of(plan, history) for dataset, plan in history.plans.items()}
    return {dataset: race for dataset, race in races.items() if race is not None}


def level_of(history: History, dataset: str) -> float:
    """Return the level of the verdict on a dataset: what its race and all looks before have left."""
    plan = history.plans.get(dataset)
    if plan is None:
        # Confirmed by an older version, which kept no plans: all looks but the newest came before.
        return level_of_plan(LEVEL, max(0, history.confirm_looks.get(dataset, 0) - 1))
    race = race_of(plan, history)
    if race is None:
        return level_of_plan(LEVEL, plan.looks)
    return level_of_plan(RACE_LEVEL, plan.looks) if race.level is None else race.level


def looked_before(history: History, dataset: str) -> list[str]:
    """Return a sentence about the looks that have spent the level before; none where this is the first."""
    plan = history.plans.get(dataset)
    before = plan.looks if plan else max(0, history.confirm_looks.get(dataset, 0) - 1)
    if not before:
        return []
    times = "once" if before == 1 else f"{before} times"
    return [
        f"the test split had been looked at {times} before this confirmation was planned, so a corrected p-value must "
        f"be at most {level_of(history, dataset):.2g} to be a difference; plan all seeds, or a race, at once"
    ]


def repeats_of(history: History, dataset: str) -> list[Trial]:
    """Return the trainings that the verdict on a dataset is made of: in a race, those that it gave out."""
    trials = [trial for trial in history.stage(Stage.CONFIRM) if trial.config.dataset == dataset]
    plan = history.plans.get(dataset)
    if plan is None or plan.trainings is None:
        return trials
    given = {one.id for one in trainings_of([plan], history)}
    return [trial for trial in trials if trial.id in given]


def _current(wanted: ConfirmationPlan, history: History) -> ConfirmationPlan:
    recorded = history.plans.get(wanted.dataset)
    if recorded is not None and replace(recorded, looks=wanted.looks, baseline=wanted.baseline) == wanted:
        return recorded
    # The test split was opened for all of it: no look is to come, so none is to be planned.
    done = all(one.id in history.tests for one in trainings_of([wanted], history))
    return recorded if recorded is not None and done else wanted


def _seeds_given(plan: ConfirmationPlan, history: History) -> dict[str, int]:
    race = race_of(plan, history)
    return dict.fromkeys(plan.candidates, plan.seeds or 0) if race is None else dict(race.seeds)


def _entrant(name: str, history: History, metric: str) -> Candidate:
    """Return a candidate as a race sees it: with the metric of val alone, of the trainings that have ended."""
    repeats = [trial for trial in history.stage(Stage.CONFIRM) if trial.candidate == name and trial.has_ended]
    config = history.trials[name].config
    finished = [trial for trial in repeats if trial.state is TrialState.FINISHED]
    return Candidate(
        dataset=config.dataset,
        model=config.model,
        loss=config.loss,
        parameters={},
        label=name,
        values={one.config.seed: {metric: one.epochs[one.best_epoch or 0][metric]} for one in finished},
        missing={one.config.seed: str(one.state) for one in repeats if one not in finished},
    )
