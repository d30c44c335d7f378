"""The guard of the tests: what belongs to no run of `make test` fails there, and what is left behind is named."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guard import ROOT

pytestmark = pytest.mark.proof

CONFTEST = """
import os
import subprocess
import sys
import pytest
from tests import guard

guard.PATIENCE = 0.5

def pytest_configure(config):
    config.pluginmanager.register(guard.Guard())

@pytest.fixture(scope="module")
def served():
    os.environ["OF_A_FIXTURE"] = "set"
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield
    process.communicate(b"end")
    del os.environ["OF_A_FIXTURE"]

@pytest.fixture(scope="session")
def of_all_tests():
    os.environ["OF_ALL_TESTS"] = "set"
    yield
    del os.environ["OF_ALL_TESTS"]
"""
PLANTED = """
import contextlib
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import pytest

def test_that_starts_a_program():
    with contextlib.suppress(Exception):
        subprocess.run([sys.executable, "-c", "pass"])

def test_that_forks():
    os.fork()

def test_that_spawns():
    multiprocessing.get_context("spawn").Process(target=print).start()

def test_that_listens():
    socket.create_server(("127.0.0.1", 0))

def test_that_writes(tmp_path):
    (tmp_path / "inside").write_text("x")
    open("outside", "w").close()

def test_that_sets_a_variable():
    os.environ["LEFT"] = "behind"

def test_that_imports(tmp_path, monkeypatch):
    (tmp_path / "sets_a_variable.py").write_text("import os; os.environ['OF_A_MODULE'] = 'set'")
    monkeypatch.syspath_prepend(tmp_path)
    import sets_a_variable

def test_that_moves(tmp_path):
    os.chdir(tmp_path)

def test_that_leaves_a_trial():
    threading.Thread(target=threading.Event().wait, args=(300,), name="training", daemon=True).start()

def test_that_asks_git():
    subprocess.run(["git", "--version"], check=True)

def test_that_is_clean(tmp_path, monkeypatch):
    monkeypatch.setenv("SET", "for a test")
    monkeypatch.chdir(tmp_path)
    open("inside", "w").close()

@pytest.mark.proof
def test_that_leaves_a_process():
    # Kept, so that it is not asked for when it is collected as garbage.
    globals()["left"] = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

@pytest.mark.proof
def test_that_ends_its_process(monkeypatch, request):
    monkeypatch.setenv("SET", "before a fixture of the file")
    request.getfixturevalue("served")
    subprocess.run([sys.executable, "-c", "pass"], check=True)

@pytest.mark.proof
def test_that_uses_a_fixture_of_the_file(served):
    assert os.environ["OF_A_FIXTURE"] == "set"
"""

LAST = """
import os

def test_that_comes_last(of_all_tests):
    os.environ["LEFT_LAST"] = os.environ["OF_ALL_TESTS"]
"""

SAID = {
    "test_that_starts_a_program": r"no mark `proof` and starts a process \(.*python",
    "test_that_forks": "no mark `proof` and forks",
    "test_that_spawns": "no mark `proof` and starts a process",
    "test_that_listens": r"no mark `proof` and listens \(\('127",
    "test_that_writes": "leaves behind: the file .*outside",
    "test_that_sets_a_variable": "leaves behind: the variable LEFT",
    "test_that_moves": "leaves behind: the working folder",
    "test_that_leaves_a_trial": "leaves behind: a trial in the thread training",
    "test_that_comes_last": "leaves behind: the variable LEFT_LAST$",
    "test_that_leaves_a_process": r"leaves behind: the process .*time.sleep\(600\)",
}
"""Planted test -> what is said of it."""


def test_each_planted_test_is_named_with_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  proof: as in this repository\n")
    (tmp_path / "test_planted.py").write_text(PLANTED)
    (tmp_path / "test_planted_last.py").write_text(LAST)
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-rA"]
    command += ["--basetemp", str(tmp_path / "of the tests"), "--rootdir", str(tmp_path), str(tmp_path)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**kept, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    for number in re.findall(r"time\.sleep\(600\) \((\d+)\)", done.stdout):
        os.kill(int(number), 9)
    for test, said in SAID.items():
        assert re.search(rf"{test} .*{said}", done.stdout, re.M), f"{test}\n{done.stdout}"
    wrong = {*re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", done.stdout, re.M)}
    assert wrong == {*SAID}, done.stdout
