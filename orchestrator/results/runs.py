"""The runs of a candidate: one container for every source of numbers that is compared.

A candidate is anything that is compared with something else: a setting of a loss with its fresh seeds, a loss with the
best setting of each of several searches, the accepted runs of a baseline, a row of a published table, or a model that
was trained elsewhere. Its runs are in a cell, which is a dataset, a model and a loss.

``comparison.compare`` compares two candidates, and ``question.Question`` gives the comparison its p-value and its word.
Nothing here needs torch, an engine or a journal.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.answer import Quantity
from orchestrator.results.statistics import Interval, Measure, Sample, measure, t_interval
from trainables.metric_table import range_of


class RunId(NamedTuple):
    """A run of a candidate: the search that found its setting, numbered from 0, and the seed of the training."""

    search: int
    seed: int


class Unit(StrEnum):
    """What varies from one value of a candidate to the next, and is repeated independently."""

    SEED = "seed"
    SEARCH = "search"
    """A search with the trainings of its best setting: a loss has a value for each search, the mean over its seeds."""

    @property
    def plural(self) -> str:
        """The word for several of them."""
        return "searches" if self is Unit.SEARCH else "seeds"


@dataclass(frozen=True)
class Runs:
    """The runs of one candidate.

    Attributes:
        label: Name of the candidate, unique among those that it is compared with.
        values: Run -> metric, with its split (``test/rsum``) -> value, finite.
        means: Metric -> mean and deviation over runs whose values are not known, such as those of a published row.
        dataset, model, loss: The cell; a name may be empty where it does not matter.
        parameters: The hyper-parameters of the candidate, see ``history.Trial.parameters``; of a candidate with several
            searches those that all its settings share.
        images: Metric -> run -> value of each image in this metric, shape (I,), whose mean is the metric; for all runs
            in ``values``, in one order of the images for all candidates that are compared.
        missing: Run without values -> reason, such as ``diverged``.
        planned: Number of runs that a race or the user gave the candidate; ``None`` where all have equally many.
        has_seeds: Whether another seed could give other values; a closed-form model has a single run, which is exact.
        is_repeated: Whether the runs are of repeated searches, also where a single one is left.
        is_constant: Whether neither a training nor a search could give it another value, as of a pretrained model that
            is not trained; it has a single run.
        trials: Trials of each of the repeated searches; of a claim's cell those of the one search whose best it is.
            ``None`` where there are none, or they differ.
        luck: Metric -> variance of the best setting over repeated searches by all their trials, see ``luck``; without a
            metric where it is not known.

    Example:
        >>> runs = Runs.of_seeds("a", {0: {"test/rsum": 201.0}, 1: {"test/rsum": 203.0}}, loss="nt_xent")
        >>> runs.measure("test/rsum")
        Measure(mean=202.0, std=1.0, seeds=2)
        >>> runs.unit
        <Unit.SEED: 'seed'>
    """

    label: str
    values: Mapping[RunId, Mapping[str, float]] = field(default_factory=dict)
    means: Mapping[str, Measure] = field(default_factory=dict)
    dataset: str = ""
    model: str = ""
    loss: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Mapping[RunId, Sample]] = field(default_factory=dict)
    missing: Mapping[RunId, str] = field(default_factory=dict)
    planned: int | None = None
    has_seeds: bool = True
    is_repeated: bool = False
    is_constant: bool = False
    trials: int | None = None
    luck: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_seeds(
        cls,
        label: str,
        values: Mapping[int, Mapping[str, float]],
        *,
        images: Mapping[str, Mapping[int, Sample]] | None = None,
        missing: Mapping[int, str] | None = None,
        **about: Any,
    ) -> "Runs":
        """Return the runs of a candidate with one setting, given by seed; ``about`` has further attributes."""
        return cls(
            label,
            {RunId(0, seed): metrics for seed, metrics in values.items()},
            images={
                metric: {RunId(0, seed): of_run for seed, of_run in of_seed.items()}
                for metric, of_seed in (images or {}).items()
            },
            missing={RunId(0, seed): reason for seed, reason in (missing or {}).items()},
            **about,
        )

    @property
    def kind(self) -> tuple[str, str]:
        """Model and loss."""
        return self.model, self.loss

    @cached_property
    def ids(self) -> tuple[RunId, ...]:
        """The runs with values, by search and seed."""
        return tuple(sorted(self.values))

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs with values, in the order of ``ids``."""
        return [run.seed for run in self.ids]

    @cached_property
    def searches(self) -> int:
        """Number of searches with a value."""
        return len({run.search for run in self.values})

    @property
    def unit(self) -> Unit:
        """The unit of a test: the search where there are several, else the seed."""
        return Unit.SEARCH if self.is_repeated or self.searches > 1 else Unit.SEED

    @property
    def count(self) -> int:
        """Number of units with values."""
        return self.searches if self.unit is Unit.SEARCH else len(self.values)

    def has(self, metric: str) -> bool:
        """Whether every run has a metric, and there is a run, or its mean is known."""
        runs = self.values.values()
        return metric in self.means or (bool(runs) and all(metric in of_run for of_run in runs))

    def sample(self, metric: str, unit: Unit = Unit.SEED) -> Sample:
        """Return the values of a metric, shape (U,): one for each run, or the mean of the runs of each search.

        Raises:
            KeyError: If a run lacks the metric.
        """
        return self._by_unit({run: self.values[run][metric] for run in self.ids}, unit)

    def image_rows(self, metric: str, unit: Unit = Unit.SEED) -> NDArray[np.float64] | None:
        """Return the values of the images in a metric, shape (U, I), rows as in ``sample``; ``None`` if not known."""
        known = self.images.get(metric, {})
        if not self.values or not known.keys() >= self.values.keys():
            return None
        return self._by_unit({run: known[run] for run in self.ids}, unit)

    def _by_unit(self, of_run: Mapping[RunId, Any], unit: Unit) -> NDArray[np.float64]:
        if unit is Unit.SEED:
            return np.array(list(of_run.values()), dtype=np.float64)
        searches = dict.fromkeys(run.search for run in of_run)
        means = [
            np.mean([value for run, value in of_run.items() if run.search == search], axis=0) for search in searches
        ]
        return np.array(means, dtype=np.float64)

    def measure(self, metric: str) -> Measure:
        """Return mean and deviation of a metric over the units: the seeds, or the searches where there are several.

        Raises:
            KeyError: If a run lacks the metric, and its mean is not known.
        """
        return self.means[metric] if not self.values else measure(self.sample(metric, self.unit))

    def measures(self, keep: Callable[[str], bool] = lambda name: True) -> dict[str, Measure]:
        """Return mean and deviation of each metric over the units that have the metric."""
        if not self.values:
            return {name: known for name, known in self.means.items() if keep(name)}
        names = sorted({name for metrics in self.values.values() for name in metrics if keep(name)})
        known = {name: {run: self.values[run][name] for run in self.ids if name in self.values[run]} for name in names}
        return {name: measure(self._by_unit(of_run, self.unit)) for name, of_run in known.items()}

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over the units."""
        return self.measure(metric).mean

    def interval(self, metric: str) -> Interval | None:
        """Return Student's 95 % interval of the mean, within the metric's range; ``None`` for one unit."""
        interval = t_interval(self.sample(metric, self.unit))
        return None if interval is None else interval.within(*range_of(metric))

    def quantity(self, metric: str) -> Quantity:
        """Return a metric as a cell: mean, sample standard deviation, and the interval of the mean."""
        known = self.measure(metric)
        return Quantity(known.mean, known.sample_std, *((self.interval(metric) if self.values else None) or ()))

    def _number(self, run: RunId) -> int:
        """Return what identifies the unit of a run: its seed, or its search."""
        return run.search if self.unit is Unit.SEARCH else run.seed

    def fates(self) -> list[str]:
        """Name each unit without values, with the reason."""
        return [f"{self.unit} {self._number(run)} {self.missing[run]}" for run in sorted(self.missing)]

    def to_dict(self) -> dict[str, Any]:
        """Return label, cell, parameters, seeds (or searches) and measures as plain values for JSON."""
        return {
            **{name: getattr(self, name) for name in ("label", "dataset", "model", "loss")},
            "parameters": dict(self.parameters),
            "seeds": list(dict.fromkeys(self._number(run) for run in self.ids)),
            "missing": {str(self._number(run)): self.missing[run] for run in sorted(self.missing)},
            "measures": {name: asdict(known) for name, known in self.measures().items()},
        }
