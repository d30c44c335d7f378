"""The summary of a rerun: what is written is read again, and what older versions wrote is read as far as it goes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.regression.accepted import written_runs
from orchestrator.regression.reruns import EndedRerun
from tests.support.regression_results import runs


@pytest.mark.parametrize("missing", [{}, {7: "diverged"}])
def test_runs_are_read_as_they_were_written(missing: dict[int, str]) -> None:
    whole = replace(runs([300.0, 301.0]), missing=missing)
    content = {"ended": 5.0, "finding": "regression", "runs": {"pets": written_runs(whole)}}
    read = EndedRerun.of(json.loads(json.dumps(content)))
    assert read == EndedRerun(5.0, "regression", {"pets": whole}, json.loads(json.dumps(content)))
    assert read.is_alarm


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"ended": 5.0}, id="neither finding nor runs"),
        pytest.param({"ended": 5.0, "runs": {"pets": {"values": {"0": {}}, "missing": {}}}}, id="no conditions"),
    ],
)
def test_what_older_versions_did_not_record_is_left_out(content: dict[str, Any]) -> None:
    assert EndedRerun.of(content) == EndedRerun(5.0, "", {}, content)
