"""``python -m orchestrator``: the command line, where ``orchestrator`` is not on the shell's path."""

from orchestrator.cli import main

main()
