"""The result of a rerun as answers, which the terminal, the page, JUnit and the webhook show.

The first answer is about the suite, with a row for each cell. An answer about each cell follows: the sentence about it,
the numbers that were compared, the conditions that changed, and the scores of its newest reruns.
"""

from collections.abc import Iterator, Mapping, Sequence

from orchestrator.regression.accepted import Accepted, CellRecord
from orchestrator.regression.comparison import POWER, Finding, MeanChange
from orchestrator.regression.suite import Suite
from orchestrator.regression.verdict import CellResult, SuiteResult, blind_cells
from orchestrator.results.answer import Answer, Cell, Column, Quantity, Table, table_of
from orchestrator.text.values import count_text, in_digits, value_text
from orchestrator.text.wording import (
    interval_text,
    listed,
    metric_name,
    metric_words,
    number_text,
    p_equals,
    printed,
    setting_text,
    share_text,
)

SHOWN = 6
"""Number of the newest reruns whose scores a page shows."""

NAMED = 1
"""Most numbers of the gradients that a sentence names, those that moved most."""

MOST_CHANGED = 4
"""Most conditions that a sentence names."""

QUIET = (Finding.OK, Finding.IDENTICAL, Finding.IMPROVEMENT)
"""Findings of cells about which the table of the suite says enough on a terminal."""

HEADLINES = {
    Finding.OK: "no regression",
    Finding.IDENTICAL: "identical to the accepted runs",
    Finding.INCONCLUSIVE: "inconclusive: more seeds are needed",
    Finding.FAILED: "a training failed",
    Finding.UNKNOWN: "nothing was accepted to compare with",
}
"""Finding of a suite -> the finding in words; without findings whose name says it."""


def answers_about_suite(
    result: SuiteResult, suite: Suite, runs: Mapping[str, CellRecord], accepted: Accepted | None
) -> list[Answer]:
    """Return the answer about a suite, then one about each cell, the worst finding first.

    ``runs`` are the new runs by the names of their cells; ``accepted`` is what they were compared with, if anything.
    """
    names = cell_names(suite)
    worst_first = sorted(result.cells, key=lambda cell: list(Finding).index(cell.finding))
    rule = suite.gradients_matter, result.levels[1]
    cells = [_of_cell(cell, names[cell.name], suite.score, result.causes, *rule) for cell in worst_first]
    return [_of_suite(result, suite, names, runs, accepted), *cells]


def counts_text(findings: Sequence[Finding]) -> str:
    """Return the number of each finding, the worst first, such as ``1 regression and 2 ok``."""
    return listed(f"{findings.count(finding)} {finding}" for finding in Finding if finding in findings)


def cell_names(suite: Suite) -> dict[str, str]:
    """Return title of a cell -> its printed name, such as ``NT-Xent on scenes``; the title where names are equal."""
    several = len({cell.model for cell in suite.cells}) > 1
    names = {}
    for cell in suite.cells:
        loss = f"{printed(cell.model)} {printed(cell.loss)}" if several else printed(cell.loss)
        names[cell.title] = f"{loss} on {printed(cell.dataset)}"
        if (
            sum((peer.dataset, peer.model, peer.loss) == (cell.dataset, cell.model, cell.loss) for peer in suite.cells)
            > 1
        ):
            names[cell.title] += f" ({cell.name or setting_text(cell.loss_parameters)})"
    return names if len(set(names.values())) == len(names) else {title: title for title in names}


def headline(result: SuiteResult) -> str:
    """Return a suite's result in a few words, with the score of its worst cell, such as ``changed: val/rsum +50.5``."""
    words = HEADLINES.get(result.finding, str(result.finding))
    scores = [cell.score for cell in result.cells if cell.finding is result.finding and cell.score]
    if result.finding not in (Finding.IMPROVEMENT, Finding.REGRESSION, Finding.CHANGED) or not scores:
        return words
    return f"{words}: {_gap(max(scores, key=lambda score: abs(score.difference)))}"


def _of_suite(
    result: SuiteResult,
    suite: Suite,
    names: Mapping[str, str],
    runs: Mapping[str, CellRecord],
    accepted: Accepted | None,
) -> Answer:
    counts = counts_text([cell.finding for cell in result.cells])
    against = (
        f"Compared with the runs that {accepted.who} accepted on {accepted.when[:10]}: {accepted.why}"
        if accepted
        else "Nothing has been accepted for this suite yet."
    )
    alarms = (
        f"A suite without any change is called a regression in at most {share_text(result.false_alarms)} of reruns.",
        f"Detectable: the true drop that these seeds find in {share_text(POWER)} of reruns.",
    )
    blind = {} if accepted is None else blind_cells(suite, accepted)
    known = {} if accepted is None else accepted.cells
    score = suite.score
    columns = [
        Column("cell", "cell", hidden=True),
        Column("name", "baseline"),
        Column("accepted", "accepted", unit=score),
        Column("new", "new", unit=score),
        Column("difference", "difference", unit=score, signed=True, shows="both"),
        Column("p", "p (lower)", unit="p"),
        Column("detectable", "detectable", unit=score),
        Column("published", "to the paper", unit=score, signed=True),
        Column("seeds", "seeds", unit="count"),
        Column("identical", "identical", unit="count"),
        Column("verdict", "finding"),
    ]
    rows: list[Sequence[Cell]] = []
    for cell in result.cells:
        before, after = (_quantity(side.get(cell.name), score) for side in (known, runs))
        compared = (None, None, None) if cell.score is None else _compared(cell.score)
        paper = None if cell.published is None else cell.published.difference
        counted = (cell.seeds, cell.identical, str(cell.finding))
        rows.append((cell.name, names[cell.name], before, after, *compared, paper, *counted))
    return Answer(
        key="suite",
        dataset="",
        question="Do the baselines give the accepted results?",
        headline=f"{result.suite}: {headline(result)} ({count_text(len(result.cells), 'cell')}: {counts}).",
        verdict=str(result.finding),
        numbers={"false_alarms": result.false_alarms},
        table=table_of(columns, rows),
        notes=(*causes_of_all(result), *_changed_without_harm(result), against, *alarms, *blind_notes(suite, blind)),
    )


def _changed_without_harm(result: SuiteResult) -> Iterator[str]:
    """Say which conditions changed since cells were accepted that are identical, or not worse: the good news."""
    for finding, words in ((Finding.IDENTICAL, "identical"), (Finding.OK, "not worse")):
        cells = [cell for cell in result.cells if cell.finding is finding]
        shared = [line for line in cells[0].changed if all(line in cell.changed for cell in cells)] if cells else []
        if shared:
            count = count_text(len(cells), "cell")
            more = f"; and {len(shared) - MOST_CHANGED} more" if len(shared) > MOST_CHANGED else ""
            yield f"Changed, while {count} stayed {words}: {'; '.join(shared[:MOST_CHANGED])}{more}."


def blind_notes(suite: Suite, blind: Mapping[str, float]) -> list[str]:
    """Return the sentence about cells whose accepted seeds cannot detect the drop that matters; none without one."""
    if not blind:
        return []
    names = cell_names(suite)
    drops = listed(f"{names[name]} {number_text(drop, suite.score)}" for name, drop in blind.items())
    return [
        f"A drop of {number_text(suite.matters, suite.score)} matters, and these seeds detect: {drops}. "
        f"Raise `seeds` ({suite.seeds}), or `matters`."
    ]


def _compared(change: MeanChange) -> tuple[Quantity, float | None, float]:
    if change.finding is Finding.IDENTICAL:
        # Equal numbers leave nothing to test.
        return Quantity(change.difference), None, change.detectable
    ends = change.interval
    return Quantity(change.difference, None, ends.low, ends.high), change.p, change.detectable


def _quantity(runs: CellRecord | None, metric: str) -> Quantity | None:
    known = None if runs is None else runs.runs("", metric)
    measure = None if known is None else known.measure(metric)
    return None if measure is None else Quantity(measure.mean, measure.sample_std)


def _of_cell(cell: CellResult, name: str, score: str, shared: Sequence[str], matters: float, level: float) -> Answer:
    """Return the answer about a cell; ``shared`` are the causes that all cells with a finding share.

    ``matters`` is the share by which a number of the gradients has to move, at the ``level`` of one such number.
    """
    trend = [*cell.trend, ("this rerun", cell.mean)] if cell.trend and cell.mean is not None else []
    moved = [number_text(mean, score) for _, mean in trend[-SHOWN:] if mean is not None]
    return Answer(
        key="cell",
        dataset="",
        question=name,
        headline=sentence_on_cell(cell, name),
        verdict=str(cell.finding),
        closest=cell.name,
        table=_cell_table(cell, matters),
        notes=(
            *([f"Rerun with {cell.needed} seeds to settle it."] if cell.needed else []),
            *(f"Changed: {line}" for line in cell.causes if line not in shared),
            *cell.notes,
            *([_moved(cell.drift)] if cell.drift else []),
            *([_rule(cell, matters, level)] if cell.finding is Finding.CHANGED else []),
            *([f"{metric_name(score)} of the newest reruns: {', '.join(moved)}."] if moved else []),
        ),
    )


def _rule(cell: CellResult, matters: float, level: float) -> str:
    """Say when a number of the gradients counts as changed."""
    tests, share = count_text(len(cell.gradients), "number"), share_text(matters)
    return f"Of {tests} of this cell's gradients, one changed where it moved by {share} with p ≤ {in_digits(level, 2)}."


def _word(cell: CellResult, change: MeanChange, matters: float) -> str:
    """Return the finding about a number; one that moved enough, at too large a p, is not called well."""
    is_small = change.share is not None and abs(change.share) < matters
    is_gradient = change in cell.gradients
    return "not significant" if is_gradient and change.finding is Finding.OK and not is_small else str(change.finding)


def _cell_table(cell: CellResult, matters: float) -> Table | None:
    columns = [
        Column("metric", "metric", hidden=True),
        Column("name", "number"),
        Column("accepted", "accepted", unit="number"),
        Column("new", "new", unit="number"),
        Column("share", "moved by", unit="share", signed=True),
        Column("p", "p", unit="p"),
        Column("detectable", "detectable", unit="number"),
        Column("verdict", "finding"),
    ]
    rows: list[Sequence[Cell]] = []
    for change in _changes(cell):
        numbers = (change.accepted, change.new, change.share, change.p, change.detectable)
        rows.append((change.metric, metric_words(change.metric), *numbers, _word(cell, change, matters)))
    return table_of(columns, rows) if rows else None


def sentence_on_cell(cell: CellResult, name: str) -> str:
    """Return the sentence about a cell with this printed name."""
    if cell.finding is Finding.IDENTICAL:
        return f"{name}: identical to the accepted runs in {cell.identical} of {cell.identical} shared seeds."
    if cell.finding is Finding.UNKNOWN:
        return f"{name}: nothing was accepted to compare with."
    if cell.finding is Finding.CHANGED:
        return f"{name} changed: {_changed(cell)}. Accept it or find out why."
    change = cell.score or cell.published
    if cell.finding is Finding.REGRESSION:
        change = next((comparison for comparison in _changes(cell) if comparison.finding is Finding.REGRESSION), change)
    words = HEADLINES.get(cell.finding, str(cell.finding)).partition(":")[0].capitalize()
    return f"{name}: {words}." if change is None else f"{name}: {_moved(change)} {words}."


def _changes(cell: CellResult) -> list[MeanChange]:
    return [change for change in (cell.score, cell.drift, cell.published, *cell.gradients) if change is not None]


def _changed(cell: CellResult) -> str:
    """Return the numbers of a cell that changed, the score first."""
    moved = [change for change in cell.gradients if change.finding is Finding.CHANGED]
    moved.sort(key=lambda change: -abs(change.share or 0.0))
    parts = [_gap(cell.score)] if cell.score is not None else []
    parts += [
        f"{metric_words(change.metric)} {value_text(change.accepted)} → {value_text(change.new)}"
        for change in moved[:NAMED]
    ]
    rest = len(moved) - NAMED
    return "; ".join(parts) + (f" and {count_text(rest, 'further number')}" if rest > 0 else "")


def _gap(change: MeanChange) -> str:
    """Return a score's name with its difference, such as ``val rsum −4.3``."""
    return f"{metric_words(change.metric)} {number_text(change.difference, change.metric, signed=True)}"


def _moved(change: MeanChange) -> str:
    ends = interval_text(change.interval.low, change.interval.high, change.metric)
    gap = number_text(change.difference, change.metric, signed=True)
    values = f"{number_text(change.new, change.metric)}, accepted {number_text(change.accepted, change.metric)}"
    return f"{metric_words(change.metric)} {values} ({gap}, 95 % CI {ends}, {p_equals(change.p)})."


def causes_of_all(result: SuiteResult) -> tuple[str, ...]:
    """Return the conditions that changed for every cell with an alarm; empty where no cell has one."""
    alarmed = [cell for cell in result.cells if cell.is_alarm]
    if not any(cell.score or cell.gradients for cell in alarmed):
        return ()
    if result.causes:
        return tuple(f"Changed since these cells were accepted: {line}" for line in result.causes)
    if any(cell.causes for cell in alarmed):
        return ("No condition changed for all of these cells; see each cell.",)
    return (
        "Config, data, code, versions and hardware are those of the accepted runs.",
        "The cause is chance, or a condition that is not recorded, such as a driver or the load of the machine.",
    )
