"""What TensorBoard reads of an export: by the layout of its files, and with its own readers where it is installed."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

from orchestrator.exports.tensorboard import write_events
from orchestrator.searches.loaded import LoadedExperiment

GOOD = "pets-vsepp-nt_xent-0000"


@pytest.fixture
def folder(found: LoadedExperiment, tmp_path: Path) -> Path:
    written = tmp_path / "tiny.tensorboard"
    assert write_events(found.history, found.experiment, written) == 6
    return written


def values(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Yield events with their values: a record is a length, its checksum, the event, and the event's checksum."""
    (file,) = (path for path in folder.iterdir() if path.is_file())
    content = file.read_bytes()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + length])
        yield from ((event, value) for value in event.summary.value)
        content = content[16 + length :]


def described(folder: Path) -> dict[str, HParamsPluginData]:
    return {
        value.tag: HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for _, value in values(folder)
        if value.metadata.plugin_data.plugin_name == "hparams"
    }


def test_every_epoch_is_a_point_at_its_date(found: LoadedExperiment, folder: Path) -> None:
    times = found.history.trials[GOOD].times
    points = [(value.tag, event.step, value.simple_value, event.wall_time) for event, value in values(folder / GOOD)]
    curve = [point[1:] for point in points if point[0] == "val/rsum"]
    assert curve == [(1, 1.0, times[1]), (2, 3.0, times[2]), (3, 2.0, times[3])]
    assert [point[:3] for point in points if point[0] == "best/val/rsum"] == [("best/val/rsum", 2, 3.0)]


def test_the_page_is_described_once_and_leaves_out_what_all_trials_share(folder: Path) -> None:
    page = described(folder)["_hparams_/experiment"].experiment
    assert [one.name for one in page.hparam_infos] == ["loss", "stage", "state", "temperature", "margin"]
    assert [one.name.tag for one in page.metric_infos] == ["best/val/rsum", "test/rsum", "best/val/i2t_r1"]
    assert all("_hparams_/experiment" not in described(one) for one in folder.iterdir() if one.is_dir())


def test_a_trial_has_its_settings_and_its_state(folder: Path) -> None:
    session = described(folder / GOOD)
    settings = session["_hparams_/session_start_info"].session_start_info
    assert settings.hparams["temperature"].number_value == 0.1 and settings.hparams["state"].string_value == "finished"
    assert "margin" not in settings.hparams
    ends = {
        one.name: described(one)["_hparams_/session_end_info"].session_end_info.status
        for one in folder.iterdir()
        if one.is_dir() and "_hparams_/session_end_info" in described(one)
    }
    succeeded, failed = 1, 2
    assert ends.pop("pets-vsepp-nt_xent-0002") == failed
    assert len(ends) == 4 and set(ends.values()) == {succeeded}
    groups = {
        described(folder / f"{GOOD}-seed{index}")["_hparams_/session_start_info"].session_start_info.group_name
        for index in range(2)
    }
    assert groups == {f"{GOOD} confirmed"} and settings.group_name == GOOD


def test_an_export_is_replaced_as_a_whole(found: LoadedExperiment, folder: Path) -> None:
    (folder / "gone").mkdir()
    (folder / "gone" / "events.out.tfevents.1").touch()
    write_events(found.history, found.experiment, folder)
    assert not (folder / "gone").exists() and [path.name for path in folder.parent.glob(".tiny*")] == []


def test_tensorboard_itself_reads_it(found: LoadedExperiment, folder: Path) -> None:
    readers = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard")
    accumulator = readers.EventAccumulator(str(folder / GOOD)).Reload()
    assert [(one.step, one.value) for one in accumulator.Scalars("val/rsum")] == [(1, 1.0), (2, 3.0), (3, 2.0)]
    assert set(accumulator.SummaryMetadata("_hparams_/session_start_info").plugin_data.plugin_name) == set("hparams")
