"""``orchestrator watch``: live pages about experiments, in the browser; and the live page of ``search --watch``.

That page is served by a process of its own, for which the search never waits, and which ends when the search's process
ends in any way. If it cannot listen on its port, it prints a warning to standard error, and the search continues.
"""

import os
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import AnyExperimentNames, Output
from orchestrator.journal.directory import find_directories
from orchestrator.machines.processes import bound_process
from orchestrator.text.terminal import say
from orchestrator.watch.experiments import Experiments
from trainables.errors import UserError
from trainables.extras import require

PORT = 8350
"""Default port of the live pages."""


def watch(
    experiments: AnyExperimentNames = None,
    output: Output = Path("runs"),
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; any but the loopback address needs a token in ORCHESTRATOR_WATCH_TOKEN."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")] = PORT,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve live pages about experiments that run, will run or have ended; Ctrl-C ends the server."""
    require("watch", "`orchestrator watch`")

    directories = find_directories(experiments or (), output)
    watched = Experiments(output, directories)
    # Imported after the checks above, so that a refusal is quick.
    from orchestrator.watch.server import TOKEN, Listening, serve

    listening = Listening(host, port, os.environ.get(TOKEN))
    address = listening.address(directories[0].name if len(directories) == 1 else "")
    say(f"watch at {address} (Ctrl-C ends it)")
    if open_page:
        webbrowser.open(address)
    title = ", ".join(directory.name for directory in directories) or str(output)
    try:
        serve(listening, watched, title)
    except KeyboardInterrupt:
        # The signal came before the server had installed its own handler.
        return


@contextmanager
def page_beside(output: Path, name: str, port: int) -> Iterator[None]:
    """Serve the pages of an output folder, with the experiment that is about to begin, for the length of a block.

    The pages are on the loopback address; port 0 lets the system choose a free port.
    """
    with bound_process([sys.executable, "-m", __name__, str(output), name, str(port)], dict(os.environ)):
        yield


def main(output: str, name: str, port: str) -> None:
    """Serve the page of ``page_beside``, whose process has these arguments."""
    from orchestrator.watch.server import TOKEN, Listening, serve

    try:
        listening = Listening("127.0.0.1", int(port), os.environ.get(TOKEN))
    except UserError as error:
        say(f"warning: no live page: {error}; the search continues without it", error=True)
        return
    experiments = Experiments(Path(output))
    experiments.expect(name)
    say(f"live page: {listening.address(name)}", error=True)
    serve(listening, experiments, output)


if __name__ == "__main__":
    main(*sys.argv[1:])
