"""The experiment of a journal in its own type: parsed once, and missing where this version refuses it."""

from typing import Any

import pytest

from orchestrator.experiment.experiment import experiment_of, known_experiment
from orchestrator.journal.history import History
from orchestrator.journal.records import ExperimentStarted
from tests.support.experiments import make_experiment
from trainables.errors import ConfigError


def history_of(**changes: Any) -> History:
    experiment = make_experiment().to_dict() | changes
    return History.of([ExperimentStarted(experiment=experiment, data={}, environment={})])


def test_it_is_the_experiment_that_was_begun_and_parsed_once() -> None:
    history = history_of()
    assert experiment_of(history) == make_experiment()
    assert experiment_of(history) is experiment_of(history_of())
    assert experiment_of(history_of(description="another")) is not experiment_of(history)


def test_of_an_experiment_that_is_refused_the_keys_of_all_versions_are_known() -> None:
    refused = history_of(losses=["loss_of_a_plug_in_that_is_gone"])
    with pytest.raises(ConfigError, match="journal of .*loss_of_a_plug_in_that_is_gone"):
        experiment_of(refused)
    assert known_experiment(refused) is None
    assert refused.experiment.losses == ("loss_of_a_plug_in_that_is_gone",)
    assert (refused.name, refused.metric) == (make_experiment().name, make_experiment().search.metric)


def test_before_the_first_start_there_is_none() -> None:
    assert known_experiment(History()) is None
