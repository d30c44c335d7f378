"""Run the command line in this process."""

import json
from collections.abc import Sequence
from typing import Any

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


class CommandLine:
    """Commands as they are typed; arguments may also be paths and numbers."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """Return the exit code of a command, its output and its messages, without those from before it."""
        self._capsys.readouterr()
        return what_a_command_says(self._capsys, [str(argument) for argument in arguments])

    def shows(self, *arguments: object) -> str:
        """Return the output of a command that succeeds."""
        code, out, err = self.run(*arguments)
        assert code == 0, err
        return out

    def json(self, *arguments: object) -> Any:
        """Return what a command that succeeds writes as JSON."""
        return json.loads(self.shows(*arguments, "--json"))

    def refuses(self, *arguments: object, code: int = 2) -> str:
        """Return the messages of a command that ends with an exit code, 2 where it is refused."""
        ended, _, err = self.run(*arguments)
        assert ended == code, err
        assert "Traceback" not in err
        return err
