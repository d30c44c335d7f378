"""Simulated searches on a noisy objective whose best point is known: our studies and scheduler, and no training.

A trial's val rsum after epoch e is ``f(x) (1 - exp(-(e / tau(x))^1.3)) + luck``. ``f`` falls off around an optimum that
each problem draws, by 3 for a step of 10 % of a range and 11 for one of 20 %; ``tau`` is larger where the learning
rate is low, so that curves cross. A training has a normal luck for all its epochs, and a third as much for each.
"""

import itertools
import math
import random
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial
from orchestrator.results.confirmation_plan import choose_candidates
from orchestrator.results.winner import find_winners
from orchestrator.studies.study import Studies
from orchestrator.tuner.actor import Step
from orchestrator.tuner.scheduler import StudyScheduler
from tests.support.records import append
from trainables.config import TrialConfig, derive_seed

EPOCHS = 15
PEAK = 250.0
RANGES = {"temperature": (0.005, 1.0), "learning_rate": (2e-5, 5e-3), "gradient_clip": (0.2, 20.0)}
SPACES: Mapping[str, Mapping[str, int | None]] = {
    "one range": {"temperature": None},
    "three ranges": dict.fromkeys(RANGES),
    "120 listed": {"temperature": 12, "learning_rate": 10},
    "30 listed": {"temperature": 6, "learning_rate": 5},
}
"""Searched parameters of each space, with the number of values where values are listed."""

CONFIRMED = 3
SEEDS = 5


class Objective(Protocol):
    """What simulated trainings reach.

    Attributes:
        noise: Standard deviation of a training's luck, in points of rsum, >= 0.
        seed: Of the luck.
    """

    @property
    def noise(self) -> float: ...

    @property
    def seed(self) -> int: ...

    def value(self, config: TrialConfig, epoch: int) -> float:
        """Return the value of one training, whose seed the config holds."""

    def expected(self, config: TrialConfig) -> float:
        """Return the value that the trainings of a setting have on average at their end."""

    def best(self, space: str) -> float:
        """Return the highest expected value of any setting of a space."""


@dataclass(frozen=True)
class Problem:
    """An objective in closed form.

    Attributes:
        optimum: Of each parameter, as a place in its range in [0, 1].
        noise: See ``Objective``.
        seed: See ``Objective``.
    """

    optimum: Mapping[str, float]
    noise: float
    seed: int

    def mean(self, places: Mapping[str, float], epoch: int = EPOCHS) -> float:
        """Return the value that the trainings of a setting have on average after an epoch."""
        distance = sum((places[name] - at) ** 2 for name, at in self.optimum.items())
        final = PEAK - 60 * (1 - math.exp(-distance / 0.2))
        tau = 1.5 + 4 * (1 - places["learning_rate"])
        return final * (1 - math.exp(-((epoch / tau) ** 1.3)))

    def expected(self, config: TrialConfig) -> float:
        """See ``Objective``."""
        return self.mean(places_of(config))

    def value(self, config: TrialConfig, epoch: int) -> float:
        """See ``Objective``."""
        places = places_of(config)
        drawn = f"{self.seed} {places} {config.seed}"
        luck = random.Random(drawn).gauss(0, self.noise)
        jitter = random.Random(f"{drawn} {epoch}").gauss(0, self.noise / 3)
        return self.mean(places, epoch) + luck + jitter

    def best(self, space: str) -> float:
        """See ``Objective``."""
        places = {name: [place] for name, place in USUAL.items()}
        for name, count in SPACES[space].items():
            # Beside the distance to the optimum, the learning rate alone matters.
            is_at_optimum = count is None and name != "learning_rate"
            steps = (count or 1001) - 1
            places[name] = [self.optimum[name]] if is_at_optimum else [index / steps for index in range(steps + 1)]
        return max(
            self.mean(dict(zip(places, setting, strict=True))) for setting in itertools.product(*places.values())
        )


def places_of(config: TrialConfig) -> dict[str, float]:
    """Return where the searched parameters of a training lie in their ranges, in [0, 1]."""
    values: dict[str, Any] = {**config.loss_parameters, **vars(config.training)}
    return {name: math.log(values[name] / low) / math.log(high / low) for name, (low, high) in RANGES.items()}


USUAL = places_of(TrialConfig(dataset="pets", loss_parameters={"temperature": 0.1}))
"""Where the settings lie that a search begins with."""


@dataclass(frozen=True)
class Outcome:
    """What a search came to.

    Attributes:
        chosen: Regret of the point that the search puts first: the best mean of any point minus the mean of this one.
        confirmed: Regret of the winner after the best three points were trained with five fresh seeds.
        trainings: How many trials began.
        points: How many different settings they had.
    """

    chosen: float
    confirmed: float
    trainings: int
    points: int


def make_experiment(space: str, seed: int, search: Mapping[str, Any], scheduler: Mapping[str, Any]) -> Experiment:
    """Return a search of one study in a space."""
    bounds = bounds_of(space)
    loss = {"temperature": bounds.pop("temperature")}
    values = {
        "name": "noisy",
        "datasets": ["simulated"],
        "losses": ["nt_xent"],
        "training": {"epochs": EPOCHS, "learning_rate_drop_epochs": EPOCHS},
        "search": {"trials": 1000, "seed": seed, "space": {"nt_xent": loss}, "training": bounds, **search},
        "scheduler": {"name": "asha", "grace_epochs": 3, "reduction_factor": 3, **scheduler},
        "resources": {"cpus": 1, "gpus": 0},
    }
    return validate(Experiment, values, "noisy_search")


def bounds_of(space: str) -> dict[str, Any]:
    """Return the range or the values of each searched parameter of a space."""
    return {
        name: list(RANGES[name]) if count is None else {"values": spread(*RANGES[name], count)}
        for name, count in SPACES[space].items()
    }


def spread(low: float, high: float, count: int) -> list[float]:
    """Return so many values between two ends, logarithmically."""
    return [low * (high / low) ** (index / (count - 1)) for index in range(count)]


def run_search(
    space: str,
    experiment: Experiment,
    problem: Objective,
    budget: int,
    concurrent: int,
    studies_type: type[Studies] = Studies,
    scheduler_type: type[StudyScheduler] = StudyScheduler,
) -> Outcome:
    """Search until so many epochs are spent, some trials side by side."""
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        closing(Ledger(Path(folder) / "journal.jsonl")) as ledger,
    ):
        append(ledger, "experiment_started", experiment=experiment.to_dict(), data={}, environment={})
        studies, scheduler = studies_type(experiment, ledger), scheduler_type(experiment, ledger)
        live: list[Trial] = []
        for _ in range(budget):
            while len(live) < concurrent and (new := studies.next()) is not None:
                live.append(new)
            trial = live.pop(0)
            step = Step(trial.last_epoch + 1, {"val/rsum": problem.value(trial.config, trial.last_epoch + 1)})
            scheduler.judge(trial, step)
            studies.observe(trial)
            live += [] if trial.has_ended else [trial]
        return judge(ledger, problem, space)


def judge(ledger: Ledger, problem: Objective, space: str) -> Outcome:
    """Return how good the points are that the product puts first."""
    history = ledger.history
    (winner,) = find_winners(history).values()
    candidates = choose_candidates(history, CONFIRMED)
    trials = list(history.trials.values())
    settings = {str(places_of(trial.config)) for trial in trials}
    best = problem.best(space)
    fresh = [confirm(problem, trial) for trial in candidates]
    return Outcome(
        chosen=best - problem.expected(winner.config),
        confirmed=best - max(fresh)[1],
        trainings=len(trials),
        points=len(settings),
    )


def confirm(problem: Objective, trial: Trial) -> tuple[float, float]:
    """Return the mean of fresh trainings of a trial's setting, and its true mean."""
    seeds = [derive_seed(problem.seed, "fresh", index) for index in range(SEEDS)]
    values = [max(problem.value(replace(trial.config, seed=seed), epoch) for epoch in (13, 14, 15)) for seed in seeds]
    return sum(values) / SEEDS, problem.expected(trial.config)
