"""Opens the test split for selected trials, and keeps their ranks and weights.

The ranks of the queries of val and test are files beside the checkpoints of an evaluated trial. Its best model is a
file that MLflow stores with its run.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.journal.directory import checkpoint_root
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import EvaluatedOnTest, OpenedTest
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.winner import find_winners
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.workload.workload import Workload
from trainables.errors import UserError

if TYPE_CHECKING:
    from trainables.ranks import Ranks


def ranks_file(directory: Path, trial: Trial, split: str) -> Path:
    """Return where the ranks of a trial on a split lie in an experiment's directory."""
    return checkpoint_root(directory, trial) / f"ranks_{split}.npz"


def keep_ranks(ranks: Mapping[str, "Ranks"], trial: Trial, checkpoints: Checkpoints, directory: Path) -> None:
    """Write the ranks of each split into the experiment's directory and to the checkpoints, which may be elsewhere."""
    from trainables.ranks import write_ranks

    for split, of_split in ranks.items():
        file = ranks_file(directory, trial, split)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_ranks(file, of_split)
        checkpoints.keep(trial.id, file)


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


FOLDER, FILE = "weights", "best.safetensors"


def weights_file(directory: Path, trial: str) -> Path:
    """Return where the weights file of a trial lies in an experiment's directory."""
    return directory / FOLDER / trial / FILE


def write_files(trials: Iterable[Trial], workload: Workload, checkpoints: Checkpoints, directory: Path) -> list[str]:
    """Write the weights files that are missing; return a sentence about each file that could not be written."""
    problems = []
    for trial in trials:
        file = weights_file(directory, trial.id)
        if file.is_file():
            continue
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            workload.write_weights(checkpoints.bring(trial.id, checkpoint_root(directory, trial)), file)
        except (UserError, OSError) as error:
            problems.append(f"{trial.id}: {FILE} was not written: {str(error).splitlines()[0]}")
    return problems
