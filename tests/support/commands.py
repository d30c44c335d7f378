"""Run the command line in this process."""

from orchestrator.cli import main


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0
