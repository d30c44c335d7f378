"""Ray's autoscaler (version 2) brings a search its machines: from one worker, and from none.

The cluster is what ``ray/aws.yaml`` describes, a head that runs no trials and workers that come as trials wait, with
Ray's own simulated provider, whose machines are processes of this one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator.machines.cluster import WAITING
from tests.deploy.files import ROOT
from tests.deploy.network import Network
from tests.faults.searches import grid
from tests.integration.search_process import command, history
from tests.support.hosts import Host, ray_command, ray_environment
from tests.support.waiting import wait_until

pytestmark = pytest.mark.proof

MOST = 2
TEMPERATURES = [0.3, 0.05, 0.2, 0.1]
PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
HEAD_ID = "f" * 51 + "00000"


@pytest.fixture
def host(short_path: Path) -> Iterator[Host]:
    """All processes of the simulated machines, which end with it."""
    # By this name Ray finds the address that all of them have.
    with Network(short_path, ["localhost"]) as network:
        yield network.hosts["localhost"]


def cluster(workers: int) -> str:
    """Return the file of a cluster that begins with some workers."""
    kinds = {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "worker": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": workers, "max_workers": MOST},
    }
    provider = {"type": "external", "module": PROVIDER, "launch_multiple": True, "head_node_id": HEAD_ID}
    values = {
        "cluster_name": "icr",
        "provider": {**provider, "gcs_address": "127.0.0.1:6379"},
        "available_node_types": kinds,
        "head_node_type": "ray.head.default",
        "max_workers": MOST,
        "idle_timeout_minutes": 0.1,
        "upscaling_speed": 1.0,
        "auth": {},
        # Nothing is installed or started over SSH here.
        **{f"{part}setup_commands": [] for part in ("", "head_", "worker_")},
        **{f"{part}_start_ray_commands": [] for part in ("head", "worker")},
        **{name: [] for name in ("initialization_commands", "cluster_synced_files", "rsync_exclude", "rsync_filter")},
        "file_mounts": {},
        "head_node": {},
        "worker_nodes": {},
        "docker": {},
        "file_mounts_sync_continuously": False,
    }
    return yaml.safe_dump(values)


def workers_of(host: Host) -> int:
    """Return how many workers run: each node has one raylet, the head, too."""
    return sum("/raylet/raylet " in line for line in host.run("ps", "-ewwo", "args").splitlines()) - 1


@pytest.mark.parametrize("workers", [0, 1])
def test_a_search_gets_the_machines_that_its_waiting_trials_want(short_path: Path, host: Host, workers: int) -> None:
    base = short_path
    (base / "cluster.yaml").write_text(cluster(workers))
    log = base / "log"
    fake = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_enable_autoscaler_v2": "1"}
    own = {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID, "RAY_CLOUD_INSTANCE_ID": HEAD_ID}
    # On a busy machine the head takes longer to answer than the 5 s that Ray waits.
    fake |= {"RAY_gcs_rpc_server_connect_timeout_s": "60", WAITING: str(MOST), "PYTHONPATH": str(ROOT)}
    environment = {**ray_environment(base, "secret-of-this-test"), **fake}
    head = [word for word in ray_command("--head", "--include-dashboard=false") if not word.startswith("--num-cpus")]
    options = ["--num-cpus=0", "--port=6379", "--node-ip-address=127.0.0.1", f"--temp-dir={base}/r"]
    config = f"--autoscaling-config={base}/cluster.yaml"
    host.start([*head, *options, config], environment | own, log)
    wait_until(lambda: host.hears("127.0.0.1", 6379), "the head listens", log)
    wait_until(lambda: workers_of(host) == workers, "the first workers are there", log)
    experiment = grid(TEMPERATURES, training={"epochs": 20})
    search = command(base / "runs", experiment, 1.0, "127.0.0.1:6379", str(base / "searches"))
    started = host.start(search, environment, log)
    wait_until(lambda: workers_of(host) == MOST, "as many workers run as trials wait for", log)
    waited = "no machine of the cluster runs trials yet" in log.read_text()
    assert waited == (workers == 0)
    assert started.wait(400) == 0, log.read_text()[-4000:]
    assert history(base).finished and len(history(base).trials) == len(TEMPERATURES)
    wait_until(lambda: workers_of(host) == workers, "machines that nobody needs are given back", log)
