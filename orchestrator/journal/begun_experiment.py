"""The experiment of a journal, parsed once when the record of its start is read.

``BegunExperiment`` has the keys that readers need even where this version would refuse the experiment, e.g. because a
plug-in is not installed. ``experiment.experiment.experiment_of`` returns the whole experiment in its own type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trainables.plugins.plugin import Plugin


@dataclass(frozen=True)
class BegunConfirm:
    """The confirmation that an experiment was begun with, see ``experiment.sections.Confirm``."""

    baseline: str | None = None
    verdict: str = "seeds_and_images"
    smallest_difference: float = 1.0
    each_of: str | None = None


@dataclass(frozen=True)
class BegunExperiment:
    """The experiment of a journal's newest start; false where no start was recorded.

    Attributes:
        values: The resolved experiment with the keys of an experiment file; empty before the first start.
        name, metric, seed, sampler: As in the file; ``None`` where the record lacks them.
        description: Text of the experiment's author; may be empty.
        datasets: Names or paths of the datasets.
        repeats: Number of independent searches of each study, >= 1; 1 in journals of older versions.
        chooses_loss: Whether the sampler chooses the loss of a trial.
        searched_training, searched_model: Settings of ``training``, and parameters of models, that are searched.
        gpus: GPUs of a trial, > 0; ``None`` where a trial has none, or where the share is measured (``auto``).
        limits: Limit of the budget -> its value; ``None`` is no limit.
        confirm: The confirmation; ``None`` where there is to be none.
    """

    values: Mapping[str, Any]
    name: str | None
    description: str
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    metric: str | None
    seed: int | None
    sampler: str | None
    repeats: int
    chooses_loss: bool
    searched_training: tuple[str, ...]
    searched_model: tuple[str, ...]
    gpus: float | None
    limits: Mapping[str, float | None]
    confirm: BegunConfirm | None
    plugins: tuple[Plugin, ...]

    def __bool__(self) -> bool:
        return bool(self.values)

    def __hash__(self) -> int:
        # Only of immutable values, because caches have experiments as keys.
        return hash((self.name, self.metric, self.seed))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "BegunExperiment":
        """Parse the resolved experiment of a record."""
        search, gpus = values.get("search") or {}, (values.get("resources") or {}).get("gpus")
        confirm = values.get("confirm")
        return cls(
            values=values,
            name=values.get("name"),
            description=str(values.get("description", "")),
            datasets=tuple(values.get("datasets", ())),
            models=tuple(values.get("models", ())),
            metric=search.get("metric"),
            seed=search.get("seed"),
            sampler=search.get("sampler"),
            repeats=search.get("repeats", 1),
            chooses_loss=search.get("loss") == "choose",
            searched_training=tuple(search.get("training", ())),
            searched_model=tuple(search.get("model_parameters", ())),
            gpus=float(gpus) if isinstance(gpus, int | float) and gpus > 0 else None,
            limits=values.get("budget") or {},
            confirm=msgspec.convert(confirm, BegunConfirm) if confirm else None,
            plugins=tuple(Plugin(**plugin) for plugin in values.get("plugins", ())),
        )


NO_EXPERIMENT = BegunExperiment.of({})
"""The experiment of a journal without the record of a start."""
