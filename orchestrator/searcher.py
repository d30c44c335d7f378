"""Which trial comes next: Optuna's ask and tell. The only importer of Optuna; Ray gets the trials from ``issuer.py``.

Ray's own ``OptunaSearch`` never prunes, calls a stopped trial complete and leaves one without a value running for ever;
hence ours. A study lives in memory and is rebuilt from the journal, which is the one record of what was suggested. Each
suggestion is drawn with a seed made of the study's seed and the trial's number, so that a restart repeats none.
"""

import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import TrialState as OptunaState

from orchestrator.experiment import Cell, Experiment
from orchestrator.history import Stage, Trial, TrialState
from orchestrator.ledger import Ledger
from search_spaces import Suggestion
from trainables.seeding import derive_seed

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

    def __init__(self, cell: Cell, sampler: str, trials: int) -> None:
        self.cell = cell
        self._sampler = sampler
        self.size = trials
        self._points: Sequence[Mapping[str, Any]] = (
            cell.space.grid() if sampler == "grid" else cell.space.first_points()
        )
        self._study = optuna.create_study(direction="maximize", study_name=cell.name)
        self._trials: list[optuna.Trial] = []
        self._reported: dict[int, int] = {}
        self._told: set[int] = set()

    @property
    def asked(self) -> int:
        """How many trials it has so far."""
        return len(self._trials)

    def ask(self) -> tuple[Mapping[str, Any], Suggestion]:
        """Return the next suggestion and what it stands for."""
        number = self.asked
        if number < len(self._points):
            return self._ask_for(self._points[number])
        self._study.sampler = make_sampler(
            self._sampler, derive_seed(self.cell.seed, number, bits=32), self.size, group=self.cell.space.is_conditional
        )
        return self._suggest()

    def replay(self, trial: Trial) -> None:
        """Take in a trial of the journal; they come in the order of their numbers."""
        self._ask_for(trial.params)
        self.observe(trial)

    def observe(self, trial: Trial) -> None:
        """Report the epochs that Optuna has not seen, and the end if there is one."""
        own = self._trials[trial.number]
        if trial.number in self._told:
            return
        for epoch, value in trial.running_best().items():
            if epoch > self._reported.get(trial.number, 0):
                own.report(value, epoch)
                self._reported[trial.number] = epoch
        if trial.state is not TrialState.RUNNING:
            self.tell(trial.number, trial.state, trial.best_value)

    def tell(self, number: int, state: TrialState, value: float | None = None) -> None:
        """Tell Optuna how a trial ended: complete with its best value, pruned, or failed."""
        finished = state is TrialState.FINISHED
        self._study.tell(number, value if finished else None, state=STATES[state])
        self._reported.pop(number, None)
        self._told.add(number)

    def _ask_for(self, params: Mapping[str, Any]) -> tuple[Mapping[str, Any], Suggestion]:
        """Make a trial with given parameters; the sampler is not asked."""
        self._study.sampler = RandomSampler(seed=0)
        self._study.enqueue_trial(dict(params))
        return self._suggest()

    def _suggest(self) -> tuple[Mapping[str, Any], Suggestion]:
        trial = self._study.ask()
        self._trials.append(trial)
        suggestion = self.cell.space.suggest(trial)
        return trial.params, suggestion


def make_sampler(name: str, seed: int, trials: int, *, group: bool = False) -> BaseSampler:
    """Return a sampler for one suggestion of a study of so many trials; ``group`` where parameters depend on others."""
    if name == "random":
        return RandomSampler(seed=seed)
    # With few trials in all, TPE's usual ten random ones at the start would leave it nothing to do.
    startup = max(3, min(10, trials // 4))
    return TPESampler(seed=seed, multivariate=True, constant_liar=True, group=group, n_startup_trials=startup)


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
            cell.name: Study(cell, search.sampler, experiment.trials_in(cell)) for cell in experiment.cells()
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
