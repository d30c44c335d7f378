"""Which trials continue: successive halving by rungs, or the median rule. Trials are compared within their study.

Ray Tune hands each result of a trial to the scheduler first. The scheduler judges the trial and writes the epoch with
the verdict into the journal before anything acts on either. Trials are compared by their best value so far.

References:
    [Golovin2017] Golovin et al., Google Vizier: A Service for Black-Box Optimization, section 3.1. KDD 2017
    [Li2018] Li et al., Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization. JMLR 18
    [Li2020] Li et al., A System for Massively Parallel Hyperparameter Tuning (ASHA). arXiv:1810.05934
"""

from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

from ray.tune.experiment import Trial as RayTrial
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.sections import Scheduler
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import EpochEnded
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.tuner.actor import Step
from orchestrator.tuner.tune_patches import NotPickled, Places, expect_deaths, forget_ended


class Halving:
    """Successive halving of one study, which Ray's own ASHA decides trial by trial [Li2020].

    Of several brackets each begins to judge a rung later, so that slow starters may run for longer [Li2018].

    The rules are ``asha``, which has one bracket, or ``hyperband``.
    """

    def __init__(self, epochs: int, rules: Scheduler) -> None:
        self._brackets = [
            AsyncHyperBandScheduler(
                time_attr="epoch",
                metric="best",
                mode="max",
                max_t=epochs,
                grace_period=min(round(rules.grace_epochs * rules.reduction_factor**bracket), epochs),
                reduction_factor=rules.reduction_factor,
            )
            for bracket in range(rules.brackets if rules.name == "hyperband" else 1)
        ]
        self._known: set[str] = set()

    def may_continue(self, trial_id: str, number: int, epoch: int, best: float) -> bool:
        """Note the best value so far at an epoch; say whether the trial may continue in the bracket of its number."""
        asha = self._brackets[number % len(self._brackets)]
        # Ray's ASHA reads only the id of a Ray trial. A trial of ours keeps its id when the search is resumed, so that
        # epochs judged before count for the same trial.
        proxy: Any = SimpleNamespace(trial_id=trial_id)
        no_controller: Any = None
        if trial_id not in self._known:
            self._known.add(trial_id)
            asha.on_trial_add(no_controller, proxy)
        decision = asha.on_trial_result(no_controller, proxy, {"epoch": epoch, "best": best})
        return bool(decision != TrialScheduler.STOP)


class Median:
    """A trial continues while its best value is no lower than the median of other trials at its epoch [Golovin2017].

    The original compares running averages, in which an early lead persists; this rule compares best values, as every
    other comparison of this software does.
    """

    def __init__(self, rules: Scheduler) -> None:
        self._rules = rules
        self._best: dict[int, dict[str, float]] = {}

    def may_continue(self, trial_id: str, number: int, epoch: int, best: float) -> bool:
        """Note the best value so far at an epoch; say whether the trial may continue."""
        at_epoch = self._best.setdefault(epoch, {})
        others = [value for other, value in at_epoch.items() if other != trial_id]
        at_epoch[trial_id] = best
        if epoch < self._rules.grace_epochs or len(others) < self._rules.min_trials:
            return True
        return best >= median(others)


def make_rule(rules: Scheduler, epochs: int) -> Halving | Median | None:
    """Return the rule that stops trials of one study early; ``None`` where all train to their end."""
    if rules.name == "none":
        return None
    return Median(rules) if rules.name == "median" else Halving(epochs, rules)


class RecordingScheduler(NotPickled, FIFOScheduler):
    """Records every epoch of every trial with the verdict on the trial; ends no trial before the trial's last epoch."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ledger = ledger
        self.places = Places()

    def judge(self, trial: Trial, step: Step) -> TrialState:
        """Record a step of a trial and return the trial's state after it."""
        # Damage is recorded first, because it is why the epoch below was trained from an older checkpoint.
        for damage in step.damage:
            self._ledger.note_damage(trial, damage)
        if step.diverged is not None:
            self._ledger.end(trial, TrialState.DIVERGED, step.diverged)
        elif step.refused is not None:
            self._ledger.end(trial, TrialState.FAILED, step.refused)
        # A resumed trial reports its checkpoint's epoch again; an epoch that the journal has is not recorded twice.
        elif step.epoch > trial.last_epoch and trial.state is TrialState.RUNNING:
            value, best, best_epoch = step.metrics[trial.metric], trial.best_value, trial.best_epoch or 0
            if best is None or value > best:
                best, best_epoch = value, step.epoch
            is_over = trial.config.training.is_over(step.epoch, best_epoch)
            # The rule sees the last epoch as well, because later trials are compared with its value.
            continues = self.may_continue(trial, step.epoch, best, is_over=is_over)
            verdict = TrialState.RUNNING if continues else TrialState.STOPPED_EARLY
            state = TrialState.FINISHED if is_over else verdict
            self._ledger.report(trial, step.epoch, step.metrics, state, step.not_replayed)
        return trial.state

    def on_trial_result(self, tune_controller: Any, trial: RayTrial, result: dict[str, Any]) -> str:
        """Judge an actor's answer; return Ray Tune's word for a trial that continues or that ends (``STOP``)."""
        recorded = self._ledger.history.trials[trial.config["trial"]]
        state = self.judge(recorded, result["step"])
        return str(TrialScheduler.CONTINUE if state is TrialState.RUNNING else TrialScheduler.STOP)

    def choose_trial_to_run(self, tune_controller: Any) -> RayTrial | None:
        """Return the trial for an actor that has become free, and let Ray forget the trials that have ended."""
        controller = tune_controller._tune_controller
        expect_deaths(controller)
        forget_ended(controller)
        return self.places.next_trial(controller)

    def may_continue(self, trial: Trial, epoch: int, best: float, *, is_over: bool) -> bool:
        """Say whether a trial with this best value so far may continue after an epoch, which may be its last."""
        return True


class StudyScheduler(RecordingScheduler):
    """Ends trials that are worse than others of their study; begins with the epochs that the journal holds already."""

    def __init__(self, experiment: Experiment, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._rules = {cell.name: make_rule(cell.scheduler, cell.training.total_epochs) for cell in experiment.cells()}
        self._values: dict[str, dict[int, list[float]]] = {}
        self._finished: set[str] = set()
        self._replay()

    def may_continue(self, trial: Trial, epoch: int, best: float, *, is_over: bool) -> bool:
        """Say whether the rule of its study lets the trial continue.

        A replicate is judged by the mean of the trainings of its setting that have reached the epoch. Once one of them
        has finished, the others train to their end: without trainings of unlucky seeds, the mean would be too high.
        """
        rule, setting = self._rules.get(trial.study), trial.candidate or trial.id
        values = self._values.setdefault(setting, {}).setdefault(epoch, [])
        values.append(best)
        had_finished = setting in self._finished
        if is_over:
            self._finished.add(setting)
        if rule is None or had_finished:
            return True
        return rule.may_continue(trial.id, trial.number, epoch, fmean(values))

    def _replay(self) -> None:
        """Judge the recorded epochs again, in the order of the journal.

        The rules keep their state in memory alone, and ASHA's cuts depend on the order in which values arrive. Judged
        in the recorded order, the epochs give a resumed search the rungs that the interrupted search had.
        """
        best: dict[str, tuple[float, int]] = {}
        trials = self._ledger.history.trials
        for record in self._ledger.past:
            if isinstance(record, EpochEnded) and trials[record.trial].stage is Stage.SEARCH:
                trial = trials[record.trial]
                value, epoch = best.get(trial.id, (float("-inf"), 0))
                if record.metrics[trial.metric] > value:
                    value, epoch = record.metrics[trial.metric], record.epoch
                best[trial.id] = value, epoch
                is_over = trial.config.training.is_over(record.epoch, epoch)
                self.may_continue(trial, record.epoch, value, is_over=is_over)
