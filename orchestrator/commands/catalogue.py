"""The names that configurations and command lines accept, each with its meaning, read from the code."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from orchestrator.commands.record_reference import list_fields, meaning_of
from orchestrator.experiment.experiment import shipped_experiments
from orchestrator.experiment.measures import COUNTS, METRICS
from orchestrator.experiment.samplers import SAMPLERS
from orchestrator.experiment.yaml_files import read_yaml
from orchestrator.journal.records import KINDS
from orchestrator.regression.suite import shipped_suites
from search_spaces import SPACES
from trainables.model_parameters import FEATURES, MODEL_PARAMETERS
from trainables.plugins.in_use import offered


@dataclass(frozen=True)
class Entry:
    """A name and its meaning.

    Attributes:
        name: Name that users type.
        meaning: Meaning of the name, one line.
        details: Heading -> further text.
    """

    name: str
    meaning: str
    details: Mapping[str, str] = field(default_factory=dict)


def list_experiments() -> list[Entry]:
    """Return the shipped experiments."""
    return _described(shipped_experiments())


def list_suites() -> list[Entry]:
    """Return the shipped suites."""
    return _described(shipped_suites())


def list_losses() -> list[Entry]:
    """Return the losses with formula, parameters, the searched range of each, how some are learned, and source."""
    from trainables.losses import loss_class
    from trainables.losses.parameters import learnable_of

    return [
        Entry(
            name,
            _first_line(loss_class(name)),
            {
                "formula": _formula(loss_class(name)),
                "parameters": "\n".join(
                    f"{one.name}: {space.parameters[one.name].rule}; by default {one.default!r}"
                    for one in fields(loss_class(name))
                    if one.name in space.parameters
                ),
                "searched": "\n".join(f"{parameter}: {bound}" for parameter, bound in space.bounds.items()),
                "learned": "\n".join(
                    f"{parameter}: {how}" for parameter, how in learnable_of(loss_class(name)).items()
                ),
                "source": _sources(loss_class(name)),
            },
        )
        for name, space in SPACES.items()
    ]


def list_models() -> list[Entry]:
    """Return the models with their input features and parameters."""
    from trainables.models import model_class

    ours = FEATURES.keys() - offered("models").keys()
    return [
        Entry(
            name,
            _first_line(inspect.getmodule(model) if name in ours else model),
            {
                "features": FEATURES[name],
                "parameters": "\n".join(f"{key}: {accepted}" for key, accepted in MODEL_PARAMETERS[name].items()),
            },
        )
        for name in FEATURES
        for model in [model_class(name)]
    ]


def list_samplers() -> list[Entry]:
    """Return the samplers with the kinds of search that each sampler supports."""
    return [
        Entry(
            name,
            kind.meaning,
            {
                "several objectives": _yes(kind.several_objectives),
                "conditions": _yes(kind.conditional),
            },
        )
        for name, kind in SAMPLERS.items()
    ]


def list_metrics() -> list[Entry]:
    """Return the measures of a trial, with the keys of ``search`` that accept each measure."""
    searched = [(METRICS, "metric, objective"), (COUNTS, "objective")]
    return [Entry(name, meaning, {"can be": role}) for names, role in searched for name, meaning in names.items()]


def list_records() -> list[Entry]:
    """Return the kinds of records of a journal with their fields."""
    return [
        Entry(
            name,
            meaning_of(kind),
            {"fields": "\n".join(f"{one.name} ({one.type}): {one.meaning}" for one in list_fields(kind))},
        )
        for name, kind in KINDS.items()
    ]


LISTS: dict[str, Callable[[], list[Entry]]] = {
    "experiments": list_experiments,
    "suites": list_suites,
    "losses": list_losses,
    "models": list_models,
    "samplers": list_samplers,
    "metrics": list_metrics,
    "records": list_records,
}
"""Argument of ``orchestrator list`` -> the function that lists; ``config_schema`` lists the keys."""


def _formula(loss: type) -> str:
    """Return the formulas of a loss: the indented lines of its module's docstring, before the references."""
    documented, _, _ = (inspect.getdoc(inspect.getmodule(loss)) or "").partition("References:")
    return inspect.cleandoc("\n" + "\n".join(line for line in documented.splitlines() if line.startswith("    ")))


def _sources(loss: type) -> str:
    """Return the references of a loss's module, one a line."""
    _, _, references = (inspect.getdoc(inspect.getmodule(loss)) or "").partition("References:\n")
    return re.sub(r"\n\s+(?!\[)", " ", inspect.cleandoc("\n" + references)).strip()


def _described(shipped: Mapping[str, Path]) -> list[Entry]:
    return [Entry(name, read_yaml(path).values["description"], {"file": str(path)}) for name, path in shipped.items()]


def _yes(can: bool) -> str:
    return "yes" if can else "no"


def _first_line(documented: Any) -> str:
    """Return the first line of a docstring without its citations."""
    return re.sub(r" \[[^]]*\]", "", (inspect.getdoc(documented) or "").partition("\n")[0])
