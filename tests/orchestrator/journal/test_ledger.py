"""The ledger: one terminal state a trial, each epoch once, and a reader knows what the writer knew."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.history import History
from orchestrator.journal.journal import Record, read_journal
from orchestrator.journal.ledger import Ledger, LeftBehindError
from orchestrator.journal.trial import TrialState
from tests.support.experiments import add_trial, make_experiment, start
from tests.support.records import append

EVENTS = st.lists(
    st.tuples(st.sampled_from(["report", "end"]), st.integers(1, 4), st.sampled_from(list(TrialState))), max_size=12
)


@given(events=EVENTS)
def test_a_trial_ends_once_and_has_each_epoch_once_whatever_comes(tmp_path_factory, events) -> None:
    path = tmp_path_factory.mktemp("ledger") / "journal.jsonl"
    ledger = Ledger(path)
    start(ledger, make_experiment())
    trial = add_trial(ledger, [], state=TrialState.RUNNING)
    first_end = None
    for kind, epoch, state in events:
        if kind == "report":
            ledger.report(trial, epoch, {"val/rsum": float(epoch)}, state)
        elif state is not TrialState.RUNNING:
            ledger.end(trial, state, "error")
        if first_end is None and trial.state is not TrialState.RUNNING:
            first_end = trial.state
    ledger.close()
    records = read_journal(path)
    assert trial.state is (first_end or TrialState.RUNNING)
    assert sum(record.get("state", "running") != "running" for record in records) == (first_end is not None)
    epochs = [record["epoch"] for record in records if record["kind"] == "epoch"]
    assert len(epochs) == len(set(epochs)) == len(trial.epochs)
    assert History.of(records) == ledger.history


def test_a_second_process_knows_what_the_first_knew(tmp_path: Path, ledger: Ledger) -> None:
    add_trial(ledger, [1.0, 3.0, 2.0])
    add_trial(ledger, [1.0], state=TrialState.DIVERGED)
    add_trial(ledger, [1.0], state=TrialState.RUNNING)
    ledger.close()
    again = Ledger(tmp_path / "journal.jsonl")
    assert again.history == ledger.history
    assert [trial.id for trial in again.history.running()] == ["pets-vsepp-nt_xent-0002"]
    again.close()


def test_listeners_hear_of_what_the_history_knows(ledger: Ledger) -> None:
    heard: list[tuple[str, int]] = []

    def listen(record: Record) -> None:
        heard.append((record["kind"], len(ledger.history.trials)))

    ledger.listeners.append(listen)
    add_trial(ledger, [1.0])
    assert heard == [("trial_created", 1), ("trial_started", 1), ("epoch", 1)]


def test_the_best_epoch_is_the_first_of_equals(ledger: Ledger) -> None:
    trial = add_trial(ledger, [1.0, 3.0, 3.0, 2.0])
    assert (trial.best_epoch, trial.best_value, trial.last_epoch) == (2, 3.0, 4)
    assert trial.running_best() == {1: 1.0, 2: 3.0, 3: 3.0, 4: 3.0}


def test_after_a_record_that_could_not_be_written_nothing_is(tmp_path: Path, ledger: Ledger, monkeypatch) -> None:
    def full(*arguments: object, **fields: object) -> Record:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ledger._journal, "append", full)
        with pytest.raises(OSError, match=r"No space left on device: .*journal\.jsonl"):
            append(ledger, "limit_noted", message="")
    with pytest.raises(OSError, match="No space left on device"):
        add_trial(ledger, [1.0])
    assert ledger.history.trials == {}
    assert [record["kind"] for record in read_journal(tmp_path / "journal.jsonl")] == ["experiment_started"]


def test_what_many_trials_have_alike_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    ledger = Ledger(path)
    start(ledger, make_experiment())
    first, second = add_trial(ledger, [1.0]), add_trial(ledger, [2.0])
    ledger.close()
    assert first.config.training is second.config.training
    assert first.config == second.config and first.config is not second.config
    # The same text, but made anew by each parse, were it not for the journal.
    names = [next(iter(trial.epochs[1])) for trial in (first, second)]
    assert names[0] is names[1]
    again = History.of(read_journal(path))
    assert again == ledger.history


def test_trainings_that_differ_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "journal.jsonl")
    start(ledger, make_experiment())
    config = make_experiment().trial_config(make_experiment().cells()[0], {})
    rates = [1e-3, 1e-3, 2e-3, 1e-3]
    for number, rate in enumerate(rates):
        ledger.create("study", number, {}, replace(config, training=replace(config.training, learning_rate=rate)))
    found = [trial.config.training.learning_rate for trial in ledger.history.trials.values()]
    ledger.close()
    assert found == rates


def test_a_thread_that_was_left_behind_writes_nothing_more(ledger: Ledger) -> None:
    refused: list[Exception] = []

    def write() -> None:
        try:
            append(ledger, "trial_ended", trial="a", state="failed", error="")
        except LeftBehindError as error:
            refused.append(error)

    ledger.take_over()
    other = threading.Thread(target=write)
    other.start()
    other.join()
    append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
    assert len(refused) == 1
    assert [record["kind"] for record in read_journal(ledger.path)][1:] == ["experiment_ended"]
