"""Which folders of a suite are reruns: a copy that somebody made is not taken for the newest."""

import json
import time
from pathlib import Path

from orchestrator.regression.rerun import SUMMARY, find_fresh, list_reruns

STRAYS = ("20260102T030405Z.bak", "backup", "20260102T030406Z (copy)")


def test_copies_of_reruns_are_no_reruns(tmp_path: Path) -> None:
    now = time.time()
    ages = {"20260101T030405Z": 3600, "20260102T030405Z": 60, **dict.fromkeys(STRAYS, 10**6)}
    for name, age in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / SUMMARY).write_text(json.dumps({"ended": now - age}))
    (tmp_path / "20260103T030405Z").mkdir()
    assert [path.name for path in list_reruns(tmp_path, SUMMARY)] == ["20260101T030405Z", "20260102T030405Z"]
    assert find_fresh(tmp_path, 600.0) == tmp_path / "20260102T030405Z"
