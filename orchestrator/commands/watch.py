"""``orchestrator watch``: pages about experiments that follow their journals, in the browser."""

import os
import signal
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from orchestrator.commands.options import Output
from orchestrator.text.terminal import say
from trainables.extras import require

PORT = 8350
"""Where the pages are looked for."""


def watch(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT]...",
            help="Names of experiments under OUTPUT, or their folders; by default all of OUTPUT.",
        ),
    ] = None,
    output: Output = Path("runs"),
    host: Annotated[
        str,
        typer.Option(
            help="Where to listen; elsewhere than on the loopback address ORCHESTRATOR_WATCH_TOKEN is needed."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 is a port that is free.")] = PORT,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve live pages about experiments that run, will run or have ended; Ctrl-C ends it."""
    require("watch", "`orchestrator watch`")
    from orchestrator.journal.directory import find_directory

    directories = list(dict.fromkeys(find_directory(name, output) for name in experiments or ()))
    # Only now, because a refusal of the above need not wait for a server.
    from orchestrator.watch.experiments import Experiments
    from orchestrator.watch.server import TOKEN, listen, serve

    listening = listen(host, port, os.environ.get(TOKEN))
    address = listening.address
    if len(directories) == 1:
        base, mark, query = address.partition("?")
        address = f"{base}e/{quote(directories[0].name)}/{mark}{query}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say(f"watch at {address} (Ctrl-C ends it)")
    if open_page:
        webbrowser.open(address)
    title = ", ".join(directory.name for directory in directories) or str(output)
    try:
        serve(listening, Experiments(output, directories), title)
    except KeyboardInterrupt:
        # A signal that came before the server took it over.
        return
