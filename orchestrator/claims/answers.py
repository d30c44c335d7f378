"""Claims as answers: the page's answer with a row for each claim, then each claim with the tests that decide it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from orchestrator.claims.claims import Claims, Part
from orchestrator.claims.engine import Finding, Outcome, Test
from orchestrator.results.answer import Answer, Cell, Column, table_of
from orchestrator.text.values import count_text
from orchestrator.text.wording import listed, number_text, p_equals, printed, share_text

SHOWN = 12
"""Most tests of a claim in its table, the weakest first."""


def answers_of(claims: Claims, findings: Sequence[Finding], cells: int) -> list[Answer]:
    """Return the answer about all claims, then one about each claim that was tested.

    Args:
        claims: The claims.
        findings: The answer to each.
        cells: Number of cells that were run.
    """
    return [_of_page(claims, findings, cells), *(_of_claim(one) for one in findings if one.tests)]


def sentence_of(finding: Finding) -> str:
    """Return the answer to a claim in a sentence, with the test that decides it."""
    said, weakest = f"Claim {finding.claim.number} {_words(finding.outcome)}", finding.weakest
    if weakest is None:
        return f"{said}."
    if finding.outcome is Outcome.HOLDS:
        return f"{said} in {count_text(len(finding.tests), 'test')}, {p_equals(finding.p or 0.0)}."
    if finding.outcome is Outcome.CONTRADICTED:
        weakest = min(finding.tests, key=lambda test: test.p_against)
        return f"{said}: {_evidence(weakest)}, {p_equals(finding.p_against or 0.0)}."
    return f"{said}: {_evidence(weakest)}, {p_equals(weakest.p)} before the correction."


def _words(outcome: Outcome) -> str:
    return {Outcome.HOLDS: "holds", Outcome.CONTRADICTED: "is contradicted", Outcome.NOT_SHOWN: "is not shown"}.get(
        outcome, "was not run here"
    )


def _evidence(test: Test) -> str:
    return f"{_subject(test)} {number_text(test.difference, test.metric, decimals=2)} {test.metric} on {_group(test)}"


def _subject(test: Test) -> str:
    return " against ".join(printed(loss) if " " not in loss else loss for loss in test.subject.split(" - "))


def _group(test: Test) -> str:
    dataset, model = test.group
    return "all cells" if dataset == "all" else f"{printed(PurePath(dataset).name)} with {printed(model)}"


def _of_page(claims: Claims, findings: Sequence[Finding], cells: int) -> Answer:
    counts = Counter(finding.outcome for finding in findings)
    words = {Outcome.HOLDS: "hold", Outcome.CONTRADICTED: "are contradicted", Outcome.NOT_SHOWN: "are not shown"}
    said = listed(
        f"{counts[outcome]} {words.get(outcome, 'were not run here')}" for outcome in Outcome if counts[outcome]
    )
    columns = [
        Column("id", "claim", hidden=True),
        Column("number", "#", unit="count"),
        Column("statement", "claim"),
        Column("where", "in the paper"),
        Column("tests", "tests", unit="count"),
        Column("p", "p", unit="p"),
        Column("verdict", "answer"),
    ]
    rows: list[Sequence[Cell]] = [
        (
            one.claim.id,
            one.claim.number,
            one.claim.statement,
            one.claim.where,
            len(one.tests) or None,
            one.p,
            one.outcome,
        )
        for one in findings
    ]
    level = share_text(claims.level)
    return Answer(
        key="claims",
        dataset="",
        question=f"Which claims of {claims.source} hold here?",
        headline=f"Of {len(findings)} claims {said} ({count_text(cells, 'cell')}).",
        numbers={str(outcome): counts[outcome] for outcome in Outcome},
        table=table_of(columns, rows),
        notes=(
            "A claim holds where every test of its form is significant; p is Holm-adjusted over the claims.",
            f"A page without any true claim calls one of them true in at most {level} of pages.",
        ),
    )


def _of_claim(finding: Finding) -> Answer:
    claim = finding.claim
    ordered = sorted(finding.tests, key=lambda test: -test.p)
    columns = [
        Column("dataset", "dataset"),
        Column("model", "model"),
        Column("metric", "metric"),
        Column("subject", "compared"),
        Column("difference", "value", unit="number"),
        Column("p", "p", unit="p"),
    ]
    rows: list[Sequence[Cell]] = [
        (printed(test.group[0]), printed(test.group[1]), test.metric, _subject(test), test.difference, test.p)
        for test in ordered[:SHOWN]
    ]
    rest = len(ordered) - SHOWN
    more = (f"{count_text(rest, 'further test')} with smaller p-values.",) if rest > 0 else ()
    asked = (f"Asked: {'; '.join(_asked(part) for part in claim.holds_if)}.",)
    return Answer(
        key=claim.id,
        dataset="",
        question=claim.statement,
        headline=sentence_of(finding),
        verdict=str(finding.outcome),
        numbers={"p": finding.p, "p_against": finding.p_against},
        table=table_of(columns, rows),
        notes=(*asked, *((claim.note,) if claim.note else ()), *more),
    )


def _asked(part: Part) -> str:
    """Return the form of a part in a few words."""
    bounds: dict[str, Any] = {"by": part.by or None, "margin": part.margin, "than": part.than}
    about = " ".join(f"{name} {bound:g}" for name, bound in bounds.items() if bound is not None)
    losses = listed(map(printed, part.against or part.losses)) if part.against or part.losses else ""
    where = listed(map(printed, part.models)) if part.models else ""
    words = (printed(part.loss) if part.loss else "", part.kind.replace("_", " "), losses, about)
    said = " ".join(word for word in words if word)
    return f"{said} in {', '.join(part.metrics)}" + (f", with {where}" if where else "")
