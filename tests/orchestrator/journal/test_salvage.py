"""A journal without some line: what is kept holds together, was there before, and a search resumes with it."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.doctor.experiment import check_journal
from orchestrator.journal.directory import read_history
from orchestrator.journal.history import History
from orchestrator.journal.journal import JournalError, read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import OpenedTest, Record, has_ended
from orchestrator.journal.salvage import salvage
from orchestrator.journal.trial import TrialState
from orchestrator.results.answers import summarise
from orchestrator.studies.study import Studies
from tests.support.experiments import add_repeat, add_repeats, add_trial, begun, make_experiment, open_test, start
from tests.support.records import append, event


def write(path: Path) -> list[bytes]:
    """Write the journal of a search of two starts with trials of every fate, a confirmation and a test."""
    with begun(path.parent) as ledger:
        winner = add_trial(ledger, [10.0, 20.0])
        add_trial(ledger, [1.0], state=TrialState.FAILED)
        add_trial(ledger, [5.0, 6.0], loss="triplet_sh")
        start(ledger, make_experiment())
        add_trial(ledger, [9.0], state=TrialState.STOPPED_EARLY)
        add_trial(ledger, [7.0, 8.0], loss="triplet_sh", state=TrialState.DIVERGED)
        open_test(ledger, [add_repeat(ledger, winner, 0, 7, 19.0)])
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    return path.read_bytes().splitlines(keepends=True)


DESIGN = {"seeds": 2, "trainings": None, "baseline": None, "looks": 0}


DAMAGES = [
    pytest.param(lambda line: b"x" + line, 1, id="unreadable"),
    pytest.param(lambda line: b"", 5, id="gone"),
    pytest.param(lambda line: line + line, 5, id="twice"),
    pytest.param(lambda line: b"\0\n" * 3, 5, id="several"),
]


@pytest.mark.parametrize(("damage", "step"), DAMAGES)
def test_whatever_line_is_damaged_the_rest_holds(tmp_path: Path, damage: Callable[[bytes], bytes], step: int) -> None:
    path = tmp_path / "journal.jsonl"
    lines = write(path)
    before = read_journal(path)
    # Of the last two, what is damaged may be taken for a last record.
    for number in range(1, len(lines) - 2, step):
        path.write_bytes(b"".join([*lines[:number], damage(lines[number]), *lines[number + 1 :]]))
        damaged = path.read_bytes()
        with pytest.raises(JournalError, match=f"line {number + 1 + (damaged.count(lines[number]) > 1)}: damaged"):
            read_journal(path)
        found = salvage(path)
        assert path.read_bytes() == damaged
        found.write()
        assert [copy.read_bytes() for copy in tmp_path.glob("*.damaged-*")] == [damaged]
        next(tmp_path.glob("*.damaged-*")).unlink()
        judge(path, before, number, found.lost.total(), is_twice=damaged.count(lines[number]) > 1)


def unnumbered(record: Record) -> Record:
    return structs.replace(record, n=0)


def judge(path: Path, before: list[Record], number: int, lost: int, *, is_twice: bool) -> None:
    kept = read_journal(path)
    assert [*map(unnumbered, kept[:number])] == [*map(unnumbered, before[:number])]
    assert all(unnumbered(record) in map(unnumbered, before) for record in kept)
    assert len(kept) + lost == len(before) - (not is_twice)
    history = History.of(kept)
    assert list(check_journal(kept, history)) == []
    rest = [record for record in before if is_twice or record is not before[number]]
    assert openings(kept) == openings(rest)
    # The search resumes: each study has its numbers without a gap, and whoever has not ended comes first.
    with closing(Ledger(path)) as ledger:
        studies = Studies(make_experiment(), ledger)
        for expected in (trial.id for trial in history.running() if trial.candidate is None):
            assert studies.next().id == expected
        assert studies.next().id not in history.trials


def openings(records: list[Record]) -> list[Sequence[str]]:
    return [record.trials for record in records if isinstance(record, OpenedTest)]


def test_one_lost_epoch_costs_its_trial_what_came_after_and_no_other_trial_anything(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = write(path)
    number = next(n for n, record in enumerate(read_journal(path)) if record.kind == "epoch")
    path.write_bytes(b"".join([*lines[:number], b"?\n", *lines[number + 1 :]]))
    found = salvage(path)
    assert dict(found.lost) == {"pets-vsepp-nt_xent-0000": 1, "experiment_ended": 1}
    assert found.damaged == [number + 1]
    assert sum(has_ended(event(**line)) for line in found.kept) == 5


def test_a_plan_of_a_confirmation_is_dropped_with_a_candidate(tmp_path: Path) -> None:
    with begun(tmp_path, make_experiment(confirm={"top": 2, "seeds": 2})) as ledger:
        candidates = [add_trial(ledger, [1.0, 4.0]), add_trial(ledger, [2.0, 3.0])]
        plan = event("confirmation_planned", dataset="pets", candidates=[trial.id for trial in candidates], **DESIGN)
        ledger.append(plan)
        open_test(ledger, add_repeats(ledger, [(trial, [20.0, 21.0]) for trial in candidates]))
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole.replace(b'"trial_created","trial":"%b"' % candidates[1].id.encode(), b"?"))
    found = salvage(ledger.path)
    found.write()
    assert found.lost["confirmation_planned"] == 1
    history = read_history(tmp_path)
    assert (list(history.tests_opened), history.plans) == (["pets"], {})
    assert [row["trial"] for row in summarise(history)["trials"]] == [*history.trials]


def test_without_its_description_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join([b"?\n", *write(path)[1:3]]))
    with pytest.raises(JournalError, match="the damaged lines are those of the experiment"):
        salvage(path)
