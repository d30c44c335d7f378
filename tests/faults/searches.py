"""Starts, watches, crashes and kills searches; how each of them ended is for ``invariants.py`` to judge."""

import multiprocessing
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psutil

from orchestrator.experiment.experiment import Experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.records import Record
from orchestrator.searches.search import run_search
from tests.faults.driver import Death, Tracking, drive, drive_orphaned
from tests.faults.invariants import assert_invariants
from tests.faults.troubled_workload import TroubledWorkload, read_log
from tests.support.experiments import make_experiment
from tests.support.in_process import without_ray
from tests.support.snapshots import JOURNAL, Snapshot, snapshots
from tests.support.waiting import PATIENCE, wait_until
from trainables.errors import UserError

# A server that has imported what a driver needs, and forks one whenever it is asked: imports are half of a start.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "orchestrator.tuner.run",
        "orchestrator.studies.study",
        "orchestrator.tuner.scheduler",
        "mlflow.store.tracking.sqlalchemy_store",
        "tests.faults.driver",
    ]
)
PLACES = 2


def tiny(**changes: Any) -> Experiment:
    """Return one study of six random points that are all trained whole, two at a time."""
    search = {"sampler": "random", "trials": 6, "seed": 4}
    plain = {"losses": ["nt_xent"], "search": search, "scheduler": {"name": "none"}, "training": {"epochs": 5}}
    return make_experiment(**{**plain, **changes})


def grid(values: list[float], **changes: Any) -> Experiment:
    """Return one study that tries given temperatures in their order."""
    space = {"nt_xent": {"temperature": {"values": values}}}
    return tiny(**{"search": {"sampler": "grid", "trials": 100, "space": space}, **changes})


def with_store(output: Path, store_template: Path) -> Path:
    """Return a new output folder that has an MLflow database."""
    output.mkdir()
    shutil.copy(store_template, output / "mlflow.db")
    return output


class SearchesHere:
    """The searches of one test, one after the other, in one output directory.

    They run in this process and without Ray, are crashed in milliseconds, and nobody is killed.
    """

    def __init__(self, output: Path) -> None:
        self.output, self.log = output, output.parent / "trained.jsonl"
        self._crashes = 0
        self._errors = ""

    def workload(self, **fields: Any) -> TroubledWorkload:
        """Return trainings with the log by which these searches are judged."""
        return TroubledWorkload(log=self.log, **fields)

    def journal(self) -> list[Record]:
        return read_journal(self.output / JOURNAL) if (self.output / JOURNAL).exists() else []

    def history(self) -> History:
        return History.of(self.journal())

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
        """Run a search up to a record after which a condition holds; who waits for ``go`` waits no longer."""
        # In one process nobody could wait.
        workload.go.touch()

        def until(taken: Snapshot) -> bool:
            return condition(History.of(read_journal(taken.folder / JOURNAL)))

        self._run_until(experiment, workload, until).restore(self.output)

    def die(self, experiment: Experiment, workload: TroubledWorkload, death: Death) -> None:
        """Run a search up to a chosen write of its journal."""
        taken = self._run_until(experiment, workload, lambda taken: taken.record.kind == death.kind)
        taken.restore(self.output, {"before": taken.length, "torn": taken.length // 2, "after": 0}[death.moment])

    def errors(self) -> str:
        return self._errors

    def judge(self, *before: History, **more: Any) -> None:
        """Judge a search that has come to its end; see ``assert_invariants``."""
        assert_invariants(self.output, before=before, log=self.log, **more)

    def conclude(self, experiment: Experiment, workload: TroubledWorkload, *before: History, **more: Any) -> None:
        self.finish(experiment, workload)
        self.judge(*before, **more)

    def _run_until(
        self, experiment: Experiment, workload: TroubledWorkload, until: Callable[[Snapshot], bool]
    ) -> Snapshot:
        self._crashes += 1
        copies = self.output.with_name(f"copies{self._crashes}")
        with snapshots(self.output, copies, until) as taken, without_ray(PLACES):
            run_search(experiment, workload, self.output, quiet=True)
        assert until(taken[-1]), "the search came to its end"
        return taken[-1]


class Searches(SearchesHere):
    """Searches in processes of their own."""

    def __init__(self, output: Path, address: str) -> None:
        super().__init__(output)
        self.address = address
        self.resources = {"CPU": PLACES}
        self.tracking = Tracking()
        self.started: list[ForkServerProcess] = []
        self._waited = 0
        self.orphans: list[psutil.Process] = []

    def start(
        self, experiment: Experiment, workload: TroubledWorkload, death: Death | None = None, *, own_ray: bool = False
    ) -> ForkServerProcess:
        return self._start(drive, experiment, workload, self.resources if own_ray else self.address, death)

    def start_orphan(self, experiment: Experiment, workload: TroubledWorkload) -> psutil.Process:
        """Start a search with a Ray of its own whose parent is process 1, as that of what systemd starts is."""
        self._start(drive_orphaned, experiment, workload, self.resources).join(60)
        self.orphans.append(psutil.Process(int((self.prints / "orphan").read_text())))
        return self.orphans[-1]

    def _start(
        self,
        target: Callable[..., None],
        experiment: Experiment,
        workload: TroubledWorkload,
        address: str | dict[str, int],
        death: Death | None = None,
    ) -> ForkServerProcess:
        self.prints, self._waited = workload.log.parent, self._waits()
        arguments = (self.output, experiment.to_dict(), workload, address, death, self.tracking)
        self.started.append(CONTEXT.Process(target=target, args=arguments))
        self.started[-1].start()
        return self.started[-1]

    def finish(self, experiment: Experiment, workload: TroubledWorkload, *, code: int = 0) -> None:
        self.join(self.start(experiment, workload), code)

    def crash(self, experiment: Experiment, workload: TroubledWorkload, condition: Callable[[History], bool]) -> None:
        process = self.start(experiment, workload)
        self.wait_for(condition, process)
        process.kill()
        process.join()
        workload.go.touch()

    def die(self, experiment: Experiment, workload: TroubledWorkload, death: Death) -> None:
        self.join(self.start(experiment, workload, death), -signal.SIGKILL)

    def join(self, process: ForkServerProcess, code: int = 0) -> None:
        """Wait until a search has ended, which has to be with that exit code."""
        process.join(PATIENCE)
        assert process.exitcode == code, self.errors()

    def wait_for(self, condition: Callable[[History], bool], process: ForkServerProcess | psutil.Process) -> None:
        runs = process.is_running if isinstance(process, psutil.Process) else process.is_alive

        def holds() -> bool:
            # In this order: what the process wrote at its end counts.
            alive, is_met = runs(), condition(self.history())
            assert alive or is_met, self.errors()
            return is_met

        wait_until(holds, "the search gets on", self.prints / "stderr")

    def wait_until_held(self, process: ForkServerProcess | psutil.Process) -> None:
        """Wait until as many trainings of the search that was started last wait for ``go`` as run at a time."""
        self.wait_for(lambda history: self._waits() >= self._waited + PLACES, process)

    def _waits(self) -> int:
        return sum(line["kind"] == "wait" for line in read_log(self.log))

    def wait_for_more(
        self,
        records: int,
        process: ForkServerProcess | psutil.Process,
        enough: Callable[[History], bool] = lambda history: False,
    ) -> None:
        """Wait until the journal has more records than now and so many, or has ``enough``."""
        seen = len(self.journal()) + records
        self.wait_for(lambda history: len(self.journal()) > seen or enough(history), process)

    def errors(self) -> str:
        return self.printed("stderr")

    def printed(self, stream: str = "stdout") -> str:
        file = self.prints / stream
        return file.read_text() if file.exists() else ""

    def close(self) -> None:
        alive = [psutil.Process(process.pid) for process in self.started if process.is_alive()]
        for process in (*alive, *(orphan for orphan in self.orphans if orphan.is_running())):
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            process.wait(60)
