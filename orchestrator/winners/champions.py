"""The model of each dataset's winner, packed so that it answers queries: in the experiment's folder, then in MLflow.

Packing needs the data and the checkpoint, registering needs the tracking store; a search does not fail where either
is missing. A package stays in the folder, so that ``orchestrator sync`` can register it later.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orchestrator.experiment.experiment import data_key
from orchestrator.journal.directory import checkpoint_root
from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial
from orchestrator.results.answers import headline_of
from orchestrator.results.summary import Summary
from orchestrator.results.winner import find_champions
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.text.values import values_text
from orchestrator.workload.workload import Workload
from trainables.errors import UserError
from trainables.files import aside, read_state, take_place, write_whole

CHAMPIONS = "champions"
"""Folder of the packed models in an experiment's directory."""

MODEL, CARD = "model", "champion.json"


@dataclass(frozen=True)
class Champion:
    """The description of a packed model.

    Attributes:
        dataset: Name of the dataset's folder.
        experiment: Name of the experiment that found the model.
        trial: Id of the trial that trained the model.
        confirmed: Whether the trial's settings were confirmed with fresh seeds.
        metric: Name of the metric that selected the model.
        value: Value of this metric; for a confirmed model the mean over the seeds.
        data_digest: Digest of the data on which the model was trained.
        parameters: The hyper-parameters that identify the trial, for people; empty in packages of older versions.
        verdict: The answer to which loss or coefficients are best; empty without a confirmation.
        test: Value of the metric on the test split, for a confirmed model the mean over the seeds; ``None`` where the
            test split was not opened for the model.
        std: Standard deviation of ``value`` over the seeds (``ddof=0``), >= 0; ``None`` without a confirmation, for one
            seed, and in packages of older versions.
        seeds: Number of trainings over which ``value`` is a mean, >= 1.
    """

    dataset: str
    experiment: str
    trial: str
    confirmed: bool
    metric: str
    value: float
    data_digest: str
    # Not compared: packages of older versions do not have these fields, and stay valid.
    parameters: str = field(default="", compare=False)
    verdict: str = field(default="", compare=False)
    test: float | None = field(default=None, compare=False)
    std: float | None = field(default=None, compare=False)
    seeds: int = field(default=1, compare=False)


def pack_champions(history: History, workload: Workload, checkpoints: Checkpoints, directory: Path) -> list[str]:
    """Pack the model of each dataset's winner that has not been packed; return a sentence about each failure."""
    problems = []
    for dataset, trial in find_champions(history).items():
        folder = directory / CHAMPIONS / Path(dataset).name
        champion = describe_champion(history, dataset, trial)
        if read_champion(folder) == champion:
            continue
        try:
            with aside(folder) as partial:
                checkpoint = checkpoints.bring(trial.id, checkpoint_root(directory, trial))
                workload.pack(trial.config, checkpoint, partial / MODEL)
                write_whole(partial / CARD, json.dumps(asdict(champion), indent=2) + "\n")
                take_place(partial, folder)
        except (UserError, OSError) as error:
            problems.append(f"the winner of {dataset} was not packed: {str(error).splitlines()[0]}")
    return problems


def packed_champions(directory: Path) -> Mapping[Path, Champion]:
    """Return the packed models of an experiment by their folders; a copy of a folder under another name is left out."""
    folders = sorted(path.parent for path in (directory / CHAMPIONS).glob(f"[!.]*/{CARD}"))
    found = {folder: champion for folder in folders if (champion := read_champion(folder)) is not None}
    return {folder / MODEL: champion for folder, champion in found.items() if folder.name == champion.dataset}


def read_champion(folder: Path) -> Champion | None:
    """Return the description of the model packed in a folder; ``None`` where no description can be read."""
    try:
        return Champion(**read_state(folder / CARD))
    except (OSError, ValueError, TypeError):
        return None


def describe_champion(history: History, dataset: str, trial: Trial) -> Champion:
    """Return the description of the winner of a dataset, whose model the given trial trained."""
    summary, metric = Summary(history), history.metric
    winner, verdict = summary.winners[dataset], summary.verdicts.get(dataset)
    name = metric.removeprefix("val/")
    best = verdict.winner if winner.confirmed and verdict is not None else None
    return Champion(
        dataset=Path(dataset).name,
        experiment=history.name,
        trial=trial.id,
        confirmed=winner.confirmed,
        metric=metric,
        value=winner.val[name],
        data_digest=history.data.get(data_key(trial.config), ""),
        parameters=values_text(winner.setting.parameters),
        verdict="" if verdict is None else headline_of(summary, dataset).headline,
        test=(winner.test or {}).get(name),
        std=None if best is None else best.measures[metric].std,
        seeds=winner.seeds,
    )
