"""What each machine of a search is doing: this one as it is measured now, others as the processes there reported."""

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
    """Where a trial runs, and what its process reported with its newest epoch.

    Attributes:
        host: Name of the machine.
        pid: Of the process.
        is_here: Whether this machine serves the page.
        load: What process and machine did then; ``None`` where nothing readable was reported.
        seconds: How long ago that was, >= 0.
    """

    host: str
    pid: int
    is_here: bool
    load: OwnLoad | None
    seconds: float

    @property
    def age(self) -> str:
        """How long ago that was, in words."""
        return f"{duration_text(max(1.0, self.seconds))} ago"


@dataclass(frozen=True)
class NodeNow:
    """A machine on which trials run.

    Attributes:
        host: Its name.
        trials: How many trials are known to run there.
        usage: What it is doing; ``None`` where nothing has been reported.
        age: How old ``usage`` is, in words; empty where it was measured now.
    """

    host: str
    trials: int
    usage: MachineUsage | None
    age: str = ""


def reports_of(places: Mapping[str, Place], is_here: Callable[[str], bool]) -> dict[str, Report]:
    """Return what is known of each trial's process.

    Args:
        places: Trial -> where it runs.
        is_here: Says whether a name is the name of this machine.
    """
    now = time.time()
    return {
        trial: Report(
            host=place.host,
            pid=place.pid,
            is_here=is_here(place.host),
            load=_load(place),
            # Never before now, whatever became of the clock.
            seconds=0.0 if place.reported is None else max(0.0, now - place.reported),
        )
        for trial, place in places.items()
    }


def nodes_of(reports: Mapping[str, Report], here: MachineUsage | None) -> list[NodeNow]:
    """Return the machines, this one first, the others by their names.

    Args:
        reports: Of all trials that run.
        here: What this machine is doing; ``None`` where the search does not run here.
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
    """Return what a process reported; ``None`` where another version reported it otherwise."""
    try:
        return None if place.load is None else OwnLoad.from_dict(place.load)
    except (TypeError, KeyError):
        return None
