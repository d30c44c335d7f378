"""Checkpoints are whole, verified and never run code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainables.checkpoint import (
    BEST,
    MANIFEST,
    STATE,
    EpochReport,
    find_damage,
    find_latest,
    list_epochs,
    read_file,
    save_epoch,
    write_file,
)
from trainables.errors import CheckpointError


def report(epoch: int, value: float = 1.0) -> EpochReport:
    def save(directory: Path) -> None:
        write_file(directory / STATE, {"epoch": epoch, "weights": torch.full((1000,), value)})
        write_file(directory / BEST, {"epoch": epoch, "weights": torch.full((10,), value)})

    return EpochReport(epoch, {}, True, save)


def test_the_newest_are_kept_and_found(tmp_path: Path) -> None:
    for epoch in (1, 2, 3, 9, 10):
        save_epoch(tmp_path, report(epoch), keep=3)
    assert [path.name for path in list_epochs(tmp_path)] == ["epoch_0003", "epoch_0009", "epoch_0010"]
    assert find_latest(tmp_path) == tmp_path / "epoch_0010"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch_0003", "epoch_0009", "epoch_0010"]


STRAYS = ("epoch_0001.bak", "epoch_9", "epoch_0001 (copy)", "epoch_", "epoch_00x1", ".epoch_0002", "damaged_epoch_0003")


def test_whatever_else_lies_beside_checkpoints_is_left_alone(tmp_path: Path) -> None:
    for name in STRAYS:
        (tmp_path / name).mkdir()
    (tmp_path / "epoch_0004").write_text("a file")
    (tmp_path / "epoch_0005").symlink_to(tmp_path / "nowhere")
    assert list_epochs(tmp_path) == []
    assert find_latest(tmp_path) is None
    for epoch in (1, 2, 3, 4, 5):
        save_epoch(tmp_path, report(epoch), keep=1)
    assert [path.name for path in list_epochs(tmp_path)] == ["epoch_0005"]
    assert {path.name for path in tmp_path.iterdir()} == {"epoch_0005", *STRAYS}


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def put_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def forget_best(path: Path) -> None:
    path.write_text(json.dumps({STATE: json.loads(path.read_text())[STATE]}))


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "truncated": (STATE, lambda path: path.write_bytes(path.read_bytes()[:-100]), STATE),
    "one bit": (BEST, flip_a_bit, BEST),
    "file missing": (STATE, Path.unlink, STATE),
    "no manifest": (MANIFEST, Path.unlink, MANIFEST),
    "manifest cut": (MANIFEST, lambda path: path.write_text("{"), MANIFEST),
    "not an object": (MANIFEST, lambda path: path.write_text("[1]"), MANIFEST),
    "empty": (MANIFEST, lambda path: path.write_text("{}"), "does not name"),
    "half a manifest": (MANIFEST, forget_best, "does not name best.pt"),
    "a folder": (STATE, put_a_folder, "cannot be read: Is a directory"),
}


@pytest.mark.parametrize(("name", "damage", "named"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named_and_the_one_before_is_used(
    tmp_path: Path, name: str, damage: Callable[[Path], object], named: str
) -> None:
    good, bad = save_epoch(tmp_path, report(1)), save_epoch(tmp_path, report(2))
    damage(bad / name)
    assert named in (find_damage(bad) or "")
    with pytest.raises(CheckpointError, match=named):
        read_file(bad, STATE)
    assert find_latest(tmp_path) == good


def test_a_checkpoint_that_failed_halfway_leaves_the_old_one(tmp_path: Path) -> None:
    save_epoch(tmp_path, report(1))

    def fail(directory: Path) -> None:
        (directory / STATE).write_bytes(b"half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        save_epoch(tmp_path, EpochReport(2, {}, True, fail))
    assert find_latest(tmp_path) == tmp_path / "epoch_0001"


def saves(payload: object) -> Callable[[Path], None]:
    """Return a function that writes both files of a checkpoint as they are."""

    def save(directory: Path) -> None:
        for name in (STATE, BEST):
            torch.save(payload, directory / name)

    return save


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    directory = save_epoch(tmp_path / "trial", EpochReport(1, {}, True, saves({"format": 1, "payload": Payload()})))
    with pytest.raises(CheckpointError, match=STATE):
        read_file(directory, STATE)
    assert not (tmp_path / "ran").exists()


def test_another_format_is_refused(tmp_path: Path) -> None:
    directory = save_epoch(tmp_path, EpochReport(1, {}, True, saves({"format": 99})))
    with pytest.raises(CheckpointError, match="format 99"):
        read_file(directory, STATE)
    assert json.loads((directory / MANIFEST).read_text())[STATE]["bytes"] > 0
