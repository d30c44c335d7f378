"""Searches over two hosts: one of them dies, and the search does not; a head starts anew, and it ends in order."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.journal.directory import read_places
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.trial import TrialState
from orchestrator.results.answers import summarise
from tests.deploy.network import Network
from tests.faults.invariants import assert_ended_once
from tests.faults.searches import grid, tiny
from tests.integration.search_process import command, history
from tests.support.bucket import CREDENTIALS, s3_server
from tests.support.fake_workload import curve
from tests.support.hosts import ROOT, Host, ray_command, ray_environment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

TEMPERATURES = [0.3, 0.05, 0.2, 0.1]
EPOCHS = 10


@pytest.fixture
def network(short_path: Path) -> Iterator[Network]:
    with Network(short_path, ("first", "second")) as made:
        yield made


def head_command(head: Host, base: Path) -> list[str]:
    options = [f"--node-ip-address={head.address}", "--port=6379", f"--temp-dir={base / 'ray'}"]
    return ray_command("--head", "--include-dashboard=false", *options)


def hosts_that_report(base: Path) -> set[str]:
    """Return the hosts of the processes that train trials, as live pages show them."""
    return {place.host for place in read_places(base / "runs" / "tiny").values()}


def test_a_search_outlives_one_of_its_two_hosts(network: Network) -> None:
    base, (head, worker) = network.shared, network.hosts.values()
    environment = ray_environment(base, "secret-of-this-test") | CREDENTIALS
    log = base / "log"
    # The worker has another disk than the head wherever the test writes.
    worker.run("mount", "-t", "tmpfs", "tmpfs", str(base))
    worker.run("mkdir", str(base / "ray"))
    for host in (head, worker):
        host.run("touch", str(base / "hold"))
    address = f"{head.address}:6379"
    head.start(head_command(head, base), environment, log)
    with s3_server(head.address, 9000, within=head.inside()) as endpoint:
        head.run(sys.executable, "-m", "tests.support.bucket", "make", endpoint)
        wait_until(lambda: worker.hears(head.address, 6379), "the head listens", log)
        join = ray_command(f"--address={address}", f"--node-ip-address={worker.address}")
        joined = worker.start(join, environment, log)
        storage = f"s3://bucket/searches?endpoint_override={endpoint}"
        searching = command(base / "runs", grid(TEMPERATURES, training={"epochs": EPOCHS}), 0.3, address, storage)
        search = head.start(searching, {**environment, "PYTHONPATH": str(ROOT)}, log)
        wait_until(lambda: len([t for t in history(base).running() if t.last_epoch >= 3]) == 2, "two trials run", log)
        wait_until(lambda: hosts_that_report(base) == {"first", "second"}, "each host says what it does", log)
        assert joined.poll() is None
        running = {trial.id for trial in history(base).running()}
        # Nothing comes through any more, not even that a connection has ended.
        worker.run("ip", "link", "set", "cable", "down")
        worker.kill()
        wait_until(lambda: any(trial.setbacks for trial in history(base).trials.values()), "the death is noticed", log)
        elsewhere = [trial.id for trial in history(base).trials.values() if trial.setbacks]
        (base / "hold").unlink()
        assert search.wait() == 0, log.read_text()[-4000:]
        stored = json.loads(head.run(sys.executable, "-m", "tests.support.bucket", "keys", endpoint))
    assert set(elsewhere) <= running
    check(base, stored)


def check(base: Path, stored: list[str]) -> None:
    """One end a trial, every epoch once and none missing, and the winner of a search that nobody disturbed."""
    records = read_journal(base / "runs" / "tiny" / "journal.jsonl")
    found = History.of(records)
    assert {(trial.state, trial.last_epoch) for trial in found.trials.values()} == {(TrialState.FINISHED, EPOCHS)}
    assert_ended_once(records, found)
    winner = summarise(found)["winners"]["pets"]
    assert (winner["parameters"], winner["val"]["rsum"]) == ({"temperature": 0.05}, curve(0.05, EPOCHS))
    assert winner["test"] == {"rsum": curve(0.05, EPOCHS) - 1}
    kept = list((base / "runs" / "tiny" / "trials").glob("*/epoch_*"))
    assert [path.parent.name for path in kept] == [winner["trial"]], "only the winner's model comes home"
    manifests = [key for key in stored if key.endswith("manifest.json")]
    assert len(manifests) == len(found.trials), "one checkpoint an ended trial"
    assert {key.split("/")[3] for key in manifests} == set(found.trials)


def test_a_search_ends_in_order_where_its_head_is_started_again(network: Network) -> None:
    base, (head, driver) = network.shared, network.hosts.values()
    # On a busy machine the head takes longer to answer than the 5 s that Ray waits.
    environment = {**ray_environment(base, "secret-of-this-test"), "RAY_gcs_rpc_server_connect_timeout_s": "60"}
    log, said, address = base / "log", base / "said", f"{head.address}:6379"
    first = head.start(head_command(head, base), environment, log)
    wait_until(lambda: driver.hears(head.address, 6379), "the head listens", log)
    # As the driver of Compose: a node that runs no trials (deploy/image/join-ray.sh).
    join = ray_command(f"--address={address}", f"--node-ip-address={driver.address}", "--num-cpus=0")
    driver.start([word for word in join if word != "--num-cpus=1"], environment, log)
    # The head's line, then that of the driver's node, which the cluster knows only by then.
    wait_until(lambda: log.read_text().count("Ray runtime started") == 2, "the driver's node is there", log)
    experiment = tiny(training={"epochs": 400}, search={"sampler": "random", "trials": 2})
    search = command(base / "runs", experiment, 0.5, address, str(base / "searches"))
    started = driver.start(search, {**environment, "PYTHONPATH": str(ROOT)}, said)
    wait_until(lambda: any(trial.last_epoch > 2 for trial in history(base).trials.values()), "a trial trains", said)
    # Ray then drains its node for up to 30 s.
    head.run("bash", "-c", "kill -TERM $(pgrep -f 'scripts start --block' | head -1)")
    first.wait(120)
    head.start(head_command(head, base), environment, log)
    assert started.wait(240) == 1, said.read_text()[-4000:]
    last = said.read_text().splitlines()[-1]
    assert f"Ray is gone (its head at {address} has ended)" in last, said.read_text()[-4000:]
    assert "resume with the same command" in last
    assert "StackTrace" not in said.read_text()
    assert history(base).outcome is None and (base / "runs" / "tiny" / "lock").read_text() == ""
