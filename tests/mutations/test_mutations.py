"""The list of mutations fits the code, and a mutation counts as killed by an assertion alone."""

import shlex
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutations import command
from tests.mutations.mutation import Mutation, list_mutations
from tests.mutations.runner import RefusedError, run_mutations

ROOT = Path(__file__).parent.parent.parent


def test_every_mutation_fits_the_code_and_has_a_name_of_its_own() -> None:
    mutations = list_mutations()
    assert mutations
    assert [problem for mutation in mutations if (problem := mutation.problem(ROOT))] == []
    assert [name for name, times in Counter(mutation.name for mutation in mutations).items() if times > 1] == []


def test_the_tests_of_every_mutation_are_there() -> None:
    for mutation in list_mutations():
        assert mutation.tests, mutation.name
        for test in shlex.split(mutation.tests):
            file, _, name = test.partition("::")
            text = (ROOT / file).read_text()
            assert not name or f"def {name.partition('[')[0]}(" in text, f"{mutation.name}: {test}"


CODE = """
def double(number):
    return number + number


def unused():
    return 1
"""
TESTS = """
from code_under_test import double


def test_double():
    assert double(3) == 6
"""
PLANTED = {
    "killed": ("number + number", "number * number"),
    "SURVIVED": ("return 1", "return 2"),
    "error": ("return number + number", "return nothing + number"),
    "error at import": ("def double", "def triple"),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of one module and its test."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "code_under_test.py").write_text(CODE)
    (tmp_path / "test_double.py").write_text(TESTS)
    return tmp_path


def planted(name: str) -> Mutation:
    return Mutation(name, "code_under_test.py", *PLANTED[name], "test_double.py::test_double")


@pytest.mark.proof
def test_what_becomes_of_mutations_is_printed_and_counted(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_text() for path in tree.glob("*.py")}
    results = command.show_results([planted(name) for name in PLANTED], tree)
    verdicts = {result.mutation.name: result.verdict for result in results}
    assert verdicts == {"killed": "killed", "SURVIVED": "SURVIVED", "error": "error", "error at import": "error"}
    assert "NameError" in results[2].note and "ImportError" in results[3].note
    assert capsys.readouterr().out.splitlines()[-1] == "1 killed, 1 SURVIVED, 2 error"
    assert {path.name: path.read_text() for path in tree.glob("*.py")} == before


@pytest.mark.proof
@pytest.mark.parametrize(
    "tests", ["test_double.py", "test_double.py::test_triple"], ids=["a test that fails", "no such test"]
)
def test_tests_that_fail_without_a_mutation_are_refused(tree: Path, tests: str) -> None:
    (tree / "test_double.py").write_text(TESTS.replace("6", "7"))
    with pytest.raises(RefusedError, match=r"(?s)before anything is mutated.*(test_double|status 4)"):
        list(run_mutations([replace(planted("killed"), tests=tests)], tree))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"old": "number"}, "stands 3 times"),
        ({"old": "nowhere"}, "stands 0 times"),
        ({"new": "number + number"}, "old and new are equal"),
        ({"new": "number +"}, "no Python after the change"),
        ({"file": "missing.py"}, "missing.py does not exist"),
    ],
)
def test_a_mutation_that_does_not_fit_is_named(tree: Path, changes: dict[str, str], problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        list(run_mutations([replace(planted("killed"), **changes)], tree))


def test_a_tree_without_git_is_refused(tmp_path: Path) -> None:
    (tmp_path / "code_under_test.py").write_text(CODE)
    with pytest.raises(RefusedError, match="cannot be listed: fatal: not a git repository"):
        list(run_mutations([planted("killed")], tmp_path))


def exit_status(verdict: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(command, "ROOT", Path("nowhere"))
    monkeypatch.setattr(command, "list_mutations", lambda: (planted(verdict),))
    result = command.Result(planted(verdict), verdict, 1.0, "a note")
    monkeypatch.setattr(command, "run_mutations", lambda mutations, root: iter([result]))
    with pytest.raises(SystemExit) as ended:
        command.main([])
    return int(ended.value.code)


@pytest.mark.parametrize(("verdict", "status"), [("killed", 0), ("SURVIVED", 1), ("error", 1)])
def test_the_exit_status_says_whether_all_were_killed(
    verdict: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(verdict, monkeypatch) == status
    line, summary = capsys.readouterr().out.splitlines()
    assert line.startswith(verdict) and ("a note" in line) == bool(status)
    assert f"1 {verdict}" in summary


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        command.main(["--only", "nothing of this name"])
    assert refused.value.code == 2
    assert "no mutation is called 'nothing of this name'" in capsys.readouterr().err


def test_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--list"])
    printed = capsys.readouterr().out
    assert [mutation.name for mutation in list_mutations() if mutation.name not in printed] == []
