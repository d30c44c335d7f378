"""The best models of the trials that were evaluated on test, as files that MLflow stores with their runs."""

from collections.abc import Iterable
from pathlib import Path

from orchestrator.journal.directory import checkpoint_root
from orchestrator.journal.trial import Trial
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.workload.workload import Workload
from trainables.errors import UserError

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
