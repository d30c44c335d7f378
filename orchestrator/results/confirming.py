"""The next trainings of a confirmation, given the values so far, and the level of its verdict.

All trainings of a fixed design are known beforehand; of a race (``race.py``), only the trainings of the next round.
Both follow from the journal, so a confirmation that was killed resumes with the trainings that are missing.
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
    """Return the plan of each dataset: the recorded plan, or a new plan where a changed design needs more trainings."""
    return [_current(plan, history) for plan in wanted_plans(experiment, history)]


def trainings_of(plans: Sequence[ConfirmationPlan], history: History) -> list[PlannedTrial]:
    """Return the trainings of plans that are known so far, including trainings that have ended.

    The trainings are ordered by seed, so that the candidates of an interrupted confirmation have equal seeds.
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
    """Return the largest possible number of trainings of a confirmation, including trainings of former plans."""
    known = {trial.id for trial in history.stage(Stage.CONFIRM)}
    races = (race_of(plan, history) for plan in plans)
    to_come = sum(race.trainings - race.used for race in races if race is not None and race.ended is None)
    return len(known | {one.id for one in trainings_of(plans, history)}) + to_come


def race_of(plan: ConfirmationPlan, history: History) -> Race | None:
    """Return the state of a plan's race; ``None`` where the plan is a fixed design."""
    if plan.trainings is None:
        return None
    metric = history.metric
    seeds = fresh_seeds(history.seed, most_seeds(plan.trainings, len(plan.candidates)))
    level = level_of_plan(RACE_LEVEL, plan.looks)
    rules = RaceRules(plan.trainings, seeds, metric, plan.baseline, level)
    return run_race([_entrant(name, history, metric) for name in plan.candidates], rules)


def races_of(history: History) -> dict[str, Race]:
    """Return the race of each dataset whose newest plan is a race."""
    races = {dataset: race_of(plan, history) for dataset, plan in history.plans.items()}
    return {dataset: race for dataset, race in races.items() if race is not None}


def level_of(history: History, dataset: str) -> float:
    """Return the level of the verdict on a dataset: the part that its race and earlier looks at test have not used."""
    plan = history.plans.get(dataset)
    if plan is None:
        # An older version, which recorded no plans, confirmed: every look at test but the newest came before.
        return level_of_plan(LEVEL, max(0, history.confirm_looks.get(dataset, 0) - 1))
    race = race_of(plan, history)
    if race is None:
        return level_of_plan(LEVEL, plan.looks)
    return level_of_plan(RACE_LEVEL, plan.looks) if race.level is None else race.level


def looked_before(history: History, dataset: str) -> list[str]:
    """Return a sentence about earlier looks at test, which used part of the level; none at the first look."""
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
    """Return the trainings on which the verdict on a dataset rests: in a race, the trainings that the race gave out."""
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
    # The test split was opened for every training of the wanted plan, so no further look has to be planned.
    done = all(one.id in history.tests for one in trainings_of([wanted], history))
    return recorded if recorded is not None and done else wanted


def _seeds_given(plan: ConfirmationPlan, history: History) -> dict[str, int]:
    race = race_of(plan, history)
    return dict.fromkeys(plan.candidates, plan.seeds or 0) if race is None else dict(race.seeds)


def _entrant(name: str, history: History, metric: str) -> Candidate:
    """Return a candidate of a race: its ended trainings, with the metric on val alone."""
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
