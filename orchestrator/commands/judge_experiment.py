"""``orchestrator judge`` of an experiment: its candidates by another test, or with a model from elsewhere."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from orchestrator.journal.directory import find_directory, read_history
from orchestrator.results.answer import Answer
from orchestrator.results.confirmation import confirmations
from orchestrator.results.questions import answer_questions
from orchestrator.results.tables import RETRIEVAL_LAYOUT, layout_table, rows_of_verdict
from orchestrator.results.verdict import DatasetVerdict, deprecated_verdict
from orchestrator.views.forms import print_answers
from orchestrator.workload.evaluation import read_outside_run
from trainables.errors import ConfigError

VerdictRule = Literal["seeds", "seeds_and_images"]


def judge_experiment(
    experiment: str,
    *,
    verdict: VerdictRule | None,
    candidate: Sequence[str],
    dataset: str | None,
    data_root: Path,
    output: Path,
    form: str,
) -> None:
    """Print the verdict of an experiment by a rule, with models from elsewhere; for the arguments see ``judge``."""
    folders = _folders(candidate)
    history = read_history(find_directory(experiment, output))
    known = {name: entry for name, entry in confirmations(history).items() if entry.is_over}
    confirmation = known[_dataset(list(known), experiment, dataset)]
    added = [
        confirmation.trained_elsewhere(
            label, [read_outside_run(path, confirmation.dataset, data_root) for path in paths]
        )
        for label, paths in folders.items()
    ]
    dataset_verdict = confirmation.judge(rule=verdict, outside=added)
    if form == "json":
        answers = [answer.to_dict() for answer in _answers(dataset_verdict)]
        said = {**deprecated_verdict(dataset_verdict), **dataset_verdict.to_dict(), "answers": answers}
        print(json.dumps(said, indent=2, allow_nan=False))
    else:
        print_answers(_answers(dataset_verdict), form)


def _folders(texts: Sequence[str]) -> dict[str, list[Path]]:
    """Return label -> folders of the label."""
    folders: dict[str, list[Path]] = {}
    for text in texts:
        label, equals, folder = text.partition("=")
        if not (label and equals and folder):
            raise ConfigError(f"--candidate must be LABEL=FOLDER, such as cca=runs/cca, got {text!r}")
        folders.setdefault(label, []).append(Path(folder))
    return folders


def _dataset(known: list[str], experiment: str, wanted: str | None) -> str:
    """Return the dataset to judge, of those whose confirmation is over."""
    if not known:
        raise ConfigError(
            f"{experiment}: no confirmation has ended, so there are no candidates to judge; "
            f"`orchestrator confirm {experiment}` trains the best trials again with fresh seeds"
        )
    if wanted is None and len(known) > 1:
        raise ConfigError(f"--dataset must name a confirmed dataset: {', '.join(known)}")
    if wanted is not None and wanted not in known:
        raise ConfigError(f"--dataset {wanted}: was not confirmed; confirmed are {', '.join(known)}")
    return wanted or known[0]


def _answers(verdict: DatasetVerdict) -> list[Answer]:
    """Return the answers to the questions of the dataset, and its table of retrieval."""
    answers = answer_questions(verdict)
    by = verdict.decided_by.replace("_", " ")
    table = layout_table(RETRIEVAL_LAYOUT, rows_of_verdict(verdict))
    return [*answers, replace(table, notes=(*table.notes, f"The test that decides varies {by}."))]
