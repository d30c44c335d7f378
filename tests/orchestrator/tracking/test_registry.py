"""Registering beside others: whoever comes between two requests, each model has one version and the best the alias."""

import fcntl
import json
import shutil
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
from orchestrator.tracking.registry import LOCK, RegistryError, register, register_all
from orchestrator.tracking.store import Store
from orchestrator.tracking.view import comparison_page
from orchestrator.winners.winners import CARD, CHAMPIONS, Champion
from tests.support.experiments import add_trial, make_experiment, start
from trainables.files import write_whole

STRANGE = 'bob\'s "pets" 100%_\\'


@pytest.fixture
def output(tmp_path: Path, store_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An output folder whose database has the runs of three trials, the last of them of a strangely named dataset."""
    shutil.copy(store_template, tmp_path / "mlflow.db")
    (tmp_path / "tiny").mkdir()
    ledger = Ledger(tmp_path / "tiny" / "journal.jsonl")
    start(ledger, make_experiment())
    add_trial(ledger, [20.0])
    add_trial(ledger, [30.0])
    add_trial(ledger, [10.0], dataset=STRANGE)
    ledger.close()
    Store(default_uri(tmp_path), tmp_path, "tiny").deliver(ledger.history, ledger.history.trials)

    def save(packed: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / "MLmodel").write_text("flavors: {}")

    # The model itself, whose packing takes seconds, is nobody's concern here.
    monkeypatch.setattr(registry, "save_model", save)
    return tmp_path


def champion_of(number: int, value: float, **changes: Any) -> Champion:
    champion = Champion("pets", "tiny", f"pets-vsepp-nt_xent-{number:04d}", False, "val/rsum", value, "d1")
    return replace(champion, **changes)


LOW, HIGH = champion_of(0, 20.0), champion_of(1, 30.0)


def versions(output: Path, name: str = "icr-pets") -> dict[int, float]:
    found = registry.client_of(default_uri(output)).search_model_versions(f"name='{name}'")
    return {int(v.version): float(v.tags["value"]) for v in found}


def champion(output: Path, name: str = "icr-pets") -> int:
    client = registry.client_of(default_uri(output))
    return int(client.get_model_version_by_alias(name, "champion").version)


def put(output: Path, one: Champion) -> registry.Registered:
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
    "get_model_version_by_alias",
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
def test_wherever_another_machine_comes_between_each_is_there_once_and_the_best_is_champion(
    output: Path, theirs: float
) -> None:
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
            assert sorted(versions(output, name).values()) == sorted({20.0, theirs}), f"before request {at}"
            assert versions(output, name)[champion(output, name)] == max(20.0, theirs), f"before request {at}"
            assert registered.is_champion == (theirs <= 20.0), f"before request {at}"
        at += 1
    assert at > 8, "there are that many requests"


def test_a_version_that_goes_meanwhile_is_passed_over(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(output, HIGH)
    client = registry.client_of(default_uri(output))
    client.delete_registered_model_alias("icr-pets", "champion")
    alias = ["set_registered_model_alias"]
    interrupt(monkeypatch, lambda: client.delete_model_version("icr-pets", "1"), methods=alias)
    assert put(output, LOW) == registry.Registered("icr-pets", 2, True)


def test_an_alias_that_somebody_else_keeps_moving_is_said(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(output, LOW)
    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", lambda *arguments: None)
    with pytest.raises(RegistryError, match="does not stay where it is put"):
        put(output, HIGH)


def test_the_order_of_registering_does_not_matter(output: Path) -> None:
    other = champion_of(0, 5.0, data_digest="d2")
    for one in (HIGH, LOW, other, HIGH, LOW):
        put(output, one)
    assert versions(output) == {1: 30.0, 2: 20.0, 3: 5.0}, "each once"
    assert champion(output) == 3, "the newest data count, also when older ones are registered again"


def test_after_a_tie_the_champion_keeps_its_alias_and_a_better_model_takes_it(output: Path) -> None:
    put(output, LOW)
    assert put(output, champion_of(1, LOW.value)) == registry.Registered("icr-pets", 2, False)
    assert champion(output) == 1
    put(output, champion_of(1, LOW.value + 0.1))
    assert champion(output) == 3


@pytest.mark.parametrize(
    ("lead", "changes", "takes"),
    [
        (1.0, {}, False),
        (2.8, {}, False),
        (3.0, {}, True),
        (1.0, {"std": 0.1, "seeds": 10}, False),
        (1.0, {"std": None}, True),
        (1.0, {"confirmed": False}, False),
        (100.0, {"confirmed": False}, False),
        (-1.0, {}, False),
    ],
)
def test_the_alias_moves_only_to_a_lead_beyond_the_noise_of_the_seeds(
    output: Path, lead: float, changes: dict[str, Any], takes: bool
) -> None:
    # Welch's test has p = 0.045 at a lead of 2.8, and p = 0.034 at a lead of 3.
    noisy = replace(LOW, confirmed=True, std=1.6667, seeds=5)
    put(output, noisy)
    challenger = put(output, replace(noisy, trial=HIGH.trial, value=LOW.value + lead, **changes))
    assert challenger == registry.Registered("icr-pets", 2, takes)
    assert put(output, noisy).is_champion is not takes, "also when the earlier one is registered again"


def test_leads_within_the_noise_do_not_add_up(output: Path) -> None:
    noisy = replace(LOW, confirmed=True, std=1.6667, seeds=5)
    put(output, noisy)
    assert not put(output, replace(noisy, trial=HIGH.trial, value=LOW.value + 2)).is_champion
    # Compared with the champion, not with the second version.
    assert put(output, replace(noisy, trial=HIGH.trial, value=LOW.value + 4)).is_champion


def test_a_confirmed_version_takes_the_alias_from_a_higher_one_that_is_not(output: Path) -> None:
    put(output, HIGH)
    assert put(output, replace(LOW, confirmed=True, std=5.0, seeds=2)).is_champion


def test_a_version_that_a_person_made_is_no_champion_of_ours(output: Path) -> None:
    put(output, LOW)
    client = registry.client_of(default_uri(output))
    client.create_model_version("icr-pets", "file:///elsewhere", tags={"value": "high"})
    assert put(output, LOW).is_champion


def test_processes_that_share_a_folder_take_turns(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = output / "tiny" / CHAMPIONS / "pets"
    folder.mkdir(parents=True)
    write_whole(folder / CARD, json.dumps(asdict(LOW)))
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


def test_a_dataset_whose_name_holds_a_quotation_mark_is_registered(output: Path) -> None:
    trial = f"{STRANGE}-vsepp-nt_xent-0000"
    strange = Champion(STRANGE, "tiny", trial, False, "val/rsum", 10.0, "d1")
    done = put(output, strange)
    assert (done.version, done.is_champion) == (1, True)
    page = comparison_page(default_uri(output), [("tiny", trial), ("tiny", LOW.trial)])
    assert page is not None and page.startswith("/#/compare-runs?")


def test_a_run_is_found_by_exactly_its_trial(output: Path) -> None:
    client = MlflowClient(tracking_uri=default_uri(output))
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    for trial in (LOW.trial, HIGH.trial, f"{STRANGE}-vsepp-nt_xent-0000"):
        run = find_run(client, experiment.experiment_id, trial)
        assert run is not None and run.data.tags["trial"] == trial
    assert find_run(client, experiment.experiment_id, LOW.trial.replace("_", "x")) is None
    assert find_run(client, experiment.experiment_id, LOW.trial.replace("nt_xent", "nt'xent")) is None
