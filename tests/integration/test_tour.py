"""The tour of the README, command by command, each a process of its own, on a dataset of a few dozen images."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_ui import end, fetch
from tests.support.child_process import running
from tests.support.precomputed_folder import write_precomputed

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parent.parent.parent

SHOWN = {
    "doctor": "torch",
    "data extract": "features each",
    "data describe": "vocabulary",
    "search": "flickr8k-head-nt_xent",
    "status": "finished",
    "summarise": "rsum",
    "compare": "temperature",
    "cocos": "i2t_queries_without_gradient",
    "report": "report.html",
    "retrieve": "image",
}
"""A word of what each command prints."""

INCONCLUSIVE = ("untested", "unconfirmed", "nothing was compared", "no row")
"""What no command of the tour prints: it ends in a verdict, with its tests."""


def tour() -> list[str]:
    """Return the commands, those over several lines as one."""
    readme = (ROOT / "README.md").read_text()
    block = re.search(r"## Ten minutes on Flickr8k.*?```sh\n(.*?)```", readme, re.S)
    return block[1].replace("\\\n", "").strip().splitlines()


def test_every_command_does_what_the_readme_says(tmp_path: Path) -> None:
    write_precomputed(tmp_path / "data" / "flickr8k", images=60)
    first, *commands, last = tour()
    assert first.startswith(". .venv/bin/activate; export ORCHESTRATOR_DATA_ROOT=DATA")
    environment = {
        **os.environ,
        "ORCHESTRATOR_DATA_ROOT": str(tmp_path / "data"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "COLUMNS": "200",
    }
    ran = set()
    for command in commands:
        # The captions of this dataset hold 17 words, and features have fewer dimensions than that.
        command = command.replace("--text tfidf-svd", "--text tfidf-svd --dimensions 12")
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        words = command.split()
        name = " ".join(words[1:3]) if words[1] == "data" else words[1]
        assert SHOWN[name] in done.stdout, f"{command}\n{done.stdout}"
        assert not [lost for lost in INCONCLUSIVE if lost in done.stdout], f"{command}\n{done.stdout}"
        # The confirmation uses the Ray of the search.
        searches = name == "search" and "--dry-run" not in words
        assert done.stdout.count("starting Ray on this machine") == searches, f"{command}\n{done.stdout}"
        ran.add(name)
    assert ran == SHOWN.keys()
    check_verdict(tmp_path / "runs" / "flickr8k-quick" / "summary.json")
    open_pages(last, tmp_path, environment)


def check_verdict(summary: Path) -> None:
    """The best of each loss was trained again with three seeds, and compared on the test split."""
    (verdict,) = json.loads(summary.read_text())["verdicts"]
    assert verdict["verdict"] in ("better", "tie", "worse")


def open_pages(command: str, folder: Path, environment: dict[str, str]) -> None:
    """Run ``orchestrator ui`` until its pages are there, and interrupt it."""
    program = command.partition("#")[0].split()
    assert program == ["orchestrator", "ui"]
    with running(program, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as started:
        printed = started.stdout.readline() + started.stdout.readline()
        pages = re.search(r"http://(icr-[\w-]+\.localhost):(\d+)/\?token=([\w-]+)", printed)
        assert pages, printed
        assert "MLflow" in fetch(f"http://127.0.0.1:{pages[2]}/", started, pages[3])
        end(started, signal.SIGINT)
