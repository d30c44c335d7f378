"""Which trial comes next: Optuna's ask and tell. Ray gets the trials from ``tuner/issuer.py``.

Ray's own ``OptunaSearch`` never prunes, calls a stopped trial complete and leaves one without a value running for ever;
hence ours. A study lives in memory and is rebuilt from the journal, which is the one record of what was suggested. Each
suggestion is drawn with a seed made of the study's seed and the trial's number, so that a restart repeats none.
"""

import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, create_trial
from optuna.trial import TrialState as OptunaState

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.sections import Search
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, Trial, TrialState, WarmTrial
from orchestrator.studies.samplers import distribution, make_sampler
from search_spaces import Suggestion

optuna.logging.set_verbosity(optuna.logging.WARNING)
# The options of TPE that we rely on are called experimental; the message would be shown for every trial.
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

STATES = {
    TrialState.FINISHED: OptunaState.COMPLETE,
    TrialState.STOPPED_EARLY: OptunaState.PRUNED,
    TrialState.DIVERGED: OptunaState.FAIL,
    TrialState.FAILED: OptunaState.FAIL,
}
"""What Optuna is told of a trial's end."""


class Study:
    """The trials of one cell, as Optuna sees them.

    Attributes:
        cell: What is searched, and where.
        size: How many trials it has in the end.
    """

    def __init__(self, cell: Cell, search: Search, trials: int, warm: Sequence[WarmTrial] = ()) -> None:
        self.cell = cell
        self._search = search
        self.size = trials
        self._points: Sequence[Mapping[str, Any]] = (
            cell.space.grid() if search.sampler == "grid" else [*cell.space.first_points(), *cell.enqueued]
        )
        self._study = optuna.create_study(
            directions=[objective.direction for objective in search.goals], study_name=cell.name
        )
        self._study.add_trials([_warm(cell, trial) for trial in warm])
        self._asked = 0
        self._open: dict[int, optuna.Trial] = {}
        self._reported: dict[int, int] = {}
        self._told: set[int] = set()

    @property
    def asked(self) -> int:
        """How many trials it has so far."""
        return self._asked

    def ask(self) -> tuple[Mapping[str, Any], Suggestion]:
        """Return the next suggestion and what it stands for."""
        number = self.asked
        if number < len(self._points):
            return self._ask_for(self._points[number])
        self._study.sampler = make_sampler(self._search.sampler, self.cell.space, self.cell.seed, number, self.size)
        return self._suggest()

    def replay(self, trial: Trial) -> None:
        """Take in a trial of the journal; they come in the order of their numbers."""
        self._ask_for(trial.params)
        self.observe(trial)

    def observe(self, trial: Trial) -> None:
        """Report the epochs that Optuna has not seen, and the end if there is one."""
        if trial.number in self._told:
            return
        if not self._has_several_goals:
            self._report(trial)
        if trial.has_ended:
            self._tell(trial)

    @property
    def _has_several_goals(self) -> bool:
        return len(self._search.goals) > 1

    def _report(self, trial: Trial) -> None:
        own = self._open[trial.number]
        for epoch, value in trial.running_best().items():
            if epoch > self._reported.get(trial.number, 0):
                own.report(value, epoch)
                self._reported[trial.number] = epoch

    def _tell(self, trial: Trial) -> None:
        """Tell Optuna how a trial ended: complete with its values at its best epoch, pruned, or failed."""
        values = None
        if trial.state is TrialState.FINISHED and trial.best_epoch is not None:
            metrics = trial.epochs[trial.best_epoch]
            values = [trial.best_value or 0.0, *(metrics[goal.metric] for goal in self._search.goals[1:])]
        # Optuna keeps a copy of its own; thousands of ours would be kept for nothing.
        self._study.tell(self._open.pop(trial.number), values, state=STATES[trial.state])
        self._reported.pop(trial.number, None)
        self._told.add(trial.number)

    def _ask_for(self, params: Mapping[str, Any]) -> tuple[Mapping[str, Any], Suggestion]:
        """Make a trial with given parameters; the sampler is not asked."""
        self._study.sampler = RandomSampler(seed=0)
        self._study.enqueue_trial(dict(params))
        return self._suggest()

    def _suggest(self) -> tuple[Mapping[str, Any], Suggestion]:
        trial = self._study.ask()
        self._open[self._asked] = trial
        self._asked += 1
        suggestion = self.cell.space.suggest(trial)
        return trial.params, suggestion


def _warm(cell: Cell, trial: WarmTrial) -> FrozenTrial:
    """Return a trial of another experiment as Optuna keeps its own."""
    bounds = cell.space.bounds()
    state = STATES[trial.state]
    return create_trial(
        state=state,
        params=dict(trial.params),
        distributions={name: distribution(bounds[name]) for name in trial.params},
        values=list(trial.values) if state is OptunaState.COMPLETE else None,
    )


class Studies:
    """All studies of an experiment, each getting its trials in turn.

    A trial that the journal holds as running comes first.
    """

    def __init__(
        self, experiment: Experiment, ledger: Ledger, is_closed: Callable[[str], bool] = lambda study: False
    ) -> None:
        """Rebuild the studies from the journal.

        Args:
            experiment: What is searched.
            ledger: Holds the trials so far.
            is_closed: Says of a study whether it gets no new trials, for now.
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
        params, suggestion = study.ask()
        config = self._experiment.suggested(study.cell, suggestion)
        return self._ledger.create(study.cell.name, number, params, config.to_dict())

    def _open(self) -> list[Study]:
        """Return the studies that get another trial."""
        studies = self._studies.items()
        return [study for name, study in studies if study.asked < study.size and not self._is_closed(name)]
