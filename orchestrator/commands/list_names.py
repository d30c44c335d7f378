"""``orchestrator list``: the names and keys that commands and files accept."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.commands.catalogue import LISTS, Entry
from orchestrator.commands.command_reference import list_commands, write_command_reference
from orchestrator.commands.config_schema import list_keys, make_schema, write_reference
from orchestrator.commands.options import Json, Plugins
from orchestrator.commands.record_reference import write_record_reference
from orchestrator.experiment.plugins import load_plugins
from orchestrator.text.terminal import make_console, say, typed_program
from trainables.errors import ConfigError, UserError
from trainables.plugins.plugin import installed_plugins

What = Literal["experiments", "suites", "losses", "models", "samplers", "metrics", "keys", "records", "commands"]
Kind = Literal["experiment", "suite", "training"]

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
    if what == "commands":
        _list_commands(context, markdown, as_json)
        return
    if what == "keys":
        _list_keys(of, schema, markdown, as_json)
        return
    if markdown:
        say(*write_record_reference().splitlines(), verbatim=True)
        return

    load_plugins(plugins or [])
    _load_installed(what)
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


def _print_all(what: str, entries: "Sequence[Entry]") -> None:
    shown = [key for key in entries[0].details if key not in ("file", *(HIDDEN if what == "losses" else ()))]
    rows = [[entry.name, entry.meaning, *(entry.details[key] for key in shown)] for entry in entries]
    if what == "losses":
        # The names alone, so that the table fits 100 columns.
        rows = [[*row[:2], ", ".join(re.findall(r"^(\w+):", row[2], re.M))] for row in rows]
    _print(["name", "meaning", *shown], rows, plain_width=100 if what == "losses" else 160)
    if what == "losses":
        say(f"{typed_program()} list losses NAME: formula, parameters, searched ranges and source")


def _named(name: str, what: str, entries: "Sequence[Entry]") -> "Entry":
    by_name = {entry.name: entry for entry in entries}
    if name not in by_name:
        near = get_close_matches(name, by_name, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"`orchestrator list {what}` lists them"
        raise UserError(f"{name!r} is none of the {what}; {hint}")
    return by_name[name]


def _show(entry: "Entry") -> None:
    """Print an entry with all of its details, each under its heading."""
    say(f"{entry.name}: {entry.meaning}")
    for heading, text in entry.details.items():
        if text:
            say("", f"{heading}:", *(f"  {line}" for line in text.splitlines()))


def _list_commands(context: typer.Context, markdown: bool, as_json: bool) -> None:
    group = context.find_root().command
    if markdown:
        say(*write_command_reference(group).splitlines(), verbatim=True)
    elif as_json:
        print(json.dumps([asdict(command) for command in list_commands(group)], indent=2))
    else:
        _print(["command", "meaning"], [[command.usage, command.meaning] for command in list_commands(group)])


def _load_installed(kind: str) -> None:
    """Load the installed plug-ins that offer names of a kind; a warning names a plug-in that cannot be used."""
    for name, offers in installed_plugins().items():
        try:
            load_plugins([name] if kind in offers else [])
        except ConfigError as error:
            say(f"warning: the plug-in {name} is left out: {error}", error=True)


def _list_keys(of: str, schema: bool, markdown: bool, as_json: bool) -> None:
    if schema:
        print(json.dumps(make_schema(of), indent=2))
    elif markdown:
        say(*write_reference().splitlines(), verbatim=True)
    elif as_json:
        print(json.dumps([asdict(key) for key in list_keys(of)], indent=2))
    else:
        _print(["key", "type", "default", "meaning"], [list(asdict(key).values()) for key in list_keys(of)])


def _print(headings: "Sequence[str]", rows: "Sequence[Sequence[str]]", plain_width: int = 160) -> None:
    table = Table(show_lines=any("\n" in cell for row in rows for cell in row))
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    make_console(plain_width=plain_width).print(table)
