"""A head that is started again, as by ``docker compose restart ray``, ends a search with a sentence of ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.network import Network
from tests.faults.searches import tiny
from tests.integration.search_process import command, history
from tests.support.hosts import ROOT, ray_command, ray_environment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof


@pytest.fixture
def network(short_path: Path) -> Iterator[Network]:
    with Network(short_path, ("head", "driver")) as made:
        yield made


def test_a_search_ends_in_order_where_its_head_is_started_again(network: Network) -> None:
    base, (head, driver) = network.shared, network.hosts.values()
    # On a busy machine the head takes longer to answer than the 5 s that Ray waits.
    environment = {**ray_environment(base, "secret-of-this-test"), "RAY_gcs_rpc_server_connect_timeout_s": "60"}
    log, said, address = base / "log", base / "said", f"{head.address}:6379"
    options = [f"--node-ip-address={head.address}", "--port=6379", f"--temp-dir={base / 'h'}"]
    begin = ray_command("--head", "--include-dashboard=false", *options)
    first = head.start(begin, environment, log)
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
    head.start(begin, environment, log)
    assert started.wait(240) == 1, said.read_text()[-4000:]
    last = said.read_text().splitlines()[-1]
    assert f"Ray is gone (its head at {address} has ended)" in last, said.read_text()[-4000:]
    assert "resume with the same command" in last
    assert "StackTrace" not in said.read_text()
    assert history(base).outcome is None and (base / "runs" / "tiny" / "lock").read_text() == ""
