"""``orchestrator regress claims``: the findings about claims, and the exit code, without any training."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import orchestrator.regression.claims as claims_module
from orchestrator.claims.certificate import fix_questions
from orchestrator.claims.claims import Claims, load_claims
from orchestrator.claims.engine import Outcome
from orchestrator.cli import main
from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.regression.claims import finding_of
from orchestrator.regression.comparison import Finding
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test, start

FILE = """
name: two
source: A test
experiment: {losses: [triplet_sh, nt_xent], search: {trials: 1}}
claims:
  - id: nt-xent-wins
    number: 1
    statement: NT-Xent beats the triplet loss.
    where: table 1
    holds_if: [{kind: beats, loss: nt_xent, against: [triplet_sh], metrics: [rsum]}]
"""


@pytest.fixture
def rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs the command, in which trainings give some values of NT-Xent beside 50 to 52."""
    (tmp_path / "two.yaml").write_text(FILE)
    values: dict[str, list[float]] = {}

    def trained(asked: Claims, experiment: Experiment, root: str, output: Path, *_: object, **__: object) -> History:
        folder = output / experiment.name
        fix_questions(asked, experiment, folder)
        ledger = Ledger(folder / "journal.jsonl")
        start(ledger, make_experiment(losses=["triplet_sh", "nt_xent"], confirm={"top": 1, "seeds": 3}))
        for loss, setting in (("triplet_sh", {"margin": 0.2}), ("nt_xent", {"temperature": 0.1})):
            trial = add_trial(ledger, [10.0], loss=loss, params=setting)
            scores = values["nt_xent"] if loss == "nt_xent" else [50.0, 51.0, 52.0]
            open_test(ledger, [add_repeat(ledger, trial, seed, seed, value) for seed, value in enumerate(scores)])
        ledger.close()
        return ledger.history

    monkeypatch.setattr(claims_module, "train_cells", trained)

    def run(*scores: float, arguments: tuple[str, ...] = ()) -> int:
        values["nt_xent"] = list(scores)
        with pytest.raises(SystemExit) as ended:
            places = ("--output", str(tmp_path), "--reference", str(tmp_path / "accepted.json"))
            main(["regress", "claims", str(tmp_path / "two.yaml"), "--datasets", "pets", *places, *arguments])
        return int(ended.value.code or 0)

    return run


def accept(folder: Path) -> None:
    newest = max(folder.glob("claims-two/*/certificate.json"))
    (folder / "accepted.json").write_bytes(newest.read_bytes())


def test_a_claim_that_held_and_is_contradicted_ends_with_exit_code_5(
    tmp_path: Path, rerun: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rerun(80.0, 81.0, 82.0) == 0
    assert "no certificate was accepted to compare with" in capsys.readouterr().out
    accept(tmp_path)
    assert rerun(80.0, 81.0, 82.0) == 0
    assert "identical to the accepted certificate" in capsys.readouterr().out
    assert rerun(70.0, 71.0, 72.0) == 0
    assert "no claim that held is contradicted (1 claim: 1 ok)" in capsys.readouterr().out
    assert rerun(20.0, 21.0, 22.0) == 5
    said = capsys.readouterr().out
    assert "a claim that held is contradicted (1 claim: 1 regression)" in said
    assert "Claim 1 is contradicted: NT-Xent against Triplet SH −30.00 rsum on pets with VSE++" in said
    newest = max(tmp_path.glob("claims-two/*"))
    assert 'failures="1"' in (newest / "junit.xml").read_text()
    assert json.loads((newest / "certificate.json").read_text())["questions"]["sha256"]
    assert rerun(80.0, 81.0, 82.0, arguments=("--if-due", "24h")) == 5, "the finding stays while it is fresh"
    accept(tmp_path)
    assert rerun(80.0, 81.0, 82.0, arguments=("--if-due", "24h")) == 0, "it was accepted"


def test_a_claim_that_is_not_shown_any_more_is_inconclusive(
    tmp_path: Path, rerun: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    rerun(80.0, 81.0, 82.0)
    accept(tmp_path)
    assert rerun(50.5, 51.5, 52.5) == 0
    assert "a claim that held is not shown any more (1 claim: 1 inconclusive)" in capsys.readouterr().out


@pytest.mark.parametrize(("content", "message"), [("{}", "is no certificate"), ("other", "answers other questions")])
def test_another_certificate_is_refused_before_any_training(
    tmp_path: Path, rerun: Callable[..., int], capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    other = json.dumps({"claims_digest": "0" * 64, "findings": [{"id": "a", "answer": "holds"}], "cells": []})
    (tmp_path / "accepted.json").write_text(other if content == "other" else content)
    assert rerun(80.0, 81.0, 82.0) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "claims-two").exists()


@pytest.mark.parametrize("before", [None, *Outcome])
@pytest.mark.parametrize("now", list(Outcome))
def test_only_a_claim_that_held_can_raise_an_alarm(before: str | None, now: str) -> None:
    alarms = finding_of(before, now) in (Finding.REGRESSION, Finding.FAILED)
    assert alarms == (before == "holds" and now in ("contradicted", "not run here"))


def test_the_shipped_claims_can_be_rerun() -> None:
    assert all(load_claims(name).experiment for name in ("ecir-2022", "universal-weighting", "wsabie"))
