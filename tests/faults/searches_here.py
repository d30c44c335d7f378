"""The searches of ``searches.py`` in this process and without Ray: crashed in milliseconds, and nobody is killed."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.searches.search import run_search
from tests.faults.driver import Death
from tests.faults.troubled_workload import TroubledWorkload
from tests.support.in_process import without_ray
from tests.support.snapshots import JOURNAL, Snapshot, snapshots
from trainables.errors import UserError

PLACES = 2


class SearchesHere:
    """The searches of one test, one after the other, in one output directory; see ``Searches``."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self._crashes = 0
        self._errors = ""

    def finish(self, experiment: Experiment, workload: TroubledWorkload, *, code: int = 0) -> None:
        """Run a search to its end, which has to be that exit code."""
        came_to = 0
        try:
            with without_ray(PLACES, tracked=True):
                run_search(experiment, workload, self.output, quiet=True)
        except UserError as error:
            came_to, self._errors = error.exit_code, f"{self._errors}{error}\n"
        except OSError as error:
            came_to, self._errors = 1, f"{self._errors}{error}\n"
        assert came_to == code, self.errors()

    def crash(self, experiment: Experiment, workload: TroubledWorkload, condition: Callable[[History], bool]) -> None:
        """Run a search up to the first record after which a condition holds."""
        self._run_until(experiment, workload, lambda taken: condition(_history(taken.folder))).restore(self.output)

    def die(self, experiment: Experiment, workload: TroubledWorkload, death: Death) -> None:
        """Run a search up to a chosen write of its journal."""
        taken = self._run_until(experiment, workload, lambda taken: taken.record["kind"] == death.kind)
        taken.restore(self.output, {"before": taken.length, "torn": taken.length // 2, "after": 0}[death.moment])

    def history(self) -> History:
        return _history(self.output)

    def errors(self) -> str:
        return self._errors

    def _run_until(
        self, experiment: Experiment, workload: TroubledWorkload, until: Callable[[Snapshot], bool]
    ) -> Snapshot:
        self._crashes += 1
        copies = self.output.with_name(f"copies{self._crashes}")
        with snapshots(self.output, copies, until) as taken, without_ray(PLACES):
            run_search(experiment, workload, self.output, quiet=True)
        assert until(taken[-1]), "the search came to its end"
        return taken[-1]


def _history(output: Path) -> History:
    return History.of(read_journal(output / JOURNAL))
