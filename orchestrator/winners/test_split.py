"""Opens the test split after all selection, only for the selected trials, and records the opening beforehand."""

from collections.abc import Iterable
from pathlib import Path

from orchestrator.journal.confirmation_records import EvaluatedOnTest, OpenedTest
from orchestrator.journal.directory import checkpoint_root
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.winner import find_winners
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.winners.kept_ranks import keep_ranks
from orchestrator.workload.workload import Workload


def selected(history: History) -> list[Trial]:
    """Return the trials for which the test split of their dataset may be opened.

    With a confirmation, these are the trials of the confirmation that finished; without a confirmation, the best trials
    of the search.
    """
    if history.experiment.confirm is None:
        return list(find_winners(history).values())
    return [trial for trial in history.stage(Stage.CONFIRM) if trial.state is TrialState.FINISHED]


def evaluate_on_test(
    ledger: Ledger, workload: Workload, checkpoints: Checkpoints, directory: Path, trials: Iterable[Trial]
) -> None:
    """Evaluate trials on the test split, each once; the journal says beforehand for which trials the split is opened.

    Raises:
        CheckpointError: If a trial has no good checkpoint left.
    """
    due = [trial for trial in trials if trial.id not in ledger.history.tests]
    for dataset in dict.fromkeys(trial.config.dataset for trial in due):
        opened = ledger.history.tests_opened.get(dataset, [])
        new = [trial.id for trial in due if trial.config.dataset == dataset and trial.id not in opened]
        if new:
            ledger.append(OpenedTest(dataset=dataset, trials=new))
    for trial in due:
        checkpoint = checkpoints.bring(trial.id, checkpoint_root(directory, trial))
        evaluation = workload.test(trial.config, checkpoint)
        # The files come first: a trial with a recorded evaluation is not evaluated again, and would stay without files.
        keep_ranks(evaluation.ranks, trial, checkpoints, directory)
        ranks = evaluation.ranks["test"].to_text() if "test" in evaluation.ranks else None
        # Without judgements, the record has no such field, as in older versions.
        judged = [one.to_text() for one in evaluation.judged] or None
        ledger.append(EvaluatedOnTest(trial=trial.id, metrics=dict(evaluation.metrics), ranks=ranks, judged=judged))
