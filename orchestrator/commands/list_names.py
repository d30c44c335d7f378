"""``orchestrator list``: the names and keys that commands and files accept."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from orchestrator.commands.options import Json, Plugins
from orchestrator.text.terminal import make_console, say
from trainables.errors import ConfigError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

What = Literal["experiments", "suites", "losses", "models", "samplers", "metrics", "keys", "records"]
Kind = Literal["experiment", "suite", "training"]


def list_names(
    what: Annotated[What, typer.Argument(help="What to list.")],
    of: Annotated[Kind, typer.Option(help="With keys: kind of file.")] = "experiment",
    schema: Annotated[bool, typer.Option("--schema", help="With keys: print the JSON schema for editors.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="With keys, records: print the reference page.")] = False,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """List experiments, suites, losses, models, samplers, metrics, keys of files, records of journals."""
    if (schema and what != "keys") or (markdown and what not in ("keys", "records")):
        raise UserError(
            f"--schema goes with `list keys` alone, and --markdown with `list keys` or `list records`, not with {what}"
        )
    if what == "keys":
        _list_keys(of, schema, markdown, as_json)
        return
    if markdown:
        from orchestrator.commands.record_reference import write_record_reference

        say(*write_record_reference().splitlines())
        return
    from orchestrator.commands.catalogue import LISTS
    from orchestrator.experiment.plugins import load_plugins

    load_plugins(plugins or [])
    _load_installed(what)
    entries = LISTS[what]()
    if as_json:
        print(json.dumps([{"name": one.name, "meaning": one.meaning, **one.details} for one in entries], indent=2))
        return
    shown = [key for key in entries[0].details if key != "file"]
    _print(
        ["name", "meaning", *shown], [[one.name, one.meaning, *map(one.details.__getitem__, shown)] for one in entries]
    )


def _load_installed(kind: str) -> None:
    """Load the installed plug-ins that offer names of a kind; a warning names a plug-in that cannot be used."""
    from orchestrator.experiment.plugins import load_plugins
    from trainables.plugins.installed import installed_plugins

    for name, offers in installed_plugins().items():
        try:
            load_plugins([name] if kind in offers else [])
        except ConfigError as error:
            say(f"warning: the plug-in {name} is left out: {error}", error=True)


def _list_keys(of: str, schema: bool, markdown: bool, as_json: bool) -> None:
    from orchestrator.commands.config_schema import list_keys, make_schema, write_reference

    if schema:
        print(json.dumps(make_schema(of), indent=2))
    elif markdown:
        say(*write_reference().splitlines())
    elif as_json:
        print(json.dumps([asdict(key) for key in list_keys(of)], indent=2))
    else:
        _print(["key", "type", "default", "meaning"], [list(asdict(key).values()) for key in list_keys(of)])


def _print(headings: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=any("\n" in cell for row in rows for cell in row))
    for number, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    make_console(plain_width=160).print(table)
