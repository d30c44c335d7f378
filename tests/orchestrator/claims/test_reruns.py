"""``orchestrator regress claims``: what an answer means beside the accepted one, and which certificates are refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.claims.cells import cells_experiment
from orchestrator.claims.certificate import QUESTIONS, fix_questions
from orchestrator.claims.claims import Claims, load_claims
from orchestrator.claims.engine import Outcome
from orchestrator.claims.reruns import can_resume_claims, compare_certificates, finding_of, train_cells
from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.machines.cluster import StartOptions, describe_environment
from orchestrator.regression.comparison import Finding
from orchestrator.regression.notices import to_junit
from orchestrator.searches.resuming import SearchInterruptedError
from tests.support.commands import CommandLine
from tests.support.experiments import begun

PART = {"kind": "beats", "loss": "nt_xent", "against": ["triplet_sh"], "metrics": ["rsum"]}
CLAIM = {"id": "wins", "number": 1, "statement": "NT-Xent wins.", "where": "table 1", "holds_if": [PART]}


def certificate(answer: str, mean: float) -> dict[str, Any]:
    finding = {"id": "wins", "answer": answer, "p": 0.01, "p_against": 1.0, "sentence": f"Claim 1: {answer} at {mean}."}
    return {"findings": [finding], "cells": [{"loss": "nt_xent", "means": {"rsum": mean}}]}


@pytest.mark.parametrize(
    ("accepted", "found", "verdict", "words"),
    [
        (None, certificate("holds", 80.0), "unknown", "no certificate was accepted"),
        (certificate("holds", 80.0), certificate("holds", 80.0), "identical", "identical to the accepted certificate"),
        (certificate("holds", 80.0), certificate("holds", 70.0), "ok", "no claim that held is contradicted"),
        (certificate("holds", 80.0), certificate("contradicted", 20.0), "regression", "1 claim: 1 regression"),
        (certificate("holds", 80.0), certificate("not shown", 50.0), "inconclusive", "is not shown any more"),
        (certificate("not shown", 80.0), certificate("holds", 81.0), "improvement", "a further claim holds"),
    ],
)
def test_a_certificate_is_compared_with_the_accepted_one(
    accepted: Mapping[str, Any] | None, found: Mapping[str, Any], verdict: str, words: str
) -> None:
    claims = validate(Claims, {"name": "two", "source": "A test", "claims": [CLAIM]}, "two.yaml")
    summary, answers = compare_certificates(claims, accepted, found)
    assert (summary["finding"], summary["claims"]) == (verdict, {"wins": verdict})
    assert words in answers[0].headline and answers[1].headline == found["findings"][0]["sentence"]
    assert ('failures="1"' in to_junit("two", answers, 1.0)) == (verdict == "regression")


@pytest.mark.parametrize("before", [None, *Outcome])
@pytest.mark.parametrize("now", list(Outcome))
def test_only_a_claim_that_held_can_raise_an_alarm(before: str | None, now: str) -> None:
    alarms = finding_of(before, now) in (Finding.REGRESSION, Finding.FAILED)
    assert alarms == (before == "holds" and now in ("contradicted", "not run here"))


@pytest.mark.parametrize(("content", "message"), [("{}", "is no certificate"), ("other", "answers other questions")])
def test_another_certificate_is_refused_first(tmp_path: Path, cli: CommandLine, content: str, message: str) -> None:
    other = json.dumps({"claims_digest": "0" * 64, "findings": [{"id": "a", "answer": "holds"}], "cells": []})
    (tmp_path / "accepted.json").write_text(other if content == "other" else content)
    places = ("--output", tmp_path, "--reference", tmp_path / "accepted.json")
    assert message in cli.refuses("regress", "claims", "ecir-2022", "--datasets", "pets", *places)
    assert [path.name for path in tmp_path.iterdir()] == ["accepted.json"]


def test_an_interrupted_rerun_is_resumed_by_the_same_command_alone(tmp_path: Path) -> None:
    claims = load_claims("ecir-2022")

    def cells(seeds: int = 3, setting: str = "training.epochs=2") -> Experiment:
        return cells_experiment(claims, ["pets"], [], seeds, [setting])

    assert not can_resume_claims(tmp_path, claims, cells())
    own = cells().model_copy(update={"name": f"{cells().name}-{tmp_path.name}"})
    fix_questions(claims, own, tmp_path / own.name)
    with begun(tmp_path / own.name, own, environment=describe_environment()):
        pass
    assert can_resume_claims(tmp_path, claims, cells())
    assert not can_resume_claims(tmp_path, claims, cells(seeds=4))
    assert not can_resume_claims(tmp_path, claims, cells(setting="training.epochs=3"))
    assert not can_resume_claims(tmp_path, claims.model_copy(update={"level": 0.2}), cells())
    with begun(tmp_path / own.name, own, environment={**describe_environment(), "git_revision": "another"}):
        pass
    assert not can_resume_claims(tmp_path, claims, cells())


def test_an_interrupted_training_of_cells_names_the_command_that_answers_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(experiment: Experiment, options: StartOptions) -> None:
        raise SearchInterruptedError(f"resume with: orchestrator resume {experiment.name}")

    monkeypatch.setattr("orchestrator.searches.begin.run_experiment", interrupt)
    claims = load_claims("ecir-2022")
    experiment = cells_experiment(claims, ["pets"], [], 3, [])
    with pytest.raises(SearchInterruptedError, match=r"certify-ecir-2022: resume with the same command$"):
        train_cells(claims, experiment, StartOptions(output=tmp_path))
    assert (tmp_path / experiment.name / QUESTIONS).exists()


def test_the_shipped_claims_can_be_rerun() -> None:
    assert all(load_claims(name).experiment for name in ("ecir-2022", "universal-weighting", "wsabie"))
