"""Each kind of record is read from its line and written to it by one class, and a newer journal is refused whole."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from references import describe_fields

from orchestrator.doctor.experiment import check_experiment
from orchestrator.journal.history import History
from orchestrator.journal.journal import FORMAT, JournalError, read_journal
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.records import KINDS, SHARED, ConfirmationPlan, EpochEnded, Record, RecordError, read_record
from orchestrator.journal.salvage import rewrite, salvage
from orchestrator.journal.trial import Stage, TrialState, WarmTrial
from tests.support.experiments import add_trial
from tests.support.record_kinds import written_kinds
from tests.support.records import append

FIXTURE = Path(__file__).parents[2] / "fixtures" / "begun_search" / "begun" / "journal.jsonl"

STARTED = {"experiment": {}, "data": {}, "environment": {}, "storage": None, "options": {}, "tokenizers": {"x": "word"}}
STARTED |= {"data_caveats": {"x": ["x: repeats."]}}
PLAN = {"dataset": "pets", "candidates": ["a"], "seeds": 5, "trainings": None, "baseline": None, "looks": 0}
CREATED = {"trial": "a", "stage": "search", "candidate": None, "study": "s", "number": 0, "params": {}, "config": {}}
WARM = {"params": {"margin": 0.2}, "state": "finished", "values": [1.0]}

EVENTS: dict[str, dict[str, Any]] = {
    "experiment_started": STARTED,
    "suite_started": {"suite": {"name": "x"}},
    "warm_started": {"source": "past", "studies": {"s": [WARM]}, "passed_over": 2},
    "prior_read": {"studies": {"s": [{"params": {"margin": 0.2}, "source": "other"}]}},
    "memory_measured": {"study": "s", "peak": 5, "room": 9},
    "fusion_measured": {"study": "s", "trials": 4, "epochs_per_hour": {"1": 2.0, "4": 7.5}, "in_turns": True},
    "limit_noted": {"message": "one GPU"},
    "trial_created": CREATED,
    "trial_started": {"trial": "a", "gpus": 0.25},
    "epoch": {"trial": "a", "epoch": 1, "metrics": {"val/rsum": 3.5}, "state": "running"},
    "checkpoint_damaged": {"trial": "a", "damage": "state.pt: cut"},
    "concurrency_lowered": {"trials": 2},
    "trial_retried": {"trial": "a", "cause": "memory", "error": "out of memory"},
    "trial_ended": {"trial": "a", "state": "diverged", "error": "train/loss is nan"},
    "confirmation_planned": PLAN,
    "test_opened": {"dataset": "pets", "trials": ["a"], "elsewhere": {"other": 1}},
    "test_evaluated": {"trial": "a", "metrics": {"rsum": 4.5}, "ranks": {"queries": 3}},
    "experiment_ended": {"outcome": "finished", "ended_by": "trials"},
}
"""Kind -> the fields of its line as the product writes them, in their order."""


def line(kind: str, **changes: Any) -> dict[str, Any]:
    return {"n": 1, "time": 5.0, "elapsed": 0.5, "kind": kind, **EVENTS[kind], **changes}


def parse(values: dict[str, Any]) -> Any:
    return read_record(json.dumps(values, separators=(",", ":")).encode())


def test_every_kind_that_is_read_is_written_by_some_code() -> None:
    assert set(EVENTS) == set(KINDS) == written_kinds()


@pytest.mark.parametrize("kind", EVENTS)
def test_a_line_is_what_its_record_writes(kind: str) -> None:
    record = parse(line(kind))
    assert type(record) is KINDS[kind]
    assert json.dumps(record.to_dict(), default=msgspec.to_builtins) == json.dumps(line(kind))
    assert parse({**line(kind), "crc": "0"}) == record


def test_values_have_their_types() -> None:
    epoch, created = parse(line("epoch")), parse(line("trial_created"))
    assert (epoch.state, created.stage) == (TrialState.RUNNING, Stage.SEARCH)
    assert parse(line("warm_started")).studies == {"s": [WarmTrial({"margin": 0.2}, TrialState.FINISHED, (1.0,))]}
    plan = parse(line("confirmation_planned"))
    assert plan.unwritten() == ConfirmationPlan(**{**PLAN, "candidates": ("a",)}, first=None, level=None)


@pytest.mark.parametrize(
    ("kind", "absent", "value"),
    [
        ("experiment_started", "storage", None),
        ("experiment_started", "options", {}),
        ("experiment_started", "tokenizers", {}),
        ("experiment_started", "data_caveats", {}),
        ("experiment_ended", "ended_by", None),
        ("trial_retried", "cause", None),
        ("test_evaluated", "ranks", None),
    ],
)
def test_what_older_versions_did_not_write_has_a_value(kind: str, absent: str, value: Any) -> None:
    values = line(kind)
    del values[absent]
    assert getattr(parse(values), absent) == value


def test_fields_and_kinds_of_other_versions_are_passed_over() -> None:
    assert parse(line("epoch", mood="good")) == parse(line("epoch"))
    later = {"n": 3, "time": 1.0, "elapsed": 0.1, "kind": "trial_praised", "trial": "a"}
    record = parse(later)
    assert type(record) is Record
    assert (record.n, record.time) == (3, 1.0)
    # Time passes, and nothing else is known of it.
    history = History.of([parse(line("limit_noted", elapsed=0.0)), record])
    assert history.spending.seconds == pytest.approx(0.1)
    assert history.trials == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "epoch", "epoch": 1, "state": "running"}, "a record of kind epoch: .* field `trial`"),
        (line("epoch", state="asleep"), r"a record of kind epoch: Invalid enum value 'asleep' - at `\$\.state`"),
        (
            line("trial_started", gpus="two"),
            r"a record of kind trial_started: Expected `float`, got `str` - at `\$\.gpus`",
        ),
        ({"epoch": 1}, "a record without a kind"),
    ],
)
def test_a_line_that_says_too_little_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        parse(values)


@given(kind=st.sampled_from(sorted(EVENTS)), data=st.data())
def test_no_line_that_lacks_fields_is_anything_but_a_record_or_refused(kind: str, data: st.DataObject) -> None:
    absent = data.draw(st.sets(st.sampled_from(sorted(EVENTS[kind]))))
    values = {name: value for name, value in line(kind).items() if name not in absent}
    try:
        record = parse(values)
    except RecordError:
        assert absent
    else:
        written = json.dumps({name: record.to_dict()[name] for name in values}, default=msgspec.to_builtins)
        assert json.loads(written) == values


@pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
def test_every_field_is_described(record: type[Record]) -> None:
    described = describe_fields(record)
    assert set(record.__struct_fields__) - set(SHARED) - {"trial"} == set(described) - {"trial"}
    assert set(SHARED) == set(describe_fields(Record))


def test_a_journal_has_a_format_in_its_first_line_alone(ledger: Ledger, tmp_path: Path) -> None:
    add_trial(ledger, [1.0])
    lines = [json.loads(text) for text in ledger.path.read_text().splitlines()]
    assert [values.get("format") for values in lines] == [FORMAT] + [None] * (len(lines) - 1)
    assert read_journal(ledger.path)[0].format == FORMAT
    older = tmp_path / "older.jsonl"
    older.write_bytes(FIXTURE.read_bytes())
    with closing(Ledger(older)) as again:
        append(again, "limit_noted", message="")
    assert older.read_bytes().startswith(FIXTURE.read_bytes())
    assert [record.format for record in read_journal(older) if record.format] == [2]


PBT = {"name": "x", "scheduler": {"name": "pbt", "perturbation_epochs": 2}}


@pytest.mark.parametrize(
    ("first", "refusal"),
    [
        pytest.param(
            {"kind": "event", "format": FORMAT + 1},
            f"has format {FORMAT + 1}, and this version reads formats up to {FORMAT}; use the version that wrote it",
            id="newer",
        ),
        pytest.param(
            line("experiment_started", experiment=PBT),
            "population-based training .*; the version .* Ray Tune's own PopulationBasedTraining",
            id="pbt",
        ),
        *(
            pytest.param(
                line("limit_noted", format=written),
                "line 1: format must be a whole number from 1 on, got",
                id=str(written),
            )
            for written in ("two", "2", None, [2], 2.5, True, 0, -1)
        ),
    ],
)
def test_a_journal_that_may_be_misread_is_refused_untouched(
    tmp_path: Path, first: dict[str, Any], refusal: str
) -> None:
    path = tmp_path / "journal.jsonl"
    rewrite(path, [first, line("limit_noted")])
    # This version must not even cut off a torn end.
    content = path.read_bytes()[:-5]
    path.write_bytes(content)
    for read in (read_journal, Ledger, salvage):
        with pytest.raises(JournalError, match=refusal) as raised:
            read(path)
        assert raised.value.exit_code == 2
    (finding,) = check_experiment(tmp_path, "sqlite:///nowhere", repair=True)
    assert finding.state == "fail" and re.search(refusal.partition(";")[0], finding.found)
    assert path.read_bytes() == content


def test_a_record_that_says_too_little_is_not_written_and_named_where_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(Ledger(path)) as ledger, pytest.raises(RecordError):
        ledger.append(EpochEnded(trial="a", epoch="first", metrics={}, state=TrialState.RUNNING))  # type: ignore[arg-type]
    assert path.read_bytes() == b""
    rewrite(path, [line("limit_noted"), {"kind": "epoch", "trial": "a"}])
    with pytest.raises(JournalError, match=r"line 2: a record of kind epoch: .* field `epoch`"):
        read_journal(path)
