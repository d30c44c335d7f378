"""``orchestrator mcp``: a server of the Model Context Protocol for assistants, over standard input and output."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Output
from trainables.extras import require


def mcp(
    allow_runs: Annotated[
        bool,
        typer.Option("--allow-runs", help="Also offer tools that train and run commands; without it all tools read."),
    ] = False,
    data_root: DataRoot = Path("data"),
    output: Output = Path("runs"),
) -> None:
    """Serve datasets, experiments, answers, judge and gate to an assistant by the Model Context Protocol."""
    require("mcp", "`orchestrator mcp`")
    from orchestrator.assistants.server import CommandTools, make_server

    make_server(CommandTools(data_root, output, allow_runs)).run()
