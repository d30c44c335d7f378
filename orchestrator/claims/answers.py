"""Claims as answers: the page's answer with a row for each claim, then each claim with the tests that decide it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from orchestrator.claims.claims import Claims, Part, setting_of
from orchestrator.claims.engine import ClaimResult, Group, Missing, Outcome, Test
from orchestrator.results.answer import Answer, Cell, Column, table_of
from orchestrator.text.values import count_text
from orchestrator.text.wording import listed, measured, number_text, p_equals, printed, setting_text, share_text

SHOWN = 12
"""Most tests of a claim in its table, the weakest first."""

NAMED = 3
"""Most cells that a sentence about missing numbers names."""

HEADINGS = {"difference": "difference", "mean": "mean", "correlation": "Spearman's ρ"}
"""Name of the value that a test measures -> the heading of its column."""

WORDS = {
    Outcome.HOLDS: ("holds", "hold"),
    Outcome.CONTRADICTED: ("is contradicted", "are contradicted"),
    Outcome.NOT_SHOWN: ("is not shown", "are not shown"),
    Outcome.NOT_RUN: ("was not run here", "were not run here"),
}
"""The answer to one claim, and to several, as the end of a sentence."""

ASKED = {
    "beats": "{loss} is above {others} by more than {by:g} in {metrics}",
    "best": "none of {others} has a higher mean than {loss}, or is above by {margin:g}, in {metrics}",
    "not_better": "{loss} is above {others} by less than {margin:g} in {metrics}",
    "alike": "{loss} and {others} differ by less than {margin:g} in {metrics}",
    "above": "the mean of {loss} is above {than:g} in {metrics}",
    "below": "the mean of {loss} is below {than:g} in {metrics}",
    "same_best": "the best of {losses} in {metrics} is the best in {and_metrics}, or within {margin:g} of it",
    "opposed": "the ranks of {losses} in {metrics} and in {and_metrics} run against each other",
}
"""Kind of a part -> what it asks in each dataset and model."""


def answers_of(claims: Claims, results: Sequence[ClaimResult], cells: int) -> list[Answer]:
    """Return the answer about all claims, given the number of cells that were run, then one about each claim."""
    return [_of_page(claims, results, cells), *map(_of_claim, results)]


def sentence_of(result: ClaimResult) -> str:
    """Return the answer to a claim in a sentence, with the test that decides it."""
    said, test = f"Claim {result.claim.number} {WORDS[result.outcome][0]}", result.deciding
    if test is None:
        return f"{said}: {_lacks(result.missing)[0]}."
    if result.outcome is Outcome.HOLDS:
        return f"{said} in {count_text(len(result.tests), 'test')}, {p_equals(result.p or 0.0)}."
    if result.outcome is Outcome.CONTRADICTED:
        return f"{said}: {_evidence(test)}, {p_equals(result.p_against or 0.0)}."
    return f"{said}: {_evidence(test)}, {p_equals(test.p)} before the correction."


def loss_name(name: str) -> str:
    """Return a loss with its setting as people read it, such as ``Polynomial (self), degree = 2``."""
    loss, setting = setting_of(name)
    if setting is None:
        return printed(loss)
    return f"{printed(loss)}, {setting_text(setting) if setting else 'best of its search'}"


def _evidence(test: Test) -> str:
    place = "all cells" if test.group[0] == "all" else _place(test.group)
    return f"{_subject(test)} {_number(test)} on {place}"


def _place(group: Group) -> str:
    return " with ".join(printed(name) for name in group if name) or "any dataset"


def _lacks(missing: Sequence[Missing]) -> list[str]:
    """Return what is missing as parts of sentences, one for each loss."""
    by_loss: dict[tuple[str, str], list[Missing]] = {}
    for lack in missing:
        by_loss.setdefault((lack.loss, lack.why), []).append(lack)
    said = []
    for (loss, why), several in by_loss.items():
        places = list(dict.fromkeys(_place(lack.group) for lack in several))
        where = listed(places) if len(places) <= NAMED else f"{listed(places[:1])} and {len(places) - 1} more"
        clause = (
            f"{loss_name(loss)} {why} {_metrics(lack.metric for lack in several)} on" if loss else "there is no cell of"
        )
        said.append(f"{clause} {where}")
    return said


def _number(test: Test) -> str:
    """Return the number of a test with its metric, such as ``+0.30 i2t average recall``."""
    number = number_text(test.difference, signed=test.measures == "difference", decimals=2)
    # A difference by two metrics, of the best by the first, is in the second.
    return f"ρ = {number}" if test.measures == "correlation" else f"{number} {measured(test.metric.split(', ')[-1])}"


def _subject(test: Test) -> str:
    return " against ".join(loss_name(loss) if " " not in loss else loss for loss in test.subject.split(" - "))


def _metrics(names: Iterable[str]) -> str:
    """Return metrics as a list; a metric of both directions has its name once."""
    ways: dict[str, list[str]] = {}
    for name in map(measured, names):
        way, _, rest = name.partition(" ") if name.startswith(("i2t ", "t2i ")) else ("", "", name)
        if way not in ways.setdefault(rest, []):
            ways[rest].append(way)
    return listed(f"{way[0]} {rest}".strip() if len(way) == 1 else f"{rest} (i2t, t2i)" for rest, way in ways.items())


def _of_page(claims: Claims, results: Sequence[ClaimResult], cells: int) -> Answer:
    counts = Counter(result.outcome for result in results)
    said = listed(f"{counts[answer]} {WORDS[answer][counts[answer] > 1]}" for answer in Outcome if counts[answer])
    columns = [
        Column("id", "claim", hidden=True),
        Column("number", "#", unit="count"),
        Column("statement", "claim", folds=True),
        Column("where", "in the paper", hidden=True),
        Column("verdict", "answer"),
        Column("p", "p", unit="p"),
        Column("decides", "deciding test"),
        Column("tests", "tests", unit="count"),
    ]
    rows: list[Sequence[Cell]] = []
    for finding in results:
        about = (finding.claim.id, finding.claim.number, finding.claim.statement, finding.claim.where)
        decides = "" if finding.deciding is None else _number(finding.deciding)
        rows.append((*about, str(finding.outcome), finding.p_of_answer, decides, len(finding.tests) or None))
    return Answer(
        key="claims",
        dataset="",
        question=f"Which claims of {claims.source} hold here?",
        headline=f"Of {count_text(len(results), 'claim')} {said} ({count_text(cells, 'cell')}).",
        numbers={str(outcome): counts[outcome] for outcome in Outcome},
        table=table_of(columns, rows),
        notes=(
            "A claim holds where every test of its form is significant; p is Holm-adjusted over the claims.",
            "The p of a contradicted claim is that of its opposite.",
            f"A page without any true claim calls one of them true in at most {share_text(claims.level)} of pages.",
        ),
    )


def _of_claim(result: ClaimResult) -> Answer:
    claim = result.claim
    ordered = sorted(result.tests, key=lambda test: -test.p)
    columns = [
        Column("dataset", "dataset"),
        Column("model", "model"),
        Column("metric", "metric"),
        Column("subject", "compared"),
        *(Column(name, HEADINGS[name], unit="", signed=name == "difference", decimals=2) for name in HEADINGS),
        Column("p", "p", unit="p"),
    ]
    rows: list[Sequence[Cell]] = []
    for test in ordered[:SHOWN]:
        numbers = (test.difference if test.measures == name else None for name in HEADINGS)
        rows.append((*map(printed, test.group), _metrics(test.metric.split(", ")), _subject(test), *numbers, test.p))
    rest = len(ordered) - SHOWN
    more = (f"{count_text(rest, 'further test')} with smaller p-values.",) if rest > 0 else ()
    missing = tuple(f"Also, {sentence}." for sentence in _lacks(result.missing)[1:])
    asked = (f"Asked ({claim.where}): {'; '.join(map(_asked, claim.holds_if))}.",)
    return Answer(
        key=claim.id,
        dataset="",
        question=claim.statement,
        headline=sentence_of(result),
        verdict=str(result.outcome),
        closest=claim.id,
        numbers={"p": result.p, "p_against": result.p_against},
        table=table_of(columns, rows) if rows else None,
        notes=(*asked, *((claim.note,) if claim.note else ()), *missing, *more),
    )


def _asked(part: Part) -> str:
    """Return what a part asks in words."""
    where = listed([*map(printed, part.datasets), *map(printed, part.models)]) if part.datasets or part.models else ""
    said = ASKED[part.kind].format(
        loss=loss_name(part.loss) if part.loss else "",
        others=listed(map(loss_name, part.against)) if part.against else "",
        losses=listed(map(loss_name, part.losses)) if part.losses else "",
        metrics=_metrics(part.metrics),
        and_metrics=_metrics(part.and_metrics) if part.and_metrics else "",
        **{"by": part.by, "margin": part.margin or 0.0, "than": part.than or 0.0},
    )
    return said.replace(" by more than 0 ", " ") + (f", with {where}" if where else "")
