"""The load of each machine of a search: measured now on this machine, reported by the trials on other machines."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.journal.places import Place
from orchestrator.machines.own_load import OwnLoad
from orchestrator.machines.usage import MachineUsage
from orchestrator.text.values import duration_text


@dataclass(frozen=True)
class Report:
    """Where a trial runs, and the load that its process reported with the trial's newest epoch.

    Attributes:
        host: Name of the machine.
        pid: Id of the process.
        is_here: Whether this machine serves the page.
        load: Load of the process and the machine; ``None`` where nothing readable was reported.
        seconds: Age of the report, in seconds, >= 0.
    """

    host: str
    pid: int
    is_here: bool
    load: OwnLoad | None
    seconds: float

    @property
    def age(self) -> str:
        """Age of the report, in words."""
        return f"{duration_text(max(1.0, self.seconds))} ago"


@dataclass(frozen=True)
class NodeNow:
    """A machine on which trials run.

    Attributes:
        host: Name of the machine.
        trials: Number of trials that are known to run on the machine.
        usage: Load of the machine; ``None`` where no load has been reported.
        age: Age of ``usage``, in words; empty where ``usage`` was measured now.
    """

    host: str
    trials: int
    usage: MachineUsage | None
    age: str = ""


def reports_of(places: Mapping[str, Place], is_here: Callable[[str], bool]) -> dict[str, Report]:
    """Return the report of each trial's process.

    Args:
        places: Trial -> where the trial runs.
        is_here: Says whether a name is the name of this machine.
    """
    now = time.time()
    return {
        trial: Report(
            host=place.host,
            pid=place.pid,
            is_here=is_here(place.host),
            load=_load(place),
            # The clock may have been set back since the report.
            seconds=0.0 if place.reported is None else max(0.0, now - place.reported),
        )
        for trial, place in places.items()
    }


def nodes_of(reports: Mapping[str, Report], here: MachineUsage | None) -> list[NodeNow]:
    """Return the machines: this machine first, then the others, sorted by name.

    Args:
        reports: Reports of all running trials.
        here: Load of this machine; ``None`` where the search does not run here.
    """
    trials = Counter(report.host for report in reports.values())
    nodes = [] if here is None else [NodeNow(here.host, trials[here.host], here)]
    for host in sorted(trials):
        if here is None or host != here.host:
            nodes.append(_node(host, trials[host], reports))
    return nodes


def _node(host: str, trials: int, reports: Mapping[str, Report]) -> NodeNow:
    told = [report for report in reports.values() if report.host == host and report.load is not None]
    newest = min(told, key=lambda report: report.seconds, default=None)
    if newest is None or newest.load is None:
        return NodeNow(host, trials, None)
    return NodeNow(host, trials, newest.load.machine, newest.age)


def _load(place: Place) -> OwnLoad | None:
    """Return the reported load; ``None`` where another version of this software reported it in another form."""
    try:
        return None if place.load is None else OwnLoad.from_dict(place.load)
    except (TypeError, KeyError):
        return None
