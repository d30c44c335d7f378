"""Which trial comes next: Optuna is asked for suggestions and told of results. ``tuner/issuer.py`` hands trials to Ray.

Ray's own ``OptunaSearch`` is not used, because it never prunes, calls a stopped trial complete and leaves a trial
without a value running for ever. A study lives in memory and is rebuilt from the journal, which alone records what was
suggested. Each suggestion is drawn with a seed made of the study's seed and the trial's number, so that a search that
was restarted suggests what the undisturbed search would have suggested.
"""

import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import optuna
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.sections import Search
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import Point, points_of
from orchestrator.journal.trial import Stage, Trial, TrialState, WarmTrial
from orchestrator.studies.samplers import make_sampler
from orchestrator.studies.suggesting import distribution
from search_spaces import Suggestion
from trainables.config import TrialConfig
from trainables.seeding import derive_seed

optuna.logging.set_verbosity(optuna.logging.WARNING)
# Optuna calls the options of TPE that are used here experimental, and would say so for every trial.
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

STATES = {
    TrialState.FINISHED: OptunaState.COMPLETE,
    TrialState.STOPPED_EARLY: OptunaState.PRUNED,
    TrialState.DIVERGED: OptunaState.FAIL,
    TrialState.FAILED: OptunaState.FAIL,
}
"""How a trial ended -> the state in which Optuna keeps the trial."""

DRAWS = 20
"""Suggestions drawn for one trial at most: the first that repeats no setting too often is taken, else the last."""


class Study:
    """The trials of one cell, as Optuna sees them: one Optuna trial per point, however often the point was trained.

    Attributes:
        cell: What is searched, and where.
        size: How many trials the study has in the end.
    """

    def __init__(self, cell: Cell, search: Search, trials: int, warm: Sequence[WarmTrial] = ()) -> None:
        self.cell = cell
        self._search = search
        self.size = trials
        self._first_points: Sequence[Mapping[str, Any]] = (
            cell.space.grid() if search.sampler == "grid" else [*cell.space.first_points(), *cell.enqueued]
        )
        self._warm = [_warm(cell, trial) for trial in warm]
        self._asked = 0
        self._trials: list[Trial] = []
        self._first_of: dict[str, str] = {}
        self._trainings: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        """Make an Optuna study that holds the trials taken over from other experiments, and none of this one."""
        self._study = optuna.create_study(
            directions=[objective.direction for objective in self._search.goals], study_name=self.cell.name
        )
        self._study.add_trials(self._warm)
        self._open: dict[int, optuna.Trial] = {}
        self._reported: dict[int, int] = {}
        self._told: set[int] = set()
        self._is_outdated = False

    @property
    def asked(self) -> int:
        """How many trials the study has so far."""
        return self._asked

    def ask(self) -> tuple[Mapping[str, Any], Suggestion]:
        """Return the next suggestion's parameters, and the setting for which they stand."""
        # Before the sampler is asked, because Optuna cannot change a value that it has been told.
        if self._is_outdated:
            self._rebuild()
        number = self._asked
        self._asked += 1
        if number < len(self._first_points):
            return self._ask_for(self._first_points[number], number)
        self._study.sampler = make_sampler(self._search.sampler, self.cell.space, self.cell.seed, number, self.size)
        return self._suggest(number)

    def ask_again(self, attempt: int) -> tuple[Mapping[str, Any], Suggestion]:
        """Return another suggestion in place of the newest, which repeats a setting that was trained often enough.

        Args:
            attempt: How many suggestions were drawn for this trial so far, >= 1.
        """
        # To Optuna a suggestion that is not taken is a running trial, from which the sampler keeps away. The study is
        # made anew, without that trial, before the next trial is asked for.
        self._is_outdated = True
        number, seed = self._asked - 1, derive_seed(self.cell.seed, "again", attempt, bits=32)
        # A sampler that is sure of a setting suggests the setting again and again, and a Sobol sequence has one point
        # for each number: from some attempt on, or at once, the suggestion is drawn at random.
        is_asked = attempt < DRAWS / 2 and self._search.sampler != "qmc"
        name = self._search.sampler if is_asked else "random"
        self._study.sampler = make_sampler(name, self.cell.space, seed, number, self.size)
        return self._suggest(number)

    def may_repeat(self, config: TrialConfig) -> bool:
        """Say whether the newest trial may train a setting: it was not trained too often, or a person asked for it."""
        _, trainings = self.first_with(config)
        return trainings <= self._search.replicates or self._asked <= len(self._first_points)

    def first_with(self, config: TrialConfig) -> tuple[str | None, int]:
        """Return the id of the first trial with a setting, and how often the study has trained the setting so far."""
        first = self._first_of.get(config.setting)
        return first, self._trainings[first] if first else 0

    def add(self, trial: Trial) -> None:
        """Take in a trial that is in the journal and whose suggestion came from ``ask``."""
        self._trials.append(trial)
        first = trial.candidate or trial.id
        self._trainings[first] += 1
        self._first_of.setdefault(trial.config.setting, first)
        # A replicate trains the point of an earlier trial: the Optuna trial that was made by asking must go.
        self._is_outdated |= trial.candidate is not None

    def replay(self, trial: Trial) -> None:
        """Take in a trial of the journal; trials must come in the order of their numbers."""
        if trial.candidate is None:
            self._ask_for(trial.params, trial.number)
        self._asked += 1
        self.add(trial)
        self.observe(trial)

    def observe(self, trial: Trial) -> None:
        """Tell Optuna the epochs of a trial that Optuna has not seen, and the trial's end if it has ended."""
        if self._trainings[trial.candidate or trial.id] > 1:
            # The value of a point that is trained several times is a mean, which each training changes. Optuna cannot
            # change a value that it has been told, so the next suggestion is drawn by a study made anew.
            self._is_outdated |= trial.has_ended
        elif trial.number not in self._told:
            self._take(Point((trial,)))

    def _rebuild(self) -> None:
        """Make the Optuna study anew, and tell it all points with the values that they have now."""
        self._begin()
        for point in points_of(self._trials):
            self._ask_for(point.first.params, point.first.number)
            self._take(point)

    def _take(self, point: Point) -> None:
        if not self._has_several_goals:
            self._report(point)
        if point.state is not TrialState.RUNNING:
            self._tell(point)

    @property
    def _has_several_goals(self) -> bool:
        return len(self._search.goals) > 1

    def _report(self, point: Point) -> None:
        number = point.first.number
        for epoch, value in point.running_best().items():
            if epoch > self._reported.get(number, 0):
                self._open[number].report(value, epoch)
                self._reported[number] = epoch

    def _tell(self, point: Point) -> None:
        """Tell Optuna how a point ended: complete with its mean values at the best epochs, pruned, or failed."""
        values = None
        if point.state is TrialState.FINISHED and point.finished:
            further = (point.mean(goal.metric) for goal in self._search.goals[1:])
            values = [value or 0.0 for value in (point.value, *further)]
        # The handle is dropped: Optuna keeps a copy of the trial itself, and a long search has thousands of handles.
        number = point.first.number
        self._study.tell(self._open.pop(number), values, state=STATES[point.state])
        self._reported.pop(number, None)
        self._told.add(number)

    def _ask_for(self, params: Mapping[str, Any], number: int) -> tuple[Mapping[str, Any], Suggestion]:
        """Make an Optuna trial with given parameters, without asking the sampler."""
        self._study.sampler = RandomSampler(seed=0)
        self._study.enqueue_trial(dict(params))
        return self._suggest(number)

    def _suggest(self, number: int) -> tuple[Mapping[str, Any], Suggestion]:
        trial = self._study.ask()
        self._open[number] = trial
        suggestion = self.cell.space.suggest(trial)
        return trial.params, suggestion


def _warm(cell: Cell, trial: WarmTrial) -> FrozenTrial:
    """Return a trial of another experiment as a finished Optuna trial."""
    bounds = cell.space.bounds()
    state = STATES[trial.state]
    return create_trial(
        state=state,
        params=dict(trial.params),
        distributions={name: distribution(bounds[name]) for name in trial.params},
        values=list(trial.values) if state is OptunaState.COMPLETE else None,
    )


def replicate_seed(seed: int, trainings: int) -> int:
    """Return the seed of the next training of a setting that a search has trained ``trainings`` times before, >= 1."""
    return derive_seed(seed, "replicate", trainings)


class Studies:
    """The source of a search's trials: all studies of the experiment, which get new trials in turn.

    A trial that the journal holds as running, because the search was interrupted, comes before any new trial.
    """

    def __init__(
        self, experiment: Experiment, ledger: Ledger, is_closed: Callable[[str], bool] = lambda study: False
    ) -> None:
        """Rebuild the studies from the journal.

        Args:
            experiment: The experiment that is searched.
            ledger: Holds the trials so far, and writes the new ones.
            is_closed: Returns whether a study, given by its name, gets no new trials for now.
        """
        search = experiment.search
        self._experiment, self._ledger, self._is_closed = experiment, ledger, is_closed
        self._studies = {
            cell.name: Study(cell, search, experiment.trials_in(cell), ledger.history.warm.get(cell.name, ()))
            for cell in experiment.cells()
        }
        searched = ledger.history.stage(Stage.SEARCH)
        for trial in searched:
            self._studies[trial.study].replay(trial)
        self._interrupted = deque(trial for trial in searched if not trial.has_ended)

    @property
    def outstanding(self) -> int:
        """How many trials are still to be issued."""
        return sum(study.size - study.asked for study in self._open()) + len(self._interrupted)

    def next(self) -> Trial | None:
        """Return an interrupted trial, or a new one of the study that has the fewest; ``None`` after the last."""
        return self._interrupted.popleft() if self._interrupted else self._create()

    def observe(self, trial: Trial) -> None:
        """Let Optuna see a trial's new epochs and its end."""
        self._studies[trial.study].observe(trial)

    def _create(self) -> Trial | None:
        study = min(self._open(), key=lambda study: study.asked, default=None)
        if study is None:
            return None
        number = study.asked
        params, config, first = self._draw(study)
        trial = self._ledger.create(study.cell.name, number, params, config, first)
        study.add(trial)
        return trial

    def _draw(self, study: Study) -> tuple[Mapping[str, Any], TrialConfig, str | None]:
        """Return a suggestion, its training and, if it is a replicate, the id of the first trial of its setting."""
        params, suggestion = study.ask()
        config = self._experiment.suggested(study.cell, suggestion)
        if self._experiment.scheduler.name == "pbt":
            # Trials of a population that begin alike differ after their first move, so alike ones are no replicates.
            return params, config, None
        for attempt in range(1, DRAWS):
            if study.may_repeat(config):
                break
            params, suggestion = study.ask_again(attempt)
            config = self._experiment.suggested(study.cell, suggestion)
        first, trainings = study.first_with(config)
        return params, config if first is None else replace(config, seed=replicate_seed(config.seed, trainings)), first

    def _open(self) -> list[Study]:
        """Return the studies that get another trial."""
        studies = self._studies.items()
        return [study for name, study in studies if study.asked < study.size and not self._is_closed(name)]
