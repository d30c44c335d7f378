"""A search of a margin without effect and of a learning rate with one, which nobody ran."""

import math

import numpy as np

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.epochs import Epochs
from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial, TrialState
from tests.support.experiments import make_experiment
from trainables.config import TrainingConfig, TrialConfig

STUDY = "pets-vsepp-triplet_sh"
RATES, MARGINS = (1e-4, 1e-2), (0.05, 1.0)
BEST_RATE = 2e-3


def described() -> Experiment:
    search = {"trials": 24, "training": {"learning_rate": list(RATES)}, "space": {"triplet_sh": {"margin": MARGINS}}}
    return make_experiment(losses=["triplet_sh"], datasets=["pets"], search=search)


def add(history: History, number: int, margin: float, rate: float, value: float, **fields: object) -> Trial:
    params = {"margin": margin, "training.learning_rate": rate}
    config = TrialConfig(
        dataset="pets",
        loss="triplet_sh",
        loss_parameters={"margin": margin},
        training=TrainingConfig(learning_rate=rate),
    )
    trial = Trial(f"{STUDY}-{number:04}", STUDY, number, params, config, 0.0, state=TrialState.FINISHED)
    trial.epochs = Epochs({1: {"val/rsum": value - 20}, 2: {"val/rsum": value}})
    for name, given in fields.items():
        setattr(trial, name, given)
    history.trials[trial.id] = trial
    return trial


def history_of(trials: int, *, diverging: bool = False, noise: float = 0.5, tilt: float = 0.0) -> History:
    """Return a search whose learning rate is best at ``BEST_RATE``, ``tilt`` decades higher at the largest margin."""
    generator = np.random.default_rng(3)
    history = History(experiment=BegunExperiment.of(described().to_dict()))
    for number in range(trials):
        margin, rate = generator.uniform(*MARGINS), 10 ** generator.uniform(-4, -2)
        best = math.log10(BEST_RATE) + tilt * (2 * margin - sum(MARGINS)) / (MARGINS[1] - MARGINS[0])
        value = 250 - 60 * (math.log10(rate) - best) ** 2 + noise * generator.normal()
        is_lost = diverging and rate > 4e-3
        add(history, number, margin, rate, value, **({"state": TrialState.DIVERGED} if is_lost else {}))
    return history
