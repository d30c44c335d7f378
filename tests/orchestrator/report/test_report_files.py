"""The report of a directory: the file it writes, what it refuses, and that nothing in the file asks for more."""

import hashlib
import json
import math
import re
from pathlib import Path

import pytest

from orchestrator.journal.begun_experiment import BegunExperiment
from orchestrator.journal.directory import find_directory
from orchestrator.journal.journal import JournalError
from orchestrator.report.experiment_report import report_experiments
from orchestrator.report.page import Page
from orchestrator.report.render import PLACE, PLOTLY, packed, plotly_source, render_page, rounded
from orchestrator.text.values import visible_values
from orchestrator.views.html import asset
from tests.support.commands import CommandLine
from tests.support.experiments import add_trial, begun
from tests.support.histories import Author, search
from tests.support.records import append

EVIL = "<script>alert('it ran')</script>"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An experiment's directory whose search ended."""
    with begun(tmp_path / "runs" / "tiny") as ledger:
        add_trial(ledger, [30.0])
        append(ledger, "experiment_ended", outcome="finished", ended_by="trials")
    return ledger.path.parent


PLOTLY_DIGEST = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"


def test_plotly_is_the_published_file_with_its_license() -> None:
    assert hashlib.sha256(PLOTLY.read_bytes()).hexdigest() == PLOTLY_DIGEST
    assert "MIT License" in (PLOTLY.parent / "plotly-LICENSE").read_text(encoding="utf-8")
    version = re.search(r"plotly\.js \(cartesian - minified\) v([\d.]+)", PLOTLY.read_text(encoding="utf-8"))
    assert f"version {version[1]}," in (PLOTLY.parent / "README.md").read_text(encoding="utf-8")


def test_no_page_has_an_address_to_which_a_chart_could_be_sent() -> None:
    places = r"cloud\.plotly|chart-studio|plot\.ly/clipboard|api\.plot\.ly"
    assert re.findall(places, PLOTLY.read_text(encoding="utf-8")) == ["cloud.plotly"], "Plotly's preset"
    assert re.search(places, render_page(Page(search(1)))) is None
    assert re.search(places, plotly_source()) is None, "the script of the live pages"
    # With an empty address, Plotly refuses the upload.
    assert 'plotlyServerURL:{valType:"string",dflt:""}' in plotly_source()
    assert 'plotlyServerURL: "",' in asset("report/charts.js")


def outside_plotly(page: str) -> str:
    """Return a page without plotly's own code, which is not ours to read; the browser's log judges it."""
    start = page.index("/**\n* plotly.js (cartesian")
    return page[:start] + page[page.index("</script>", start) :]


def test_file_holds_plotly_once_and_names_no_other_place() -> None:
    page = render_page(Page(search(12)))
    assert len(page.encode()) < 2.5e6
    assert page == render_page(Page(search(12))), "the same history gives the same file"
    assert page.count("* plotly.js (cartesian - minified) v") == 1
    ours = outside_plotly(page)
    assert not re.search(r"https?://|//cdn|@import|url\(", ours)
    assert re.findall(r'(?:src|href)="([^"#][^"]*)"', ours) == ["data:,"]
    assert "default-src 'none'" in ours
    assert "connect-src" not in ours


def test_data_have_six_digits_and_no_character_that_cannot_be_seen() -> None:
    charts = {"x": [1 / 3, 1, None, [-123456.78]], "text": ["a", "b"], "low": 2 / 3}
    assert rounded(charts) == {"x": [0.333333, 1, None, [-123457.0]], "text": ["a", "b"], "low": 0.666667}
    assert visible_values(["a", "\x1b", math.inf, ["\u202e"]]) == ["a", "\\x1b", None, ["\\u202e"]]


def test_the_data_of_a_page_hold_a_long_list_once() -> None:
    names, once, short = ["nt_xent 0001"] * 20, list(range(20)), [True, 1]
    figures = {"a": [{"text": names, "x": once}, {"text": list(names)}], "b": short, "c": {"z": [once, once]}}
    data, lists = packed(figures)
    assert lists == [names, once]
    assert data == {
        "a": [{"text": {PLACE: 0}, "x": {PLACE: 1}}, {"text": {PLACE: 0}}],
        "b": short,
        "c": {"z": [{PLACE: 1}] * 2},
    }


def test_hostile_strings_are_text_and_data_never_markup() -> None:
    author = Author()
    author.history.experiment = BegunExperiment.of({**author.history.experiment.values, "description": EVIL})
    trial = author.create("nt_xent", 0, {EVIL: 1.0, "word": "\x00</script>"}, dataset="pets")
    author.epoch(trial, 1, {"val/rsum": 100.0}, "running")
    author.end(trial, "failed", EVIL)
    page = outside_plotly(render_page(Page(author.history)))
    assert "<script>alert" not in page
    assert "\x00" not in page
    assert "&lt;script&gt;alert(&#39;it ran&#39;)&lt;/script&gt;" in page
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert "<" not in data[1]
    assert json.loads(data[1])["rows"][0]["id"] == trial


def report(directory: Path, data_root: Path | None = None) -> str:
    (path,) = report_experiments([directory], directory, data_root=data_root)
    assert path == directory / "report.html"
    return path.read_text(encoding="utf-8")


def test_report_lies_in_the_directory_and_a_killed_search_is_called_killed(directory: Path) -> None:
    page = report(directory)
    assert "search finished" in page
    assert 'id="queries"' not in page, "what has no data has no place"
    assert [entry.name for entry in directory.iterdir() if entry.name.startswith(".")] == []
    journal = directory / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    assert "search killed" in report(directory)


def test_a_winner_that_cannot_be_asked_and_a_damaged_journal_are_named(directory: Path, tmp_path: Path) -> None:
    assert "The winner could not be asked" in report(directory, tmp_path / "nowhere")
    journal = directory / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"garbage\n", *lines[2:]]))
    with pytest.raises(JournalError, match="line 2"):
        report(directory)


def test_experiment_is_found_by_name_or_path_and_else_the_others_are_listed(directory: Path) -> None:
    output = directory.parent
    assert find_directory("tiny", output) == directory
    assert find_directory(str(directory), Path("elsewhere")) == directory
    with pytest.raises(JournalError, match="there are: tiny"):
        find_directory("flickr9k", output)


def test_the_command_writes_the_place_of_the_report_as_json(directory: Path, cli: CommandLine) -> None:
    found = cli.json("report", "tiny", "--output", directory.parent, "--no-queries")
    assert found["report"] == str(directory / "report.html")
