"""``orchestrator summarise`` on the command line: confirmed or not, several experiments, in every form."""

import csv
import io
import json
from pathlib import Path

import pytest

from orchestrator.views.forms import FORMS
from tests.support.commands import CommandLine
from tests.support.confirmed_experiments import write
from tests.support.experiments import add_trial, begun, make_experiment


def test_answers_are_one_under_the_other_and_the_tables_at_the_end(tmp_path: Path, cli: CommandLine) -> None:
    write(tmp_path, "one", confirmed=True)
    lines = cli.shows("summarise", "one", "--output", tmp_path).splitlines()
    titles = [line for line, before in zip(lines, ["", *lines], strict=False) if not before]
    assert titles[0] == "pets · Which setting?"
    assert titles[-2:] == ["pets · What limits these results?", "Retrieval"]
    assert lines[1].startswith(
        "Triplet SH at margin = 0.2 beats NT-Xent at τ = 0.1 by 10.0 rsum, 95 % CI [7.7, 12.3], p < 0.001"
    )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_comes_from_the_command_line(tmp_path: Path, cli: CommandLine, form: str) -> None:
    write(tmp_path, "one", confirmed=True)
    write(tmp_path, "two", confirmed=False)
    options = ("--format", form, "--with-published", "--cocos", "--output", tmp_path)
    text = cli.shows("summarise", "one", "two", *options)
    assert "winner" in text and "unconfirmed" in text
    explained = text.replace(r"\textendash{}", "–").count("rsum: sum of six recalls, 0–600")
    assert explained == (form not in ("json", "csv"))
    if form == "json":
        said = json.loads(text)
        assert list(said) == ["experiments", "answers"]
        assert [one["experiment"] for one in said["experiments"]] == ["one", "two"]
        assert said["experiments"][0]["verdicts"][0]["comparisons"][0]["welch_p"] < 0.001
        assert said["experiments"][0]["test_openings"] == {"pets": 1}
        assert [(one["experiment"], one["key"]) for one in said["answers"]][-1] == (None, "retrieval")
    elif form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        shown = [row["loss"] for row in rows if row["answer"] == "retrieval"]
        assert shown == ["triplet_sh", "nt_xent", "nt_xent", "triplet_sh"]
    else:
        assert "two · Which setting?" in text.replace(r"$\cdot$", "·")


def test_what_is_not_there_is_refused(tmp_path: Path, cli: CommandLine) -> None:
    write(tmp_path, "one", confirmed=False)
    for arguments, message in ((["two"], "there are: one"), (["one", "--format", "xml"], "'xml' is not one of")):
        assert message in cli.refuses("summarise", *arguments, "--output", tmp_path)


def test_an_experiment_that_is_named_twice_is_printed_once(tmp_path: Path, cli: CommandLine) -> None:
    for name in ("a", "b"):
        with begun(tmp_path / name, make_experiment(name=name)) as ledger:
            add_trial(ledger, [3.0])
    once = cli.shows("summarise", "a", "b", "--output", tmp_path)
    assert cli.shows("summarise", "a", tmp_path / "a", "b", "a", "--output", tmp_path) == once
