"""Reads an experiment's directory, and writes its report there."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from orchestrator.journal.directory import checkpoint_root, read_history, read_runs
from orchestrator.journal.history import History
from orchestrator.journal.lock import find_holder
from orchestrator.journal.trial import Trial
from orchestrator.report.page import Page, build_page
from orchestrator.report.queries import Queries, retrieve
from orchestrator.report.query_comparison import ComparedQueries, compared_queries, with_pictures
from orchestrator.report.render import Section, write_report, write_sections
from orchestrator.results.answer import Answer
from orchestrator.results.confirmation import verdicts_of
from orchestrator.results.winner import find_champions
from orchestrator.text.wording import printed
from trainables.errors import CheckpointError, ConfigError, DataError

NAME = "report.html"


def report_experiment(directory: Path, *, data_root: Path | None, device: str = "auto") -> Path:
    """Write ``report.html`` into the directory of an experiment in any state, and return its path.

    Args:
        directory: The directory, which holds ``journal.jsonl``.
        data_root: Folder of the datasets, with which the winners answer the page's queries; with ``None`` the page has
            no queries, and torch is not imported.
        device: Device of these queries.

    Raises:
        JournalError: If the journal is missing or damaged.
        ConfigError: If the directory cannot be written.
    """
    return _report(directory, data_root, device)[0]


def report_experiments(
    directories: Sequence[Path], output: Path, *, data_root: Path | None, device: str = "auto"
) -> list[Path]:
    """Write the report of each experiment, and a page over all experiments; return the paths, this page's last.

    Args:
        directories: Directories of the experiments, in the order of the page.
        output: Folder of the page over all experiments; made if missing.
        data_root: See ``report_experiment``.
        device: See ``report_experiment``.

    Raises:
        JournalError: If a journal is missing or damaged.
        ConfigError: If a directory cannot be written.
    """
    made = [_report(directory, data_root, device) for directory in directories]
    path = output / NAME
    sections = [_section(own, page, output.resolve()) for own, page in made]
    title, notes = ", ".join(page.name for _, page in made), _differing_data([page for _, page in made])
    _write(lambda: write_sections(title, "Experiments side by side", sections, path, notes=notes), path)
    return [*(own for own, _ in made), path]


def _report(directory: Path, data_root: Path | None, device: str) -> tuple[Path, Page]:
    """Write the report of an experiment; return its path and its content."""
    history = read_history(directory)
    compared = [
        both if data_root is None else _shown(both, history, data_root)
        for verdict in verdicts_of(history).values()
        if (both := compared_queries(history, verdict)) is not None
    ]
    path = directory / NAME
    page = build_page(
        history,
        compared=compared,
        queries=[] if data_root is None else ask_winners(history, directory, data_root, device),
        unended="killed" if find_holder(directory) is None else "running",
        runs=read_runs(directory),
    )
    _write(lambda: write_report(page, path), path)
    return path, page


def _section(path: Path, page: Page, root: Path) -> Section:
    """Return the part about an experiment of a page in ``root``: the first answer of each dataset."""
    first = [replace(answers[0], question=_of(answers[0])) for dataset, answers in page.answers.items() if dataset]
    state = f"search {page.state}, {page.facts[0][1]} trials. {page.measure}"
    return page.name, quote(os.path.relpath(path.resolve(), root)), state, first


def _of(answer: Answer) -> str:
    return f"{printed(answer.dataset)}: {answer.question}"


def _differing_data(pages: Sequence[Page]) -> list[str]:
    """Return why experiments are hard to compare."""
    digests: dict[str, set[str]] = {}
    for page in pages:
        for name, digest in page.digests.items():
            digests.setdefault(name, set()).add(digest)
    return [
        f"The experiments had different versions of {name}; their values can't be compared."
        for name, versions in digests.items()
        if len(versions) > 1
    ]


def _write(write: Callable[[], None], path: Path) -> None:
    try:
        write()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def ask_winners(history: History, directory: Path, data_root: Path, device: str) -> list[Queries]:
    """Return the retrievals of the winner of each dataset, or the reason if a winner cannot be queried."""
    asked = []
    for dataset, trial in find_champions(history).items():
        # The selection never used the test split, and a page must not open the test split either.
        split = "test" if trial.id in history.tests_opened.get(dataset, []) else "val"
        title = f"{trial.id} on {Path(dataset).name} {split}"
        try:
            found = _ask(trial, split, checkpoint_root(directory, trial), data_root, device)
        except (DataError, CheckpointError) as error:
            found = Queries(note=f"The winner could not be asked. {str(error).splitlines()[0]}")
        asked.append(replace(found, title=title))
    return asked


def _shown(compared: ComparedQueries, history: History, data_root: Path) -> ComparedQueries:
    """Return a comparison with pictures and captions, or with the reason if the data are missing."""
    from trainables.data.dataset import open_dataset
    from trainables.data.source import find_source

    config = history.trials[compared.first].config
    try:
        data = open_dataset(config, data_root)
        return with_pictures(compared, history, data.splits["test"], find_source(config.dataset, data_root))
    except DataError as error:
        note = f"{compared.note} Pictures and captions are missing: {str(error).splitlines()[0]}"
        return replace(compared, note=note)


def _ask(trial: Trial, split: str, checkpoints: Path, data_root: Path, device: str) -> Queries:
    from trainables.checkpoint import resolve_checkpoint
    from trainables.data.dataset import open_dataset
    from trainables.data.source import find_source

    config = trial.config
    source = find_source(config.dataset, data_root)
    data = open_dataset(config, data_root)
    return retrieve(resolve_checkpoint(checkpoints), data, source, split, device=device)
