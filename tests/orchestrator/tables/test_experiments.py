"""What experiments came to, on the command line: confirmed or not, several at once, in every format."""

import csv
import io
import json
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.tables import FORMATS
from orchestrator.tables.experiments import read_result, tables_of
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test, start


def write(output: Path, name: str, *, confirmed: bool, data: str = "d1") -> Path:
    """Write the journal of an experiment of two losses, with its confirmation by three seeds or without."""
    folder = output / name
    folder.mkdir(parents=True)
    ledger = Ledger(folder / "journal.jsonl")
    start(ledger, make_experiment(name=name, confirm={"top": 1, "seeds": 3} if confirmed else None))
    ledger.history.data = {"pets:global": data}
    trials = [add_trial(ledger, [value], loss=loss) for loss, value in (("nt_xent", 30.0), ("triplet_sh", 20.0))]
    add_trial(ledger, [40.0], state=TrialState.STOPPED_EARLY)
    if confirmed:
        repeats = [
            add_repeat(ledger, trial, seed, seed, base + seed)
            for trial, base in zip(trials, (10.0, 20.0), strict=True)
            for seed in range(3)
        ]
        open_test(ledger, repeats)
    ledger.close()
    return folder


def test_confirmed_rows_are_of_test_over_seeds_with_all_that_is_to_be_known(tmp_path: Path) -> None:
    (table,) = tables_of([read_result(write(tmp_path, "tiny", confirmed=True))])
    assert [(row.loss, row.number, row.verdict, row.seeds) for row in table.rows] == [
        ("triplet_sh", "1", "better", 3),
        ("nt_xent", "2", "worse", 3),
    ]
    assert table.rows[0].measures["rsum"].mean == 21.0
    notes = "\n".join(table.notes)
    for said in (
        "pets: better: 'pets-vsepp-triplet_sh-0000' is better than the runner-up and baseline",
        "test/rsum 21.00 ± 1.00 (sample standard deviation) over 3 seeds, 95 % bootstrap interval [",
        "Mean ± population standard deviation over 3 runs.",
        "Welch p 0.00026, corrected 0.00026, Hedges' g 8",
        "pets: the test split was opened once.",
        "pets: pets-vsepp-nt_xent-0001 had reached more, val/rsum 40.0, and stopped early: it cannot win.",
    ):
        assert said in notes


def test_unconfirmed_rows_are_of_val_and_say_so(tmp_path: Path) -> None:
    (table,) = tables_of([read_result(write(tmp_path, "tiny", confirmed=False))])
    assert [(row.loss, row.verdict, row.measures["rsum"].mean) for row in table.rows] == [
        ("nt_xent", "unconfirmed", 30.0),
        ("triplet_sh", "unconfirmed", 20.0),
    ]
    assert "pets: its rows show val, of the trainings of the search." in table.notes


def test_experiments_on_other_data_are_not_compared_in_silence(tmp_path: Path) -> None:
    one, two = (write(tmp_path, name, confirmed=True) for name in ("one", "two"))
    results = [read_result(folder) for folder in (one, two)]
    assert not any("can't be compared" in note for note in tables_of(results)[0].notes)
    results[1].data["pets:global"] = "d2"
    (table,) = tables_of(results)
    assert len(table.rows) == 4
    assert "The experiments had different versions of pets:global; their rows can't be compared." in table.notes
    assert any(note.startswith("two: pets: better") for note in table.notes)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_comes_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    write(tmp_path, "one", confirmed=True)
    write(tmp_path, "two", confirmed=False)
    with pytest.raises(SystemExit) as exit_:
        main(["summarise", "one", "two", "--output", str(tmp_path), "--format", form, "--with-published", "--cocos"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    assert "better" in text and "unconfirmed" in text
    if form == "json":
        said = json.loads(text)
        assert [one["experiment"] for one in said["experiments"]] == ["one", "two"]
        assert said["experiments"][0]["verdicts"][0]["comparisons"][0]["welch_p"] < 0.001
        assert said["experiments"][0]["test_openings"] == {"pets": 1}
    if form == "csv":
        assert len(list(csv.reader(io.StringIO(text)))) == 5


def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "one", confirmed=False)
    for arguments, message in ((["two"], "there are: one"), (["one", "--format", "xml"], "format must be one of")):
        with pytest.raises(SystemExit) as exit_:
            main(["summarise", *arguments, "--output", str(tmp_path)])
        assert exit_.value.code == 2
        assert message in capsys.readouterr().err
