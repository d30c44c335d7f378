"""The winners of a search: the test split opened for them, their ranks and weights kept, their models packed.

The ranks of the queries of val and test are files beside the checkpoints of an evaluated trial. Its best model is a
file that MLflow stores with its run. It is also packed, to answer queries: in the experiment's folder, then in
MLflow. Packing needs the data and the checkpoint, registering needs the tracking store; a search does not fail where
either is missing. A package stays in the folder, so that ``orchestrator sync`` can register it later.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orchestrator.experiment.experiment import data_key
from orchestrator.journal.directory import checkpoint_root
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.openings import openings_elsewhere
from orchestrator.journal.records import EvaluatedOnTest, OpenedTest
from orchestrator.journal.trial import Stage, Trial, TrialState
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, chance_of, headline_of
from orchestrator.results.winner import find_champions, find_winners
from orchestrator.storage.checkpoints import Checkpoints
from orchestrator.text.values import values_text
from orchestrator.workload.workload import Workload
from trainables.errors import UserError, reason_of
from trainables.files import aside, read_state, take_place, write_whole
from trainables.metric_table import without_section
from trainables.ranks import pack_numbers, write_ranks


def ranks_file(directory: Path, trial: Trial, split: str) -> Path:
    """Return where the ranks of a trial on a split lie in an experiment's directory."""
    return checkpoint_root(directory, trial) / f"ranks_{split}.npz"


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
            elsewhere = openings_elsewhere(directory, dataset, ledger.history.data)
            ledger.append(OpenedTest(dataset=dataset, trials=new, elsewhere=elsewhere))
    for trial in due:
        checkpoint = checkpoints.bring(trial.id, checkpoint_root(directory, trial))
        evaluation = workload.test(trial.config, checkpoint)
        # The files come first: a trial with a recorded evaluation is not evaluated again, and would stay without files.
        for split, ranks_of_split in evaluation.ranks.items():
            file = ranks_file(directory, trial, split)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_ranks(file, ranks_of_split)
            # The checkpoints may be elsewhere.
            checkpoints.keep(trial.id, file)
        ranks = evaluation.ranks["test"].to_text() if "test" in evaluation.ranks else None
        # Without judgements, or metrics of plug-ins, the record has no such field, as in older versions.
        judged = [judged_ranks.to_text() for judged_ranks in evaluation.judged] or None
        values = {name: pack_numbers(of_images) for name, of_images in evaluation.values.items()} or None
        metrics = dict(evaluation.metrics)
        ledger.append(EvaluatedOnTest(trial=trial.id, metrics=metrics, ranks=ranks, judged=judged, values=values))


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
            problems.append(f"{trial.id}: {FILE} was not written: {reason_of(error)}")
    return problems


CHAMPIONS = "champions"
"""Folder of the packed models in an experiment's directory."""

MODEL, CARD = "model", "champion.json"


@dataclass(frozen=True)
class Champion:
    """The description of a packed model, which a trial of an experiment trained on a dataset, named by its folder.

    Attributes:
        confirmed: Whether the trial's settings were confirmed with fresh seeds.
        value: Value of the metric that selected the model; for a confirmed model the mean over the seeds.
        parameters: The hyper-parameters that identify the trial, for people; empty in packages of older versions.
        verdict: The answer to which loss or coefficients are best; empty without a confirmation.
        test: Value of the metric on test, for a confirmed model the mean over the seeds; ``None`` where the test split
            was not opened for the model.
        std: Standard deviation of ``value`` over the seeds (``ddof=0``), >= 0; ``None`` without a confirmation, for one
            seed, and in packages of older versions.
        seeds: Number of trainings over which ``value`` is a mean, >= 1.
        above_chance: Whether the rsum on test is above that of a random ranking; ``None`` where the test split was not
            opened, and in packages of older versions.
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
    above_chance: bool | None = field(default=None, compare=False)


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
            problems.append(f"the winner of {dataset} was not packed: {reason_of(error)}")
    return problems


def packed_champions(directory: Path) -> Mapping[Path, Champion]:
    """Return the packed models of an experiment by their folders; a copy of a folder under another name is left out."""
    folders = sorted(path.parent for path in (directory / CHAMPIONS).glob(f"[!.]*/{CARD}"))
    champions = {folder: champion for folder in folders if (champion := read_champion(folder)) is not None}
    return {folder / MODEL: champion for folder, champion in champions.items() if folder.name == champion.dataset}


def read_champion(folder: Path) -> Champion | None:
    """Return the description of the model packed in a folder; ``None`` where no description can be read."""
    try:
        return Champion(**read_state(folder / CARD))
    except (OSError, ValueError, TypeError):
        return None


def _said(headline: Answer) -> tuple[str, ...]:
    return headline.headline, *headline.taken_back


def describe_champion(history: History, dataset: str, trial: Trial) -> Champion:
    """Return the description of the winner of a dataset, whose model the given trial trained."""
    summary, metric = Summary(history), history.metric
    winner, verdict = summary.winners[dataset], summary.verdicts.get(dataset)
    name = without_section(metric)
    best = verdict.winner if winner.confirmed and verdict is not None else None
    rsum, chance = (winner.test or {}).get("rsum"), chance_of(summary, dataset)
    return Champion(
        dataset=Path(dataset).name,
        experiment=history.name,
        trial=trial.id,
        confirmed=winner.confirmed,
        metric=metric,
        value=winner.val[name],
        data_digest=history.data.get(data_key(trial.config), ""),
        parameters=values_text(winner.setting.parameters),
        verdict="" if verdict is None else " ".join(_said(headline_of(summary, dataset))),
        test=(winner.test or {}).get(name),
        std=None if best is None else best.measures()[metric].std,
        seeds=winner.seeds,
        above_chance=None if rsum is None or chance is None else rsum > chance,
    )
