"""A tracking server that is down, dies, answers with errors, late or never: the search continues and loses nothing.

The server is a real one; what its answers meet on their way is up to a proxy of ours.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.journal.history import History
from orchestrator.journal.trial import TrialState
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.sync import deliver
from tests.faults.driver import Tracking
from tests.faults.invariants import assert_tracked_once
from tests.faults.searches import Searches, grid, tiny, with_store
from tests.faults.troubled_workload import Trouble
from tests.servers.fault_proxy import PASS, Fault, FaultProxy, Kind
from tests.servers.mlflow_server import MlflowServer
from tests.servers.postgres import postgres_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

EXPERIMENT = tiny(training={"epochs": 8})
ANSWER = 3
"""Seconds that the search waits for an answer, so that a server which takes 30 is very slow."""

CREATE, METRICS = "/runs/create", "/runs/log-batch"


@pytest.fixture
def server(tmp_path: Path, store_template: Path) -> Iterator[MlflowServer]:
    """A server that does not run yet, and ends with the test."""
    store = with_store(tmp_path / "server", store_template)
    made = MlflowServer(default_uri(store), store)
    yield made
    made.stop()


@pytest.fixture
def proxy(server: MlflowServer) -> Iterator[FaultProxy]:
    """A proxy to the server, which is started: that takes some seconds."""
    server.start()
    with FaultProxy(server.uri) as made:
        yield made


@pytest.fixture
def tracked(searches: Searches, proxy: FaultProxy) -> Searches:
    """Searches on the server, whose end waits until it has everything."""
    searches.tracking = Tracking(proxy.uri, answer=ANSWER, end=200, pause=2)
    return searches


def count_epochs(history: History) -> int:
    return sum(len(trial.epochs) for trial in history.trials.values())


def more_epochs(searches: Searches, number: int) -> Callable[[History], bool]:
    """Return the condition that so many more epochs have been trained than now."""
    wanted = count_epochs(searches.history()) + number
    return lambda history: count_epochs(history) >= wanted


def assert_tracked(searches: Searches, server: MlflowServer, *before: History, **more: object) -> None:
    assert [trial.state for trial in searches.history().trials.values()] == [TrialState.FINISHED] * 6
    searches.judge(*before, tracking_uri=server.uri, **more)


def test_a_server_that_is_down_at_the_start_and_dies_midway_has_everything_in_the_end(
    searches: Searches, server: MlflowServer
) -> None:
    experiment = grid([0.02, 0.4, 0.3, 0.05, 0.2, 0.45], training={"epochs": 4})
    # The last waits, so that there is a midway however long the server takes to start.
    workload = searches.workload(seconds=0.1, troubles={0.45: Trouble("wait", times=1)})
    searches.tracking = Tracking(server.uri, answer=ANSWER, end=200, pause=2)
    process = searches.start(experiment, workload)
    searches.wait_for(lambda history: count_epochs(history) >= 2, process)
    server.start()
    wait_for_runs(server, 2)
    server.kill()
    searches.wait_for(lambda history: len(history.trials) - len(history.running()) == 5, process)
    workload.go.touch()
    server.start()
    searches.join(process)
    assert searches.printed() == "tracked\n"
    assert_tracked(searches, server)


def wait_for_runs(server: MlflowServer, number: int) -> None:
    client = MlflowClient(tracking_uri=server.uri)

    def have_arrived() -> bool:
        found = client.get_experiment_by_name("tiny")
        return found is not None and len(client.search_runs([found.experiment_id])) >= number

    wait_until(have_arrived, "runs arrive at the server")


def test_no_fault_between_search_and_server_loses_anything_or_is_waited_for(
    tracked: Searches, server: MlflowServer, proxy: FaultProxy
) -> None:
    experiment = grid([0.02, 0.4, 0.3, 0.05, 0.2, 0.45], training={"epochs": 8})
    workload = tracked.workload(seconds=0.1, troubles={0.45: Trouble("wait", epoch=8)})
    # No answer at all comes while these are trained: were one waited for, they would not be.
    proxy.choose(Fault(Kind.HOLD))
    process = tracked.start(experiment, workload)
    proxy.wait_until_met()
    tracked.wait_for(more_epochs(tracked, 12), process)
    # Carried out long after the search has given it up, and has had the run made again.
    proxy.choose(Fault(Kind.SLOW, seconds=30, path=CREATE))
    proxy.wait_until_met()
    # Nothing arrives before the runs are made.
    for fault in (
        Fault(Kind.ERROR),
        Fault(Kind.UNAUTHORIZED),
        Fault(Kind.REFUSE),
        Fault(Kind.LOSE, path=CREATE, times=2),
    ):
        proxy.choose(fault)
        proxy.wait_until_met(2)
    # The last trial ends only now, so that there is more to be sent.
    proxy.choose(Fault(Kind.LOSE, path=METRICS, times=2))
    workload.go.touch()
    proxy.wait_until_met(2)
    proxy.choose(PASS)
    tracked.join(process)
    assert tracked.printed() == "tracked\n"
    proxy.wait_until_idle()
    # What was carried out after the search had ended is found by the next who looks.
    deliver(tracked.output / "tiny", tracked.output, server.uri)
    assert_tracked(tracked, server)


def test_a_server_that_stays_away_gets_it_from_sync(tracked: Searches, server: MlflowServer, proxy: FaultProxy) -> None:
    tracked.tracking = replace(tracked.tracking, end=1)
    proxy.choose(Fault(Kind.UNAUTHORIZED, path=METRICS))
    tracked.finish(EXPERIMENT, tracked.workload())
    assert f"`orchestrator sync tiny --output {tracked.output} --tracking-uri {proxy.uri}`" in tracked.printed()
    proxy.choose(PASS)
    for _ in range(2):
        proxy.choose(Fault(Kind.LOSE, path="/mlflow/", times=2))
        deliver(tracked.output / "tiny", tracked.output, proxy.uri)
        assert_tracked_once(server.uri, tracked.history())
    assert_tracked(tracked, server)


def test_a_driver_killed_between_write_and_acknowledgement_resumes_in_the_same_runs(
    tracked: Searches, server: MlflowServer, proxy: FaultProxy
) -> None:
    workload = tracked.workload(seconds=0.2)
    snapshots: list[History] = []
    for path in (CREATE, METRICS, "/runs/update"):
        proxy.choose(Fault(Kind.HOLD, path=path))
        process = tracked.start(EXPERIMENT, workload)
        proxy.wait_until_met()
        process.kill()
        process.join()
        snapshots.append(tracked.history())
    proxy.choose(PASS)
    tracked.finish(EXPERIMENT, workload)
    assert tracked.printed() == "tracked\n"
    assert_tracked(tracked, server, *snapshots, kills=3)


def test_a_database_server_that_is_started_again_midway_has_everything_without_a_word_on_the_screen(
    searches: Searches,
) -> None:
    """MLflow and SQLAlchemy print a traceback for each connection that was closed."""
    experiment = grid([0.02, 0.4, 0.3, 0.05, 0.2, 0.45], training={"epochs": 4})
    held = {value: Trouble("wait", epoch=2, times=1) for value in (0.02, 0.4)}
    workload = searches.workload(seconds=0.1, troubles=held)
    with postgres_server() as server:
        searches.tracking = Tracking(server.address, answer=60, end=200, pause=2)
        process = searches.start(experiment, workload)
        wait_until(lambda: server.count("metrics") > 0, "the first epochs arrive", workload.log.parent / "stderr")
        server.restart()
        workload.go.touch()
        wait_until(lambda: server.count("metrics") > 20, "others arrive", workload.log.parent / "stderr")
        server.restart()
        searches.join(process)
        assert searches.printed() == "tracked\n"
        assert searches.errors() == ""
        searches.judge(tracking_uri=server.address)
