"""The experiment of a journal, as far as every version knows its keys."""

from typing import Any

import pytest

from orchestrator.journal.begun_experiment import BegunConfirm, BegunExperiment
from orchestrator.journal.history import History, NoStartError


@pytest.mark.parametrize(
    ("confirm", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({"top": 3, "seeds": 5}, BegunConfirm(), id="before the key was there"),
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
    with pytest.raises(NoStartError, match=r"has no search\.metric"):
        _ = history.metric
    with pytest.raises(NoStartError, match=r"has no search\.seed"):
        _ = history.seed
