"""A certificate: the questions as they were fixed before training, the answers, and digests of all they rest on.

``questions.json`` is written before the first training. Its SHA-256 goes into the experiment's description, which the
first record of the journal holds, and into the certificate: ``sha256sum questions.json`` checks it. A second start with
other questions is refused. The certificate says that the questions were not fixed before where the file or the claims
were edited since, or where an experiment was trained without them, or with more seeds. So nobody can move them after
the answers. A cell that was fixed and has no trainings is missing.

The page has an answer about all claims with a row for each, then each claim with the tests that decide it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import product
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from orchestrator.claims.cells import confirmed_cells, published_cells
from orchestrator.claims.claims import Claims, Part, setting_of
from orchestrator.claims.engine import SHARE, ClaimResult, Group, Groups, Missing, Outcome, Test, decide_claims
from orchestrator.experiment.experiment import Experiment, experiment_of
from orchestrator.journal.history import History
from orchestrator.machines.cluster import describe_environment
from orchestrator.reference.published import CAPTIONS_PER_IMAGE, DATASETS, TEST_IMAGES, study_dataset
from orchestrator.results.answer import Answer, Cell, Column, table_of
from orchestrator.results.answers import Summary, measure_of
from orchestrator.results.caveats import still_rising
from orchestrator.results.tables import published_tables, tables_of
from orchestrator.text.values import count_text, in_digits
from orchestrator.text.wording import (
    listed,
    metric_meaning,
    metric_name,
    number_text,
    p_equals,
    printed,
    setting_text,
    share_text,
)
from orchestrator.views.html import sections_page
from trainables.errors import ConfigError
from trainables.files import read_state, write_whole
from trainables.metric_table import name_parts, of_claim
from trainables.ranks import chance_rsum

FORMAT = 2
QUESTIONS, CERTIFICATE, PAGE = "questions.json", "certificate.json", "certificate.html"

SHOWN = 12
"""Most tests of a claim in its table, the weakest first."""

NAMED = 3
"""Most cells that a sentence about missing numbers names."""

HEADINGS = {"difference": "difference", "mean": "mean", "slope": "change a rank"}
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
    "opposed": "over the ranks of {losses} in {metrics}, {and_metrics} falls, in the mean over the cells",
}
"""Kind of a part -> what it asks in each dataset and model."""

Certified = tuple[list[Answer], dict[str, Any]]
"""Claims with their answers, the page's first, and the certificate as plain values for JSON."""


def digest_of(values: Any) -> str:
    """Return the SHA-256 of plain values as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def fix_questions(claims: Claims, experiment: Experiment, folder: Path) -> Experiment:
    """Write the questions into the folder of their experiment, or check that the same questions were fixed there.

    Returns:
        The experiment, with the SHA-256 of the questions' file in its description.

    Raises:
        ConfigError: If other questions were fixed there, or their file is damaged.
    """
    path = folder / QUESTIONS
    seeds = None if experiment.confirm is None else experiment.confirm.seeds
    cells = {"datasets": list(experiment.datasets), "models": list(experiment.models), "seeds": seeds}
    asked = {"format": FORMAT, "claims": claims.model_dump(mode="json"), "cells": cells}
    if path.exists():
        fixed = read_questions(path)
        if {name: fixed.get(name) for name in asked} != asked:
            raise ConfigError(
                f"{path}: other claims, datasets, models or seeds were fixed there; name another --output"
            )
    else:
        # A journal will lie here, which decides what a resume runs: nobody else may enter.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = experiment.to_dict()
        write_whole(path, json.dumps({**asked, "experiment": settings}, indent=1, sort_keys=True) + "\n")
    about = f"Claims of {claims.source}. SHA-256 of {QUESTIONS}: {_file_digest(path)}"
    return experiment.model_copy(update={"description": about})


def read_questions(path: Path) -> dict[str, Any]:
    """Return the questions that a file holds.

    Raises:
        ConfigError: If the file is damaged.
    """
    try:
        return dict(read_state(path))
    except (ValueError, TypeError):
        raise ConfigError(f"{path}: is damaged; restore it from a backup, or name another --output") from None


def forget_questions(folder: Path) -> None:
    """Remove the questions of an experiment that was refused before its journal began."""
    if sorted(path.name for path in folder.glob("*")) == [QUESTIONS]:
        (folder / QUESTIONS).unlink()
        with suppress(OSError):
            folder.rmdir()


def certify_confirmed(claims: Claims, histories: Sequence[History], folder: Path) -> Certified:
    """Answer claims from confirmed experiments; write certificate and page, beside the questions if they are there."""
    cells = confirmed_cells(histories, claims)
    summaries = list(map(Summary, histories))
    tables = tables_of(summaries, with_published=True, cocos=True)
    sections = {"The papers' tables": tables}
    if not any(study_dataset(dataset) in DATASETS.values() for dataset, _ in cells):
        sections["As published"] = published_tables(claims.papers)
    short = [
        f"{printed(dataset)}: {sentence}"
        for history in histories
        for dataset in dict.fromkeys(trial.config.dataset for trial in history.trials.values())
        for sentence in still_rising([trial for trial in history.trials.values() if trial.config.dataset == dataset])
    ]
    return _written(claims, cells, sections, summaries, measure_of("rsum", summaries), folder, short)


def certify_published(claims: Claims, folder: Path) -> Certified:
    """Answer claims from the papers' own tables, and write certificate and page."""
    cells, tables = published_cells(claims), {"As published": published_tables(claims.papers)}
    sizes = (TEST_IMAGES[dataset] for dataset in dict.fromkeys(dataset for dataset, _ in cells))
    chances = (chance_rsum(np.arange(images).repeat(CAPTIONS_PER_IMAGE)) for images in sizes)
    return _written(claims, cells, tables, [], metric_meaning("rsum", *chances), folder)


def _written(
    claims: Claims,
    cells: Groups,
    tables: Mapping[str, Sequence[Answer]],
    summaries: Sequence[Summary],
    measure: str,
    folder: Path,
    caveats: Sequence[str] = (),
) -> Certified:
    questions, moved = _fixed_questions(claims, [summary.history for summary in summaries], cells, folder)
    if questions is not None:
        # A cell that was fixed and is left out is missing, whatever the others say.
        fixed_cells = read_questions(folder / QUESTIONS)["cells"]
        names = [PurePath(dataset).name for dataset in fixed_cells["datasets"]]
        cells = {**{group: {} for group in product(names, fixed_cells["models"])}, **cells}
    results, count = decide_claims(claims, cells), sum(map(len, cells.values()))
    answers = answers_to_claims(claims, results, count, [*_choice(cells), *caveats])
    environment = describe_environment()
    content: dict[str, Any] = {
        "format": FORMAT,
        "claims": claims.name,
        "source": claims.source,
        "level": claims.level,
        "claims_digest": digest_of(claims.model_dump(mode="json")),
        "questions": questions,
        "code": environment["git_revision"],
        "versions": dict(environment["versions"]),
        "experiments": [_experiment(summary.history) for summary in summaries],
        "findings": [_finding(result) for result in results],
        "cells": [
            {
                "dataset": dataset,
                "model": model,
                "loss": loss,
                "seeds": max(measure.seeds for measure in runs.measures().values()),
                "best_of_trials": runs.trials,
                "means": {name: measure.mean for name, measure in sorted(runs.measures().items())},
                "sample_std": {name: measure.sample_std for name, measure in sorted(runs.measures().items())},
            }
            for (dataset, model), losses in cells.items()
            for loss, runs in losses.items()
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CERTIFICATE, json.dumps(content, indent=1) + "\n")
    fixed = f"{questions['fixed'][:16].replace('T', ' ')} UTC" if questions else "not before training"
    facts = [
        ("claims", str(len(results)), ""),
        ("cells", str(count), ""),
        ("questions fixed", fixed, f"SHA-256 {questions['sha256'][:16]}…" if questions else moved),
        ("code", str(content["code"])[:12], ""),
    ]
    sections = [
        ("", "", measure, answers),
        *((heading, "", "", entries) for heading, entries in tables.items() if entries),
    ]
    write_whole(folder / PAGE, sections_page(claims.name, "Claims of a paper", sections, facts=facts))
    return answers, content


def _choice(cells: Groups) -> list[str]:
    """Say of how many trials cells are the best, if a single search chose their settings."""
    every = [runs for losses in cells.values() for runs in losses.values()]
    counts = [runs.trials for runs in every if runs.trials and not runs.is_repeated]
    if not counts:
        return []
    least, most = min(counts), max(counts)
    of = count_text(most, "trial") if least == most else f"{least} to {most} trials"
    return [
        f"One search chose the setting of {len(counts)} of {count_text(len(every), 'cell')}, the best of {of}.",
        "The answers are about these settings: another search may find others.",
    ]


def _fixed_questions(
    claims: Claims, histories: Sequence[History], cells: Groups, folder: Path
) -> tuple[dict[str, str] | None, str]:
    """Return when the questions of a folder were fixed, by the journals, and the digest of their file.

    Returns:
        ``None`` and the reason where the file does not ask these claims, where a journal did not have its digest before
        the first trial, or where seeds were added since: the questions were not fixed before training.
    """
    path = folder / QUESTIONS
    if not histories or not path.exists():
        return None, "no questions were fixed here"
    asked = read_questions(path)
    if asked.get("claims") != claims.model_dump(mode="json"):
        return None, "other claims were fixed"
    digest = _file_digest(path)
    starts = [history.start_before_trials for history in histories]
    fixed = [start.time for start in starts if start and digest in str(start.experiment.get("description"))]
    if len(fixed) < len(histories):
        return None, "an experiment was trained without them"
    # Who saw the values may have added seeds until a claim held.
    planned = asked["cells"]["seeds"]
    if planned and any(runs.count > planned for losses in cells.values() for runs in losses.values()):
        return None, f"{count_text(planned, 'seed')} were fixed, and more were trained"
    return {"fixed": f"{datetime.fromtimestamp(min(fixed), UTC):%Y-%m-%dT%H:%M:%SZ}", "sha256": digest}, ""


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _experiment(history: History) -> dict[str, Any]:
    """Return what an experiment rests on: digests of its settings and data, its code and its versions."""
    settings = experiment_of(history).to_dict()
    return {
        "name": settings["name"],
        "settings_digest": digest_of(settings),
        "data": dict(history.data),
        "code": history.environment["git_revision"],
        "versions": dict(history.environment["versions"]),
    }


def _finding(result: ClaimResult) -> dict[str, Any]:
    return {
        "id": result.claim.id,
        "statement": result.claim.statement,
        "where": result.claim.where,
        "holds_if": [part.model_dump(mode="json", exclude_defaults=True) for part in result.claim.holds_if],
        "answer": str(result.outcome),
        "sentence": sentence_on_claim(result),
        "p": result.p,
        "p_against": result.p_against,
        "missing": [asdict(lack) for lack in result.missing],
        "tests": [asdict(test) for test in result.tests],
    }


def sentence_on_claim(result: ClaimResult) -> str:
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
    number = number_text(test.difference, signed=test.measures != "mean", decimals=2)
    # A difference by two metrics is in the last of them.
    said = f"{number} {metric_name(of_claim(test.metric.split(', ')[-1]))}"
    return f"{said} a rank" if test.measures == "slope" else said


def _subject(test: Test) -> str:
    return " against ".join(loss_name(loss) if " " not in loss else loss for loss in test.subject.split(" - "))


def _metrics(names: Iterable[str]) -> str:
    """Return metrics as a list; a metric of both directions has its name once."""
    ways: dict[str, list[str]] = {}
    for parts in (name_parts(of_claim(name)) for name in names):
        way, rest = parts.direction, metric_name(str(parts._replace(direction="")))
        if way not in ways.setdefault(rest, []):
            ways[rest].append(way)
    return listed(f"{way[0]} {rest}".strip() if len(way) == 1 else f"{rest} (i2t, t2i)" for rest, way in ways.items())


def answers_to_claims(
    claims: Claims, results: Sequence[ClaimResult], cells: int, caveats: Sequence[str] = ()
) -> list[Answer]:
    """Return the answer about all claims, given the number of cells that were run, then one about each claim."""
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
    page = Answer(
        key="claims",
        dataset="",
        question=f"Which claims of {claims.source} hold here?",
        headline=f"Of {count_text(len(results), 'claim')} {said} ({count_text(cells, 'cell')}).",
        numbers={str(outcome): counts[outcome] for outcome in Outcome},
        table=table_of(columns, rows),
        notes=(
            *caveats,
            f"A claim holds where every test of its form is significant: p ≤ {in_digits(SHARE * claims.level, 2)}, "
            "Holm-adjusted over the claims.",
            "The p of a contradicted claim is that of its opposite.",
            _varied(results),
            f"A page without any true claim calls one of them true in at most {share_text(claims.level)} of pages.",
        ),
    )
    return [page, *map(_of_claim, results)]


def _varied(results: Sequence[ClaimResult]) -> str:
    """Say what varies in the tests, and so about what the answers speak."""
    counts = Counter(test.varies.endswith("images") for result in results for test in result.tests)
    if not counts[True]:
        return "These tests vary the runs alone: the answers say nothing about new test images."
    if not counts[False]:
        return "These tests vary runs and test images."
    both = f"{counts[True]} of {count_text(counts.total(), 'test')} vary runs and test images"
    return f"{both}, the others the runs alone: counts of batches, and metrics without a value of each image."


def _of_claim(result: ClaimResult) -> Answer:
    claim = result.claim
    ordered = sorted(result.tests, key=lambda test: -test.p)
    columns = [
        Column("dataset", "dataset"),
        Column("model", "model"),
        Column("metric", "metric"),
        Column("subject", "compared"),
        *(Column(name, HEADINGS[name], unit="", signed=name != "mean", decimals=2) for name in HEADINGS),
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
        headline=sentence_on_claim(result),
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
