"""Runs pytest in the current folder and writes down how each test ended: ``python run_tests.py FILE ARGUMENTS``.

A script, and no module of a package: the folder where it is run may be another copy of this repository, whose packages
must be found before those of any other copy.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


class Recorder:
    """A plugin of pytest.

    Attributes:
        passed: Tests that passed.
        asserted: Tests that failed because something that a test asserts does not hold.
        broken: Everything else that failed, a module that cannot be imported included, each with its reason.
    """

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.asserted: list[str] = []
        self.broken: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken[report.nodeid] = report.longreprtext.strip().splitlines()[-1]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Note how a phase of a test ended."""
        report = yield
        if report.passed and call.when == "call":
            self.passed.append(item.nodeid)
        elif report.failed and call.excinfo is not None:
            if call.when == "call" and is_assertion(call.excinfo.value):
                self.asserted.append(item.nodeid)
            else:
                self.broken[item.nodeid] = call.excinfo.exconly().splitlines()[0]
        return report


def is_assertion(error: BaseException) -> bool:
    """Whether an exception is a failed assertion: ``assert``, ``pytest.raises``, or a group with one (Hypothesis's)."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_assertion(part) for part in error.exceptions)
    return isinstance(error, AssertionError | pytest.fail.Exception)


def main(file: str, arguments: list[str]) -> None:
    """Run pytest with some arguments and write the outcome into a file."""
    # The folder of this script, which Python puts first, would hide modules of the same names.
    sys.path[0] = ""
    recorder = Recorder()
    status = pytest.main(arguments, plugins=[recorder])
    Path(file).write_text(json.dumps({"status": int(status), **vars(recorder)}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
