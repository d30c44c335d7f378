"""The studies of an experiment as a table of contents: the best of each, with links to its charts and trials."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.journal.trial import TrialState
from orchestrator.report.studies import Study, best_studies
from orchestrator.text.values import count_text, metric_text, values_text


@dataclass(frozen=True)
class Entry:
    """A line of the table of contents.

    Attributes:
        label: Label of the study, by which the page finds its charts and its trials.
        trials: The number of trials, and the number of trials that were trained to their end.
        best: The highest value of the study, as text.
        leader: The trial with this value, with its hyper-parameters; empty if none has finished.
    """

    label: str
    trials: str
    best: str
    leader: str


def contents_of(studies: Sequence[Study]) -> list[Entry]:
    """Return an entry for each study, dataset by dataset, the best study first; a lone study gets no entry."""
    return [_entry(study) for study in best_studies(studies)] if len(studies) > 1 else []


def _entry(study: Study) -> Entry:
    finished = sum(trial.state is TrialState.FINISHED for trial in study.trials)
    counts = f"{count_text(len(study.trials), 'trial')}, {finished:,} finished"
    leader = study.leader
    if leader is None:
        return Entry(study.label, counts, "–", "")
    best = metric_text(leader.metric, study.value_of(leader))
    return Entry(study.label, counts, best, f"{study.name_of(leader)}: {values_text(leader.parameters) or 'defaults'}")
