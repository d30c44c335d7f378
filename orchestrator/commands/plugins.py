"""``orchestrator plugins`` and ``check-plugin``: which plug-ins there are, and whether a plug-in keeps its contract."""

import json
import multiprocessing
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from orchestrator.commands.options import Json, Plugins
from orchestrator.experiment.plugins import load_plugins
from orchestrator.text.terminal import make_console, make_table, say
from search_spaces.space import bounds_of
from trainables.errors import LABELS, ConfigError, UserError
from trainables.extras import require
from trainables.hyper_parameters import declared_parameters
from trainables.plugins.plugin import Plugin, installed_plugins, read_installed

if TYPE_CHECKING:
    from trainables.contracts import ContractFinding


STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}

GRACE_SECONDS = 5.0
"""Seconds that the checking process has at its time limit to say where it is."""


Checked = tuple[str, str, list[tuple[str, str, str, "list[ContractFinding]"]]]
"""Name of a plug-in, digest of its code, and its offers: kind, name, place of the definition, and what checks found."""


def plugins(files: Plugins = None, as_json: Json = False) -> None:
    """List installed plug-ins and those of --plugin, with what they offer. Installed code is not run."""
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
        make_console().print(make_table([*rows[0]], [[*row.values()] for row in rows]))
    else:
        say("no plug-in is installed; show a file with --plugin FILE.py, or begin one as docs/plugins.md does")


def check_plugin(
    source: Annotated[str, typer.Argument(metavar="FILE.py|PACKAGE", help="Plug-in to check; its code runs.")],
    as_json: Json = False,
    seconds: Annotated[
        float, typer.Option("--time-limit", min=1, help="Seconds after which the check is ended.")
    ] = 600.0,
) -> None:
    """Check a plug-in by the tests that our own losses, models and samplers pass."""
    plugin, digest, checked = check_within(source, seconds)
    if as_json:
        offers = [{"kind": kind, "name": name, "checks": [*map(asdict, checks)]} for kind, name, _, checks in checked]
        print(json.dumps({"plugin": plugin, "digest": digest, "offers": offers}, indent=2))
    else:
        for kind, name, place, checks in checked:
            rows = [
                (Text(check.check), Text(check.status, STYLES[check.status]), Text(check.message)) for check in checks
            ]
            table = make_table(["check", "", "what was found"], rows, f"{place} {name} ({kind})")
            make_console(plain_width=160).print(table)
    if any(finding.status == "fail" for *_, checks in checked for finding in checks):
        raise typer.Exit(1)


def check_within(source: str, seconds: float) -> Checked:
    """Check a file or a package within seconds in a process of its own, which its code may keep from ending, or end.

    Raises:
        ConfigError: If the plug-in is refused, ends the process, or has not ended in time.
    """
    # A new interpreter, because threads of torch in this one would not survive a fork.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_check_and_send, args=(source, seconds, sender))
    process.start()
    sender.close()
    late = f"check-plugin {source}: has not ended after {seconds:g} s; mend the loop, or raise --time-limit"
    try:
        # The interpreter has started; its start is not the plug-in's time.
        receiver.recv()
        if not receiver.poll(seconds + GRACE_SECONDS):
            raise ConfigError(late)
        answer: Checked | UserError = receiver.recv()
    except EOFError:
        process.join()
        raise ConfigError(f"{source}: ended the process that checked it, with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    if isinstance(answer, UserError):
        raise answer
    return answer


def _check_and_send(source: str, seconds: float, sender: Connection) -> None:
    """Check a plug-in and send a ``Checked`` or the error; at the time limit, send where the code is."""
    # Ctrl-C is for the command, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    main = threading.get_ident()

    def give_up() -> None:
        stack = traceback.extract_stack(sys._current_frames()[main])
        own = [frame for frame in stack if frame.filename in LABELS]
        place = f"{LABELS[own[-1].filename]}:{own[-1].lineno}" if own else source
        text = f"{place}: is still running after {seconds:g} s; mend the loop, or raise --time-limit"
        with suppress(OSError):
            sender.send(ConfigError(text))

    sender.send(None)
    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        (plugin,) = load_plugins([source])
        answer: Checked | UserError = _checked(plugin)
    except UserError as error:
        answer = error
    timer.cancel()
    sender.send(answer)


def _checked(plugin: "Plugin") -> Checked:
    offers = [
        (kind, name, plugin.offers[kind][name]["place"], list(_check(plugin, kind, name)))
        for kind, names in plugin.offers.items()
        for name in names
    ]
    return plugin.name, plugin.digest, offers


def _check(plugin: "Plugin", kind: str, name: str) -> Iterator["ContractFinding"]:
    if kind == "losses":
        from trainables.contracts.loss_contract import check_loss

        return check_loss(name, ends_of(plugin.offers[kind][name]))
    if kind == "models":
        from trainables.contracts.model_contract import check_model

        return check_model(name)
    if kind == "samplers":
        require("search", "the check of a sampler", "optuna")
        from orchestrator.studies.sampler_contract import check_sampler_contract

        return check_sampler_contract(name)
    if kind == "metrics":
        from trainables.contracts.metric_contract import check_metric

        return check_metric(name)
    from trainables.contracts import check_format

    return check_format(name)


def ends_of(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the points at the ends of the space of a described offer: of each parameter alone, then all together."""
    bounds = bounds_of({name: entry.space for name, entry in declared_parameters(about, of_loss=True).items()})
    alone = [{name: end} for name, bound in bounds.items() for end in bound.ends()]
    corners = [{name: bound.ends()[place] for name, bound in bounds.items()} for place in (0, -1)]
    return [*alone, *(corners if len(bounds) > 1 else [])]


def _row(plugin: "Plugin", kind: str, name: str) -> dict[str, str]:
    return {"plugin": plugin.name, "version": plugin.version, "kind": kind, "name": name, "digest": plugin.digest[:12]}
