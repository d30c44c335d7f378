"""Storage against a real S3 server: directories whole or not at all, and whatever is wrong is said before a trial."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.journal.lock import AlreadyRunningError
from orchestrator.storage.bucket import ObjectStore, StorageError
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.storage.stores import CLAIM_FILE, BucketStore, ClaimLostError, DriverClaim, FolderStore, actor_scratch
from orchestrator.tuner.callback import Cause, Failure
from tests.support.bucket import CREDENTIALS, free_port, make_bucket, s3_server
from tests.support.fake_workload import report
from trainables.checkpoint import MANIFEST
from trainables.errors import CheckpointError


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("127.0.0.1", free_port()) as address:
        make_bucket(address, "bucket")
        yield address


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(endpoint: str, request: pytest.FixtureRequest) -> ObjectStore:
    made = ObjectStore.parse(
        f"s3://bucket/{request.node.name.replace('[', '/').rstrip(']')}?endpoint_override={endpoint}"
    )
    made.check()
    return made


def directory(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, content in files.items():
        (path / name).write_text(content)
    return path


@pytest.mark.proof
def test_a_directory_comes_back_as_it_was(store: ObjectStore, tmp_path: Path) -> None:
    source = directory(tmp_path / "a", state="1" * 10_000_000, **{MANIFEST: "{}"})
    store.put(source, "x/one")
    assert store.names("x") == [("one",)]
    assert store.names("", depth=2) == [("x", "one")]
    assert store.names("", depth=1) == []
    store.get("x/one", tmp_path / "b")
    assert {path.name: path.read_text() for path in (tmp_path / "b").iterdir()} == {
        "state": "1" * 10_000_000,
        MANIFEST: "{}",
    }
    store.delete("x/one")
    store.delete("x/one")
    assert store.names("x") == []
    with pytest.raises(FileNotFoundError):
        store.get("x/one", tmp_path / "c")


@pytest.mark.proof
def test_without_its_manifest_a_directory_does_not_exist(store: ObjectStore, tmp_path: Path) -> None:
    store.put(directory(tmp_path / "a", state="1"), "x/one")
    assert store.names("x") == []


@pytest.mark.proof
def test_the_manifest_goes_up_last(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded: list[str] = []
    monkeypatch.setattr(ObjectStore, "_upload", lambda self, source, key: uploaded.append(source.name))
    store.put(directory(tmp_path / "a", **{MANIFEST: "{}", "best.pt": "", "state.pt": ""}), "one")
    assert uploaded == ["best.pt", "state.pt", MANIFEST]


@pytest.mark.proof
def test_what_fails_for_a_while_is_tried_again(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload, failures = ObjectStore._upload, [OSError("AWS Error SLOW_DOWN"), OSError("AWS Error NETWORK_CONNECTION")]

    def stumble(self: ObjectStore, source: Path, key: str) -> None:
        if failures:
            raise failures.pop()
        upload(self, source, key)

    monkeypatch.setattr(ObjectStore, "_upload", stumble)
    store.put(directory(tmp_path / "a", **{MANIFEST: "{}"}), "one")
    assert store.names("") == [("one",)]


@pytest.mark.proof
def test_an_address_survives_being_written_down(endpoint: str) -> None:
    given = ObjectStore.parse("s3://bucket/a/b/", {"AWS_ENDPOINT_URL": endpoint})
    assert given.address == f"s3://bucket/a/b?endpoint_override={endpoint}"
    assert ObjectStore.parse(given.address, {}) == given
    assert given.below("c").address == f"s3://bucket/a/b/c?endpoint_override={endpoint}"
    assert ObjectStore.parse("s3://bucket?endpoint_override=host:9000&scheme=http", {}).endpoint == "http://host:9000"
    elsewhere = ObjectStore.parse("s3://bucket/a?region=eu-west-1", {})
    assert elsewhere.address == "s3://bucket/a?region=eu-west-1"
    assert ObjectStore.parse(f"{given.address}&region=eu-west-1", {}).region == "eu-west-1"


PLACE = "must be s3://bucket/prefix"
CREDENTIALS_IN_IT = "credentials do not belong into an address"


@pytest.mark.proof
def test_what_cannot_be_written_says_why(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="there is no such bucket; make it"):
        ObjectStore.parse(f"s3://other?endpoint_override={endpoint}").check()
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StorageError, match=f"{nobody} does not answer: Connection refused"):
        ObjectStore.parse(f"s3://bucket?endpoint_override={nobody}").check()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(StorageError, match="no credentials: set AWS_ACCESS_KEY_ID"):
        ObjectStore.parse(f"s3://bucket?endpoint_override={endpoint}").check()


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.proof)])
def checkpoints(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoints:
    """Both kinds have one contract."""
    if request.param == "bucket":
        return Checkpoints(BucketStore.claimed(request.getfixturevalue("store"), tmp_path))
    (tmp_path / "trials").mkdir()
    return Checkpoints(FolderStore.claimed(tmp_path / "trials"))


def epoch_of(checkpoint: Path | None) -> int | None:
    return None if checkpoint is None else json.loads((checkpoint / "state.pt").read_text())["epoch"]


def test_the_newest_checkpoint_is_found_and_an_ended_trial_keeps_it(checkpoints: Checkpoints, tmp_path: Path) -> None:
    assert checkpoints.latest("a") is None
    for epoch in range(1, 12):
        checkpoints.save("a", report(0.1, epoch))
    checkpoints.save("b", report(0.1, 1))
    assert epoch_of(checkpoints.latest("a")) == 11
    assert epoch_of(checkpoints.latest("b")) == 1
    checkpoints.prune("a")
    brought = checkpoints.bring("a", tmp_path / "kept")
    assert (brought, epoch_of(brought)) == (tmp_path / "kept" / "epoch_0011", 11)
    assert checkpoints.bring("a", tmp_path / "kept") == brought
    with pytest.raises(CheckpointError, match="no good checkpoint left"):
        checkpoints.bring("c", tmp_path / "other")


def test_what_the_journal_lost_is_trained_again(checkpoints: Checkpoints) -> None:
    for epoch in (4, 5, 6):
        checkpoints.save("a", report(0.1, epoch))
        checkpoints.save("b", report(0.1, epoch))
    checkpoints.save("lost", report(0.1, 1))
    checkpoints.rewind({"a": 4, "b": 6})
    assert [epoch_of(checkpoints.latest(trial)) for trial in ("a", "b", "lost")] == [5, 6, None]
    checkpoints.rewind({"a": 3, "b": 1})
    assert [epoch_of(checkpoints.latest(trial)) for trial in ("a", "b")] == [4, None]


def put_strays(checkpoints: Checkpoints, folder: Path) -> set[str]:
    """Put directories that are no checkpoints, though whole, beside those of trial ``a``; return their names."""
    names = {"epoch_0001.bak", "epoch_9", "backup", "epoch_0009-copy"}
    for name in names:
        if isinstance(checkpoints.store, BucketStore):
            source = directory(folder / name, **{MANIFEST: "{}"})
            checkpoints.store.bucket.put(source, f"a/{name}")
        elif isinstance(checkpoints.store, FolderStore):
            directory(checkpoints.store.trials / "a" / name, **{MANIFEST: "{}"})
    return names


def test_whatever_else_lies_there_stops_nothing_and_stays(checkpoints: Checkpoints, tmp_path: Path) -> None:
    names = put_strays(checkpoints, tmp_path / "strays")
    assert checkpoints.is_empty()
    for epoch in (1, 2, 3, 4):
        checkpoints.save("a", report(0.1, epoch))
    assert not checkpoints.is_empty()
    checkpoints.rewind({"a": 2})
    assert epoch_of(checkpoints.latest("a")) == 3
    checkpoints.discard(["a"])
    checkpoints.save("a", report(0.1, 1))
    checkpoints.prune("a")
    checkpoints.rewind({"a": 1}, ["a"])
    assert epoch_of(checkpoints.bring("a", tmp_path / "kept")) == 1
    if isinstance(checkpoints.store, BucketStore):
        there = {name for (name,) in checkpoints.store.bucket.names("a")}
    else:
        assert isinstance(checkpoints.store, FolderStore)
        there = {path.name for path in (checkpoints.store.trials / "a").iterdir()}
    assert names < there
    assert len(there - names) == 1


def tear(checkpoints: Checkpoints, trial: str, epoch: int) -> None:
    """Leave a file of a checkpoint cut off."""
    if isinstance(checkpoints.store, FolderStore):
        (checkpoints.store.trials / trial / f"epoch_{epoch:04d}" / "state.pt").write_text("cu")
        return
    assert isinstance(checkpoints.store, BucketStore)
    (name,) = [name for (name,) in checkpoints.store.bucket.names(trial) if name.startswith(f"epoch_{epoch:04d}")]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        checkpoints.store.bucket.get(f"{trial}/{name}", copy)
        (copy / "state.pt").write_text("cu")
        checkpoints.store.bucket.delete(f"{trial}/{name}")
        checkpoints.store.bucket.put(copy, f"{trial}/{name}")


def test_an_ended_trial_keeps_its_newest_good_checkpoint(checkpoints: Checkpoints) -> None:
    for epoch in (1, 2, 3):
        checkpoints.save("ended", report(0.1, epoch))
    tear(checkpoints, "ended", 3)
    for _ in range(2):
        checkpoints.rewind({"ended": 3}, ["ended"])
        assert epoch_of(checkpoints.latest("ended")) == 2
    checkpoints.rewind({"ended": 2}, ["ended"])
    assert epoch_of(checkpoints.latest("ended")) == 2
    checkpoints.rewind({"ended": 0}, ["ended"])
    assert checkpoints.latest("ended") is None


def test_what_a_killed_driver_did_not_prune_goes_with_the_next_start(checkpoints: Checkpoints) -> None:
    for epoch in (1, 2, 3):
        for trial in ("ended", "running"):
            checkpoints.save(trial, report(0.1, epoch))
    checkpoints.rewind({"ended": 3, "running": 3}, ["ended", "without any"])
    assert [epoch_of(checkpoints.latest(trial)) for trial in ("ended", "running")] == [3, 3]
    checkpoints.rewind({"ended": 1, "running": 1})
    assert [epoch_of(checkpoints.latest(trial)) for trial in ("ended", "running")] == [None, 2]


@pytest.mark.proof
def test_a_damaged_checkpoint_is_passed_over_and_named(store: ObjectStore) -> None:
    stored = Checkpoints(BucketStore(store))
    for epoch in (1, 2):
        stored.save("a", report(0.1, epoch))
    (name,) = (name for trial, name in store.names("", depth=2) if name.startswith("epoch_0002"))
    store._write(f"a/{name}/state.pt", b"torn")
    found, damage = stored.find("a")
    assert epoch_of(found) == 1
    assert [line.startswith(f"{store.address}/a/{name}/state.pt: damaged") for line in damage] == [True]


def claim_of(store: ObjectStore, **changes: object) -> None:
    """Change what the claim says of its driver."""
    store.write(CLAIM_FILE, json.dumps({**json.loads(store.read(CLAIM_FILE)), **changes}).encode())


@pytest.mark.proof
def test_a_second_driver_is_refused_while_the_first_may_live(store: ObjectStore, tmp_path: Path) -> None:
    first = Checkpoints(BucketStore.claimed(store, tmp_path / "original"))
    first.save("a", report(0.1, 1))
    with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()} on .*original; if it is gone.*/.driver"):
        Checkpoints(BucketStore.claimed(store, tmp_path / "copy"))
    claim_of(store, host="elsewhere", boot_id="x", pid=2**22 + 1)
    for directory in ("copy", "original"):
        with pytest.raises(AlreadyRunningError, match="on elsewhere"):
            Checkpoints(BucketStore.claimed(store, tmp_path / directory))
    first.save("a", report(0.1, 2))
    first.close()
    Checkpoints(BucketStore.claimed(store, tmp_path / "copy")).close()
    assert CLAIM_FILE not in store.listing("")


@pytest.mark.proof
@pytest.mark.parametrize(
    ("where", "changes"),
    [
        pytest.param("original", {}, id="the same directory, whose lock we hold"),
        pytest.param("copy", {"pid": 2**22 + 1}, id="a process that is gone"),
        pytest.param("copy", {"boot_id": "former", "pid": 1}, id="before the machine was started again"),
    ],
)
def test_a_driver_that_is_gone_is_followed_and_its_actors_save_nothing(
    store: ObjectStore, tmp_path: Path, where: str, changes: dict[str, object]
) -> None:
    first = Checkpoints(BucketStore.claimed(store, tmp_path / "original"))
    claim_of(store, **changes)
    second = Checkpoints(BucketStore.claimed(store, tmp_path / where))
    with pytest.raises(ClaimLostError, match=f"claimed by another driver now: process {os.getpid()} on"):
        first.save("a", report(0.1, 1))
    first.close()
    second.save("a", report(0.1, 1))
    assert Failure.of("Traceback\n  x\norchestrator.claim.ClaimLostError: s3://x: is claimed").cause is Cause.CLAIM


@pytest.mark.proof
def test_a_claim_that_cannot_be_read_is_nobodys(store: ObjectStore, tmp_path: Path) -> None:
    store.write(CLAIM_FILE, b'{"pid": 1, "ho')
    Checkpoints(BucketStore.claimed(store, tmp_path)).save("a", report(0.1, 1))


@pytest.mark.proof
def test_of_two_drivers_at_once_one_is_refused(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ObjectStore.write

    def late(self: ObjectStore, key: str, content: bytes) -> None:
        write(self, key, content)
        # The other one had seen no claim either.
        write(self, key, json.dumps({**json.loads(content), "token": "other"}).encode())

    monkeypatch.setattr(ObjectStore, "write", late)
    with pytest.raises(AlreadyRunningError, match="by another driver now"):
        DriverClaim.make(store, tmp_path)


@pytest.mark.proof
def test_two_actors_of_one_trial_do_not_spoil_each_others_checkpoints(store: ObjectStore) -> None:
    stored = Checkpoints(BucketStore(store))
    stored.save("a", report(0.1, 1))
    stored.save("a", report(0.1, 1))
    assert len(store.names("a")) == 2
    assert epoch_of(stored.latest("a")) == 1


def test_a_folder_that_is_not_the_drivers_is_refused(tmp_path: Path) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    mine.mkdir()
    others.mkdir()
    store = FolderStore.claimed(mine)
    shared, mark = Checkpoints(store), store.token
    assert shared.latest("a") is None
    Checkpoints(FolderStore.claimed(mine))
    for trials in (others, tmp_path / "none"):
        with pytest.raises(StorageError, match="is not the folder that the driver writes to; give --storage"):
            Checkpoints(FolderStore(trials, mark)).latest("a")
    with pytest.raises(ClaimLostError, match="another driver"):
        shared.latest("a")
    with pytest.raises(ClaimLostError, match="another driver"):
        shared.save("a", report(0.1, 1))
    assert not (mine / "a").exists()


def test_an_actor_has_a_scratch_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    actor_scratch.cache_clear()
    own = actor_scratch()
    assert actor_scratch() == own
    assert own.name.startswith("icr-actors-")
    # Another process begins, and finds that of this one in use.
    actor_scratch.cache_clear()
    assert actor_scratch() != own
    assert own.exists()
    actor_scratch.cache_clear()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("gs://bucket", PLACE),
        ("s3://", PLACE),
        ("s3://key:CANARY@bucket", CREDENTIALS_IN_IT),
        ("s3://CANARY@bucket", CREDENTIALS_IN_IT),
        ("https://key:CANARY@host/bucket", PLACE),
        ("s3://bucket?endpoint_override=http://key:CANARY@host:9000", CREDENTIALS_IN_IT),
        ("s3://bucket?endpoint_override=http%3A%2F%2Fkey%3ACANARY%40host", CREDENTIALS_IN_IT),
        ("s3://bucket?endpoint_override=key:CANARY@host", CREDENTIALS_IN_IT),
        ("s3://bucket?endpoint_override=http://host/?x=CANARY", CREDENTIALS_IN_IT),
        ("s3://bucket?word=CANARY", "unknown word; known are endpoint_override, region, scheme"),
        ("s3://key:CANARY\u2100@bucket", PLACE),
    ],
)
def test_other_addresses_are_refused_and_their_credentials_not_shown(address: str, message: str) -> None:
    for environment in ({}, {"AWS_ENDPOINT_URL": "http://key:CANARY@host"}):
        with pytest.raises(StorageError, match=message) as refusal:
            ObjectStore.parse(address, environment)
        assert "CANARY" not in str(refusal.value)


def test_credentials_in_the_environment_are_not_shown() -> None:
    with pytest.raises(StorageError, match=CREDENTIALS_IN_IT) as refusal:
        ObjectStore.parse("s3://bucket", {"AWS_ENDPOINT_URL": "http://key:CANARY@host"})
    assert "CANARY" not in str(refusal.value)


@pytest.mark.proof
def test_a_small_file_is_kept_beside_the_checkpoints_of_its_trial(store: ObjectStore, tmp_path: Path) -> None:
    checkpoints = Checkpoints(BucketStore(store))
    checkpoints.save("one", report(0.1, 1))
    for content in (b"first", b"second"):
        (tmp_path / "ranks_test.npz").write_bytes(content)
        checkpoints.keep("one", tmp_path / "ranks_test.npz")
        assert store.read("one/ranks_test.npz") == content
    checkpoints.rewind({"one": 1}, ["one"])
    checkpoints.prune("one")
    assert store.read("one/ranks_test.npz") == b"second"
    found = checkpoints.latest("one")
    assert found is not None and found.name == "epoch_0001"
