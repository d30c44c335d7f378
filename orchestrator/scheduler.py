"""Which trials go on: asynchronous successive halving, a ladder a study, so that only like is compared with like.

Every result of a trial comes through here before anybody acts on it: it is judged, and the epoch goes into the journal
together with the verdict. What is compared is the best value so far.

References:
    [Li2020] Li et al., A System for Massively Parallel Hyperparameter Tuning (ASHA). arXiv:1810.05934
"""

from types import SimpleNamespace
from typing import Any

from ray.tune.experiment import Trial as RayTrial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from orchestrator.ephemeral import Ephemeral
from orchestrator.experiment import Experiment
from orchestrator.history import Stage, Trial, TrialState
from orchestrator.ledger import Ledger
from orchestrator.sections import Scheduler
from orchestrator.trial_actor import Step


class Ladder:
    """The rungs of one study [Li2020], as Ray climbs them."""

    def __init__(self, epochs: int, rules: Scheduler) -> None:
        self._asha = AsyncHyperBandScheduler(
            time_attr="epoch",
            metric="best",
            mode="max",
            max_t=epochs,
            grace_period=min(rules.grace_epochs, epochs),
            reduction_factor=rules.reduction_factor,
        )
        self._known: set[str] = set()

    def climbs(self, trial_id: str, epoch: int, best: float) -> bool:
        """Note the best value so far at an epoch; say whether the trial may go on."""
        # Of a Ray trial, all that is looked at is its id; ours is the one that outlives a restart.
        proxy: Any = SimpleNamespace(trial_id=trial_id)
        nobody: Any = None
        if trial_id not in self._known:
            self._known.add(trial_id)
            self._asha.on_trial_add(nobody, proxy)
        return bool(self._asha.on_trial_result(nobody, proxy, {"epoch": epoch, "best": best}) != TrialScheduler.STOP)


class Judge(Ephemeral, FIFOScheduler):
    """Records every epoch of every trial with the verdict on it; itself it ends none before its last epoch."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def judge(self, trial: Trial, step: Step) -> TrialState:
        """Record a step of a trial and return how the trial stands after it."""
        if step.diverged is not None:
            self._ledger.end(trial, TrialState.DIVERGED, step.diverged)
        elif step.refused is not None:
            self._ledger.end(trial, TrialState.FAILED, step.refused)
        elif step.epoch > trial.last_epoch and trial.state is TrialState.RUNNING:
            value = step.metrics[trial.metric]
            best = value if trial.best_value is None else max(value, trial.best_value)
            self._ledger.report(trial, step.epoch, step.metrics, self._verdict(trial, step.epoch, best))
        return trial.state

    def on_trial_result(self, tune_controller: Any, trial: RayTrial, result: dict[str, Any]) -> str:
        """Judge what an actor returned; ``STOP`` ends the trial there."""
        ours = self._ledger.history.trials[trial.config["trial"]]
        state = self.judge(ours, result["step"])
        return str(TrialScheduler.CONTINUE if state is TrialState.RUNNING else TrialScheduler.STOP)

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Leave the choice to Ray, which starts trials in their order; its default looks at every trial ever made."""

    def climbs(self, trial: Trial, epoch: int, best: float) -> bool:
        """Say whether a trial with this best value so far may go on after an epoch."""
        return True

    def _verdict(self, trial: Trial, epoch: int, best: float) -> TrialState:
        climbs = self.climbs(trial, epoch, best)
        if epoch >= trial.total_epochs:
            return TrialState.FINISHED
        return TrialState.RUNNING if climbs else TrialState.STOPPED_EARLY


class StudyScheduler(Judge):
    """Ends trials that are worse than others of their study; starts from what the journal says was judged before."""

    def __init__(self, experiment: Experiment, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._ladders: dict[str, Ladder] = {}
        if experiment.scheduler.name == "asha":
            self._ladders = {
                cell.name: Ladder(cell.training.total_epochs, experiment.scheduler) for cell in experiment.cells()
            }
        self._replay()

    def climbs(self, trial: Trial, epoch: int, best: float) -> bool:
        """Say whether the trial climbs the ladder of its study."""
        ladder = self._ladders.get(trial.study)
        return ladder is None or ladder.climbs(trial.id, epoch, best)

    def _replay(self) -> None:
        """Climb the ladders again in the order of the journal, so that the rungs hold what they held."""
        best: dict[str, float] = {}
        trials = self._ledger.history.trials
        for record in self._ledger.past:
            trial = trials[record["trial"]] if record["kind"] == "epoch" else None
            if trial is not None and trial.stage is Stage.SEARCH:
                best[trial.id] = max(best.get(trial.id, float("-inf")), record["metrics"][trial.metric])
                self.climbs(trial, record["epoch"], best[trial.id])
