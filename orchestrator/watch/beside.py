"""A live page beside a search, served by a process of its own that ends when the search's process ends in any way.

The search starts the page's process and never waits for it. The process prints to standard error; if the process cannot
listen on its port, it prints a warning, and the search continues.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.machines.processes import bound_process


@contextmanager
def page_beside(output: Path, name: str, port: int) -> Iterator[None]:
    """Serve the pages of an output folder, with the experiment that is about to begin, for the length of a block.

    The pages are on the loopback address; port 0 lets the system choose a free port.
    """
    command = [sys.executable, "-m", __name__, str(output), name, str(port)]
    with bound_process(command, dict(os.environ)):
        yield


def main() -> None:
    """Serve the pages for the command-line arguments: output folder, name of the experiment, port."""
    from orchestrator.text.terminal import say
    from orchestrator.watch.experiments import Experiments
    from orchestrator.watch.server import TOKEN, listen, serve
    from trainables.errors import UserError

    output, name, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    try:
        listening = listen("127.0.0.1", port, os.environ.get(TOKEN))
    except UserError as error:
        say(f"warning: no live page: {error}; the search continues without it", error=True)
        return
    experiments = Experiments(output)
    experiments.expect(name)
    say(f"live page: {listening.address(name)}", error=True)
    serve(listening, experiments, str(output))


if __name__ == "__main__":
    main()
