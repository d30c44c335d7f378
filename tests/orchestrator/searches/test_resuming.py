"""The folder of a search: several starts at once, a cut journal, and resuming without the YAML file."""

import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.commands import search
from orchestrator.commands.search import _closing
from orchestrator.doctor.experiment import check_journal
from orchestrator.journal import directory
from orchestrator.journal.directory import read_history
from orchestrator.journal.history import History
from orchestrator.journal.journal import read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.machines.cluster import Cluster
from orchestrator.searches.preparation import open_checkpoints, open_directory
from orchestrator.searches.resuming import (
    answered,
    begun_experiment,
    check_folder,
    confirm_experiment,
    extend_experiment,
    how_to_resume,
)
from orchestrator.searches.search import run_search
from orchestrator.searches.status import Followed, read_status
from tests.faults.searches import SearchesHere, tiny
from tests.support.commands import CommandLine, run_command
from tests.support.experiments import add_trial, begun, make_experiment
from tests.support.fake_workload import report
from tests.support.in_process import without_ray
from tests.support.records import append
from trainables.checkpoint import find_damage, save_epoch
from trainables.errors import UserError

GRID = {"sampler": "grid", "trials": 9, "space": {"nt_xent": {"temperature": {"values": [0.1, 0.2]}}}}


def begin(folder: Path, **changes: Any) -> Path:
    with begun(folder, make_experiment(**changes)):
        return folder


@pytest.mark.parametrize(("verb", "named"), [(None, "resume"), ("confirm", "confirm")])
def test_each_stage_is_resumed_by_its_own_command(tmp_path: Path, verb: str | None, named: str) -> None:
    folder = begin(tmp_path / "tiny")
    text = how_to_resume(folder, read_history(folder), verb)
    assert text.startswith(f"{folder}: resume with: orchestrator {named} tiny --output ")


def test_without_a_record_of_a_start_the_same_command_resumes(tmp_path: Path) -> None:
    assert how_to_resume(tmp_path, History(), None) == f"{tmp_path}: resume with the same command"


def test_an_experiment_is_read_back_from_its_journal(tmp_path: Path) -> None:
    folder = begin(tmp_path / "tiny", budget={"hours": 2})
    assert begun_experiment(folder, read_history(folder)) == make_experiment(budget={"hours": 2})


def test_more_trials_and_hours_are_added_to_what_there_was(tmp_path: Path, clock: list[float]) -> None:
    with begun(tmp_path, make_experiment(budget={"hours": 0.5})) as ledger:
        clock[0] += 1800
        append(ledger, "experiment_ended", outcome="budget_spent", ended_by="hours")
    extended = extend_experiment(tmp_path, read_history(tmp_path), 3, 2.0, ["budget.plateau=7"])
    assert (extended.search.trials, extended.budget.hours, extended.budget.plateau) == (7, 2.5, 7)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, [], "extend it by what"),
        ({}, ["--hours", "0"], "--hours 0: must be greater than 0"),
        ({}, ["--hours", "nan"], "--hours nan: must be greater than 0"),
        ({}, ["--hours", "inf"], "budget.hours"),
        ({}, ["--set", "budget.target=high"], "budget.target"),
        ({"losses": ["nt_xent"], "search": GRID}, ["--trials", "2"], "is a grid that has had all its points"),
    ],
    ids=["nothing", "zero", "nan", "infinite", "no number", "grid"],
)
def test_what_is_no_extension_is_refused(
    tmp_path: Path, cli: CommandLine, changes: dict, arguments: list[str], message: str
) -> None:
    assert message in cli.refuses("extend", begin(tmp_path / "tiny", **changes), *arguments)


@pytest.mark.parametrize("arguments", [["--top", "0"], ["--seeds", "1"], ["--baseline", "circle"]])
def test_a_refused_option_of_a_confirmation_is_named_and_not_the_journal(
    tmp_path: Path, cli: CommandLine, arguments: list[str]
) -> None:
    with begun(tmp_path / "tiny") as ledger:
        add_trial(ledger, [1.0])
    said = " ".join(cli.refuses("confirm", "tiny", "--output", tmp_path, *arguments).split())
    assert f"{' '.join(arguments)}: confirm.{arguments[0][2:]}: " in said and "journal.jsonl" not in said


@pytest.mark.parametrize("arguments", [["resume"], ["extend", "--hours", "1"], ["confirm"]], ids=lambda given: given[0])
def test_a_copy_under_another_name_is_refused(tmp_path: Path, cli: CommandLine, arguments: list[str]) -> None:
    with begun(tmp_path / "copy") as ledger:
        add_trial(ledger, [1.0])
    before = (tmp_path / "copy" / "journal.jsonl").read_bytes()
    said = cli.refuses(*arguments, "copy", "--output", tmp_path)
    assert "copy: holds the experiment 'tiny', whose folder must be called tiny" in " ".join(said.split())
    assert (tmp_path / "copy" / "journal.jsonl").read_bytes() == before
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize("arguments", [["resume"], ["extend", "--hours", "1"], ["confirm"]], ids=lambda given: given[0])
def test_a_command_reads_the_journal_once_before_the_search_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    with begun(tmp_path / "tiny") as ledger:
        add_trial(ledger, [1.0])
    paths: list[Path] = []
    monkeypatch.setattr(directory, "read_journal", lambda path: paths.append(path) or read_journal(path))
    monkeypatch.setattr(search, "run_and_print", lambda experiment, options, search: paths.append(Path("search")))
    assert run_command([*arguments, "tiny", "--output", str(tmp_path)]) == 0
    assert paths == [tmp_path / "tiny" / "journal.jsonl", Path("search")]


def test_a_link_to_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = begin(tmp_path / "tiny")
    (tmp_path / "newest").symlink_to(folder)
    check_folder(tmp_path / "newest", begun_experiment(folder, read_history(folder)))


def test_a_confirmation_says_of_a_killed_search_that_it_did_not_end(tmp_path: Path) -> None:
    searches = SearchesHere(tmp_path / "runs")
    searches.crash(tiny(), searches.workload(), lambda history: bool(history.ended and history.running()))
    killed = searches.history()
    wanted = confirm_experiment(searches.output / "tiny", killed, {"top": 1, "seeds": 2})
    with without_ray():
        result = run_search(wanted, searches.workload(), searches.output, quiet=True, confirm_alone=True)
    assert (result.ended_by, result.history.outcome) == (None, "finished")
    assert result.summary["ended_by"] is None
    running = {trial.id for trial in killed.running()}
    assert {trial.id for trial in result.history.running()} == running != set()
    assert list(check_journal(searches.journal(), searches.history())) == []
    here = read_status(Followed(searches.output / "tiny"))
    assert here.words == "confirmed before the end of the search" and here.stages[0].waiting > 0
    assert here.command is not None and " resume tiny " in here.command
    (left,) = [line for line in _closing(result, searches.output) if "goes on with" in line]
    assert left.endswith(f": {here.command}")
    # The command goes on: the rest of the search, and the confirmation of what is best then.
    with without_ray():
        whole = run_search(
            begun_experiment(result.directory, result.history), searches.workload(), searches.output, quiet=True
        )
    assert (whole.ended_by, whole.history.running()) == ("trials", [])
    after = read_status(Followed(searches.output / "tiny"))
    assert (after.words, after.command, after.stages[0].waiting) == ("finished", None, 0)
    assert not any("goes on with" in line for line in _closing(whole, searches.output))
    assert list(check_journal(searches.journal(), searches.history())) == []


def test_a_confirmation_that_was_interrupted_says_how_the_search_before_it_ended(tmp_path: Path) -> None:
    searches = SearchesHere(tmp_path / "runs")
    searches.finish(tiny(), searches.workload())
    with closing(Ledger(searches.output / "tiny" / "journal.jsonl")) as ledger:
        append(ledger, "experiment_ended", outcome="interrupted", ended_by="signal")
    wanted = confirm_experiment(searches.output / "tiny", searches.history(), {"top": 1, "seeds": 2})
    with without_ray():
        result = run_search(wanted, searches.workload(), searches.output, quiet=True, confirm_alone=True)
    assert result.ended_by == searches.history().ended_by == "trials"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_while_no_trial_runs_is_answered_at_once(capsys: pytest.CaptureFixture[str], number: int) -> None:
    # What a shell starts in the background ignores SIGINT.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            pytest.raises(UserError, match="resume with the same command"),
            answered(lambda: UserError("here: resume with the same command")),
        ):
            os.kill(os.getpid(), number)
            time.sleep(3600)
    finally:
        signal.signal(signal.SIGINT, former)
    assert capsys.readouterr().err == "stopping; all records of the journal are kept\n"


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


def test_a_folder_that_others_could_enter_is_closed_and_said(
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


def test_a_start_moves_what_a_cut_journal_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = open_directory(tmp_path, "tiny")
    with begun(directory) as ledger:
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
