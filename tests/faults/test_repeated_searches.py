"""Repeated searches that are killed resume to the trials and the verdict of an undisturbed run, with early stopping."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal.trial import Stage
from orchestrator.results.answers import Summary
from tests.faults.searches import SearchesHere, tiny


def repeated() -> Any:
    """Return two losses, each searched twice with early stopping, whose best are trained again."""
    return tiny(
        losses=["nt_xent", "triplet_sh"],
        search={"sampler": "random", "trials": 3, "repeats": 2, "seed": 4},
        scheduler={"name": "asha", "grace_epochs": 1, "reduction_factor": 2},
        training={"epochs": 3},
        confirm={"seeds": 2},
    )


def searches_in(folder: Path) -> SearchesHere:
    folder.mkdir()
    return SearchesHere(folder / "output")


@pytest.mark.proof
def test_repeated_searches_resume_after_a_kill_in_the_search_and_in_the_confirmation(tmp_path: Path) -> None:
    killed, whole = searches_in(tmp_path / "killed"), searches_in(tmp_path / "whole")
    for searches in (killed, whole):
        searches.output.mkdir()
    experiment = repeated()
    killed.crash(experiment, killed.workload(noise=1.0), lambda history: len(history.ended) >= 4)
    killed.crash(experiment, killed.workload(noise=1.0), lambda history: len(history.stage(Stage.CONFIRM)) >= 3)
    killed.finish(experiment, killed.workload(noise=1.0))
    whole.finish(experiment, whole.workload(noise=1.0))
    ours, theirs = killed.history(), whole.history()
    suggested = {trial.id: (trial.search, trial.params, trial.config.seed) for trial in theirs.stage(Stage.SEARCH)}
    assert {
        trial.id: (trial.search, trial.params, trial.config.seed) for trial in ours.stage(Stage.SEARCH)
    } == suggested
    assert len(suggested) == 2 * 2 * 3 and ours.test_openings == {"pets": 1}
    verdict = Summary(ours).verdicts["pets"]
    assert [candidate.count for candidate in verdict.candidates] == [2, 2] and verdict.decided_by == "searches"
