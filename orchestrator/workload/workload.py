"""The interface between a search and the trainings of its trials; tests put a cheaper training behind it.

A search touches data and models only here. Heavy modules are imported when they are first needed.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestrator.experiment.experiment import Experiment
from trainables.checkpoint import EpochReport, Outcome
from trainables.config import TrialConfig

if TYPE_CHECKING:
    from trainables.judged_ranks import JudgedRanks
    from trainables.metric_values import Values
    from trainables.ranks import Ranks


@dataclass(frozen=True)
class TestEvaluation:
    """The results of a checkpoint's best model on the test split.

    Attributes:
        metrics: Metrics on test: ``rsum``, ``i2t_r1`` ...
        ranks: Split -> ranks of the positives of its queries, for ``val`` and ``test``; empty if a workload has no
            queries.
        judged: Ranks, on test, of the candidates that people judged to fit, for each source of judgements that lies
            beside the dataset.
        values: Metric of a plug-in, of one direction, on test -> value of each image, (I,), float64.
    """

    metrics: Mapping[str, float]
    ranks: Mapping[str, "Ranks"] = field(default_factory=dict)
    judged: Sequence["JudgedRanks"] = ()
    values: Mapping[str, "Values"] = field(default_factory=dict)


Stream = Generator[EpochReport, None, None]
"""The epochs of one trial; closing it frees what the trial holds."""

Train = Callable[[TrialConfig, Path | None], Stream]
"""The part of a workload that an actor needs, see ``Workload.train``."""


class TrialGroup(Protocol):
    """Trials that train at once in this process, see ``trainables.fused.FusedTrials``."""

    def add(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        """Add a trial to the group; return the report of its checkpoint if the trial is resumed.

        Raises:
            UserError: If the trial cannot run.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a trial from the group, if it is there."""
        ...

    def run_epoch(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        """Train some trials for their next epoch; a trial that diverges, or whose plug-in fails, leaves the group."""
        ...


class Workload(Protocol):
    """The interface of a search to the trainings of its trials; pickled once and sent to every actor."""

    def train(self, config: TrialConfig, resume: Path | None) -> Stream:
        """Yield a report after each epoch; a training that is resumed repeats the report of its checkpoint first."""
        ...

    def check(self, experiment: Experiment) -> dict[str, str]:
        """Return the digest of each ``data_key``, or refuse the experiment; called before anything is started."""
        ...

    def tokenizers(self, experiment: Experiment) -> dict[str, str]:
        """Return dataset -> what cuts its captions into tokens, after ``check``."""
        ...

    def data_caveats(self, experiment: Experiment) -> dict[str, list[str]]:
        """Return dataset -> sentences about pictures and captions that are there several times, after ``check``."""
        ...

    def notes(self, experiment: Experiment) -> list[str]:
        """Return what trainings do with their data that the experiment does not say, a sentence each."""
        ...

    def expecting(self, digests: Mapping[str, str]) -> "Workload":
        """Return a workload that refuses data of other digests: a node may have other data than the driver."""
        ...

    def measure(self, config: TrialConfig) -> tuple[int, int]:
        """Return the most bytes of GPU memory that a training takes, and the bytes that were free before.

        It is called in a process of its own that has a whole GPU.
        """
        ...

    def rates(self, config: TrialConfig) -> Mapping[int, float]:
        """Return number of trials at once -> their epochs an hour together; called like ``measure``."""
        ...

    def rates_in_turns(self, config: TrialConfig) -> Mapping[int, float]:
        """Return ``rates`` of trials that are not stacked but take steps in turns; empty where these are no faster."""
        ...

    def together(self, in_turns: Collection[tuple[str, str]] = ()) -> TrialGroup:
        """Return an empty group, which trains several trials at once in this process.

        Trials of a dataset and a model that are ``in_turns`` take steps in turns.
        """
        ...

    def test(self, config: TrialConfig, checkpoint: Path) -> TestEvaluation:
        """Evaluate a checkpoint's best model on the test split."""
        ...

    def pack(self, config: TrialConfig, checkpoint: Path, folder: Path) -> None:
        """Write a checkpoint's best model into a new folder as ``trainables.serving.packed`` describes it.

        Raises:
            UserError: If the model cannot be written.
        """
        ...

    def write_weights(self, checkpoint: Path, path: Path) -> None:
        """Write a checkpoint's best model as one safetensors file.

        Raises:
            UserError: If the model cannot be written.
        """
        ...
