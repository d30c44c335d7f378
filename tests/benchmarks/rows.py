"""What every benchmark gives: costs of the product beside the same costs of something else, from one run.

A cost is seconds, megabytes or epochs: less is better, and the ratio says how many times as much the other takes.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import stdev
from typing import Any

import torch

from orchestrator.machines.cluster import describe_environment

COLUMNS = f"{'':40} {'ours':>12} {'other':>12} {'ratio':>8} {'needed':>7}  other is"


@dataclass(frozen=True)
class Row:
    """One thing that was measured.

    Attributes:
        case: What, at which size.
        unit: Of the costs, which are >= 0.
        other: ``None`` where the other was not run, as ``note`` says why.
        needed: The least ratio that is to hold; ``None`` where the ratio is only told.
    """

    case: str
    unit: str
    ours: float
    other: float | None
    against: str
    needed: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as much the other costs."""
        return None if self.other is None else self.other / self.ours if self.ours else float("inf")

    def line(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        other = "" if self.other is None else f"{self.other:.4g} {self.unit}"
        needed = "" if self.needed is None else f"{self.needed:.3g}"
        missed = self.needed is not None and self.ratio is not None and self.ratio < self.needed
        about = "; ".join(part for part in (self.against, "BELOW WHAT IS NEEDED" * missed, self.note) if part)
        return f"{self.case:40} {f'{self.ours:.4g} {self.unit}':>12} {other:>12} {ratio:>8} {needed:>7}  {about}"

    def to_dict(self, benchmark: str) -> dict[str, Any]:
        return {"benchmark": benchmark, **asdict(self), "ratio": self.ratio}


def error_of_mean(values: Sequence[float]) -> float:
    """Return the standard error of a mean; nan of a single value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def load() -> float:
    return os.getloadavg()[0]


def write_json(
    path: Path, rows: Sequence[Mapping[str, Any]], seconds: Mapping[str, float], loads: Sequence[float]
) -> None:
    """Write what benchmarks gave, with the machine, its GPU, its load before and after each, and the versions."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    report = {**describe_environment(), "gpu": gpu, "load": list(loads), "seconds": dict(seconds), "rows": list(rows)}
    path.write_text(json.dumps(report, indent=2) + "\n")
