"""Machines: what cannot be joined is refused before Ray is imported, and a trial has to fit one machine."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import orchestrator
from orchestrator.machines.cluster import (
    REVISION,
    WAITING,
    Cluster,
    ClusterError,
    Node,
    alive,
    check_fits,
    count_waiting,
    find_head,
    git_revision,
    ignored_address,
    prepare_joining,
    total,
)
from orchestrator.storage.bucket import StorageError
from tests.support.bucket import refusing_port
from trainables.errors import ConfigError


@pytest.fixture
def head() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.proof
def test_an_address_that_answers_is_taken(head: str, tmp_path: Path) -> None:
    assert find_head(head, {}) == head
    assert find_head("auto", {"RAY_ADDRESS": head}) == head
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"{head}\n")
    assert find_head("auto", {"RAY_TMPDIR": str(tmp_path)}) == head
    assert Cluster(head).resolved() == Cluster(head)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1", "must be host:port"),
        (":6379", "must be host:port"),
        ("head:ray", "must be host:port"),
        ("head:²", "must be host:port"),
        ("head..domain:6379", "no Ray cluster answers: it is no name of a host; start its head"),
        ("ray://head:10001", r"ray start --address=HOST:6379"),
        ("http://head:8265", r"ray start --address=HOST:6379"),
        ("auto", "this machine is in no Ray cluster"),
        ("127.0.0.1:FREE", "no Ray cluster answers: Connection refused; start its head"),
    ],
)
def test_an_address_that_does_not_is_refused_with_the_way_out(address: str, message: str, tmp_path: Path) -> None:
    with refusing_port() as port, pytest.raises(ClusterError, match=message):
        find_head(address.replace("FREE", str(port)), {"RAY_TMPDIR": str(tmp_path)})


def test_more_trials_wait_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WAITING, raising=False)
    assert Cluster().resolved().waiting == 1
    monkeypatch.setenv(WAITING, "8")
    assert Cluster().resolved().waiting == 8
    for nonsense in ("0", "-1", "many", "1.5"):
        with pytest.raises(ClusterError, match=f"{WAITING}={nonsense}: must be a whole number of at least 1"):
            count_waiting({WAITING: nonsense})


@pytest.mark.parametrize(
    ("environ", "file", "mode"),
    [
        ({}, False, None),
        ({}, True, "token"),
        ({"RAY_AUTH_TOKEN": "t"}, False, "token"),
        ({"RAY_AUTH_MODE": "disabled"}, True, "disabled"),
        ({"RAY_AUTH_MODE": "token"}, True, "token"),
    ],
    ids=["no token", "token file", "token itself", "turned off", "turned on"],
)
def test_a_token_that_is_there_is_used(environ: dict[str, str], file: bool, mode: str | None, tmp_path: Path) -> None:
    path = tmp_path / "auth_token"
    if file:
        path.write_text("t")
    environ = {"RAY_AUTH_TOKEN_PATH": str(path), **environ}
    prepare_joining(environ)
    assert environ.get("RAY_AUTH_MODE") == mode


def test_a_token_that_is_asked_for_and_not_there_is_refused(tmp_path: Path) -> None:
    environ = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "none")}
    with pytest.raises(ClusterError, match=f"no token: copy the token of the cluster's head to {tmp_path}/none"):
        prepare_joining(environ)


def test_a_cluster_that_is_not_joined_is_said() -> None:
    named = {"RAY_ADDRESS": "head:6379"}
    assert ignored_address(Cluster(), named) == (
        "RAY_ADDRESS=head:6379 is not used: a Ray of our own starts on this machine; join with --address auto"
    )
    assert ignored_address(Cluster("head:6379"), named) is None
    assert ignored_address(Cluster(), {}) is None


def test_a_folder_becomes_the_storage(tmp_path: Path) -> None:
    cluster = Cluster(storage=str(tmp_path / "shared")).resolved()
    cluster.checkpoints(tmp_path / "runs" / "tiny")
    assert (tmp_path / "shared" / "tiny" / "trials").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file/tiny/trials: cannot be written: Not a directory"):
        Cluster(storage=str(tmp_path / "file")).resolved().checkpoints(tmp_path / "runs" / "tiny")


@pytest.mark.parametrize(
    ("storage", "below"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("/shared", "/shared/quick", id="folder"),
        pytest.param("s3://bucket", "s3://bucket/quick", id="bucket"),
        pytest.param(
            "s3://b/a?endpoint_override=http://s3:1", "s3://b/a/quick?endpoint_override=http://s3:1", id="query"
        ),
    ],
)
def test_a_folder_of_the_storage(storage: str | None, below: str | None) -> None:
    assert Cluster("head:6379", storage).below("quick") == Cluster("head:6379", below)


def test_a_storage_is_the_same_place_by_another_region(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Cluster(storage="s3://bucket/a?endpoint_override=http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    after = Cluster(storage="s3://bucket/a?endpoint_override=http://127.0.0.1:9000&region=us-east-2")
    assert before.place == after.place
    assert before.place != Cluster(storage="s3://bucket/b?endpoint_override=http://127.0.0.1:9000").place
    assert Cluster(storage="here").place != Cluster().place


BARE, SMALL, LARGE = Node("bare", 16, 0), Node("small", 2, 1), Node("large", 8, 4)


def told(name: str, resources: dict[str, float], *, is_alive: bool = True) -> dict[str, object]:
    return {"NodeManagerHostname": name, "Alive": is_alive, "Resources": {"memory": 1e9, **resources}}


def test_machines_that_are_gone_do_not_count() -> None:
    nodes = alive([told("bare", {"CPU": 16}), told("gone", {"CPU": 64, "GPU": 8}, is_alive=False), told("head", {})])
    assert nodes == [BARE, Node("head", 0, 0)]
    assert total([BARE, SMALL, LARGE]) == {"CPU": 26, "GPU": 5}


@pytest.mark.parametrize(
    ("cpus", "gpus", "nodes", "key", "asked", "largest"),
    [
        (17, 0, [BARE, BARE], "cpus", "17 CPUs", BARE),
        (10, 1, [BARE, SMALL, LARGE], "cpus", "10 CPUs and 1 GPUs", LARGE),
        (1, 2, [BARE, SMALL, SMALL], "gpus", "1 CPUs and 2 GPUs", SMALL),
    ],
    ids=["CPUs of two machines", "CPUs and GPUs of two machines", "GPUs of two machines"],
)
def test_a_trial_that_fits_no_machine_is_refused(
    cpus: float, gpus: float, nodes: list[Node], key: str, asked: str, largest: Node
) -> None:
    for less, fewer in ((largest.cpus, 0), (largest.cpus, largest.gpus), (0.5, largest.gpus / 4)):
        check_fits(less, fewer, nodes)
    there = f"{largest.name}, has {largest.cpus} CPUs and {largest.gpus} GPUs"
    message = rf"^resources\.{key}: a trial asks for {asked} of one .* {there}; lower it with --set resources\.{key}="
    with pytest.raises(ConfigError, match=message):
        check_fits(cpus, gpus, nodes)


def test_the_revision_is_of_the_repository_or_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(REVISION, "abc123")
    assert git_revision() != "abc123"
    monkeypatch.setattr(orchestrator, "__file__", str(tmp_path / "orchestrator" / "__init__.py"))
    assert git_revision() == "abc123"
    monkeypatch.setenv(REVISION, "")
    assert git_revision() is None
