"""A ledger without a file, for tests that make thousands of histories."""

from itertools import count

from msgspec.structs import replace

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import Record


class UnwrittenLedger(Ledger):
    """Takes each event into account a second after the one before, and writes nothing."""

    def __init__(self, experiment: Experiment) -> None:
        self.history = History(experiment=BegunExperiment.of(experiment.to_dict()))
        self.listeners, self._times = [], count()

    def append(self, event: Record) -> None:
        second = float(next(self._times))
        self.history.apply(replace(event, time=second, elapsed=second))
