"""Claims as a suite: their cells are trained again, and each answer is compared with that of an accepted certificate.

A rerun has a folder named by its start, as the rerun of a suite has, and trains with the same seeds each time: where
nothing has changed, all numbers are identical. A claim that held and is contradicted now is a regression, however few
of its cells moved. A claim that held and is not shown any more is inconclusive, because its p-value may lie near the
level; more seeds decide it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.claims.answers import sentence_of
from orchestrator.claims.certificate import (
    CERTIFICATE,
    QUESTIONS,
    Certified,
    certify_confirmed,
    digest_of,
    fix_questions,
    forget_questions,
)
from orchestrator.claims.claims import Claims
from orchestrator.claims.engine import Outcome
from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.reader import read_history
from orchestrator.machines.cluster import Cluster, git_revision
from orchestrator.regression.comparison import SEVERITY, Finding, overall
from orchestrator.regression.notices import to_junit
from orchestrator.regression.reruns import ALARMS, SUMMARY, find_fresh, name_rerun, past_reruns
from orchestrator.report.render import write_answers_page
from orchestrator.results.answer import Answer, Cell, Column, table_of
from orchestrator.text.values import count_text
from orchestrator.text.wording import listed
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


@dataclass(frozen=True)
class ClaimsRequest:
    """What to rerun, and where.

    Attributes:
        claims: The claims.
        experiment: The experiment that trains their cells.
        reference: File of the accepted certificate, which may not exist yet.
        data_root: Folder that holds the datasets.
        output: Folder under which the rerun writes.
        tracking_uri: Address of the MLflow store; by default a database under ``output``.
        cluster: Where trials run, and where their checkpoints are kept.
        if_due: Seconds for which a result counts as fresh; ``None`` reruns in any case.
    """

    claims: Claims
    experiment: Experiment
    reference: Path
    data_root: str
    output: Path
    tracking_uri: str | None = None
    cluster: Cluster = field(default_factory=Cluster)
    if_due: float | None = None


@dataclass(frozen=True)
class ClaimsRerun:
    """The outcome of a rerun of claims.

    Attributes:
        directory: Folder of the rerun.
        finding: The worst finding about a claim.
        content: The summary as plain values.
        answers: The findings as answers, the rerun's first.
        was_due: Whether anything was trained; otherwise the findings are those of the fresh rerun.
    """

    directory: Path
    finding: Finding
    content: Mapping[str, Any]
    answers: Sequence[Answer]
    was_due: bool

    @property
    def is_alarm(self) -> bool:
        """Whether a claim that held in the accepted certificate is contradicted, or was not run."""
        return self.finding in ALARMS


def train_cells(
    claims: Claims,
    experiment: Experiment,
    data_root: str,
    output: Path,
    tracking_uri: str | None,
    cluster: Cluster,
    *,
    quiet: bool,
) -> History:
    """Fix the questions, then train the cells of claims, or resume their training.

    Raises:
        UserError: If questions, data, output or cluster are refused, or the experiment is running already.
    """
    from orchestrator.search.begin import run_experiment

    folder = output / experiment.name
    ready = fix_questions(claims, experiment, folder)
    try:
        found = run_experiment(ready, data_root, output, tracking_uri=tracking_uri, quiet=quiet, cluster=cluster)
    except UserError:
        forget_questions(folder)
        raise
    return read_history(found.directory)


def rerun_claims(request: ClaimsRequest, *, quiet: bool = False) -> ClaimsRerun:
    """Train the cells of claims again, or resume a rerun that was interrupted, and compare the answers.

    Raises:
        UserError: See ``train_cells``; also if the accepted certificate is damaged or of other claims.
    """
    accepted = read_certificate(request.reference, request.claims)
    home = request.output / f"claims-{request.claims.name}"
    past = past_reruns(home)
    fresh = find_fresh(past.finished, request.if_due)
    if fresh is not None:
        found = read_state(fresh / CERTIFICATE)
        return _compared(request.claims, accepted, found, fresh, was_due=False)
    directory = _unfinished(home, past.finished) or name_rerun(home)
    experiment = request.experiment.model_copy(update={"name": f"{request.experiment.name}-{directory.name}"})
    uri = choose_uri(request.tracking_uri, request.output)
    history = train_cells(request.claims, experiment, request.data_root, directory, uri, request.cluster, quiet=quiet)
    questions = directory / experiment.name / QUESTIONS
    write_whole(directory / QUESTIONS, questions.read_bytes())
    certified = certify_confirmed(request.claims, [history], directory)
    rerun = _compared(request.claims, accepted, certified.content, directory, was_due=True, certified=certified)
    write_answers_page(request.claims.name, "Rerun of claims", rerun.answers, directory / "report.html")
    write_whole(directory / "junit.xml", to_junit(request.claims.name, rerun.answers, history.spending.seconds))
    write_whole(directory / SUMMARY, json.dumps({**rerun.content, "ended": time.time()}, indent=1) + "\n")
    return rerun


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


def _unfinished(home: Path, finished: Sequence[Path]) -> Path | None:
    """Return the newest rerun if it has begun with this code and has not ended."""
    begun = sorted(home.glob(f"*/*/{JOURNAL_FILE}"), key=lambda journal: journal.parent.parent.name)
    if not begun or begun[-1].parent.parent in finished:
        return None
    same = read_history(begun[-1].parent).environment.get("git_revision") == git_revision()
    return begun[-1].parent.parent if same else None


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


def _compared(
    claims: Claims,
    accepted: Mapping[str, Any] | None,
    found: Mapping[str, Any],
    directory: Path,
    *,
    was_due: bool,
    certified: Certified | None = None,
) -> ClaimsRerun:
    """Compare two certificates."""
    before = {} if accepted is None else {one["id"]: one["answer"] for one in accepted["findings"]}
    now = {one["id"]: one["answer"] for one in found["findings"]}
    is_identical = accepted is not None and accepted["cells"] == found["cells"]
    findings = {
        name: Finding.IDENTICAL if is_identical else finding_of(before.get(name), answer)
        for name, answer in now.items()
    }
    worst = overall(list(findings.values()))
    sentences = {} if certified is None else {one.claim.id: sentence_of(one) for one in certified.findings}
    answers = [_about(claims, before, found, findings), *_claims(claims, before, now, findings, sentences)]
    content = {"suite": claims.name, "finding": str(worst), "claims": {n: str(one) for n, one in findings.items()}}
    return ClaimsRerun(directory, worst, content, answers, was_due)


def _about(
    claims: Claims, before: Mapping[str, str], found: Mapping[str, Any], findings: Mapping[str, Finding]
) -> Answer:
    values = list(findings.values())
    counts = listed(f"{values.count(one)} {one}" for one in SEVERITY if one in values)
    columns = [
        Column("number", "#", unit="count"),
        Column("statement", "claim", folds=True),
        Column("verdict", "finding"),
        Column("accepted", "accepted"),
        Column("now", "now"),
        Column("p", "p", unit="p"),
    ]
    answered = {one["id"]: one for one in found["findings"]}
    rows: list[Sequence[Cell]] = [
        (
            claim.number,
            claim.statement,
            str(findings[claim.id]),
            before.get(claim.id),
            answered[claim.id]["answer"],
            answered[claim.id]["p"],
        )
        for claim in claims.claims
    ]
    worst = overall(values)
    return Answer(
        key="claims",
        dataset="",
        question=f"Do the claims of {claims.source} hold as they did in the accepted certificate?",
        headline=f"{claims.name}: {WORDS[worst]} ({count_text(len(values), 'claim')}: {counts}).",
        verdict=str(worst),
        table=table_of(columns, rows),
    )


def _claims(
    claims: Claims,
    before: Mapping[str, str],
    now: Mapping[str, str],
    findings: Mapping[str, Finding],
    sentences: Mapping[str, str],
) -> list[Answer]:
    return [
        Answer(
            key="claim",
            dataset="",
            question=claim.statement,
            headline=sentences.get(claim.id, f"Claim {claim.number}: {now[claim.id]}."),
            verdict=str(findings[claim.id]),
            closest=claim.id,
            notes=(f"In the accepted certificate: {before[claim.id]}.",) if claim.id in before else (),
        )
        for claim in claims.claims
    ]
