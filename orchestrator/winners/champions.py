"""The winner of each dataset as something that can be asked: packed in the experiment's folder, then registered.

Packing takes the data and the checkpoint, registering takes the store; neither is a reason for a search to fail. What
was packed stays, so that ``orchestrator sync`` can register it later.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orchestrator.experiment.experiment import data_key
from orchestrator.journal.directory import checkpoint_root
from orchestrator.journal.history import History
from orchestrator.journal.trial import Trial
from orchestrator.results.summary import conclude, find_champions
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.text.values import values_text
from orchestrator.workload.workload import Workload
from trainables.errors import UserError
from trainables.files import aside, take_place, write_whole
from trainables.json_files import read_state

CHAMPIONS = "champions"
"""Folder of the packed models in an experiment's directory."""

MODEL, CARD = "model", "champion.json"


@dataclass(frozen=True)
class Champion:
    """What a packed model is.

    Attributes:
        dataset: Name of its folder.
        experiment: That found it.
        trial: Whose trained model it is.
        confirmed: Whether its settings were confirmed with fresh seeds.
        metric: That selected it.
        value: Of that metric; of a confirmed one the mean over its seeds.
        data_digest: Of the data that it was trained on.
        parameters: What tells its trial from others, for people; empty in what older versions packed.
        verdict: The verdict on it and the reason in a sentence; empty without a confirmation.
        test: The metric on the test split, of a confirmed one the mean over its seeds; ``None`` where the test split
            was not opened for it.
    """

    dataset: str
    experiment: str
    trial: str
    confirmed: bool
    metric: str
    value: float
    data_digest: str
    # What older versions packed without it is the same champion.
    parameters: str = field(default="", compare=False)
    verdict: str = field(default="", compare=False)
    test: float | None = field(default=None, compare=False)


def pack_champions(history: History, workload: Workload, checkpoints: Checkpoints, directory: Path) -> list[str]:
    """Pack the model of each dataset's winner that has not been packed; return why some could not be."""
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
    """Return the packed models of an experiment by their folders; a copy under another name is none."""
    folders = sorted(path.parent for path in (directory / CHAMPIONS).glob(f"[!.]*/{CARD}"))
    found = {folder: champion for folder in folders if (champion := read_champion(folder)) is not None}
    return {folder / MODEL: champion for folder, champion in found.items() if folder.name == champion.dataset}


def read_champion(folder: Path) -> Champion | None:
    """Return what lies packed in a folder; ``None`` where that is nothing, or nothing whole."""
    try:
        return Champion(**read_state(folder / CARD))
    except (OSError, ValueError, TypeError):
        return None


def describe_champion(history: History, dataset: str, trial: Trial) -> Champion:
    """Return what the winner of a dataset is, whose trained model is that of a trial."""
    summary = conclude(history)
    winner, metric = summary["winners"][dataset], summary["metric"]
    name = metric.removeprefix("val/")
    verdicts = {verdict["dataset"]: f"{verdict['verdict']}: {verdict['reason']}" for verdict in summary["verdicts"]}
    return Champion(
        dataset=Path(dataset).name,
        experiment=summary["experiment"],
        trial=trial.id,
        confirmed=winner["confirmed"],
        metric=metric,
        value=winner["val"][name],
        data_digest=history.data.get(data_key(trial.config), ""),
        parameters=values_text(winner["parameters"]),
        verdict=verdicts.get(dataset, ""),
        test=(winner["test"] or {}).get(name),
    )
