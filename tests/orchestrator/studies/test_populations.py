"""Population-based training without Ray: what moves depends on the journal and the seed, not on who came first."""

import json
import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.journalled import changed_keys
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.answers import summarise
from orchestrator.results.confirming import current_plans, trainings_of
from orchestrator.results.winner import find_winners
from orchestrator.search.display import print_summary
from orchestrator.search.resuming import extend_experiment
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.storage.folder_store import FolderStore
from orchestrator.studies.populations import Populations
from orchestrator.studies.study import Studies
from orchestrator.tuner.actor import TrialActor
from orchestrator.tuner.issuer import Issuer
from orchestrator.tuner.scheduler import PopulationScheduler
from tests.support.drifting_workload import EPOCHS, DriftingWorkload, learned
from tests.support.experiments import make_experiment, start
from trainables.config import TrialConfig
from trainables.errors import ConfigError

PBT = {"name": "pbt", "perturbation_epochs": 2, "quantile": 0.25}


def population(trials: int = 12, **changes: Any) -> Experiment:
    """Return one study whose best temperature drifts."""
    search = {"sampler": "random", "trials": trials, "space": {"nt_xent": {"temperature": [0.02, 0.5]}}}
    values = {"losses": ["nt_xent"], "search": search, "scheduler": PBT, "training": {"epochs": EPOCHS}}
    return make_experiment(**{**values, **changes})


class Machine:
    """Some actors and a driver, whose steps come in a random order; it can be switched off at any of them."""

    def __init__(self, folder: Path, experiment: Experiment, workload: DriftingWorkload, slots: int) -> None:
        (folder / "trials").mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger(folder / "journal.jsonl")
        if not self.ledger.history.experiment:
            start(self.ledger, experiment)
        self.checkpoints = Checkpoints(FolderStore(folder / "trials"))
        studies = Studies(experiment, self.ledger)
        self.issuer = Issuer(Populations(experiment, studies, self.ledger, self.checkpoints), slots)
        self.scheduler = PopulationScheduler(experiment.scheduler, self.ledger)
        self.workload, self.actors, self.issued = workload, dict[str, tuple[TrialActor, dict[str, str]]](), 0

    def run(self, chance: random.Random, steps: int = 10_000) -> bool:
        """Take so many steps; say whether the search came to its end."""
        for _ in range(steps):
            while isinstance(config := self.issuer.suggest(f"ray{self.issued}"), dict):
                self._begin(config)
            if not self.actors:
                assert config == "FINISHED"
                self.ledger.close()
                return True
            self._step(chance.choice(list(self.actors)))
        self.ledger.close()
        return False

    def _begin(self, config: dict[str, str]) -> None:
        actor = TrialActor.__new__(TrialActor)
        actor.setup(config, workload=self.workload, checkpoints=self.checkpoints)
        self.actors[f"ray{self.issued}"] = (actor, config)
        self.issued += 1

    def _step(self, name: str) -> None:
        actor, config = self.actors[name]
        decision = self.scheduler.on_trial_result(None, SimpleNamespace(config=config), actor.step())  # type: ignore[arg-type]
        if decision == "CONTINUE":
            self.issuer.on_trial_result(name, {})
            return
        del self.actors[name]
        self.issuer.on_trial_complete(name, {})
        trial = self.ledger.history.trials[config["trial"]]
        if trial.has_ended:
            self.checkpoints.prune(trial.id)


def search(
    folder: Path,
    experiment: Experiment | None = None,
    *,
    slots: int = 12,
    order: int = 0,
    stops: int = 0,
    workload: DriftingWorkload = DriftingWorkload(),
) -> History:
    """Run a whole search, switched off so often in between, and return what its journal says."""
    chance = random.Random(order)
    experiment = experiment or population()
    for _ in range(stops):
        assert not Machine(folder, experiment, workload, slots).run(chance, chance.randrange(1, 30))
    assert Machine(folder, experiment, workload, slots).run(chance)
    return History.of(read_journal(folder / "journal.jsonl"))


def outcome(history: History) -> dict[str, Any]:
    """Return all that must not depend on the order of events."""
    return {trial.id: (trial.state, trial.config, trial.epochs, trial.moves) for trial in history.trials.values()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> History:
    return search(tmp_path_factory.mktemp("undisturbed"))


def temperatures(config: TrialConfig) -> list[float]:
    return [float(config.at(epoch).loss_parameters["temperature"]) for epoch in range(1, EPOCHS + 1)]  # type: ignore[arg-type]


def test_the_winner_beats_every_constant_temperature(undisturbed: History) -> None:
    constant = max(learned([temperature] * EPOCHS) for temperature in np.geomspace(0.02, 0.5, 400))
    winner = find_winners(undisturbed)["pets"]
    assert winner.best_value is not None
    assert winner.best_value > constant
    assert winner.moves


def test_every_value_is_what_the_schedule_of_the_config_comes_to(undisturbed: History) -> None:
    for trial in undisturbed.trials.values():
        used = temperatures(trial.config)
        for epoch, metrics in trial.epochs.items():
            assert metrics["val/rsum"] == pytest.approx(learned(used[:epoch]), abs=1e-9)
        own = [temperatures(trial.config_in(epoch))[epoch - 1] for epoch in range(1, EPOCHS + 1)]
        assert sorted(trial.reported) == list(range(1, EPOCHS + 1))
        if not trial.moves:
            assert own == used


@pytest.mark.parametrize(
    ("slots", "order", "stops"), [(1, 1, 0), (3, 2, 0), (12, 3, 0), (2, 4, 9), (12, 5, 5), (5, 6, 14)]
)
def test_neither_slots_nor_order_nor_stops_change_anything(
    undisturbed: History, tmp_path: Path, slots: int, order: int, stops: int
) -> None:
    log = tmp_path / "trained.jsonl"
    history = search(tmp_path, slots=slots, order=order, stops=stops, workload=DriftingWorkload(log=log))
    assert outcome(history) == outcome(undisturbed)
    # A stop costs each trial that was running one epoch at most.
    trained = Counter(log.read_text().splitlines())
    assert sum(trained.values()) <= 12 * EPOCHS + stops * slots
    assert max(trained.values()) <= 1 + stops


def test_the_worst_resume_from_the_best_near_their_temperature(undisturbed: History) -> None:
    boundaries = {move.epoch for trial in undisturbed.trials.values() for move in trial.moves}
    assert boundaries == {2, 4, 6, 8, 10}
    for epoch in sorted(boundaries):
        moved = [(trial, move) for trial in undisturbed.trials.values() for move in trial.moves if move.epoch == epoch]
        assert len(moved) == 3
        for trial, move in moved:
            source = undisturbed.trials[move.source]
            assert all(other.epoch != epoch for other in source.moves)
            assert before(source, epoch) > before(trial, epoch)
            own = trial.config_in(epoch + 1)
            taken = source.config_in(epoch)
            assert own.until(epoch) == taken.until(epoch)
            assert own.schedule[-1].epoch == epoch + 1


def before(trial: Trial, epoch: int) -> float:
    """Return the best value of the model that a trial had when it reached an epoch."""
    return learned(temperatures(trial.config_in(epoch))[:epoch])


def test_who_diverges_leaves_the_population_and_the_others_continue(undisturbed: History, tmp_path: Path) -> None:
    first = sorted(temperatures(trial.config_in(1))[0] for trial in undisturbed.trials.values())
    history = search(tmp_path, workload=DriftingWorkload(diverges_above=first[-3]))
    ended = Counter(trial.state for trial in history.trials.values())
    assert ended == {TrialState.DIVERGED: 2, TrialState.FINISHED: 10}
    assert sum(move.epoch == 2 for trial in history.trials.values() for move in trial.moves) == 3


def test_a_lost_checkpoint_is_trained_again_from_the_schedule(undisturbed: History, tmp_path: Path) -> None:
    chance = random.Random(7)
    machine = Machine(tmp_path, population(), DriftingWorkload(), 12)
    machine.run(chance, 24)
    assert machine.ledger.history.moved == {}
    machine = Machine(tmp_path, population(), DriftingWorkload(), 12)
    assert isinstance(machine.issuer.suggest("first"), dict)
    assert machine.ledger.history.moved == {"pets-vsepp-nt_xent": 2}
    machine.ledger.close()
    moved = next(trial for trial in machine.ledger.history.trials.values() if trial.moves)
    for path in (tmp_path / "trials" / moved.id).glob("*/state.pt"):
        path.write_text("{}")
    assert outcome(search(tmp_path)) == outcome(undisturbed)


def test_a_winner_is_confirmed_by_its_schedule(undisturbed: History) -> None:
    experiment = population(confirm={"top": 1, "seeds": 2})
    winner = find_winners(undisturbed)["pets"]
    repeats = [
        one for one in trainings_of(current_plans(experiment, undisturbed), undisturbed) if one.candidate == winner.id
    ]
    assert len(repeats) == 2
    for repeat in repeats:
        *_, last = DriftingWorkload().train(repeat.config, None)
        assert last.metrics["val/rsum"] == pytest.approx(winner.best_value)


def test_the_summary_names_the_schedule_of_the_winner(undisturbed: History) -> None:
    row = summarise(undisturbed)["winners"]["pets"]
    printed: list[Any] = []
    print_summary(undisturbed, printed.append)
    told = printed[0].renderables[-1].plain
    assert told.startswith(f"pets: {row['trial']}: temperature={row['params']['temperature']:.4g} temperature@")
    moved = sum(bool(trial.moves) for trial in undisturbed.trials.values())
    assert f"{moved} trials moved to the model of another" in summarise(undisturbed)["caveats"]["pets"][0]
    shown = [row["params"]["temperature"], *(step["loss_parameters"]["temperature"] for step in row["schedule"])]
    assert list(dict.fromkeys(temperatures(undisturbed.trials[row["trial"]].config))) == list(dict.fromkeys(shown))
    assert json.loads(json.dumps(row)) == row


def test_the_weights_of_a_scheduled_loss_are_those_of_its_best_epoch(undisturbed: History) -> None:
    for trial in undisturbed.trials.values():
        assert trial.loss_parameters_at_best == {"temperature": temperatures(trial.config)[(trial.best_epoch or 1) - 1]}


def test_coefficients_stay_feasible_and_other_settings_move_along(tmp_path: Path) -> None:
    from orchestrator.studies.pbt import plan_moves
    from search_spaces import SPACES

    changes = {
        "search": {
            "sampler": "random",
            "trials": 8,
            "training": {"learning_rate": "default", "embedding_size": "default"},
        }
    }
    experiment = population(losses=["polynomial_relative", "polynomial_self"], **changes)
    for cell in experiment.cells():
        ledger = Ledger(tmp_path / f"{cell.name}.jsonl")
        start(ledger, experiment)
        trials = list(iter(Studies(experiment, ledger).next, None))
        mine = [trial for trial in trials if trial.study == cell.name]
        for trial in mine:
            for epoch in (1, 2):
                ledger.report(trial, epoch, {"val/rsum": trial.number * epoch}, TrialState.RUNNING)
        moves = plan_moves(cell, experiment.scheduler, mine)
        assert [move.trial.number for move in moves] == [1, 0]
        for move in moves:
            assert {move.source.number} <= {6, 7}
            now = move.config.at(3)
            SPACES[cell.loss].check_parameters(now.loss_parameters)
            assert now.training.embedding_size == move.source.config.training.embedding_size
            assert now.training.learning_rate != move.source.config.training.learning_rate
            assert set(move.params) == set(move.source.params)
        ledger.close()


SEARCH = {"sampler": "random", "trials": 8}
REFUSED = {
    "no epochs between": ({"scheduler": {**PBT, "perturbation_epochs": 0}}, "scheduler.perturbation_epochs: .*got 0"),
    "as many as a trial": ({"scheduler": {**PBT, "perturbation_epochs": 12}}, "less than the 12 epochs of a trial"),
    "more than half": ({"scheduler": {**PBT, "quantile": 0.6}}, "scheduler.quantile: .*got 0.6"),
    "nobody": ({"scheduler": {**PBT, "quantile": 0}}, "scheduler.quantile: .*got 0"),
    "too few": ({"search": {**SEARCH, "trials": 3}}, "search.trials: .* needs 4, got 3"),
    "grid": (
        {"search": {**SEARCH, "sampler": "grid", "space": {"nt_xent": {"temperature": {"values": [0.1, 0.2]}}}}},
        "search.sampler: pbt .*grid",
    ),
    "a sampler that learns": ({"search": {**SEARCH, "sampler": "cmaes"}}, "search.sampler: pbt .*cmaes"),
    "nothing to move": (
        {"search": {**SEARCH, "fixed": {"nt_xent": {"temperature": 0.1}}}},
        "scheduler.name: pbt has nothing to move",
    ),
    "another's setting": (
        {"scheduler": {**PBT, "grace_epochs": 2}},
        "grace_epochs: a setting of asha, hyperband, median, but scheduler.name is pbt",
    ),
    "its settings elsewhere": (
        {"scheduler": {"name": "asha", "quantile": 0.5}},
        "quantile: a setting of pbt, but scheduler.name is asha",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        population(**changes)


def test_a_population_does_not_grow(tmp_path: Path) -> None:
    more = validate(Experiment, {**population().to_dict(), "search": population(13).search.model_dump()}, "more")
    assert changed_keys(population().to_dict(), more.to_dict()) == {"search.trials": (12, 13)}
    with closing(Ledger(tmp_path / "journal.jsonl")) as ledger:
        start(ledger, population())
    with pytest.raises(ConfigError, match="--trials 4: .* is a population"):
        extend_experiment(tmp_path, 4, None, [])
