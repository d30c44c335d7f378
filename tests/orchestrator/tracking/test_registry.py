"""Registering beside others: whoever comes between two requests, each model has one version and the best the alias."""

import fcntl
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from orchestrator.journal.ledger import Ledger
from orchestrator.tracking import registry
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.connection import find_run
from orchestrator.tracking.registry import LOCK, Registered, RegistryError, register, register_all
from orchestrator.tracking.store import Store
from orchestrator.tracking.view import comparison_page
from orchestrator.winners.winners import CARD, CHAMPIONS, Champion
from tests.support.experiments import add_trial

STRANGE = 'bob\'s "pets" 100%_\\'


@pytest.fixture
def output(output: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An output folder whose database has the runs of three trials, the last of them of a strangely named dataset."""
    add_trial(ledger, [20.0])
    add_trial(ledger, [30.0])
    add_trial(ledger, [10.0], dataset=STRANGE)
    Store(default_uri(output), output, output / "tiny", "tiny").deliver(ledger.history, ledger.history.trials)

    def save(packed: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "MLmodel").write_text("flavors: {}")

    # The model itself, whose packing takes seconds, is nobody's concern here.
    monkeypatch.setattr(registry, "save_model", save)
    return output


def champion_of(number: int, value: float, **changes: Any) -> Champion:
    champion = Champion("pets", "tiny", f"pets-vsepp-nt_xent-{number:04d}", False, "val/rsum", value, "d1")
    return replace(champion, **changes)


LOW, HIGH = champion_of(0, 20.0), champion_of(1, 30.0)


def versions(client: MlflowClient, name: str = "icr-pets") -> dict[int, float]:
    return {int(v.version): float(v.tags["value"]) for v in client.search_model_versions(f"name='{name}'")}


def champion(client: MlflowClient, name: str = "icr-pets") -> int:
    return int(client.get_model_version_by_alias(name, "champion").version)


def put(output: Path, one: Champion) -> Registered:
    return register(default_uri(output), output, one)


REQUESTS = (
    "search_model_versions",
    "get_experiment_by_name",
    "search_runs",
    "log_artifacts",
    "create_registered_model",
    "create_model_version",
    "delete_model_version",
    "search_registered_models",
    "set_registered_model_alias",
)
"""What registering asks of MLflow."""


def interrupt(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any], *, at: int = 0, methods: Sequence[str] = REQUESTS
) -> list[str]:
    """Let somebody else act just before the request of this index; return the requests, a list that grows."""
    made: list[str] = []

    def wrap(name: str) -> None:
        original = getattr(MlflowClient, name)

        def request(self: MlflowClient, *arguments: Any, **named: Any) -> Any:
            made.append(name)
            if len(made) == at + 1:
                act()
            return original(self, *arguments, **named)

        monkeypatch.setattr(MlflowClient, name, request)

    for name in methods:
        wrap(name)
    return made


@pytest.mark.parametrize("theirs", [20.0, 30.0, 10.0], ids=["the same", "a higher one", "a lower one"])
def test_whoever_comes_between_the_best_is_champion_once(output: Path, client: MlflowClient, theirs: float) -> None:
    at, done = 0, False
    while not done:
        # Of another dataset each time, and so another model.
        mine = replace(LOW, dataset=f"pets{at}")
        other = replace(mine, value=theirs)
        with pytest.MonkeyPatch.context() as patch:
            made = interrupt(patch, lambda other=other: put(output, other), at=at)
            registered = put(output, mine)
            done = len(made) <= at
        name = f"icr-pets{at}"
        if not done:
            assert sorted(versions(client, name).values()) == sorted({20.0, theirs}), f"before request {at}"
            assert versions(client, name)[champion(client, name)] == max(20.0, theirs), f"before request {at}"
            assert registered.is_champion == (theirs <= 20.0), f"before request {at}"
        at += 1
    assert at > 8, "there are that many requests"


def test_a_version_that_goes_is_passed_over(
    output: Path, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(output, HIGH)
    client.delete_registered_model_alias("icr-pets", "champion")
    alias = ["set_registered_model_alias"]
    interrupt(monkeypatch, lambda: client.delete_model_version("icr-pets", "1"), methods=alias)
    assert put(output, LOW) == Registered("icr-pets", 2, True)


def test_an_alias_that_somebody_else_keeps_moving_is_said(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(output, LOW)
    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", lambda *arguments: None)
    with pytest.raises(RegistryError, match="does not stay where it is put"):
        put(output, HIGH)


def test_the_order_of_registering_does_not_matter(output: Path, client: MlflowClient) -> None:
    other = champion_of(0, 5.0, data_digest="d2")
    for one in (HIGH, LOW, other, HIGH, LOW):
        put(output, one)
    assert versions(client) == {1: 30.0, 2: 20.0, 3: 5.0}, "each once"
    assert champion(client) == 1, "other data never move the alias"


def test_a_dataset_in_the_wrong_order_does_not_take_the_alias(output: Path, client: MlflowClient) -> None:
    """The same captions with image rows in reverse order became the champion over a version with 131."""
    put(output, replace(NOISY, above_chance=True))
    broken = replace(NOISY, trial=HIGH.trial, value=13.8, data_digest="d2", above_chance=False)
    assert put(output, broken) == Registered("icr-pets", 2, False, "its test rsum is not above chance")
    other = put(output, replace(broken, data_digest="d3", above_chance=True))
    assert other.reason == "version 1 has other data; move the alias in MLflow if this one counts"
    assert champion(client) == 1


def test_nothing_below_chance_is_champion_and_the_first_that_is_above_it_is(output: Path, client: MlflowClient) -> None:
    assert not put(output, replace(LOW, above_chance=False)).is_champion
    assert client.search_registered_models()[0].aliases == {}
    assert put(output, replace(HIGH, data_digest="d2", above_chance=True)).is_champion


def test_the_alias_stays_where_a_person_put_it(output: Path, client: MlflowClient) -> None:
    put(output, HIGH)
    put(output, replace(LOW, data_digest="d2"))
    client.set_registered_model_alias("icr-pets", "champion", "2")
    put(output, HIGH)
    assert champion(client) == 2, "now the other data compete"
    client.create_model_version("icr-pets", "file:///elsewhere", tags={"value": "high"})
    client.set_registered_model_alias("icr-pets", "champion", "3")
    put(output, HIGH)
    assert champion(client) == 3


# Welch's test has p = 0.045 at a lead of 2.8, and p = 0.034 at a lead of 3.
NOISY = replace(LOW, confirmed=True, std=1.6667, seeds=5)


@pytest.mark.parametrize(
    ("first", "lead", "changes", "takes"),
    [
        pytest.param(NOISY, 1.0, {}, False, id="within the noise"),
        pytest.param(NOISY, 2.8, {}, False, id="a little within the noise"),
        pytest.param(NOISY, 3.0, {}, True, id="beyond the noise"),
        pytest.param(NOISY, 1.0, {"std": 0.1, "seeds": 10}, False, id="only one is certain"),
        pytest.param(NOISY, 1.0, {"std": None}, True, id="without a deviation"),
        pytest.param(NOISY, 100.0, {"confirmed": False}, False, id="not confirmed"),
        pytest.param(NOISY, -1.0, {}, False, id="lower"),
        pytest.param(NOISY, 100.0, {"data_digest": "d2"}, False, id="other data, and higher"),
        pytest.param(NOISY, 100.0, {"above_chance": False}, False, id="not above chance"),
        pytest.param(NOISY, 100.0, {"above_chance": True}, True, id="above chance"),
        pytest.param(NOISY, -10.0, {"data_digest": "d2"}, False, id="other data"),
        pytest.param(NOISY, -10.0, {"metric": "val/i2t_r1"}, False, id="another metric"),
        pytest.param(LOW, 0.0, {}, False, id="a tie"),
        pytest.param(LOW, 0.1, {}, True, id="neither confirmed, and higher"),
        pytest.param(HIGH, -10.0, {"confirmed": True, "std": 5.0, "seeds": 2}, True, id="confirmed alone"),
    ],
)
def test_the_alias_moves_only_to_a_lead_beyond_the_noise_of_the_seeds(
    output: Path, first: Champion, lead: float, changes: dict[str, Any], takes: bool
) -> None:
    put(output, first)
    trial = LOW.trial if first is HIGH else HIGH.trial
    challenger = put(output, replace(first, trial=trial, value=first.value + lead, **changes))
    assert (challenger.version, challenger.is_champion) == (2, takes)
    assert put(output, first).is_champion is not takes, "also when the earlier one is registered again"


def test_a_version_has_both_deviations_and_one_of_older_releases_is_compared(
    output: Path, client: MlflowClient
) -> None:
    put(output, NOISY)
    tags = client.get_model_version("icr-pets", "1").tags
    assert (tags["std"], tags["seeds"]) == ("1.6667", "5")
    assert float(tags["sd"]) == pytest.approx(1.6667 * (5 / 4) ** 0.5)
    client.delete_model_version_tag("icr-pets", "1", "sd")
    assert not put(output, replace(NOISY, trial=HIGH.trial, value=NOISY.value + 2.8)).is_champion
    assert put(output, replace(NOISY, trial=HIGH.trial, value=NOISY.value + 3.0)).is_champion
    put(output, LOW)
    assert not client.get_model_version("icr-pets", "4").tags.keys() & {"std", "sd", "seeds"}


def test_leads_within_the_noise_do_not_add_up(output: Path) -> None:
    put(output, NOISY)
    assert not put(output, replace(NOISY, trial=HIGH.trial, value=LOW.value + 2)).is_champion
    # Compared with the champion, not with the second version.
    assert put(output, replace(NOISY, trial=HIGH.trial, value=LOW.value + 4)).is_champion


def test_a_version_that_a_person_made_is_no_champion_of_ours(output: Path, client: MlflowClient) -> None:
    put(output, LOW)
    client.create_model_version("icr-pets", "file:///elsewhere", tags={"value": "high"})
    assert put(output, LOW).is_champion


def test_processes_that_share_a_folder_take_turns(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = output / "tiny" / CHAMPIONS / "pets" / CARD
    card.parent.mkdir(parents=True)
    card.write_text(json.dumps(asdict(LOW)))
    seen = []

    def look() -> None:
        with (output / LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                seen.append("held")

    interrupt(monkeypatch, look, methods=["create_model_version"])
    registered, problems = register_all(default_uri(output), output / "tiny")
    assert ([one.version for one in registered], problems, seen) == ([1], [], ["held"])


def test_a_comparison_makes_no_database(tmp_path: Path) -> None:
    assert comparison_page(default_uri(tmp_path), [("tiny", LOW.trial), ("tiny", HIGH.trial)]) is None
    assert list(tmp_path.iterdir()) == []


def test_runs_are_found_whatever_characters_the_ids_of_their_trials_have(output: Path, client: MlflowClient) -> None:
    trial = f"{STRANGE}-vsepp-nt_xent-0000"
    done = put(output, Champion(STRANGE, "tiny", trial, False, "val/rsum", 10.0, "d1"))
    assert (done.version, done.is_champion) == (1, True)
    page = comparison_page(default_uri(output), [("tiny", trial), ("tiny", LOW.trial)])
    assert page.startswith("/#/compare-runs?runs=%5B%22")
    experiment = client.get_experiment_by_name("tiny")
    for name in (LOW.trial, HIGH.trial, trial):
        assert find_run(client, experiment.experiment_id, name).data.tags["trial"] == name
    for other in ("x", "'"):
        assert find_run(client, experiment.experiment_id, LOW.trial.replace("_", other)) is None
