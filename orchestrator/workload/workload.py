"""What the trials of a search run: the training of ``trainables``, or in a test something cheaper.

This is the one place where a search touches data and models. Everything heavy is imported when it is first needed.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from orchestrator.experiment.experiment import Experiment
from trainables.config import TrialConfig
from trainables.reports import EpochReport, Outcome

if TYPE_CHECKING:
    from trainables.judgements.judged_ranks import JudgedRanks
    from trainables.ranks import Ranks


@dataclass(frozen=True)
class Footprint:
    """What a training was measured to take.

    Attributes:
        peak: Bytes that it held at a time, >= 0.
        room: Bytes of the GPU that were free before, > 0.
    """

    peak: int
    room: int


@dataclass(frozen=True)
class Evaluation:
    """What a checkpoint's best model does once the test split is open for the model.

    Attributes:
        metrics: On test: ``rsum``, ``i2t_r1`` ...
        ranks: Split -> ranks of its positives, for ``val`` and ``test``; empty where a workload has no queries.
        judged: On test, where the model puts the candidates that people judged to fit; one of each source of judgements
            that lies beside the dataset.
    """

    metrics: Mapping[str, float]
    ranks: Mapping[str, "Ranks"] = field(default_factory=dict)
    judged: Sequence["JudgedRanks"] = ()


Stream = Generator[EpochReport, None, None]
"""The epochs of one trial; closing it frees what the trial holds."""


class TrialGroup(Protocol):
    """Trials that train at once in this process, see ``trainables.fused.trials.FusedTrials``."""

    def add(self, name: str, config: TrialConfig, resume: Path | None) -> EpochReport | None:
        """Take a trial in; return the report of its checkpoint where it is resumed.

        Raises:
            UserError: If it cannot run.
        """
        ...

    def remove(self, name: str) -> None:
        """Let a trial go, if it is there."""
        ...

    def run_epoch(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        """Train some of the trials for their next epoch; one that diverges, or whose plug-in fails, is let go."""
        ...


Vocabulary = Literal["train", "published"]


class TrialRunner(Protocol):
    """What an actor needs to know about its trials."""

    def train(self, config: TrialConfig, resume: Path | None) -> Stream:
        """Yield a report an epoch; when resumed from a checkpoint, that of its epoch again first."""
        ...


class Workload(TrialRunner, Protocol):
    """What a search needs to know about its trials; pickled once and sent to every actor."""

    def check(self, experiment: Experiment) -> dict[str, str]:
        """Return the digest of each ``data_key``, or refuse the experiment; called before anything is started."""
        ...

    def expecting(self, digests: Mapping[str, str]) -> "Workload":
        """Return the same, but refusing data of other digests: a node may have other data than the driver."""
        ...

    def measure(self, config: TrialConfig) -> Footprint:
        """Return the GPU memory that a training takes; called in a process of its own that has a whole GPU."""
        ...

    def rates(self, config: TrialConfig) -> Mapping[int, float]:
        """Return epochs of trials an hour by the number that train at once, 1 among them; called as ``measure`` is."""
        ...

    def together(self) -> TrialGroup:
        """Return what trains several trials at once in this process."""
        ...

    def test(self, config: TrialConfig, checkpoint: Path) -> Evaluation:
        """Evaluate a checkpoint's best model on the test split."""
        ...

    def pack(self, config: TrialConfig, checkpoint: Path, folder: Path) -> None:
        """Write a checkpoint's best model into a new folder as ``trainables.serving.retriever`` reads it.

        Raises:
            UserError: If it cannot.
        """
        ...

    def write_weights(self, checkpoint: Path, path: Path) -> None:
        """Write a checkpoint's best model as one safetensors file.

        Raises:
            UserError: If it cannot.
        """
        ...
