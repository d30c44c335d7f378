"""Tracking: whatever happens to search, process or store, MLflow ends up with what the journal says, once."""

import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import MAX_EXPERIMENT_TAG_VAL_LENGTH

from orchestrator.journal.journal import JournalReader
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.results.confirmation_plan import fresh_seeds
from orchestrator.tracking import connection
from orchestrator.tracking import tracker as tracker_module
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.store import Store
from orchestrator.tracking.tracker import Tracker, TrackingProcess
from orchestrator.tracking.view import experiment_tags
from orchestrator.winners.winners import ranks_file, weights_file
from tests.support.child_process import running
from tests.support.experiments import add_repeat, add_trial, begun, make_experiment, open_test, start
from tests.support.records import append
from tests.support.stored_runs import assert_store_agrees, stored
from tests.support.waiting import has_ended, wait_until


@pytest.fixture
def output(output: Path) -> Path:
    (output / "tiny").mkdir()
    return output


@pytest.fixture
def ledger(output: Path) -> Iterator[Ledger]:
    with begun(output / "tiny") as ledger:
        yield ledger


@contextmanager
def session(output: Path, outcome: str | None = "finished", **settings: Any) -> Iterator[Ledger]:
    """Track a start of the search for the length of a ``with`` block, after which everything has been delivered."""
    with closing(Ledger(output / "tiny" / "journal.jsonl")) as ledger:
        tracker = Tracker(default_uri(output), output, ledger.path.parent)
        tracker.start()
        start(ledger, make_experiment(**settings))
        yield ledger
        if outcome is not None:
            ended_by = "trials" if outcome == "finished" else None
            append(ledger, "experiment_ended", outcome=outcome, ended_by=ended_by)
        tracker.close(300)
    assert tracker.problem is None


def test_a_search_is_in_the_store_with_all_that_people_compare(output: Path) -> None:
    with session(output) as ledger:
        winner = add_trial(ledger, [1.0, 3.0, 2.0])
        add_trial(ledger, [1.0], state=TrialState.DIVERGED)
        add_trial(ledger, [1.0], state=TrialState.STOPPED_EARLY, loss="triplet_sh")
        append(ledger, "test_opened", dataset="pets", trials=[winner.id])
        append(ledger, "test_evaluated", trial=winner.id, metrics={"rsum": 2.5})
    assert_store_agrees(ledger.history, output)
    run, steps = stored(output)[winner.id]
    assert (run.data.params["temperature"], run.data.params["training.epochs"]) == ("0.1", "6")
    expected = {"dataset": "pets", "model": "vsepp", "loss": "nt_xent", "seed": "0", "data_digest": "d1"}
    expected |= {"git_revision": "abc", "version.torch": "2", "state": "finished", "winner": "true"}
    expected |= {"protocol": "full", "stage": "search"}
    assert run.inputs.dataset_inputs[0].dataset.name == "pets"
    assert run.data.tags.items() >= expected.items()
    assert steps["test/rsum", 2, 2.5] == 1
    parent = stored(output)[winner.study][0]
    assert (parent.info.status, parent.data.metrics["val/rsum_best"]) == ("FINISHED", 3.0)
    assert run.info.run_name == "0000 nt_xent τ=0.1"
    files = {path.name for path in (output / "artifacts" / "tiny").rglob("*") if path.is_file()}
    assert files == {"experiment.yaml", "config.yaml"}


def test_a_row_of_mlflow_holds_the_scores_of_the_best_epoch_however_the_epochs_arrive(output: Path) -> None:
    with session(output, outcome=None) as ledger:
        trial = add_trial(ledger, [1.0, 3.0, 2.0], state=TrialState.RUNNING)
    assert best_shown(output, trial.id) == (3.0, 2.0)
    with session(output, outcome=None) as ledger:
        for epoch, value in ((4, 5.0), (5, 4.0)):
            state = TrialState.RUNNING if epoch == 4 else TrialState.FINISHED
            ledger.report(ledger.history.trials[trial.id], epoch, {"val/rsum": value, "val/rsum_best": 5.0}, state)
    assert best_shown(output, trial.id) == (5.0, 4.0)
    view = json.loads(experiment_tags(ledger.history)["mlflow.sharedViewState.leaderboard"])
    shown = [column for column in view["selectedColumns"] if column.startswith("metrics.")]
    assert shown and all("_best`" in column or "at_best/" in column or "test/" in column for column in shown)
    assert view["selectedColumns"][:3] == ["tags.`loss`", "tags.`state`", "metrics.`val/rsum_best`"]


def best_shown(output: Path, trial: str) -> tuple[float, float]:
    metrics = stored(output)[trial][0].data.metrics
    return metrics["at_best/rsum"], metrics["at_best/epoch"]


def test_the_run_of_a_study_has_the_best_so_far_and_that_of_a_candidate_the_means(output: Path) -> None:
    with session(output, outcome=None) as ledger:
        first = add_trial(ledger, [1.0, 3.0])
        add_trial(ledger, [9.0], state=TrialState.STOPPED_EARLY)
        add_trial(ledger, [2.0, 5.0])
        add_trial(ledger, [1.0, 4.0])
    for seeds, mean, deviation in ((2, 20.5, 0.707107), (3, 21.0, 1.0)):
        with session(output) as ledger:
            repeats = [add_repeat(ledger, first, seed, seed, 20.0 + seed) for seed in ((0, 1) if seeds == 2 else (2,))]
            open_test(ledger, repeats)
        found = stored(output)
        study, steps = found[first.study]
        best = {step: value for name, step, value in steps if name == "val/rsum_best"}
        assert best == {1: 3.0, 2: 3.0, 3: 5.0, 4: 5.0}
        assert set(steps.values()) == {1}
        (name,) = set(found) - set(ledger.history.trials) - {first.study}
        assert name == f"mean of {seeds} seeds 0000 nt_xent τ=0.1"
        run, _ = found[name]
        metrics, tags = run.data.metrics, run.data.tags
        assert (metrics["val/rsum_best"], metrics["test/rsum"], metrics["seeds"]) == (mean, mean, seeds)
        assert metrics["test/rsum_sd"] == pytest.approx(deviation)
        assert metrics["test/rsum_low"] < mean < metrics["test/rsum_high"]
        assert (run.info.status, tags["verdict"], tags["rank"]) == ("FINISHED", "winner: untested", "1")
        assert "seed" not in tags
        assert tags["mlflow.parentRunId"] == study.info.run_id


def test_a_former_winner_has_neither_the_rank_nor_the_sentence_of_its_verdict(output: Path) -> None:
    raced = {"dataset": "pets", "seeds": None, "trainings": 4, "baseline": None, "looks": 0, "first": 2}

    def confirm(trials: list[Trial], values: list[float]) -> dict[str, tuple[str, str, str]]:
        with session(output, confirm={"top": 2, "trainings": 12}) as ledger:
            append(ledger, "confirmation_planned", candidates=[trial.id for trial in trials], **raced)
            seeds = enumerate(fresh_seeds(ledger.history.seed, 2))
            new = [(t, value) for t, value in zip(trials, values, strict=True) if value]
            open_test(ledger, [add_repeat(ledger, t, i, s, value + i) for i, s in seeds for t, value in new])
        runs = [run for run, _ in stored(output).values() if run.data.tags["kind"] == "candidate"]
        tags = {run.data.tags["candidate"]: run.data.tags for run in runs}
        return {name: (of["verdict"], of["rank"], of["mlflow.note.content"]) for name, of in tags.items()}

    with session(output) as ledger:
        first, second, third, fourth = (add_trial(ledger, [1.0 + n], params={"temperature": 0.1 + n}) for n in range(4))
    verdict, rank, note = confirm([first, second], [30.0, 20.0])[first.id]
    assert (verdict.partition(":")[0], rank) == ("winner", "1")
    assert "beats" in note
    found = confirm([first, third], [0.0, 90.0])
    assert [found[trial.id][1] for trial in (first, second, third)] == ["2", "", "1"]
    assert found[second.id][0] == "not compared"
    assert found[first.id][2].endswith(f"find={first.id}`")
    found = confirm([first, fourth], [0.0, 99.0])
    assert found[third.id][:2] == ("not compared", "")
    assert found[third.id][2].endswith(f"find={third.id}`")


def test_killed_and_started_again_it_resumes_in_the_same_runs(output: Path) -> None:
    with session(output, "interrupted") as ledger:
        add_trial(ledger, [1.0, 2.0])
        name = add_trial(ledger, [1.0, 2.0], state=TrialState.RUNNING).id
    assert_store_agrees(ledger.history, output)
    with closing(Ledger(output / "tiny" / "journal.jsonl")) as ledger:
        # What the next process finds: epochs written down that the killed one did not deliver.
        ledger.report(ledger.history.trials[name], 3, {"val/rsum": 3.0}, TrialState.RUNNING)
    for state in (TrialState.RUNNING, TrialState.FINISHED):
        with session(output) as ledger:
            trial = ledger.history.trials[name]
            ledger.report(trial, trial.last_epoch + 1, {"val/rsum": 4.0}, state)
        assert_store_agrees(ledger.history, output)


def test_epochs_that_a_loss_of_power_took_from_the_journal_are_there_once(output: Path, client: MlflowClient) -> None:
    def deliver(epoch: int) -> str:
        """A store finds two epochs in the journal, and another one while it goes on."""
        with closing(Ledger(output / "tiny" / "journal.jsonl")) as ledger:
            (trial,) = ledger.history.trials.values()
            store = Store(default_uri(output), output, output / "tiny", "tiny")
            store.deliver(ledger.history, [trial.id])
            ledger.report(trial, epoch, {"val/rsum": float(epoch)}, TrialState.RUNNING)
            store.deliver(ledger.history, [trial.id])
            return trial.id

    with begun(output / "tiny") as ledger:
        add_trial(ledger, [1.0, 2.0], state=TrialState.RUNNING)
    journal = output / "tiny" / "journal.jsonl"
    whole = journal.read_bytes()
    deliver(3)
    # The store has the third epoch, which the disk lost.
    journal.write_bytes(whole)
    name = deliver(3)
    (run,) = client.search_runs([client.get_experiment_by_name("tiny").experiment_id], f"tags.trial = '{name}'")
    assert run.data.metrics["epoch"] == 3
    for metric in run.data.metrics:
        steps = [point.step for point in client.get_metric_history(run.info.run_id, metric)]
        assert len(steps) == len({*steps}), f"{metric} has a step twice: {steps}"


class Flaky:
    def __init__(self, client: MlflowClient, draw: random.Random) -> None:
        self._client, self._draw = client, draw

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._draw.random() < 0.15:
                method(*args, **kwargs)
                raise MlflowException("the answer was lost")
            if self._draw.random() < 0.15:
                raise MlflowException("503 try later\nwith more lines")
            return method(*args, **kwargs)

        return call


@pytest.mark.parametrize("seed", range(4))
def test_a_store_that_fails_at_times_ends_up_complete(output: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(tracker_module, "PAUSE", 0.01)
    monkeypatch.setattr(tracker_module, "LONGEST_PAUSE", 0.02)
    connect, draw = connection.connect, random.Random(seed)
    monkeypatch.setattr(connection, "connect", lambda uri, output: Flaky(connect(uri, output), draw))
    with session(output) as ledger:
        for _ in range(3):
            add_trial(ledger, [1.0, 2.0, 3.0])
    assert_store_agrees(ledger.history, output)


def test_a_store_that_never_answers_is_said_and_nothing_waits_for_it(output: Path, ledger: Ledger) -> None:
    (output / "mlflow.db").write_bytes(b"no database at all, but a text of some length" * 100)
    tracker = Tracker(default_uri(output), output, ledger.path.parent)
    add_trial(ledger, [1.0])
    tracker.start()
    wait_until(lambda: tracker.problem is not None)
    tracker.close(1)
    assert "1 run not delivered to MLflow" in tracker.problem
    assert "\n" not in tracker.problem


@pytest.mark.parametrize("earlier", [1000, -1000], ids=["before", "after"])
def test_of_a_run_that_was_made_again_too_late_nothing_stays(output: Path, client: MlflowClient, earlier: int) -> None:
    with session(output) as ledger:
        trial = add_trial(ledger, [1.0, 2.0])
    run = stored(output)[trial.id][0]
    client.create_run(run.info.experiment_id, start_time=run.info.start_time - earlier, tags=run.data.tags)
    Store(default_uri(output), output, output / "tiny", "tiny").deliver(ledger.history, [trial.id], is_over=True)
    assert_store_agrees(ledger.history, output)


class Counting:
    """A client that notes the names of its calls which write a trial's run."""

    NOTED = ("create_run", "log_inputs", "log_batch", "set_tag", "update_run", "set_terminated")

    def __init__(self, client: MlflowClient, calls: list[str]) -> None:
        self._client, self._calls = client, calls

    def __getattr__(self, name: str) -> Any:
        self._calls += [name] if name in self.NOTED else []
        return getattr(self._client, name)


def test_a_trial_that_ends_soon_takes_one_request_of_each_kind(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_module, "PAUSE", 0.01)
    monkeypatch.setattr(tracker_module, "HOLD", 3600.0)
    connect, calls = connection.connect, list[str]()
    monkeypatch.setattr(connection, "connect", lambda uri, output: Counting(connect(uri, output), calls))
    read, passes = Tracker._read, list[None]()
    monkeypatch.setattr(Tracker, "_read", lambda self: passes.append(read(self)))
    # The last batch is of the curve of the study.
    last = ["set_terminated", "log_batch"]
    with session(output) as ledger:
        add_trial(ledger, [1.0])
        wait_until(lambda: calls[-2:] == last)
        calls.clear()
        trial = add_trial(ledger, [], state=TrialState.RUNNING)
        # Passes of the tracker that leave the trial alone, because it has only begun.
        before = len(passes)
        wait_until(lambda: len(passes) >= before + 3)
        assert calls == []
        ledger.report(trial, 1, {"val/rsum": 1.0}, TrialState.FINISHED)
        wait_until(lambda: calls[-2:] == last)
        assert calls == ["create_run", "log_inputs", "log_batch", *last]
    assert_store_agrees(ledger.history, output)
    assert stored(output)[trial.id][0].data.tags["state"] == "finished"


def test_a_trial_that_goes_on_has_its_run_while_it_trains(
    output: Path, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_module, "PAUSE", 0.01)
    monkeypatch.setattr(tracker_module, "HOLD", 0.05)
    with session(output, outcome=None) as ledger:
        trial = add_trial(ledger, [], state=TrialState.RUNNING)
        wait_until(lambda: client.get_experiment_by_name("tiny") is not None)
        wait_until(lambda: trial.id in stored(output))
        assert stored(output)[trial.id][0].info.status == "RUNNING"


def test_what_strangers_wrote_stays_text(output: Path, client: MlflowClient) -> None:
    with session(output, description="*bold* <script>x</script> & \x07") as ledger:
        trial = add_trial(ledger, [1.0], state=TrialState.FAILED, error="\x1b[31m <b>no</b>\x00")
    assert stored(output)[trial.id][0].data.tags["error"] == "\\x1b[31m <b>no</b>\\x00"
    experiment = client.get_experiment_by_name("tiny")
    tags = experiment.tags
    assert tags["mlflow.note.content"] == "\\*bold\\* &lt;script&gt;x&lt;/script&gt; &amp; \\\\x07"
    view = json.loads(tags["mlflow.sharedViewState.leaderboard"])
    assert {"metrics.`val/rsum_best`", "params.`temperature`", "tags.`state`"} <= set(view["selectedColumns"])


def test_a_description_that_is_too_long_for_mlflow_is_cut(output: Path, client: MlflowClient) -> None:
    with session(output, description="*word* " * 4000) as ledger:
        add_trial(ledger, [1.0])
    note = experiment_tags(ledger.history)["mlflow.note.content"]
    assert (len(note), note[-1]) == (MAX_EXPERIMENT_TAG_VAL_LENGTH, "…")
    assert client.get_experiment_by_name("tiny").tags["mlflow.note.content"] == note


@pytest.mark.parametrize("tag", ["weights", "ranks"])
def test_the_files_of_a_trial_are_sent_once_and_only_whole(
    output: Path, client: MlflowClient, ledger: Ledger, tmp_path: Path, tag: str
) -> None:
    trial, other = add_trial(ledger, [1.0]), add_trial(ledger, [2.0])
    ranks = [ranks_file(output / "tiny", trial, split) for split in ("val", "test")]
    *others, last = [weights_file(output / "tiny", trial.id)] if tag == "weights" else ranks
    last.parent.mkdir(parents=True)

    def sent(trial: Trial) -> set[str]:
        Store(default_uri(output), output, output / "tiny", "tiny").deliver(ledger.history, ledger.history.trials)
        run, _ = stored(output)[trial.id]
        return {file.path for file in client.list_artifacts(run.info.run_id)} - {"config.yaml"}

    for file in others:
        file.write_bytes(b"whole")
    assert sent(trial) == set(), "a file is still missing"
    for content in (b"whole", b"changed since"):
        last.write_bytes(content)
        assert (sent(trial), sent(other)) == ({file.name for file in (*others, last)}, set())
    run = stored(output)[trial.id][0]
    assert run.data.tags[tag] == " ".join(file.name for file in (*others, last))
    assert Path(client.download_artifacts(run.info.run_id, last.name, str(tmp_path))).read_bytes() == b"whole"


@pytest.fixture
def tracking(output: Path) -> TrackingProcess:
    return TrackingProcess(default_uri(output), output, output / "tiny")


def begin(tracking: TrackingProcess) -> psutil.Process:
    tracking.start()
    return psutil.Process(tracking._process.pid)


def ignored(process: psutil.Process) -> int:
    """Return which signals a process ignores, as Linux says: bit n - 1 stands for signal n."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("SigIgn")).split()[1], 16)


@pytest.mark.proof
def test_what_was_before_and_meanwhile_is_in_the_store(output: Path, tracking: TrackingProcess, ledger: Ledger) -> None:
    add_trial(ledger, [1.0, 2.0])
    process = begin(tracking)
    add_trial(ledger, [3.0])
    # A batch system may send its signals to every process of a job.
    both = 1 << signal.SIGINT - 1 | 1 << signal.SIGTERM - 1
    wait_until(lambda: ignored(process) & both == both)
    process.send_signal(signal.SIGINT)
    process.terminate()
    add_trial(ledger, [1.0], state=TrialState.DIVERGED)
    append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    tracking.close(300)
    assert tracking.problem is None
    assert not process.is_running()
    assert_store_agrees(ledger.history, output)


@pytest.mark.proof
def test_a_process_that_was_killed_is_replaced_while_the_search_goes_on_and_at_its_end(
    output: Path, tracking: TrackingProcess, client: MlflowClient, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_module, "LOOK_SECONDS", 0.1)
    begin(tracking).kill()
    add_trial(ledger, [1.0, 2.0])
    # Something comes to MLflow before the end of the search.
    wait_until(lambda: client.get_experiment_by_name("tiny") is not None)
    add_trial(ledger, [3.0])
    append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    tracking._is_closing.set()
    tracking._process.kill()
    tracking._process.wait(120)
    tracking.close(300)
    assert tracking.problem is None
    assert_store_agrees(ledger.history, output)


@pytest.mark.proof
def test_a_machine_that_can_start_no_process_leaves_the_delivery_to_sync(
    output: Path, tracking: TrackingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    def begin(self: TrackingProcess) -> None:
        attempts.append(threading.current_thread().name)
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(TrackingProcess, "_begin", begin)
    monkeypatch.setattr(tracker_module, "LOOK_SECONDS", 0.1)
    tracking.start()
    wait_until(lambda: len(attempts) >= 3)
    tracking.close(300)
    assert set(attempts) == {"MainThread", "tracking process"}
    assert tracking.problem == missing(output, "cannot be started (Cannot allocate memory)")


def missing(output: Path, reason: str) -> str:
    command = f"`orchestrator sync tiny --output {output}`"
    return f"the process that delivers to MLflow {reason}; {command} delivers what is missing there"


SEARCH = """
import sys
from pathlib import Path
from orchestrator.tracking.tracker import TrackingProcess
output = Path(sys.argv[1])
tracking = TrackingProcess(sys.argv[2], output, output / "tiny")
tracking.start()
print(tracking._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.proof
@pytest.mark.parametrize("is_delivering", [False, True], ids=["at once", "while it delivers"])
def test_a_search_that_is_killed_takes_the_process_along(output: Path, ledger: Ledger, is_delivering: bool) -> None:
    add_trial(ledger, [1.0])
    # A server that never answers: a process that has connected delivers until the end of the test.
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as asked:
        server.settimeout(300)
        command = [sys.executable, "-c", SEARCH, str(output), f"http://127.0.0.1:{server.getsockname()[1]}"]
        with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as search:
            number = int(search.stdout.readline())
            if is_delivering:
                asked.enter_context(server.accept()[0])
            search.kill()
        wait_until(lambda: has_ended(number))


@pytest.mark.proof
@pytest.mark.parametrize(
    ("program", "seconds", "reason"),
    [
        ("import sys; sys.stdin.readline(); sys.exit(1)", 300.0, "has ended"),
        ("import time; time.sleep(600)", 1.0, "did not answer"),
    ],
)
def test_a_process_that_gives_no_answer_is_said_and_ended(
    output: Path, tracking: TrackingProcess, monkeypatch: pytest.MonkeyPatch, program: str, seconds: float, reason: str
) -> None:
    monkeypatch.setattr(tracker_module, "COMMAND", (sys.executable, "-c", program))
    monkeypatch.setattr(tracker_module, "START_SECONDS", seconds)
    process = begin(tracking)
    tracking.close(0)
    assert tracking.problem == missing(output, reason)
    assert not process.is_running()


@pytest.mark.proof
def test_a_password_is_not_on_the_command_line(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_module, "START_SECONDS", 0.0)
    tracking = TrackingProcess("postgresql://me:secret@127.0.0.1:9/db", output, output / "tiny")
    assert "secret" not in " ".join(begin(tracking).cmdline())
    tracking.close(0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_an_error_that_nobody_foresaw_it_is_not_said_that_all_was_delivered(
    output: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver = Store.deliver

    def fail_late(store: Store, *arguments: Any, is_over: bool = False) -> None:
        deliver(store, *arguments)
        if is_over:
            raise KeyError("results")

    monkeypatch.setattr(Store, "deliver", fail_late)
    add_trial(ledger, [1.0])
    tracker = Tracker(default_uri(output), output, output / "tiny")
    tracker.start()
    tracker.close(300)
    assert "the last records not delivered to MLflow" in str(tracker.problem)


def test_a_journal_that_cannot_be_read_for_a_moment_is_read_later(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_module, "PAUSE", 0.01)
    # As of a disk over the network.
    errors = [OSError(errno.ESTALE, os.strerror(errno.ESTALE))] * 2
    has_news = JournalReader.has_news

    def may_fail(reader: JournalReader) -> bool:
        if errors:
            raise errors.pop()
        return has_news(reader)

    monkeypatch.setattr(JournalReader, "has_news", may_fail)
    with session(output) as ledger:
        add_trial(ledger, [1.0])
    assert_store_agrees(ledger.history, output)


def test_a_damaged_journal_is_said(output: Path, ledger: Ledger) -> None:
    add_trial(ledger, [1.0])
    path = output / "tiny" / "journal.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"?" + content[41:])
    tracker = Tracker(default_uri(output), output, path.parent)
    tracker.start()
    tracker.close(300)
    assert f"{path}: line 1: damaged" in str(tracker.problem)


@pytest.mark.proof
def test_without_mlflow_nothing_is_sent_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_module, "is_installed", lambda extra: extra != "tracking")
    tracking = TrackingProcess(default_uri(tmp_path), tmp_path, tmp_path / "tiny")
    tracking.start()
    tracking.close(1.0)
    assert tracking.problem == (
        "nothing is in MLflow, which is not installed: pip install 'icr-orchestrator[tracking]'; "
        f"then `orchestrator sync tiny --output {tmp_path}` delivers all of it"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proof
def test_mlflow_says_nothing_about_its_own_work() -> None:
    levels = "[logging.getLogger(name).getEffectiveLevel() for name in ('mlflow', 'alembic')]"
    program = f"from orchestrator.tracking import connection; import logging, mlflow; print({levels})"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[40, 40]\n"
