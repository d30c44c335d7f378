"""Run the command line in this process."""

from collections.abc import Sequence

import pytest

from orchestrator.cli import main


def run_command(arguments: Sequence[str]) -> int:
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def what_a_command_says(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> tuple[int, str, str]:
    code, printed = run_command(arguments), capsys.readouterr()
    return code, printed.out, printed.err
