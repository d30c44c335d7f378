"""The folders of a search: started by several at once, left open to others, and known only in part to the journal."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.machines.cluster import Cluster
from orchestrator.searches.preparation import open_checkpoints, open_directory
from tests.support.experiments import add_trial, make_experiment, start
from tests.support.fake_workload import report
from trainables.checkpoint import find_damage, save_epoch
from trainables.errors import UserError


def test_many_starts_at_once_share_an_output_folder(tmp_path: Path) -> None:
    at_once = threading.Barrier(8)
    problems: list[Exception] = []

    def begin(name: str) -> None:
        at_once.wait()
        try:
            for _ in range(60):
                open_directory(tmp_path / "runs", name)
        except UserError as error:
            problems.append(error)

    threads = [threading.Thread(target=begin, args=(f"search{number % 2}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert {path.name for path in (tmp_path / "runs").rglob("*")} == {"search0", "search1", "trials"}


def test_a_folder_that_others_could_write_is_closed_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny").chmod(0o777)
    open_directory(tmp_path, "tiny")
    assert f"warning: {tmp_path / 'tiny'}: others could enter it (rwxrwxrwx); now only you" in capsys.readouterr().err
    assert (tmp_path / "tiny").stat().st_mode & 0o777 == 0o700
    open_directory(tmp_path, "tiny")
    open_directory(tmp_path, "new")
    assert capsys.readouterr().err == ""


def test_a_start_with_a_cut_journal_moves_what_the_journal_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = open_directory(tmp_path, "tiny")
    with closing(Ledger(directory / "journal.jsonl")) as ledger:
        start(ledger, make_experiment())
        known = add_trial(ledger, [1.0], state=TrialState.RUNNING)
        for trial, epoch in ((known.id, 1), (known.id, 7), ("lost", 1), ("lost", 2)):
            save_epoch(directory / "trials" / trial, report(0.1, epoch))
        (directory / "trials" / "lost" / "ranks_val.npz").write_bytes(b"ranks")
        (directory / "summary.json").write_text('{"trials": [{"trial": "lost"}]}')
        open_checkpoints(Cluster(), ledger.history, directory).close()
    said = capsys.readouterr().err
    assert said.count("warning: ") == said.count("moved here, because the journal does not know it") == 3
    aside = {
        f"{path.relative_to(directory / 'set_aside')}".partition("/")[2] for path in directory.rglob("set_aside/*/**")
    }
    expected = {f"trials/{known.id}/epoch_0007", "trials/lost/epoch_0001", "trials/lost/epoch_0002"}
    assert expected < aside
    for path in (directory / "set_aside").glob("*/trials/*/epoch_*"):
        assert find_damage(path) is None
    assert next((directory / "set_aside").glob("*/trials/lost/ranks_val.npz")).read_bytes() == b"ranks"
    assert next((directory / "set_aside").glob("*/summary.json")).is_file()
    assert [path.name for path in (directory / "trials").glob("*/")] == [known.id]
