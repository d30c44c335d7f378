"""The ranks of the queries of val and test, as files beside the checkpoints of the trials that were evaluated."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.journal.directory import checkpoint_root
from orchestrator.journal.trial import Trial
from orchestrator.storage.checkpoints import Checkpoints

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
