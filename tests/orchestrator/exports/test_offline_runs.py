"""What ``wandb sync`` would upload of an export, read by the layout of its files, a log of LevelDB's form."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from orchestrator.searches.loaded import LoadedExperiment

pytest.importorskip("wandb", reason="wandb is not installed: pip install 'icr-orchestrator[wandb]'")

from orchestrator.exports.offline_runs import write_offline_runs

BLOCK = 32768
WHOLE, LAST = 1, 4


def records(file: Path) -> list[Any]:
    """Return the records; one that does not fit into the rest of a block continues in the next."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, part, kept = file.read_bytes(), 7, b"", []
    assert content[:4] == b":W&B"
    while place + 7 <= len(content):
        if BLOCK - place % BLOCK < 7:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        part += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (WHOLE, LAST):
            kept.append(Record.FromString(part))
            part = b""
    return kept


@pytest.mark.proof
def test_runs_hold_settings_epochs_and_what_was_best(
    found: LoadedExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "tiny.wandb"
    assert write_offline_runs(found.history, found.experiment, folder) == 6
    files = {path.stem.removeprefix("run-"): path for path in folder.glob("wandb/offline-run-*/*.wandb")}
    assert set(files) == set(found.history.trials)
    kept = records(files["pets-vsepp-nt_xent-0000"])
    (run,) = [one.run for one in kept if one.HasField("run")]
    assert (run.project, run.run_id, run.run_group) == ("tiny", "pets-vsepp-nt_xent-0000", "pets-vsepp-nt_xent-0000")
    assert run.host == "" and not run.git.remote_url, "nothing about the machine that exports"
    config = {one.key or one.nested_key[0]: json.loads(one.value_json) for one in run.config.update}
    assert (config["temperature"], config["loss"], config["state"]) == (0.1, "nt_xent", "finished")
    assert config["trial_config"]["dataset"] == "pets"
    history = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in one.history.item}
        for one in kept
        if one.HasField("history")
    ]
    assert [(row["_step"], row["val/rsum"]) for row in history] == [(1, 1.0), (2, 3.0), (3, 2.0)]
    times = found.history.trials["pets-vsepp-nt_xent-0000"].times
    assert [row["_timestamp"] for row in history] == pytest.approx([times[1], times[2], times[3]])
    codes = {
        name: next(one.exit.exit_code for one in records(file) if one.HasField("exit")) for name, file in files.items()
    }
    assert {name for name, code in codes.items() if code} == {"pets-vsepp-nt_xent-0002"}
