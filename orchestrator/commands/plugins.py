"""``orchestrator plugins`` and ``check-plugin``: which plug-ins there are, and whether a plug-in keeps its contract."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.commands.options import Json, Plugins
from orchestrator.text.terminal import make_console, say
from trainables.extras import require

if TYPE_CHECKING:
    from trainables.contracts.findings import Finding
    from trainables.plugins.plugin import Plugin

STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def plugins(files: Plugins = None, as_json: Json = False) -> None:
    """List installed plug-ins and those of --plugin, with what they offer. Installed code is not run."""
    from orchestrator.experiment.plugins import load_plugins
    from trainables.plugins.installed import installed_plugins, read_installed

    rows = []
    for name in installed_plugins():
        plugin = read_installed(name)
        rows += [_row(plugin, kind, offered) for kind, names in plugin.entries.items() for offered in names]
    for plugin in load_plugins(files or []):
        if plugin.is_file:
            rows += [_row(plugin, kind, offered) for kind, names in plugin.offers.items() for offered in names]
    if as_json:
        print(json.dumps(rows, indent=2))
    elif rows:
        _print_rows(rows)
    else:
        say("no plug-in is installed; show a file with --plugin FILE.py, or begin one as docs/plugins.md does")


def check_plugin(
    source: Annotated[str, typer.Argument(metavar="FILE.py|PACKAGE", help="Plug-in to check; its code runs.")],
    as_json: Json = False,
) -> None:
    """Check a plug-in by the tests that our own losses, models and samplers pass."""
    from orchestrator.experiment.plugins import load_plugins

    (plugin,) = load_plugins([source])
    found = [(kind, name, list(_check(plugin, kind, name))) for kind, names in plugin.offers.items() for name in names]
    if as_json:
        rows = [{"kind": kind, "name": name, "checks": [asdict(one) for one in each]} for kind, name, each in found]
        print(json.dumps({"plugin": plugin.name, "digest": plugin.digest, "offers": rows}, indent=2))
    else:
        for kind, name, each in found:
            _print_findings(f"{plugin.offers[kind][name]['place']} {name} ({kind})", each)
    if any(one.status == "fail" for _, _, each in found for one in each):
        raise typer.Exit(1)


def _check(plugin: "Plugin", kind: str, name: str) -> Iterator["Finding"]:
    if kind == "losses":
        from trainables.contracts.loss_contract import check_loss

        return check_loss(name, ends_of(plugin.offers[kind][name]))
    if kind == "models":
        from trainables.contracts.model_contract import check_model

        return check_model(name)
    if kind == "samplers":
        require("search", "the check of a sampler", "optuna")
        from orchestrator.studies.sampler_contract import check_sampler

        return check_sampler(name)
    from trainables.contracts.findings import check_format

    return check_format(name)


def ends_of(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the points at the ends of the search space: of each parameter alone, then all lowest and all highest.

    Args:
        about: Description of an offer of a plug-in, see ``trainables.plugins.offers.Offer.describe``.
    """
    from search_spaces.declared import declared_bounds

    bounds = declared_bounds(about["space"])
    alone = [{name: end} for name, bound in bounds.items() for end in bound.ends()]
    corners = [{name: bound.ends()[place] for name, bound in bounds.items()} for place in (0, -1)]
    return [*alone, *(corners if len(bounds) > 1 else [])]


def _row(plugin: "Plugin", kind: str, name: str) -> dict[str, str]:
    return {"plugin": plugin.name, "version": plugin.version, "kind": kind, "name": name, "digest": plugin.digest[:12]}


def _print_rows(rows: list[dict[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in rows[0]:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row.values()))
    make_console().print(table)


def _print_findings(title: str, findings: list["Finding"]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    for heading in ("check", "", "what was found"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "what was found")
    for one in findings:
        table.add_row(Text(one.check), Text(one.status, style=STYLES[one.status]), Text(one.message))
    make_console(plain_width=160).print(table)
