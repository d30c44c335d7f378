"""The next trainings of a confirmation, given the values so far, and the level of its verdict.

Whoever has seen values and then changes the design looks twice: the first plan of a dataset has the whole level, all
later plans together have ``RESERVE``. A plan counts as seen once test was opened, or once two of its candidates had two
ended trainings each, because val of a confirmation can be watched.

All trainings of a fixed design are known beforehand; of a race (``race.py``), only the trainings of the next round.
Both follow from the journal, so a confirmation that was killed resumes with the trainings that are missing.
"""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.ledger import PlannedTrial
from orchestrator.journal.records import ConfirmationPlan
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.confirmation import fresh_seeds, repeat, wanted_plans
from orchestrator.results.race import LEVEL as RACE_LEVEL
from orchestrator.results.race import Entrant, Race, most_seeds, run_race

RESERVE = 0.01
"""Level that all plans after the first plan of a confirmation may use together, beside the first plan's level."""

OLDER_LEVEL = 0.04
"""Level of a fixed design whose plan has no level, because an older version made it."""


def current_plans(experiment: Experiment, history: History) -> list[ConfirmationPlan]:
    """Return the plan of each dataset: the recorded plan, or a new plan where a changed design needs more trainings."""
    return [_current(plan, history) for plan in wanted_plans(experiment, history)]


def level_of_plan(level: float, looks_before: int) -> float:
    """Return the level that a plan may use: the whole level before any look, else half of the remaining reserve.

    A plan that is made after a look cannot use the level of the first plan again; so all plans together err with a
    probability of at most ``level + RESERVE``, however many plans there are.

    Args:
        level: Level of the first plan, in (0, 1).
        looks_before: Number of earlier looks at values of this confirmation, >= 0.

    Example:
        >>> [level_of_plan(0.035, looks) for looks in (0, 1, 2)]
        [0.035, 0.005, 0.0025]
    """
    return level if looks_before == 0 else RESERVE / 2**looks_before


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
    if plan.first is None:
        return _older_race(plan, history)
    seeds = fresh_seeds(history.seed, most_seeds(plan.trainings, len(plan.candidates)))
    return run_race(_entrants(plan, history), plan.trainings, tuple(seeds))


def _older_race(plan: ConfirmationPlan, history: History) -> Race:
    """Return a race that an older version ran, which is over where test was opened; its rounds are not known."""
    repeats = [trial for trial in history.stage(Stage.CONFIRM) if trial.candidate in plan.candidates]
    seeds = {name: sum(trial.candidate == name for trial in repeats) for name in plan.candidates}
    opened = any(trial.id in history.tests for trial in repeats)
    return Race((), seeds, "an older version ended it" if opened else None, plan.trainings or 0, older=True)


def races_of(history: History) -> dict[str, Race]:
    """Return the race of each dataset whose newest plan is a race."""
    races = {dataset: race_of(plan, history) for dataset, plan in history.plans.items()}
    return {dataset: race for dataset, race in races.items() if race is not None}


def level_of(history: History, dataset: str) -> float:
    """Return the level of the verdict on a dataset, which earlier looks have lowered."""
    plan = history.plans.get(dataset)
    if plan is None:
        # An older version, which recorded no plans, confirmed: every look at test but the newest came before.
        return level_of_plan(OLDER_LEVEL, max(0, history.confirm_looks.get(dataset, 0) - 1))
    return level_of_plan(plan.level or (OLDER_LEVEL if plan.trainings is None else RACE_LEVEL), plan.looks)


def looked_before(history: History, dataset: str) -> list[str]:
    """Return a sentence about earlier looks, which used part of the level; none at the first look."""
    plan = history.plans.get(dataset)
    before = plan.looks if plan else max(0, history.confirm_looks.get(dataset, 0) - 1)
    if not before:
        return []
    times = "once" if before == 1 else f"{before} times"
    return [
        f"its values had been looked at {times} before this confirmation was planned, so a corrected p-value must be "
        f"at most {level_of(history, dataset):.2g} to be a difference; plan all seeds, or a race, at once"
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
    if recorded is None:
        return wanted
    same_design = replace(wanted, looks=recorded.looks, baseline=recorded.baseline)
    older = replace(same_design, first=recorded.first, level=recorded.level) == recorded
    if older and (recorded.first == wanted.first or _older_race(recorded, history).ended is not None):
        return recorded
    # The test split was opened for every training of the wanted plan, so no further look has to be planned.
    if all(one.id in history.tests for one in trainings_of([wanted], history)):
        return recorded
    # Where only the version of the product changed, nobody chose a design for the values.
    seen = 0 if older else _can_be_compared(recorded, history)
    return replace(wanted, looks=max(wanted.looks, recorded.looks + seen))


def _can_be_compared(plan: ConfirmationPlan, history: History) -> bool:
    """Whether two candidates of a plan have two ended trainings each, so that their values on val can be compared."""
    ended = [str(trial.candidate) for trial in history.stage(Stage.CONFIRM) if trial.has_ended]
    return sum(ended.count(name) > 1 for name in plan.candidates) > 1


def _seeds_given(plan: ConfirmationPlan, history: History) -> dict[str, int]:
    race = race_of(plan, history)
    return dict.fromkeys(plan.candidates, plan.seeds or 0) if race is None else dict(race.seeds)


def _entrants(plan: ConfirmationPlan, history: History) -> tuple[Entrant, ...]:
    """Return the candidates of a race: their ended trainings, with the metric on val alone."""
    metric = history.metric
    values: dict[str, dict[int, float]] = {name: {} for name in plan.candidates}
    lost: dict[str, set[int]] = {name: set() for name in plan.candidates}
    for trial in history.stage(Stage.CONFIRM):
        if trial.candidate not in values or not trial.has_ended:
            continue
        if trial.state is TrialState.FINISHED:
            values[trial.candidate][trial.config.seed] = trial.epochs[trial.best_epoch or 0][metric]
        else:
            lost[trial.candidate].add(trial.config.seed)
    return tuple(Entrant(name, tuple(sorted(values[name].items())), frozenset(lost[name])) for name in plan.candidates)
