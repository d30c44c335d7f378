"""A certificate: the questions as they were fixed before training, the answers, and digests of all they rest on.

``questions.json`` is written before the first training. Its SHA-256 goes into the experiment's description, which the
first record of the journal holds, and into the certificate: ``sha256sum questions.json`` checks it. A second start with
other questions is refused, so that nobody can move the questions after the answers.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.claims.answers import answers_of, sentence_of
from orchestrator.claims.cells import confirmed_cells, published_cells
from orchestrator.claims.claims import Claims
from orchestrator.claims.engine import Cells, ClaimResult, decide
from orchestrator.experiment.experiment import Experiment, experiment_of
from orchestrator.journal.history import History
from orchestrator.machines.cluster import describe_environment
from orchestrator.reference.published import CAPTIONS_PER_IMAGE, DATASETS, TEST_IMAGES, study_dataset
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, measure_of
from orchestrator.results.caveats import still_rising
from orchestrator.results.tables import published_tables, tables_of
from orchestrator.text.wording import metric_meaning, printed
from orchestrator.views.html import write_sections
from trainables.errors import ConfigError
from trainables.files import read_state, write_whole
from trainables.ranks import chance_rsum

FORMAT = 2
QUESTIONS, CERTIFICATE, PAGE = "questions.json", "certificate.json", "certificate.html"


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
        ConfigError: If other questions were fixed there.
    """
    path = folder / QUESTIONS
    seeds = None if experiment.confirm is None else experiment.confirm.seeds
    cells = {"datasets": list(experiment.datasets), "models": list(experiment.models), "seeds": seeds}
    asked = {"format": FORMAT, "claims": claims.model_dump(mode="json"), "cells": cells}
    if path.exists():
        fixed = read_state(path)
        if {name: fixed.get(name) for name in asked} != asked:
            raise ConfigError(
                f"{path}: other claims, datasets, models or seeds were fixed there; name another --output"
            )
    else:
        # A journal will lie here, which decides what a resume runs: nobody else may enter.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        settings = experiment.to_dict()
        write_whole(path, json.dumps({**asked, "fixed": now, "experiment": settings}, indent=1, sort_keys=True) + "\n")
    about = f"Claims of {claims.source}. SHA-256 of {QUESTIONS}: {_file_digest(path)}"
    return experiment.model_copy(update={"description": about})


def forget_questions(folder: Path) -> None:
    """Remove the questions of an experiment that was refused before its journal began."""
    if sorted(path.name for path in folder.glob("*")) == [QUESTIONS]:
        (folder / QUESTIONS).unlink()
        with suppress(OSError):
            folder.rmdir()


def certify_confirmed(claims: Claims, histories: Sequence[History], folder: Path) -> Certified:
    """Answer claims from confirmed experiments; write certificate and page, beside the questions if they are there."""
    cells = confirmed_cells(histories, claims.losses)
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
    cells: Cells,
    tables: Mapping[str, Sequence[Answer]],
    summaries: Sequence[Summary],
    measure: str,
    folder: Path,
    caveats: Sequence[str] = (),
) -> Certified:
    results = decide(claims, cells)
    page, *rest = answers_of(claims, results, sum(map(len, cells.values())))
    answers = [replace(page, notes=(*caveats, *page.notes)), *rest]
    environment, questions = describe_environment(), _questions(folder)
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
                "seeds": max(measure.seeds for measure in measures.values()),
                "means": {name: measure.mean for name, measure in sorted(measures.items())},
                "sample_std": {name: measure.sample_std for name, measure in sorted(measures.items())},
            }
            for (dataset, model), losses in cells.items()
            for loss, measures in losses.items()
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CERTIFICATE, json.dumps(content, indent=1) + "\n")
    fixed = f"{questions['fixed'][:16].replace('T', ' ')} UTC" if questions else "not before training"
    facts = [
        ("claims", str(len(results)), ""),
        ("cells", str(sum(map(len, cells.values()))), ""),
        ("questions fixed", fixed, f"SHA-256 {questions['sha256'][:16]}…" if questions else ""),
        ("code", str(content["code"])[:12], ""),
    ]
    sections = [
        ("", "", measure, answers),
        *((heading, "", "", entries) for heading, entries in tables.items() if entries),
    ]
    write_sections(claims.name, "Claims of a paper", sections, folder / PAGE, facts=facts)
    return answers, content


def _questions(folder: Path) -> dict[str, str] | None:
    """Return when the questions of a folder were fixed, and the digest of their file; ``None`` without questions."""
    path = folder / QUESTIONS
    return {"fixed": read_state(path)["fixed"], "sha256": _file_digest(path)} if path.exists() else None


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
        "sentence": sentence_of(result),
        "p": result.p,
        "p_against": result.p_against,
        "missing": [asdict(lack) for lack in result.missing],
        "tests": [asdict(test) for test in result.tests],
    }
