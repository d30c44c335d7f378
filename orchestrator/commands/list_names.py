"""``orchestrator list``: the names and keys that commands and files accept."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from orchestrator.commands.keys import Listed, list_keys, make_schema
from orchestrator.commands.options import Json, Plugins
from orchestrator.experiment.experiment import shipped_experiments
from orchestrator.experiment.plugins import load_plugins
from orchestrator.experiment.values import SAMPLERS
from orchestrator.experiment.yaml_files import read_yaml
from orchestrator.regression.suite import shipped_suites
from orchestrator.text.terminal import make_console, make_table, say, typed_program
from search_spaces import SPACES
from search_spaces.other_names import nearest
from search_spaces.space import bounds_of
from trainables.errors import ConfigError, UserError
from trainables.hyper_parameters import published_values
from trainables.loss_parameters import LOSS_PARAMETERS
from trainables.metric_table import DIRECTIONS, counts, may_select, metric_of, name_parts
from trainables.model_parameters import FEATURES, MODEL_PARAMETERS, further_inputs
from trainables.plugins.in_use import offered
from trainables.plugins.plugin import installed_plugins


def list_losses() -> Iterator[Listed]:
    """Yield the losses with formula, parameters, the searched range of each, how some are learned, and source."""
    from trainables.losses import loss_class

    for name, space in SPACES.items():
        loss = loss_class(name)
        formula, references = _formula_and_references(loss)
        entries = LOSS_PARAMETERS[name]
        yield {
            "name": name,
            "meaning": meaning_of(loss),
            "formula": formula,
            "parameters": _lines(entries),
            "searched": _lines(space.bounds),
            "published": _lines(published_values(entries)),
            "learned": _lines({key: entry.learned for key, entry in entries.items() if entry.learned is not None}),
            "source": references,
        }


def list_models() -> Iterator[Listed]:
    """Yield the models with their features, the further inputs that they read by default, and parameters."""
    from trainables.data.inputs import INPUTS
    from trainables.models import model_class

    ours = FEATURES.keys() - offered("models").keys()
    for name, features in FEATURES.items():
        model = model_class(name)
        meaning = meaning_of(inspect.getmodule(model) if name in ours else model)
        entries = MODEL_PARAMETERS[name]
        yield {
            "name": name,
            "meaning": meaning,
            "features": features,
            "inputs": _lines({key: INPUTS[key].form for key in further_inputs(name, {})}),
            "parameters": _lines(entries),
            "searched": _lines(bounds_of({key: entry.space for key, entry in entries.items()})),
            "published": _lines(published_values(entries)),
        }


def list_samplers() -> Iterator[Listed]:
    """Yield the samplers with the kinds of search that each sampler supports."""
    for name, kind in SAMPLERS.items():
        can = {"several objectives": kind.several_objectives, "conditions": kind.conditional}
        yield {"name": name, "meaning": kind.meaning} | {
            heading: "yes" if able else "no" for heading, able in can.items()
        }


def list_metrics() -> Iterator[Listed]:
    """Yield the measures of a trial, with the keys of ``search`` that accept each measure."""
    for names, role in ((may_select(), "metric, objective"), (counts(), "objective")):
        for name in names:
            entry, way = metric_of(name), DIRECTIONS.get(name_parts(name).direction)
            meaning = f"{entry.meaning}{f', {way}' if way else ''}"
            yield {"name": name, "meaning": meaning, "can be": role}


def list_files(shipped: Callable[[], Mapping[str, Path]]) -> Iterator[Listed]:
    """Yield the files that ship."""
    for name, path in shipped().items():
        yield {"name": name, "meaning": read_yaml(path).values["description"], "file": str(path)}


LISTS: dict[str, Callable[[], Iterator[Listed]]] = {
    "experiments": partial(list_files, shipped_experiments),
    "suites": partial(list_files, shipped_suites),
    "losses": list_losses,
    "models": list_models,
    "samplers": list_samplers,
    "metrics": list_metrics,
}
"""Argument of ``orchestrator list`` -> the function that lists; ``list_keys`` lists keys."""


def meaning_of(documented: Any) -> str:
    """Return the first line of a docstring without its citations."""
    return re.sub(r" \[[^]]*\]", "", (inspect.getdoc(documented) or "").partition("\n")[0])


def _formula_and_references(loss: type) -> tuple[str, str]:
    """Return the formulas of a loss's module, each after the text that says whose it is, and its references by line."""
    documented, _, references = (inspect.getdoc(inspect.getmodule(loss)) or "").partition("References:\n")
    parts = documented.replace("``", "").split("\n\n")
    blocks = [
        part
        for part, following in zip(parts, [*parts[1:], ""], strict=True)
        if part.startswith("    ") or following.startswith("    ")
    ]
    sources = re.sub(r"\n\s+(?!\[)", " ", inspect.cleandoc("\n" + references)).strip()
    return "\n".join(blocks), sources


def _lines(texts: Mapping[str, object]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in texts.items())


What = Literal["experiments", "suites", "losses", "models", "samplers", "metrics", "keys"]
Kind = Literal["experiment", "suite", "training"]

WIDTH = 160
"""Columns of a table where the output is no terminal."""

HIDDEN = ("name", "meaning", "file", "formula", "searched", "published", "learned", "source")
"""Texts that have no column of their own in a table of all names."""


def list_names(
    what: Annotated[What, typer.Argument(help="Names to list.")],
    name: Annotated[
        str | None, typer.Argument(help="Show this name with all details: of a loss formula, ranges and source.")
    ] = None,
    of: Annotated[Kind, typer.Option(help="With keys: kind of file.")] = "experiment",
    schema: Annotated[bool, typer.Option("--schema", help="With keys: print the JSON schema for editors.")] = False,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """List experiments, suites, losses, models, samplers, metrics, keys."""
    if schema and what != "keys":
        raise UserError(f"--schema goes with `list keys` alone, not with {what}")
    if name is not None and what == "keys":
        raise UserError(f"`list keys` takes no name, got {name!r}")
    if schema:
        print(json.dumps(make_schema(of), indent=2))
    elif what == "keys":
        keys = list_keys(of)
        _print(keys, ["key", "type", "default", "meaning"], [[*key.values()] for key in keys], as_json)
    else:
        load_plugins(plugins or [])
        _load_installed(what)
        _print_listed(what, name, list(LISTS[what]()), as_json)


def _print_listed(kind: str, name: str | None, listed: Sequence[Listed], as_json: bool) -> None:
    if name is not None:
        listed = [_find(name, kind, listed)]
        if not as_json:
            _show(listed[0])
            return
    shown = [key for key in listed[0] if key not in HIDDEN]
    rows = [[entry[key] for key in ("name", "meaning", *shown)] for entry in listed]
    if kind == "losses":
        # The names alone, so that the table fits 100 columns.
        rows = [[*row[:2], ", ".join(re.findall(r"^(\w+):", row[2], re.M))] for row in rows]
    _print(listed, ["name", "meaning", *shown], rows, as_json, width=100 if kind == "losses" else WIDTH)
    if kind == "losses" and not as_json:
        say(f"{typed_program()} list losses NAME: formula, parameters, searched ranges and source")


def _find(name: str, kind: str, listed: Sequence[Listed]) -> Listed:
    by_name = {entry["name"]: entry for entry in listed}
    if name not in by_name:
        near = nearest(name, list(by_name))
        hint = f"did you mean {near!r}?" if near else f"`orchestrator list {kind}` lists them"
        raise UserError(f"{name!r} is none of the {kind}; {hint}")
    return by_name[name]


def _show(entry: Listed) -> None:
    """Print a name with all texts, each under its heading."""
    say(f"{entry['name']}: {entry['meaning']}")
    for heading, text in entry.items():
        if text and heading not in ("name", "meaning"):
            say("", f"{heading}:", *(f"  {line}" for line in text.splitlines()))


def _print(
    content: Sequence[object], headings: Sequence[str], rows: Sequence[Sequence[str]], as_json: bool, width: int = WIDTH
) -> None:
    if as_json:
        print(json.dumps(content, indent=2))
    else:
        make_console(plain_width=width).print(make_table(headings, rows))


def _load_installed(kind: str) -> None:
    """Load the installed plug-ins that offer names of a kind; a warning names a plug-in that cannot be used."""
    for name, offers in installed_plugins().items():
        try:
            load_plugins([name] if kind in offers else [])
        except ConfigError as error:
            say(f"warning: the plug-in {name} is left out: {error}", error=True)
