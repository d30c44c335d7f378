"""``orchestrator list``: the names and keys that commands and files accept."""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from orchestrator.commands.config_schema import Key, list_keys, make_schema, write_reference
from orchestrator.commands.options import Json, Plugins
from orchestrator.commands.references import (
    Command,
    list_commands,
    list_fields,
    meaning_of,
    write_command_reference,
    write_record_reference,
)
from orchestrator.experiment.experiment import shipped_experiments
from orchestrator.experiment.plugins import load_plugins
from orchestrator.experiment.values import COUNTS, METRICS, SAMPLERS
from orchestrator.experiment.yaml_files import read_yaml
from orchestrator.journal.records import KINDS
from orchestrator.regression.suite import shipped_suites
from orchestrator.text.terminal import make_console, make_table, say, typed_program
from search_spaces import SPACES
from trainables.errors import ConfigError, UserError
from trainables.model_parameters import FEATURES, MODEL_PARAMETERS
from trainables.plugins.in_use import offered
from trainables.plugins.plugin import installed_plugins


@dataclass(frozen=True)
class ListedName:
    """A name and its meaning.

    Attributes:
        name: Name that users type.
        meaning: Meaning of the name, one line.
        details: Heading -> further text.
    """

    name: str
    meaning: str
    details: Mapping[str, str] = field(default_factory=dict)


def list_losses() -> list[ListedName]:
    """Return the losses with formula, parameters, the searched range of each, how some are learned, and source."""
    from trainables.losses import loss_class
    from trainables.losses.parameters import learnable_of

    return [
        ListedName(
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


def list_models() -> list[ListedName]:
    """Return the models with their input features and parameters."""
    from trainables.models import model_class

    ours = FEATURES.keys() - offered("models").keys()
    return [
        ListedName(
            name,
            _first_line(inspect.getmodule(model) if name in ours else model),
            {
                "features": FEATURES[name],
                "parameters": "\n".join(f"{key}: {domain.rule}" for key, domain in MODEL_PARAMETERS[name].items()),
            },
        )
        for name in FEATURES
        for model in [model_class(name)]
    ]


def list_samplers() -> list[ListedName]:
    """Return the samplers with the kinds of search that each sampler supports."""
    return [
        ListedName(
            name,
            kind.meaning,
            {"several objectives": _yes(kind.several_objectives), "conditions": _yes(kind.conditional)},
        )
        for name, kind in SAMPLERS.items()
    ]


def list_metrics() -> list[ListedName]:
    """Return the measures of a trial, with the keys of ``search`` that accept each measure."""
    searched = [(METRICS, "metric, objective"), (COUNTS, "objective")]
    return [ListedName(name, meaning, {"can be": role}) for names, role in searched for name, meaning in names.items()]


def list_records() -> list[ListedName]:
    """Return the kinds of records of a journal with their fields."""
    return [
        ListedName(
            name,
            meaning_of(kind),
            {"fields": "\n".join(f"{one.name} ({one.type}): {one.meaning}" for one in list_fields(kind))},
        )
        for name, kind in KINDS.items()
    ]


LISTS: dict[str, Callable[[], list[ListedName]]] = {
    "experiments": lambda: _described(shipped_experiments()),
    "suites": lambda: _described(shipped_suites()),
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


def _described(shipped: Mapping[str, Path]) -> list[ListedName]:
    return [
        ListedName(name, read_yaml(path).values["description"], {"file": str(path)}) for name, path in shipped.items()
    ]


def _yes(can: bool) -> str:
    return "yes" if can else "no"


def _first_line(documented: Any) -> str:
    """Return the first line of a docstring without its citations."""
    return re.sub(r" \[[^]]*\]", "", (inspect.getdoc(documented) or "").partition("\n")[0])


What = Literal["experiments", "suites", "losses", "models", "samplers", "metrics", "keys", "records", "commands"]
Kind = Literal["experiment", "suite", "training"]

WIDTH = 160
"""Columns of a table where the output is no terminal."""

HIDDEN = ("formula", "searched", "learned", "source")
"""Details of a loss that the table of all losses leaves out."""


def list_names(
    context: typer.Context,
    what: Annotated[What, typer.Argument(help="Names to list.")],
    name: Annotated[
        str | None, typer.Argument(help="Show this name with all details: of a loss formula, ranges and source.")
    ] = None,
    of: Annotated[Kind, typer.Option(help="With keys: kind of file.")] = "experiment",
    schema: Annotated[bool, typer.Option("--schema", help="With keys: print the JSON schema for editors.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With keys, records, commands: print the reference page.")
    ] = False,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """List experiments, suites, losses, models, samplers, metrics, keys, records, commands."""
    _check(what, name, schema, markdown)
    group = context.find_root().command
    if schema:
        print(json.dumps(make_schema(of), indent=2))
    elif markdown:
        pages: dict[str, Callable[[], str]] = {
            "keys": write_reference,
            "records": write_record_reference,
            "commands": partial(write_command_reference, group),
        }
        say(*pages[what]().splitlines(), verbatim=True)
    elif what == "commands":
        commands = list_commands(group)
        _print_described(commands, ["command", "meaning"], [[one.usage, one.meaning] for one in commands], as_json)
    elif what == "keys":
        keys = list_keys(of)
        rows = [list(asdict(key).values()) for key in keys]
        _print_described(keys, ["key", "type", "default", "meaning"], rows, as_json)
    else:
        load_plugins(plugins or [])
        _load_installed(what)
        _list_offered(what, name, as_json)


def _list_offered(what: str, name: str | None, as_json: bool) -> None:
    entries = LISTS[what]() if name is None else [_named(name, what, LISTS[what]())]
    if as_json:
        print(json.dumps([{"name": one.name, "meaning": one.meaning, **one.details} for one in entries], indent=2))
    elif name is not None:
        _show(entries[0])
    else:
        _print_all(what, entries)


def _check(what: str, name: str | None, schema: bool, markdown: bool) -> None:
    if (schema and what != "keys") or (markdown and what not in ("keys", "records", "commands")):
        raise UserError(
            f"--schema goes with `list keys` alone, and --markdown with `list keys`, `list records` or "
            f"`list commands`, not with {what}"
        )
    if name is not None and what in ("keys", "commands"):
        raise UserError(f"`list {what}` takes no name, got {name!r}")


def _print_all(what: str, entries: Sequence[ListedName]) -> None:
    shown = [key for key in entries[0].details if key not in ("file", *(HIDDEN if what == "losses" else ()))]
    rows = [[entry.name, entry.meaning, *(entry.details[key] for key in shown)] for entry in entries]
    if what == "losses":
        # The names alone, so that the table fits 100 columns.
        rows = [[*row[:2], ", ".join(re.findall(r"^(\w+):", row[2], re.M))] for row in rows]
    console = make_console(plain_width=100 if what == "losses" else WIDTH)
    console.print(make_table(["name", "meaning", *shown], rows))
    if what == "losses":
        say(f"{typed_program()} list losses NAME: formula, parameters, searched ranges and source")


def _named(name: str, what: str, entries: Sequence[ListedName]) -> ListedName:
    by_name = {entry.name: entry for entry in entries}
    if name not in by_name:
        near = get_close_matches(name, by_name, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"`orchestrator list {what}` lists them"
        raise UserError(f"{name!r} is none of the {what}; {hint}")
    return by_name[name]


def _show(entry: ListedName) -> None:
    """Print an entry with all of its details, each under its heading."""
    say(f"{entry.name}: {entry.meaning}")
    for heading, text in entry.details.items():
        if text:
            say("", f"{heading}:", *(f"  {line}" for line in text.splitlines()))


def _print_described(
    described: Sequence[Command] | Sequence[Key], headings: Sequence[str], rows: Sequence[Sequence[str]], as_json: bool
) -> None:
    if as_json:
        print(json.dumps([asdict(one) for one in described], indent=2))
    else:
        make_console(plain_width=WIDTH).print(make_table(headings, rows))


def _load_installed(kind: str) -> None:
    """Load the installed plug-ins that offer names of a kind; a warning names a plug-in that cannot be used."""
    for name, offers in installed_plugins().items():
        try:
            load_plugins([name] if kind in offers else [])
        except ConfigError as error:
            say(f"warning: the plug-in {name} is left out: {error}", error=True)
