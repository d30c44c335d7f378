"""What the journal says of the machines, whose measurements are forgotten where they need not hold, and of trials."""

from typing import Any

import pytest

from orchestrator.journal.begun_experiment import BegunConfirm, BegunExperiment
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import Record
from orchestrator.journal.trial import Trial
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test
from tests.support.records import event
from trainables.config import TrainingConfig, TrialConfig
from trainables.errors import UserError

HERE = {"host": "a", "system": "Linux", "cpus": 8}


def started(machine: dict[str, Any], resources: dict[str, Any]) -> Record:
    experiment = make_experiment(resources=resources).to_dict()
    environment = {"versions": {}, "git_revision": None, "machine": machine}
    return happened("experiment_started", experiment=experiment, data={}, environment=environment)


def happened(kind: str, **fields: Any) -> Record:
    return event(kind, **{"time": 0.0, "elapsed": 0.0, **fields})


@pytest.mark.parametrize(
    ("machine", "resources", "is_kept"),
    [
        (HERE, {"cpus": 1}, True),
        (HERE, {"cpus": 2}, False),
        (HERE, {"cpus": 1, "max_concurrent": 3}, False),
        ({**HERE, "cpus": 16}, {"cpus": 1}, False),
        ({**HERE, "host": "b"}, {"cpus": 1}, False),
    ],
    ids=["the same", "other CPUs", "another limit", "more CPUs", "another machine"],
)
def test_what_was_measured_holds_for_the_same_resources_on_the_same_machine(
    machine: dict[str, Any], resources: dict[str, Any], is_kept: bool
) -> None:
    history = History.of(
        [
            started(HERE, {"cpus": 1}),
            happened("memory_measured", study="s", peak=5, room=9),
            happened("fusion_measured", study="s", trials=16),
            happened("concurrency_lowered", trials=2),
            started(machine, resources),
        ]
    )
    found = (history.footprints, history.fusions, history.concurrency, history.halvings)
    assert found == (({"s": (5, 9)}, {"s": 16}, 2, 1) if is_kept else ({}, {}, None, 0))


def test_parameters_tell_what_was_searched_and_what_became_of_it() -> None:
    trial = Trial(
        id="pets-wsabie-any-0000",
        study="pets-wsabie-any",
        number=0,
        # Searched by its slopes, shown beside the coefficients that they stand for; what stood still is left out.
        params={"loss": "polynomial_relative", "polynomial_relative.slope0": 1.0, "training.learning_rate": 0.01},
        config=TrialConfig(
            dataset="pets",
            model="wsabie",
            loss="polynomial_relative",
            loss_parameters={"coefficients": [0.2, 1.0]},
            training=TrainingConfig(learning_rate=0.01, weight_decay=0.5),
            model_parameters={"radius": 1.0},
        ),
        created=0.0,
        epochs={1: {"val/rsum": 1.0}, 3: {"val/rsum": 2.0}},
    )
    shape = {"slope0": 1.0, "coefficients": [0.2, 1.0]}
    assert trial.parameters == {"loss": "polynomial_relative", **shape, "training.learning_rate": 0.01}
    assert trial.parameters_at_best == trial.parameters
    assert trial.loss_parameters_at_best == {"coefficients": [0.2, 1.0]}


def test_a_new_start_has_no_outcome_until_it_ends() -> None:
    ended = happened("experiment_ended", outcome="budget_spent", ended_by="hours")
    history = History.of([started(HERE, {"cpus": 1}), ended])
    assert (history.outcome, history.ended_by) == ("budget_spent", "hours")
    history.apply(started(HERE, {"cpus": 1}))
    assert (history.outcome, history.ended_by) == (None, None)


def test_an_opening_of_the_test_split_for_a_repeat_is_a_look_whatever_else_it_is_for(ledger: Ledger) -> None:
    searched = add_trial(ledger, [1.0])
    repeat = add_repeat(ledger, searched, 1, 7, 1.0)
    open_test(ledger, [searched])
    assert (ledger.history.test_openings, ledger.history.confirm_looks) == ({"pets": 1}, {})
    open_test(ledger, [searched, repeat])
    assert (ledger.history.test_openings, ledger.history.confirm_looks) == ({"pets": 2}, {"pets": 1})


@pytest.mark.parametrize(
    ("confirm", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({"top": 3, "seeds": 5}, BegunConfirm(), id="as the defaults are"),
        pytest.param({"verdict": "seeds", "baseline": "nt_xent"}, BegunConfirm("nt_xent", "seeds"), id="with keys"),
        pytest.param({"smallest_difference": 0.5}, BegunConfirm(smallest_difference=0.5), id="a difference"),
    ],
)
def test_a_confirmation_keeps_what_it_was_begun_with(confirm: Any, expected: BegunConfirm | None) -> None:
    assert BegunExperiment.of({"name": "x", "confirm": confirm}).confirm == expected


@pytest.mark.parametrize(
    ("gpus", "share"), [("auto", None), (None, None), (0, None), (0.0, None), (0.25, 0.25), (2, 2.0)]
)
def test_a_trial_has_gpus_where_their_number_is_known(gpus: Any, share: float | None) -> None:
    assert BegunExperiment.of({"name": "x", "resources": {"gpus": gpus}}).gpus == share


@pytest.mark.parametrize("values", [{}, {"name": "x"}, {"name": "x", "search": {"seed": None}}])
def test_what_a_journal_does_not_say_is_named_when_it_is_asked_for(values: dict[str, Any]) -> None:
    history = History(experiment=BegunExperiment.of(values))
    assert bool(history.experiment) is bool(values)
    with pytest.raises(UserError, match=r"has no search\.metric"):
        _ = history.metric
    with pytest.raises(UserError, match=r"has no search\.seed"):
        _ = history.seed
