"""A search over two hosts that share nothing but an object store; one of them dies, and the search does not."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator.journal.directory import read_places
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import EpochEnded, has_ended
from orchestrator.journal.trial import TrialState
from orchestrator.results.answers import summarise
from tests.integration.search_process import command
from tests.support.bucket import CREDENTIALS, s3_server
from tests.support.experiments import make_experiment
from tests.support.fake_workload import curve
from tests.support.hosts import Host, connect, cut, ray_command, ray_environment, two_hosts, wait_until

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parent.parent.parent
TEMPERATURES = [0.3, 0.05, 0.2, 0.1]
EPOCHS = 30


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts("first", "second") as made:
        yield made


def journal(base: Path) -> History:
    path = base / "runs" / "tiny" / "journal.jsonl"
    return History.of(read_journal(path)) if path.exists() else History()


def hosts_that_report(base: Path) -> set[str]:
    """Return the hosts of the processes that train trials, as live pages show them."""
    return {place.host for place in read_places(base / "runs" / "tiny").values()}


def test_a_host_keeps_its_address_when_the_other_is_gone(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    head, worker = hosts
    others = Host(), Host()
    try:
        connect(*others)
        worker.kill()
        others[1].kill()
        # The kernel takes networks away in the order in which they end, unless an open file holds them.
        is_gone = lambda: others[0].address not in others[0].run("ip", "address")  # noqa: E731
        wait_until(is_gone, "a network is gone", tmp_path / "log")
    finally:
        for host in others:
            host.kill()
    assert head.address in head.run("ip", "address", "show", "cable")


def test_a_search_outlives_one_of_its_two_hosts(hosts: tuple[Host, Host], short_path: Path) -> None:
    base, (head, worker) = short_path, hosts
    environment = ray_environment(base, "secret-of-this-test") | CREDENTIALS
    log = base / "log"
    # Each host has a name of its own, which both can look up.
    names = base / "hosts"
    names.write_text(f"127.0.0.1 localhost\n{head.address} first\n{worker.address} second\n")
    for host in hosts:
        host.run("mount", "--bind", str(names), "/etc/hosts")
    # The worker has another disk than the head wherever the test writes.
    worker.run("mount", "-t", "tmpfs", "tmpfs", str(base))
    worker.run("mkdir", str(base / "ray"))
    for host in hosts:
        host.run("touch", str(base / "hold"))
    head_port = 6379
    address = f"{head.address}:{head_port}"
    options = [f"--node-ip-address={head.address}", f"--port={head_port}", f"--temp-dir={base / 'ray'}"]
    head.start(ray_command("--head", "--include-dashboard=false", *options), environment, log)
    with s3_server(head.address, 9000, within=head.inside()) as endpoint:
        head.run(sys.executable, "-m", "tests.support.bucket", "make", endpoint)
        wait_until(lambda: worker.hears(head.address, head_port), "the head listens", log)
        joined = worker.start(
            ray_command(f"--address={address}", f"--node-ip-address={worker.address}"), environment, log
        )
        experiment = make_experiment(
            losses=["nt_xent"],
            training={"epochs": EPOCHS},
            scheduler={"name": "none"},
            search={"sampler": "grid", "trials": 9, "space": {"nt_xent": {"temperature": {"values": TEMPERATURES}}}},
        )
        (base / "tiny.yaml").write_text(yaml.safe_dump(experiment.to_dict()))
        storage = f"s3://bucket/searches?endpoint_override={endpoint}"
        search = head.start(
            command(base / "runs", base / "tiny.yaml", 0.3, address, storage),
            {**environment, "PYTHONPATH": str(ROOT)},
            log,
        )
        wait_until(lambda: len([t for t in journal(base).running() if t.last_epoch >= 3]) == 2, "two trials run", log)
        wait_until(lambda: hosts_that_report(base) == {"first", "second"}, "each host says what it does", log)
        assert joined.poll() is None
        running = {trial.id: trial.last_epoch for trial in journal(base).running()}
        cut(worker)
        worker.kill()
        died = time.monotonic()
        wait_until(lambda: any(trial.setbacks for trial in journal(base).trials.values()), "the death is noticed", log)
        noticed = time.monotonic() - died
        elsewhere = [trial.id for trial in journal(base).trials.values() if trial.setbacks]
        before = {name: journal(base).trials[name].last_epoch for name in elsewhere}
        (base / "hold").unlink()
        wait_until(
            lambda: all(journal(base).trials[name].last_epoch > before[name] for name in elsewhere),
            "the lost trial resumes",
            log,
        )
        went_on = time.monotonic() - died
        assert search.wait(240) == 0, log.read_text()[-4000:]
        stored = json.loads(head.run(sys.executable, "-m", "tests.support.bucket", "keys", endpoint))
    print(f"noticed after {noticed:.1f} s, ran elsewhere after {went_on:.1f} s")
    assert set(elsewhere) <= set(running)
    check(base, stored)


def check(base: Path, stored: list[str]) -> None:
    """One end a trial, every epoch once and none missing, and the winner of a search that nobody disturbed."""
    records = read_journal(base / "runs" / "tiny" / "journal.jsonl")
    history = History.of(records)
    assert {trial.state for trial in history.trials.values()} == {TrialState.FINISHED}
    ends = Counter(record.trial for record in records if has_ended(record))
    assert ends == {trial: 1 for trial in history.trials}
    epochs = Counter((record.trial, record.epoch) for record in records if isinstance(record, EpochEnded))
    assert epochs == {(trial, epoch): 1 for trial in history.trials for epoch in range(1, EPOCHS + 1)}
    winner = summarise(history)["winners"]["pets"]
    assert (winner["params"], winner["val"]["rsum"]) == ({"temperature": 0.05}, curve(0.05, EPOCHS))
    assert winner["test"] == {"rsum": curve(0.05, EPOCHS) - 1}
    kept = list((base / "runs" / "tiny" / "trials").glob("*/epoch_*"))
    assert [path.parent.name for path in kept] == [winner["trial"]], "only the winner's model comes home"
    manifests = [key for key in stored if key.endswith("manifest.json")]
    assert len(manifests) == len(history.trials), "one checkpoint an ended trial"
    assert {key.split("/")[3] for key in manifests} == set(history.trials)
