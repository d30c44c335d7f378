"""Runs tests on mutated copies of a working tree; the tree itself is only read."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.mutations.mutation import Mutation

TIMEOUT = 900.0
"""Seconds that the tests of one mutation may take; a mutated loop may never end."""

Verdict = Literal["killed", "SURVIVED", "error"]
"""``killed``: a test failed by an assertion. ``error``: tests failed, but by nothing that a test asserts."""


class RefusedError(Exception):
    """Nothing can be learnt from the mutations: the tests fail without them, or a mutation does not fit the tree."""


@dataclass(frozen=True)
class Outcome:
    """Pytest's exit status, and what ``run_tests.Recorder`` noted."""

    status: int
    passed: list[str]
    asserted: list[str]
    broken: dict[str, str]


@dataclass(frozen=True)
class Result:
    """What became of one mutation; ``note`` names a test that killed it, or the error."""

    mutation: Mutation
    verdict: Verdict
    seconds: float
    note: str


def run_mutations(mutations: Sequence[Mutation], root: Path) -> Iterator[Result]:
    """Yield the result of each mutation, one at least, of a git working tree; what git ignores is not copied.

    Raises:
        RefusedError: If the tests do not all pass without a mutation, or a mutation does not fit the tree.
    """
    problems = [problem for mutation in mutations if (problem := mutation.problem(root))]
    if problems:
        raise RefusedError("\n".join(problems))
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        original = copy_tree(root, Path(folder) / "original")
        everything = list(dict.fromkeys(test for mutation in mutations for test in shlex.split(mutation.tests)))
        check_unmutated(run_tests(original, everything))
        for mutation in mutations:
            started = time.monotonic()
            with applied(mutation, original):
                verdict, note = judge(run_tests(original, shlex.split(mutation.tests)))
            yield Result(mutation, verdict, time.monotonic() - started, note)


def check_unmutated(outcome: Outcome) -> None:
    """Refuse tests that fail anyway, or that are not there."""
    if outcome.status == 0 and outcome.passed:
        return
    failed = [*outcome.asserted, *(f"{name}: {reason}" for name, reason in outcome.broken.items())]
    listed = "\n".join(f"  {line}" for line in failed or [f"pytest ended with status {outcome.status}"])
    raise RefusedError(f"the tests must pass before anything is mutated, but these do not:\n{listed}")


def judge(outcome: Outcome) -> tuple[Verdict, str]:
    """Return what the tests of a mutated tree say about the mutation, with a note."""
    if outcome.asserted:
        return "killed", outcome.asserted[0]
    if outcome.status == 0:
        return "SURVIVED", f"{len(outcome.passed)} tests passed"
    return "error", next((f"{name}: {why}" for name, why in outcome.broken.items()), f"pytest: {outcome.status}")


@contextmanager
def applied(mutation: Mutation, tree: Path) -> Iterator[None]:
    """Mutate a file of a tree, and put it back in the end."""
    path = tree / mutation.file
    before = path.read_bytes()
    path.write_text(path.read_text(encoding="utf-8").replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_bytes(before)


def copy_tree(root: Path, target: Path) -> Path:
    """Copy the files of a git working tree that are not ignored, as they stand there now, and return the copy.

    Raises:
        RefusedError: If ``root`` is no git working tree.
    """
    listing = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, capture_output=True, text=True)
    if listed.returncode:
        raise RefusedError(
            f"{root}: its files cannot be listed: {listed.stderr.strip()}; clone the repository with git"
        )
    # A file that was deleted but is still in the index is not there.
    for name in filter(lambda name: (root / name).is_file(), listed.stdout.split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name)
    return target


def run_tests(tree: Path, tests: Sequence[str]) -> Outcome:
    """Run tests of a tree, with the modules of the tree, in a process of its own."""
    outcome = tree.parent / "outcome.json"
    outcome.unlink(missing_ok=True)
    # A mutation may be one that a proof notices.
    options = ["-q", "-n0", "-m", "", "-p", "no:cacheprovider", "--timeout", "0"]
    command = [sys.executable, str(Path(__file__).with_name("run_tests.py")), str(outcome), *options, *tests]
    # Bytecode is told from stale bytecode by size and second: a mutation may change neither.
    changed = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **changed}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return Outcome(-1, [], [], {"pytest": f"the tests took longer than {TIMEOUT:.0f} s"})
    if not outcome.exists():
        return Outcome(done.returncode, [], [], {"pytest": (done.stderr or done.stdout).strip()[-500:]})
    return Outcome(**json.loads(outcome.read_text(encoding="utf-8")))
