"""Data of a node: fetched once from a bucket, again when it changed there, and refused where it is not the driver's."""

import multiprocessing
import os
from pathlib import Path

import pytest

from orchestrator.doctor.machine import check_data_root
from orchestrator.storage.bucket import ObjectStore, fetch_dataset
from orchestrator.workload.training import TrainablesWorkload
from tests.support.experiments import make_experiment
from tests.support.precomputed_folder import write_precomputed
from trainables.errors import DataError


@pytest.fixture
def store(store: ObjectStore, tmp_path: Path) -> ObjectStore:
    store.put(write_precomputed(tmp_path / "pets"), "pets")
    return store


def inodes(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (root / "pets").iterdir()}


@pytest.mark.proof
def test_a_dataset_is_fetched_once_and_again_when_it_changed_or_was_torn(store: ObjectStore, tmp_path: Path) -> None:
    root = fetch_dataset(store, "pets")
    first = inodes(root)
    assert {path.name: path.read_bytes() for path in (root / "pets").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "pets").iterdir()
    }
    assert inodes(fetch_dataset(store, "pets")) == first
    store.write("pets/train_caps.txt", b"a dog\n")
    again = fetch_dataset(store, "pets")
    assert (again / "pets" / "train_caps.txt").read_text() == "a dog\n"
    # A fetch that was killed left these.
    (root / ".pets.json").unlink()
    (root / "pets" / "train_caps.txt").write_text("torn")
    (root / ".pets.abc").mkdir()
    assert fetch_dataset(store, "pets") == root
    assert (root / "pets" / "train_caps.txt").read_text() == "a dog\n"
    assert not (root / ".pets.abc").exists()


def _fetch(store: ObjectStore, results: "multiprocessing.Queue[tuple[int, int]]") -> None:
    root = fetch_dataset(store, "pets")
    results.put((os.getpid(), inodes(root)["train_caps.txt"]))


@pytest.mark.proof
def test_actors_that_come_together_fetch_it_once(store: ObjectStore) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[tuple[int, int]] = context.Queue()
    actors = [context.Process(target=_fetch, args=(store, results)) for _ in range(3)]
    for actor in actors:
        actor.start()
    found = [results.get(timeout=500) for _ in actors]
    for actor in actors:
        actor.join()
    assert len({pid for pid, _ in found}) == 3
    assert len({inode for _, inode in found}) == 1


@pytest.mark.proof
@pytest.mark.parametrize(
    ("name", "message"),
    [("petz", "petz: no such folder in s3://bucket"), ("../pets", "must be the name of a folder"), ("", "must be the")],
    ids=["missing", "outside", "nothing"],
)
def test_what_is_no_dataset_there_is_refused(endpoint: str, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fetch_dataset(ObjectStore.parse(f"s3://bucket/none?endpoint_override={endpoint}"), name)


def test_data_that_are_not_the_drivers_are_refused(tmp_path: Path) -> None:
    experiment = make_experiment(losses=["nt_xent"])
    (cell,) = experiment.cells()
    config = experiment.trial_config(cell, {"temperature": 0.1})
    write_precomputed(tmp_path / "driver" / "pets")
    write_precomputed(tmp_path / "node" / "pets", seed=1)
    digests = TrainablesWorkload(str(tmp_path / "driver")).check(experiment)
    node = TrainablesWorkload(str(tmp_path / "node"))
    assert node.open_data(config).name == "pets"
    with pytest.raises(DataError, match="pets under .*/node is not what the driver has: its digest is "):
        next(node.expecting(digests).train(config, None))
    assert TrainablesWorkload(str(tmp_path / "driver")).expecting(digests).open_data(config).name == "pets"


def test_a_trial_sees_the_val_images_that_it_asks_for(tmp_path: Path) -> None:
    write_precomputed(tmp_path / "data" / "pets")
    workload = TrainablesWorkload(str(tmp_path / "data"))
    for asked, seen in ((None, 18), (5, 5), (18, 18)):
        experiment = make_experiment(losses=["nt_xent"], val_images=asked)
        splits = workload.open_data(experiment.trial_config(experiment.cells()[0], {})).splits
        assert len(splits["val"].image_rows) == seen
        assert (len(splits["train"].image_rows), len(splits["test"].image_rows)) == (36, 18)
    with pytest.raises(DataError, match="val_images must be at most the 18 images of the val split of pets, got 19"):
        workload.check(make_experiment(losses=["nt_xent"], val_images=19))


@pytest.mark.proof
def test_the_doctor_names_the_datasets_of_a_bucket_or_says_why_it_cannot(store: ObjectStore, endpoint: str) -> None:
    found = check_data_root(store.address)
    assert (found.state, found.found) == ("ok", f"{store.address}: pets")
    nothing = check_data_root(store.below("pets").address)
    assert nothing.state == "warn" and "holds no dataset" in nothing.found
    found = check_data_root(f"s3://nowhere?endpoint_override={endpoint}")
    assert found.state == "fail" and "no such bucket" in found.found
