"""Reads experiments' directories, and writes their reports there."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from orchestrator.journal.directory import checkpoint_root, read_history, read_runs
from orchestrator.journal.history import History
from orchestrator.journal.lock import find_holder
from orchestrator.report.page import Page
from orchestrator.report.queries import ShownQueries, ask_model, compared_queries
from orchestrator.report.render import render_page
from orchestrator.report.studies import studies_of, trial_names
from orchestrator.results.answers import Summary
from orchestrator.results.tables import differing_data
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.results.winner import find_champions
from orchestrator.text.wording import printed
from orchestrator.views.html import Section, sections_page
from trainables.checkpoint import resolve_checkpoint
from trainables.config import TrialConfig
from trainables.errors import CheckpointError, ConfigError, DataError, reason_of
from trainables.files import write_whole

if TYPE_CHECKING:
    from trainables.data.dataset import Dataset, Split
    from trainables.data.source import Source

NAME = "report.html"


def report_experiments(
    directories: Sequence[Path], output: Path, *, data_root: Path | None, device: str = "auto"
) -> list[Path]:
    """Write ``report.html`` into the directory of each experiment, in any state; of several, also a page over all.

    Args:
        directories: The directories, which hold ``journal.jsonl``.
        output: Folder of the page over all.
        data_root: Folder of the datasets, with which the winners answer the pages' queries; with ``None`` the pages
            have no queries, and torch is not imported.
        device: Device of these queries.

    Returns:
        The paths, that of the page over all last.

    Raises:
        JournalError: If a journal is missing or damaged.
        ConfigError: If a file cannot be written.
    """
    made = [_report(directory, data_root, device) for directory in directories]
    paths = [path for path, _ in made]
    if len(made) == 1:
        return paths
    pages, path = [page for _, page in made], output / NAME
    sections = [_section(own, page, output.resolve()) for own, page in made]
    title, notes = ", ".join(page.name for page in pages), differing_data([page.digests for page in pages])
    _write(path, sections_page(title, "Experiments side by side", sections, notes=notes))
    return [*paths, path]


def _report(directory: Path, data_root: Path | None, device: str) -> tuple[Path, Page]:
    """Write the report of an experiment; return its path and its content."""
    history, path = read_history(directory), directory / NAME
    page = Page(
        history,
        queries=list(_queries(history, directory, data_root, device)),
        unended="killed" if find_holder(directory) is None else "running",
        runs=read_runs(directory),
    )
    _write(path, render_page(page))
    return path, page


def _section(path: Path, page: Page, root: Path) -> Section:
    """Return the part about an experiment of a page in ``root``: the first answer of each dataset."""
    headlines = [answers[0] for dataset, answers in page.answers.items() if dataset]
    named = [replace(answer, question=f"{printed(answer.dataset)}: {answer.question}") for answer in headlines]
    state = f"search {page.state}, {page.facts[0][1]} trials. {page.measure}"
    return page.name, quote(os.path.relpath(path.resolve(), root)), state, named


def _write(path: Path, page: str) -> None:
    try:
        write_whole(path, page)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def _queries(history: History, directory: Path, data_root: Path | None, device: str) -> Iterator[ShownQueries]:
    """Yield the comparison of the winner of each confirmed dataset with another loss, then the winners' answers."""
    names = trial_names(studies_of(history))
    for verdict in Summary(history).verdicts.values():
        asked = "" if data_root is None or verdict.winner is None else _test_split(history, verdict, data_root)
        if compared := compared_queries(history, verdict, names, asked):
            yield compared
    if data_root is None:
        return
    for dataset, trial in find_champions(history).items():
        # The selection never used the test split, and a page must not open the test split either.
        split = "test" if trial.id in history.tests_opened.get(dataset, []) else "val"
        title = f"{printed(dataset)}: queries to {names[trial.candidate or trial.id]} on {split}"
        try:
            data, source = _opened(trial.config, data_root)
            checkpoint = resolve_checkpoint(checkpoint_root(directory, trial))
            yield ask_model(checkpoint, data, source, split, title, device=device)
        except (DataError, CheckpointError) as error:
            yield ShownQueries(title, f"The winner could not be asked. {reason_of(error)}")


def _test_split(history: History, verdict: DatasetVerdict, data_root: Path) -> "tuple[Split, Source] | str":
    """Return the test split of a dataset with the source of its image files, or why they are missing."""
    config = next(trial.config for trial in history.trials.values() if trial.config.dataset == verdict.dataset)
    try:
        data, source = _opened(config, data_root)
    except DataError as error:
        return f"Pictures and captions are missing: {reason_of(error)}"
    return data.splits["test"], source


def _opened(config: TrialConfig, data_root: Path) -> "tuple[Dataset, Source]":
    """Return the dataset of a trial, and the source of its image files."""
    from trainables.data.dataset import open_dataset
    from trainables.data.source import find_source

    return open_dataset(config, data_root), find_source(config.dataset, data_root)
