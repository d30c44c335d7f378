"""Which trial comes next: Optuna suggests its hyper-parameters. ``tuner/issuer.py`` passes the trials to Ray.

Ray's own ``OptunaSearch`` is not used, because it never prunes, calls a stopped trial complete and leaves a trial
without a value running for ever. A study is kept in memory and rebuilt from the journal, which alone records the
suggestions. Optuna keeps no state from one suggestion to the next. Each suggestion has a sampler of its own, which is
shown the present trials, with a seed made of the study's seed and the trial's number. So a search that was restarted
suggests the points of an undisturbed search.

A sampler fits a model to the trials that it is shown, which takes longer with more trials. With all of 10,000 trials,
one suggestion of TPE takes 0.17 s. TPE [Bergstra2011] divides the trials into the best, of which Optuna takes 25 at
most, and the others, of which the oldest weigh least. Of a long study, a sampler is shown the best of all trials, and
the newest trials represent the others. In three simulated searches of some 595 trials the regret was the same. The
choice does not depend on the order in which the trials ended.

References:
    [Bergstra2011] Bergstra et al., Algorithms for Hyper-Parameter Optimization. NeurIPS 2011
"""

import hashlib
import warnings
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from copy import deepcopy as copied
from dataclasses import replace
from functools import partial
from heapq import nsmallest
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FixedTrial, FrozenTrial
from optuna.trial import TrialState as OptunaState

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.sections import Search
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.points import Point
from orchestrator.journal.trial import PriorPoint, Stage, Trial, TrialState, WarmTrial
from orchestrator.studies.samplers import distribution, make_sampler, needs_every_trial
from search_spaces import Suggestion
from trainables.config import TrialConfig, derive_seed

NEWEST = 500
"""Newest trials that a sampler is always shown; a study of no more trials is shown whole."""

BEST = 25
"""Best trials that a sampler is always shown: the most trials that TPE models as good."""

Rank = tuple[int, int, float, int]
"""Sort key of trials, the best first, as in Optuna's TPE: finished trials by their value, then stopped trials by their
last epoch and their value there. Of equal trials the earlier trial comes first."""


class Known:
    """The trials of a study as Optuna's trials, by their numbers; those of other experiments come first."""

    def __init__(self, directions: Sequence[str]) -> None:
        self._signs = [1.0 if direction == "maximize" else -1.0 for direction in directions]
        self._trials: dict[int, FrozenTrial] = {}
        self._ranks: dict[int, Rank] = {}

    def __getitem__(self, number: int) -> FrozenTrial:
        """Return the trial with a number."""
        return self._trials[number]

    def put(self, trial: FrozenTrial) -> None:
        """Add a trial, or replace the known trial of its number."""
        self._trials[trial.number] = trial
        self._ranks.pop(trial.number, None)
        if rank := self._rank(trial):
            self._ranks[trial.number] = rank

    def all(self) -> list[FrozenTrial]:
        """Return all trials, in the order of their numbers."""
        return [self._trials[number] for number in sorted(self._trials)]

    def shown(self) -> list[FrozenTrial]:
        """Return the trials that a sampler is shown, in the order of their numbers."""
        trials = self.all()
        if len(trials) <= NEWEST:
            return trials
        best = self._front() if len(self._signs) > 1 else {rank[-1] for rank in nsmallest(BEST, self._ranks.values())}
        older, newest = trials[:-NEWEST], trials[-NEWEST:]
        return [trial for trial in older if trial.state is OptunaState.RUNNING or trial.number in best] + newest

    def _rank(self, trial: FrozenTrial) -> Rank | None:
        """Return the rank of a trial; a trial that runs, diverged or failed, or has several objectives, has none."""
        if len(self._signs) > 1:
            return None
        if trial.state is OptunaState.COMPLETE and trial.value is not None:
            return (0, 0, -self._signs[0] * trial.value, trial.number)
        if trial.state is OptunaState.PRUNED and trial.intermediate_values:
            epoch, value = max(trial.intermediate_values.items())
            return (1, -epoch, -self._signs[0] * value, trial.number)
        return None

    def _front(self) -> set[int]:
        """Return the numbers of the Pareto front: no trial is better in one objective and no worse in the others."""
        complete = [trial for trial in self._trials.values() if trial.state is OptunaState.COMPLETE]
        gains = np.array([trial.values for trial in complete]).reshape(-1, len(self._signs)) * self._signs
        front = np.arange(len(complete))
        place = 0
        while place < len(front):
            own = gains[front[place]]
            dominated = (own >= gains[front]).all(1) & (own > gains[front]).any(1)
            # A trial that is known to have no better before it may have one after it.
            place += 1 - int(dominated[:place].sum())
            front = front[~dominated]
        return {complete[index].number for index in front}


class ShownTrials(InMemoryStorage):
    """A storage for one suggestion, with the trials that are shown; Optuna adds the suggested trial.

    The numbers of the shown trials are above 0, which is the number of the suggested trial.
    """

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._shown = trials

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[OptunaState] | None = None
    ) -> list[FrozenTrial]:
        """Return the trials that are shown, then the trials that Optuna has added."""
        own = super().get_all_trials(study_id, deepcopy, states)
        shown = [trial for trial in self._shown if states is None or trial.state in states]
        return [*(copied(shown) if deepcopy else shown), *own]


optuna.logging.set_verbosity(optuna.logging.WARNING)
# For every trial, Optuna would warn that the options of TPE used here are experimental.
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

STATES = {
    TrialState.FINISHED: OptunaState.COMPLETE,
    TrialState.STOPPED_EARLY: OptunaState.PRUNED,
    TrialState.DIVERGED: OptunaState.FAIL,
    TrialState.FAILED: OptunaState.FAIL,
}
"""How a trial ended -> the state in which Optuna keeps the trial."""

DRAWS = 20
"""Most suggestions for one trial: the first suggestion that repeats no setting too often is taken, else the last."""


class Drawn(NamedTuple):
    """Parameters of a new trial, their meaning and its training; a replicate names the first trial of its setting."""

    params: Mapping[str, Any]
    suggestion: Suggestion
    config: TrialConfig
    first: str | None


class Study:
    """The trials of one cell, as Optuna sees them: one Optuna trial per point, however often the point was trained.

    The study has ``asked`` trials so far, and ``size`` in the end.
    """

    def __init__(
        self, cell: Cell, search: Search, trials: int, warm: Sequence[WarmTrial] = (), prior: Sequence[PriorPoint] = ()
    ) -> None:
        self.cell = cell
        self._search = search
        self.size = trials
        self._first_points: Sequence[Mapping[str, Any]] = (
            cell.space.grid()
            if search.sampler == "grid"
            else [*cell.space.first_points(), *cell.enqueued, *(point.params for point in prior)]
        )
        self.asked = 0
        self._warm = len(warm)
        self._directions = [goal.direction for goal in search.goals]
        self._trainings: dict[str, list[Trial]] = {}
        self._first_of: dict[bytes, str] = {}
        self._changed: set[str] = set()
        self._drawn: list[FrozenTrial] = []
        self._distributions: dict[tuple[tuple[str, BaseDistribution], ...], dict[str, BaseDistribution]] = {}
        bounds = cell.space.bounds() if warm else {}
        self._known = Known(self._directions)
        for number, trial in enumerate(warm, start=1):
            distributions = {name: distribution(bounds[name]) for name in trial.params}
            values = list(trial.values) if trial.state is TrialState.FINISHED else None
            self._known.put(self._frozen(number, dict(trial.params), distributions, STATES[trial.state], values))

    def known(self) -> Known:
        """Return the points so far as Optuna's trials, with their present values."""
        for first in self._changed:
            self._known.put(self._as_it_stands(Point(tuple(self._trainings[first]))))
        self._changed.clear()
        return self._known

    def draw(self, config_of: Callable[[Suggestion], TrialConfig], setting: Mapping[str, Any] | None = None) -> Drawn:
        """Return the next trial; its parameters are ``setting`` where it is given."""
        number, self._drawn = self.asked, []
        self.asked += 1
        if setting is None and number < len(self._first_points):
            setting = self._first_points[number]
        for attempt in range(DRAWS):
            params, suggestion = self._suggest(number, attempt) if setting is None else self._ask_for(setting)
            config = config_of(suggestion)
            first = self._first_of.get(_digest(config))
            trainings = len(self._trainings[first]) if first else 0
            # A person may request a setting as often as they like.
            if setting is not None or trainings <= self._search.replicates:
                break
        if first is not None:
            config = replace(config, seed=derive_seed(config.seed, "replicate", trainings))
        return Drawn(params, suggestion, config, first)

    def add(self, trial: Trial) -> None:
        """Add a trial of the journal whose suggestion came from ``draw``, or from a former process."""
        first = trial.candidate or trial.id
        self._first_of.setdefault(_digest(trial.config), first)
        self._trainings.setdefault(first, []).append(trial)
        if trial.is_zero_shot:
            # It has no point from which a sampler could learn.
            return
        if trial.candidate is None:
            fixed = FixedTrial(dict(trial.params))
            self.cell.space.suggest(fixed)
            self._known.put(self._frozen(self._place(trial), fixed.params, fixed.distributions))
        self._changed.add(first)

    def replay(self, trial: Trial) -> None:
        """Add a trial of the journal; trials must come in the order of their numbers."""
        self.asked += 1
        self.add(trial)

    def observe(self, trial: Trial) -> None:
        """Note that a trial has new epochs or has ended, which the next suggestion is to take into account."""
        if not trial.is_zero_shot:
            self._changed.add(trial.candidate or trial.id)

    def _place(self, trial: Trial) -> int:
        """Return Optuna's number of a trial; trials of other experiments have the first numbers, from 1."""
        return 1 + self._warm + trial.number

    def _as_it_stands(self, point: Point) -> FrozenTrial:
        """Return a point as Optuna's trial: complete, with its means at the best epochs, or pruned, failed or running.

        The value at an epoch is the best so far; with several objectives, Optuna allows no values of epochs.
        """
        asked = self._known[self._place(point.first)]
        curve = point.running_best() if len(self._directions) == 1 else {}
        values = None
        if point.state is TrialState.FINISHED and point.finished:
            further = (point.mean(goal.metric) for goal in self._search.goals[1:])
            values = [value or 0.0 for value in (point.value, *further)]
        elif point.state is TrialState.STOPPED_EARLY and curve:
            values = [curve[max(curve)]]
        state = STATES.get(point.state, OptunaState.RUNNING)
        return self._frozen(asked.number, asked.params, asked.distributions, state, values, curve)

    def _frozen(
        self,
        number: int,
        params: dict[str, Any],
        distributions: Mapping[str, BaseDistribution],
        state: OptunaState = OptunaState.RUNNING,
        values: list[float] | None = None,
        curve: Mapping[int, float] = MappingProxyType({}),
    ) -> FrozenTrial:
        """Return a trial of Optuna's; thousands of trials share equal distributions."""
        shared = self._distributions.setdefault(tuple(distributions.items()), dict(distributions))
        return FrozenTrial(
            number=number,
            trial_id=number,
            state=state,
            value=None,
            values=values,
            datetime_start=None,
            datetime_complete=None,
            params=params,
            distributions=shared,
            user_attrs={},
            system_attrs={},
            intermediate_values=dict(curve),
        )

    def _ask_for(self, params: Mapping[str, Any]) -> tuple[Mapping[str, Any], Suggestion]:
        """Return a suggestion with given parameters; all other parameters are drawn at random."""
        space = self.cell.space
        if params and params == space.zero_shot:
            return params, space.evaluate_only()
        # Points of a file may leave parameters open; another search draws other values for them.
        seed = 0 if self.cell.search == 1 else self.cell.seed
        study = optuna.create_study(directions=self._directions, sampler=RandomSampler(seed=seed))
        study.enqueue_trial(dict(params))
        return self._suggested_by(study.ask())

    def _suggest(self, number: int, attempt: int) -> tuple[Mapping[str, Any], Suggestion]:
        """Let a sampler make a suggestion, in an Optuna study that is made for this suggestion alone.

        ``attempt`` is the number of suggestions for this trial that repeat a setting which was trained often enough.
        """
        name, seed = self._search.sampler, self.cell.seed
        if attempt:
            seed = derive_seed(seed, "again", attempt, bits=32)
        # A sampler that has converged to a setting suggests it again and again, so the second half of the attempts is
        # drawn at random. A Sobol sequence has one point for each number, so all attempts but the first are. A grid has
        # no point for a trial after its last, which ``confirm.surface`` adds.
        if name == "grid" or attempt >= DRAWS / 2 or (attempt and name == "qmc"):
            name = "random"
        known = self.known()
        sampler = make_sampler(name, self.cell.space, seed, number, self.size)
        trials = known.all() if needs_every_trial(name) else known.shown()
        # Suggestions for this trial that were not taken are shown as running trials, which samplers avoid.
        storage = ShownTrials([*trials, *self._drawn])
        return self._suggested_by(
            optuna.create_study(storage=storage, directions=self._directions, sampler=sampler).ask()
        )

    def _suggested_by(self, trial: optuna.Trial) -> tuple[Mapping[str, Any], Suggestion]:
        suggestion = self.cell.space.suggest(trial)
        number = 1 + self._warm + self.asked + len(self._drawn)
        self._drawn.append(self._frozen(number, trial.params, trial.distributions))
        return trial.params, suggestion


def _digest(config: TrialConfig) -> bytes:
    """Return a digest of a setting, because the texts of thousands of settings take a kilobyte each."""
    return hashlib.blake2b(config.setting.encode(), digest_size=16).digest()


class Studies:
    """The source of a search's trials: all studies of the experiment get new trials in turn.

    A trial that the journal holds as running, because the search was interrupted, comes before any new trial.
    """

    def __init__(
        self,
        experiment: Experiment,
        ledger: Ledger,
        is_closed: Callable[[str], bool] = lambda study: False,
        setting_of: Callable[[Cell], Mapping[str, Any] | None] = lambda cell: None,
    ) -> None:
        """Rebuild the studies from the journal.

        ``is_closed`` returns whether a study, given by its name, gets no new trials for now. ``setting_of`` returns the
        setting to use by the surface of a study so far, for ``confirm.surface``.
        """
        search, history = experiment.search, ledger.history
        priors = history.prior or {}
        self._setting_of = setting_of
        self._experiment, self._ledger, self._is_closed = experiment, ledger, is_closed
        self._studies = {
            cell.name: Study(
                cell, search, experiment.trials_in(cell), history.warm.get(cell.name, ()), priors.get(cell.name, ())
            )
            for cell in experiment.cells()
        }
        searched = history.stage(Stage.SEARCH)
        for trial in searched:
            self._studies[trial.study].replay(trial)
        self._interrupted = deque(trial for trial in searched if not trial.has_ended)

    @property
    def outstanding(self) -> int:
        """Number of trials that are still to be issued."""
        return sum(study.size - study.asked for study in self._open()) + len(self._interrupted)

    def next(self) -> Trial | None:
        """Return an interrupted trial, or a new trial of the study with the fewest trials; ``None`` after the last."""
        return self._interrupted.popleft() if self._interrupted else self._create()

    def observe(self, trial: Trial) -> None:
        """Let Optuna see a trial's new epochs and its end."""
        self._studies[trial.study].observe(trial)

    def _create(self) -> Trial | None:
        study = min(filter(self._is_ready, self._open()), key=lambda study: study.asked, default=None)
        if study is None:
            return None
        number = study.asked
        setting = self._setting_of(study.cell) if self._ends_at_surface(study) else None
        drawn = study.draw(partial(self._experiment.suggested, study.cell), setting)
        cell = study.cell
        search = cell.search if cell.search > 1 else None
        trial = self._ledger.create(cell.name, number, drawn.params, drawn.config, drawn.first, search)
        study.add(trial)
        return trial

    def _ends_at_surface(self, study: Study) -> bool:
        return self._experiment.ends_at_surface and study.asked == study.size - 1

    def _is_ready(self, study: Study) -> bool:
        """Say whether a study can get a trial now: a surface is fitted when all trials of the search have ended."""
        return not self._ends_at_surface(study) or all(
            trial.has_ended for trial in self._ledger.history.study(study.cell.name)
        )

    def _open(self) -> list[Study]:
        """Return the studies that get another trial."""
        studies = self._studies.items()
        return [study for name, study in studies if study.asked < study.size and not self._is_closed(name)]
