"""Storage against a real S3 server: directories whole or not at all, and whatever is wrong is said before a trial."""

import json
import os
import urllib.request
from pathlib import Path

import pytest

from orchestrator.journal.lock import AlreadyRunningError
from orchestrator.storage.bucket import ObjectStore, StorageError, credentials_problem
from orchestrator.storage.checkpoints import Checkpoints, Entry
from orchestrator.storage.stores import CLAIM_FILE, BucketStore, ClaimLostError, FolderStore, actor_scratch
from orchestrator.tuner.callback import Cause, failure_in
from tests.support.bucket import refusing_port
from tests.support.fake_workload import report
from trainables.checkpoint import MANIFEST, EpochReport
from trainables.errors import CheckpointError


def directory(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, content in files.items():
        (path / name).write_text(content)
    return path


@pytest.mark.proof
def test_a_directory_comes_back_whole_and_without_a_manifest_does_not_exist(store: ObjectStore, tmp_path: Path) -> None:
    store.check()
    files = {"state": "1" * 10_000_000, MANIFEST: "{}"}
    stored, (one, two) = BucketStore(store, ""), (f"x/epoch_000{n}-00000000" for n in (1, 2))
    store.put(directory(tmp_path / "a", **files), one)
    store.put(directory(tmp_path / "half", state="1"), two)
    address = f"{store.address}/{one}"
    assert stored.entries() == stored.entries("x") == [Entry("x", "epoch_0001-00000000", 1, address)]
    assert stored.entries("epoch_0001-00000000") == []
    store.get(one, tmp_path / "b")
    assert {path.name: path.read_text() for path in (tmp_path / "b").iterdir()} == files
    for _ in range(2):
        store.delete(one)
    assert stored.entries() == []
    with pytest.raises(FileNotFoundError):
        store.get(one, tmp_path / "c")


@pytest.mark.proof
def test_the_manifest_goes_up_last_and_what_fails_for_a_while_is_tried_again(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, uploaded = store._system, list[str]()
    failures = [OSError("AWS Error SLOW_DOWN"), OSError("AWS Error NETWORK_CONNECTION")]

    class Stumbling:
        def open_output_stream(self, path: str) -> object:
            if failures:
                raise failures.pop()
            uploaded.append(path.rpartition("/")[2])
            return system.open_output_stream(path)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "_system", Stumbling())
        store.put(directory(tmp_path / "a", **{MANIFEST: "{}", "best.pt": "", "state.pt": ""}), "one")
    assert uploaded == ["best.pt", "state.pt", MANIFEST]
    assert set(store.listing("one")) == {*uploaded}


@pytest.mark.proof
def test_a_file_whose_key_is_no_path_is_refused(store: ObjectStore, endpoint: str, tmp_path: Path) -> None:
    key = urllib.request.Request(f"{endpoint}/bucket/{store.prefix}/pets//etc/x", data=b"", method="PUT")
    with urllib.request.urlopen(key) as answer:
        assert answer.status == 200
    with pytest.raises(StorageError, match="pets//etc/x leads out of its folder; refused"):
        store.get("pets", tmp_path)


def test_an_address_survives_being_written_down() -> None:
    endpoint = "http://127.0.0.1:9000"
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
        ("s3://bucket?endpoint_override=http://host:99999", "endpoint_override must be http://host:port"),
        ("s3://bucket?endpoint_override=http://[::::]:9000", "endpoint_override must be http://host:port"),
        ("s3://bucket?word=CANARY", "unknown word; known are endpoint_override, region, scheme"),
        ("s3://key:CANARY\u2100@bucket", PLACE),
        ("s3://bucket", CREDENTIALS_IN_IT),
    ],
)
def test_other_addresses_are_refused_and_their_credentials_not_shown(address: str, message: str) -> None:
    for environment in ({}, {"AWS_ENDPOINT_URL": "http://key:CANARY@host"}):
        if not environment and address == "s3://bucket":
            continue
        with pytest.raises(StorageError, match=message) as refusal:
            ObjectStore.parse(address, environment)
        assert "CANARY" not in str(refusal.value)


@pytest.mark.proof
def test_what_cannot_be_written_says_why(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing_port() as port:
        nobody = f"http://127.0.0.1:{port}"
        for address, why in (
            (f"s3://other?endpoint_override={endpoint}", "there is no such bucket; make it"),
            (f"s3://bucket?endpoint_override={nobody}", f"{nobody} does not answer: Connection refused"),
        ):
            with pytest.raises(StorageError, match=why):
                ObjectStore.parse(address).check()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(StorageError, match="no credentials: set AWS_ACCESS_KEY_ID"):
        ObjectStore.parse(f"s3://bucket?endpoint_override={endpoint}").check()


@pytest.mark.parametrize("variable", ["AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"])
def test_credentials_may_lie_in_a_file_of_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv(variable, str(tmp_path / "keys"))
    assert credentials_problem() is not None
    (tmp_path / "keys").touch()
    assert credentials_problem() is None


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.proof)])
def checkpoints(request: pytest.FixtureRequest, tmp_path: Path) -> FolderStore | BucketStore:
    """Both kinds have one contract."""
    if request.param == "bucket":
        return BucketStore.claimed(request.getfixturevalue("store"), tmp_path)
    (tmp_path / "trials").mkdir()
    return FolderStore.claimed(tmp_path / "trials")


def latest(checkpoints: Checkpoints, *trials: str) -> list[int | None]:
    found = map(checkpoints.latest, trials)
    return [None if path is None else json.loads((path / "state.pt").read_text())["epoch"] for path in found]


def save(checkpoints: Checkpoints, trial: str, *epochs: int) -> None:
    for epoch in epochs:
        checkpoints.save(trial, report(0.1, epoch))


def test_the_newest_checkpoint_is_found_and_an_ended_trial_keeps_it(checkpoints: Checkpoints, tmp_path: Path) -> None:
    assert latest(checkpoints, "a") == [None]
    save(checkpoints, "a", *range(1, 12))
    save(checkpoints, "b", 1)
    assert latest(checkpoints, "a", "b") == [11, 1]
    checkpoints.prune("a")
    for _ in range(2):
        brought = checkpoints.bring("a", tmp_path / "kept")
        assert brought == tmp_path / "kept" / "epoch_0011"
        assert json.loads((brought / "state.pt").read_text())["epoch"] == 11
    with pytest.raises(CheckpointError, match="no good checkpoint left"):
        checkpoints.bring("c", tmp_path / "other")


def test_what_a_dead_machine_was_writing_goes_when_its_trial_ends(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    checkpoints = FolderStore.claimed(tmp_path / "trials")
    for trial in ("a", "b"):
        save(checkpoints, trial, 1, 2)
        (tmp_path / "trials" / trial / ".epoch_0003.0123456789abcdef").mkdir()
    checkpoints.prune("a")
    assert [path.parent.name for path in checkpoints.partial()] == ["b"]
    assert latest(checkpoints, "a", "b") == [2, 2]


def test_a_start_keeps_one_epoch_beyond_the_journal_and_of_an_ended_trial_the_newest(checkpoints: Checkpoints) -> None:
    for trial in ("a", "b", "ended"):
        save(checkpoints, trial, 4, 5, 6)
    save(checkpoints, "lost", 1)
    checkpoints.rewind({"a": 4, "b": 6, "ended": 6}, ["ended", "without any"])
    assert latest(checkpoints, "a", "b", "ended", "lost") == [5, 6, 6, None]
    checkpoints.rewind({"a": 3, "b": 1, "ended": 4})
    assert latest(checkpoints, "a", "b", "ended") == [4, None, None]


def names(checkpoints: FolderStore | BucketStore) -> set[str]:
    """Return the directories, whole in a bucket, beside the checkpoints of trial ``a``, and theirs."""
    if isinstance(checkpoints, BucketStore):
        paths = checkpoints.bucket.listing("a")
        return {path.removesuffix(f"/{MANIFEST}") for path in paths if path.endswith(f"/{MANIFEST}")}
    return {path.name for path in (checkpoints.trials / "a").iterdir()}


def test_whatever_else_is_there_stops_nothing_and_stays(checkpoints: FolderStore | BucketStore, tmp_path: Path) -> None:
    strays = {"epoch_0001.bak", "epoch_9", "backup", "epoch_0009-copy"}
    for name in strays:
        if isinstance(checkpoints, BucketStore):
            checkpoints.bucket.put(directory(tmp_path / "strays" / name, **{MANIFEST: "{}"}), f"a/{name}")
        else:
            directory(checkpoints.trials / "a" / name, **{MANIFEST: "{}"})
    assert checkpoints.entries() == []
    save(checkpoints, "a", 1, 2, 3, 4)
    checkpoints.rewind({"a": 2})
    assert latest(checkpoints, "a") == [3]
    checkpoints.discard(["a"])
    save(checkpoints, "a", 1)
    checkpoints.prune("a")
    checkpoints.rewind({"a": 1}, ["a"])
    assert checkpoints.bring("a", tmp_path / "kept").name == "epoch_0001"
    assert strays < names(checkpoints) and len(names(checkpoints) - strays) == 1


def test_an_ended_trial_keeps_its_newest_good_checkpoint(checkpoints: FolderStore | BucketStore) -> None:
    save(checkpoints, "ended", 1, 2, 3)
    newest = checkpoints.entries("ended")[-1]
    if isinstance(checkpoints, BucketStore):
        checkpoints.bucket.write(f"ended/{newest.name}/state.pt", b"cu")
    else:
        (checkpoints.fetch(newest) / "state.pt").write_text("cu")
    (damage,) = checkpoints.find("ended")[1]
    assert damage.startswith(f"{newest.address}/state.pt: damaged")
    for known in (3, 3, 2):
        checkpoints.rewind({"ended": known}, ["ended"])
        assert latest(checkpoints, "ended") == [2]
    checkpoints.rewind({"ended": 0}, ["ended"])
    assert latest(checkpoints, "ended") == [None]


def test_a_small_file_is_kept_beside_its_checkpoints(checkpoints: FolderStore | BucketStore, tmp_path: Path) -> None:
    save(checkpoints, "a", 1)
    for content in (b"first", b"second"):
        (tmp_path / "ranks_test.npz").write_bytes(content)
        checkpoints.keep("a", tmp_path / "ranks_test.npz")
    checkpoints.rewind({"a": 1}, ["a"])
    checkpoints.prune("a")
    if isinstance(checkpoints, BucketStore):
        assert checkpoints.bucket.read("a/ranks_test.npz") == b"second"
    else:
        assert (checkpoints.trials / "a" / "ranks_test.npz").read_bytes() == b"second"
    assert latest(checkpoints, "a") == [1]


def claim_of(store: ObjectStore, **changes: object) -> None:
    store.write(CLAIM_FILE, json.dumps({**json.loads(store.read(CLAIM_FILE)), **changes}).encode())


@pytest.mark.proof
def test_a_second_driver_is_refused_while_the_first_may_live(store: ObjectStore, tmp_path: Path) -> None:
    # A claim that cannot be read is nobody's.
    store.write(CLAIM_FILE, b'{"pid": 1, "ho')
    first = BucketStore.claimed(store, tmp_path / "original")
    save(first, "a", 1)
    with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()} on .*original; if it is gone.*/.driver"):
        BucketStore.claimed(store, tmp_path / "copy")
    claim_of(store, host="elsewhere", boot_id="x", pid=2**22 + 1)
    for place in ("copy", "original"):
        with pytest.raises(AlreadyRunningError, match="on elsewhere"):
            BucketStore.claimed(store, tmp_path / place)
    save(first, "a", 2)
    first.close()
    BucketStore.claimed(store, tmp_path / "copy").close()
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
    first = BucketStore.claimed(store, tmp_path / "original")
    claim_of(store, **changes)
    second = BucketStore.claimed(store, tmp_path / where)
    with pytest.raises(ClaimLostError, match=f"claimed by another driver now: process {os.getpid()} on"):
        save(first, "a", 1)
    first.close()
    save(second, "a", 1)
    assert failure_in("Traceback\n  x\norchestrator.claim.ClaimLostError: s3://x: is claimed")[0] is Cause.CLAIM


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
        BucketStore.claimed(store, tmp_path)


@pytest.mark.proof
def test_two_actors_of_one_trial_do_not_spoil_each_others_checkpoints(store: ObjectStore, tmp_path: Path) -> None:
    stored = BucketStore.claimed(store, tmp_path)
    save(stored, "a", 1, 1)
    assert len(stored.entries("a")) == 2
    assert latest(stored, "a") == [1]


def test_a_folder_that_is_not_the_drivers_is_refused(tmp_path: Path) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    mine.mkdir()
    others.mkdir()
    shared = FolderStore.claimed(mine)
    assert latest(shared, "a") == [None]
    FolderStore.claimed(mine)
    for trials in (others, tmp_path / "none"):
        with pytest.raises(StorageError, match="is not the folder that the driver writes to; give --storage"):
            FolderStore(trials, shared.token).latest("a")
    with pytest.raises(ClaimLostError, match="another driver"):
        latest(shared, "a")
    with pytest.raises(ClaimLostError, match="another driver"):
        save(shared, "a", 1)
    assert not (mine / "a").exists()


def test_what_an_actor_writes_while_another_driver_claims_the_folder_never_appears(tmp_path: Path) -> None:
    ours, second = FolderStore.claimed(tmp_path), report(0.1, 2)

    def write(directory: Path) -> None:
        second.save(directory)
        FolderStore.claimed(tmp_path)

    save(ours, "a", 1)
    with pytest.raises(ClaimLostError, match="another driver"):
        ours.save("a", EpochReport(2, second.metrics, True, write))
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["epoch_0001"]


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
