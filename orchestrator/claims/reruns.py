"""Claims as a suite: their cells are trained again, and each answer is compared with that of an accepted certificate.

A rerun has a folder named by its start, as the rerun of a suite has, and trains with the same seeds each time. Where
nothing has changed, all numbers are identical. A claim that held and is contradicted now is a regression, however few
of its cells moved. A claim that held and is not shown any more is inconclusive, because its p-value may lie near the
level; more seeds decide it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.claims.certificate import (
    CERTIFICATE,
    QUESTIONS,
    certify_confirmed,
    digest_of,
    fix_questions,
    forget_questions,
    read_questions,
)
from orchestrator.claims.claims import Claims
from orchestrator.claims.engine import Outcome
from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.directory import JOURNAL_FILE, read_history
from orchestrator.journal.history import History
from orchestrator.machines.cluster import StartOptions, git_revision
from orchestrator.regression.answers import counts_text
from orchestrator.regression.comparison import ALARMS, Finding, overall
from orchestrator.regression.reruns import Request, Rerun, find_fresh, name_rerun, past_reruns, write_outcome
from orchestrator.results.answer import Answer, Cell, Column, table_of
from orchestrator.text.values import count_text
from orchestrator.tracking.address import choose_uri
from trainables.errors import ConfigError, UserError
from trainables.files import read_state, write_whole

WORDS = {
    Finding.OK: "no claim that held is contradicted",
    Finding.IDENTICAL: "identical to the accepted certificate",
    Finding.IMPROVEMENT: "a further claim holds",
    Finding.REGRESSION: "a claim that held is contradicted",
    Finding.INCONCLUSIVE: "a claim that held is not shown any more",
    Finding.FAILED: "a claim that held was not run",
    Finding.UNKNOWN: "no certificate was accepted to compare with",
}


def train_cells(claims: Claims, experiment: Experiment, options: StartOptions) -> History:
    """Fix the questions, then train the cells of claims, or resume their training.

    Raises:
        UserError: If questions, data, output or cluster are refused, or the experiment is running already.
        SearchInterruptedError: If a signal ended it.
    """
    from orchestrator.searches.begin import run_experiment
    from orchestrator.searches.resuming import SearchInterruptedError

    folder = options.output / experiment.name
    ready = fix_questions(claims, experiment, folder)
    try:
        result = run_experiment(ready, options)
    except SearchInterruptedError:
        # `resume` would train the cells, and answer no claim.
        raise SearchInterruptedError(f"{folder}: resume with the same command") from None
    except UserError:
        forget_questions(folder)
        raise
    return read_history(result.directory)


def rerun_claims(claims: Claims, experiment: Experiment, request: Request) -> Rerun:
    """Train the cells of claims again, or resume a rerun that was interrupted, and compare the answers.

    ``experiment`` trains the cells of the claims; the reference of ``request`` is an accepted certificate.

    Raises:
        UserError: See ``train_cells``; also if the accepted certificate is damaged or of other claims.
    """
    accepted = read_certificate(request.reference, claims)
    home = request.output / f"claims-{claims.name}"
    past = past_reruns(home)
    directory = find_fresh(past.finished, request.if_due)
    history = None
    if directory is None:
        directory = past.unfinished
        if directory is None or not can_resume_claims(directory, claims, experiment):
            directory = name_rerun(home)
        own = _named(experiment, directory)
        uri = choose_uri(request.tracking_uri, request.output)
        history = train_cells(claims, own, replace(request, output=directory, tracking_uri=uri))
        write_whole(directory / QUESTIONS, (directory / own.name / QUESTIONS).read_bytes())
        certify_confirmed(claims, [history], directory)
    summary, answers = compare_certificates(claims, accepted, read_state(directory / CERTIFICATE))
    if history is not None:
        facts = {"again": request.command} if request.command else {}
        summary = write_outcome(directory, "Rerun of claims", answers, summary, facts, history, "rsum")
    is_alarm, was_due = summary["finding"] in ALARMS, history is not None
    return Rerun(directory, summary, is_alarm, was_due, answers=answers, warnings=past.warnings)


def read_certificate(path: Path, claims: Claims) -> dict[str, Any] | None:
    """Return the accepted certificate; ``None`` without a file.

    Raises:
        ConfigError: If the file is damaged, or its questions are not those of the claims.
    """
    if not path.exists():
        return None
    try:
        content = read_state(path)
        digest, _ = content["claims_digest"], content["findings"][0]["answer"]
    except (ValueError, KeyError, TypeError, IndexError):
        raise ConfigError(f"{path}: is no certificate; copy the {CERTIFICATE} of `orchestrator certify`") from None
    if digest != digest_of(claims.model_dump(mode="json")):
        raise ConfigError(f"{path}: answers other questions than {claims.name} asks now; accept a new certificate")
    return dict(content)


def _named(experiment: Experiment, rerun: Path) -> Experiment:
    return experiment.model_copy(update={"name": f"{experiment.name}-{rerun.name}"})


def can_resume_claims(rerun: Path, claims: Claims, experiment: Experiment) -> bool:
    """Whether a rerun whose journal has begun asks the same of the same cells, by the same code."""
    folder = rerun / _named(experiment, rerun).name
    if not (folder / JOURNAL_FILE).exists():
        return False
    asked = {"claims": claims.model_dump(mode="json"), "experiment": _named(experiment, rerun).to_dict()}
    fixed = read_questions(folder / QUESTIONS)
    is_same = {name: fixed.get(name) for name in asked} == asked
    return is_same and read_history(folder).environment.get("git_revision") == git_revision()


def finding_of(before: str | None, now: str) -> Finding:
    """Return the finding about a claim from its accepted answer, ``None`` without one, and its answer now."""
    if before is None:
        return Finding.UNKNOWN
    if before != Outcome.HOLDS:
        return Finding.IMPROVEMENT if now == Outcome.HOLDS else Finding.OK
    return {
        Outcome.HOLDS: Finding.OK,
        Outcome.CONTRADICTED: Finding.REGRESSION,
        Outcome.NOT_RUN: Finding.FAILED,
        Outcome.NOT_SHOWN: Finding.INCONCLUSIVE,
    }[Outcome(now)]


def compare_certificates(
    claims: Claims, accepted: Mapping[str, Any] | None, certificate: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Answer]]:
    """Return what a new certificate says beside the accepted one: the summary's content, and the answers."""
    before = {} if accepted is None else {entry["id"]: entry["answer"] for entry in accepted["findings"]}
    now = {entry["id"]: entry for entry in certificate["findings"]}
    is_identical = accepted is not None and accepted["cells"] == certificate["cells"]
    findings = {
        name: Finding.IDENTICAL if is_identical else finding_of(before.get(name), entry["answer"])
        for name, entry in now.items()
    }
    values = list(findings.values())
    worst = overall(values)
    columns = [
        Column("number", "#", unit="count"),
        Column("statement", "claim", folds=True),
        Column("verdict", "finding"),
        Column("accepted", "accepted"),
        Column("now", "now"),
        Column("p", "p", unit="p"),
    ]
    rows: list[Sequence[Cell]] = []
    of_claims = []
    for claim in claims.claims:
        answer, verdict, known = now[claim.id], str(findings[claim.id]), before.get(claim.id)
        p = answer["p_against"] if answer["answer"] == Outcome.CONTRADICTED else answer["p"]
        rows.append((claim.number, claim.statement, verdict, known, answer["answer"], p))
        of_claims.append(
            Answer(
                key="claim",
                dataset="",
                question=claim.statement,
                headline=answer.get("sentence") or f"Claim {claim.number}: {answer['answer']}.",
                verdict=verdict,
                closest=claim.id,
                notes=() if known is None else (f"In the accepted certificate: {known}.",),
            )
        )
    about = Answer(
        key="claims",
        dataset="",
        question=f"Do the claims of {claims.source} hold as they did in the accepted certificate?",
        headline=f"{claims.name}: {WORDS[worst]} ({count_text(len(values), 'claim')}: {counts_text(values)}).",
        verdict=str(worst),
        table=table_of(columns, rows),
    )
    content = {"suite": claims.name, "finding": str(worst), "claims": {n: str(value) for n, value in findings.items()}}
    return content, [about, *of_claims]
