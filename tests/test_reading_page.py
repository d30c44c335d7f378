"""docs/reading.md shows the recorded last screen, in the form that the product prints, and sentences of the product."""

import re
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from orchestrator.commands.search import run_and_print
from orchestrator.experiment.experiment import load_experiment
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.machines.cluster import StartOptions
from orchestrator.searches.display import print_summary
from orchestrator.searches.search import SearchResult
from orchestrator.tracking.address import default_uri
from orchestrator.tracking.registry import Registered
from tests.support.experiments import add_repeats, start
from tests.support.ranked import draw_ranks, metrics_of
from tests.support.records import append
from tests.test_documents import by_heading

DOCS = Path(__file__).parent.parent / "docs"
RATE = "training.learning_rate"
CONFIRMED = [
    ("sigmoid", {"temperature": 0.1025, "bias": -6.949, RATE: 0.002221}, 236.0, 8.0),
    ("nt_xent", {"temperature": 0.0712, RATE: 0.00309}, 230.0, 16.0),
    ("nt_xent", {"temperature": 0.1, RATE: 0.001}, 229.0, 20.0),
    ("triplet", {"margin": 0.265, RATE: 0.00736}, 220.0, 24.0),
    ("triplet_sh", {"margin": 0.3087, RATE: 0.00521}, 219.0, 28.0),
]
"""Loss, setting, val rsum and typical rank on test of what was confirmed; NT-Xent also as published."""


PARTS = (
    "flickr#k · head · which setting? test rsum: sum of six recalls, #–#, chance #",
    "against the winner p (Holm) verdict Sigmoid",
    "Sigmoid at τ #, … beats the settings of all other losses, p #; closest is NT-Xent",
    "(# seeds × # test images).",
    "use: Sigmoid, τ #, bias #, learning rate #",
    "Better than the published settings? The winner beats the published settings (NT-Xent, τ #, learning rate #) by #",
    "all answers: orchestrator summarise flickr#k-quick --output runs",
    "registered: icr-flickr#k version #, the champion; in the browser: orchestrator ui --output runs",
    "next: orchestrator report flickr#k-quick --output runs",
)
"""What the screen says on the page and in a run, without numbers."""


def shown_on_the_page() -> str:
    """Return the screen of the page."""
    _, _, text = (DOCS / "reading.md").read_text().partition("## 1. The last screen of a search\n\n```\n")
    return text.partition("\n```")[0]


def recorded() -> str:
    """Return what the picture of the README ends with: lines that appear and stay."""
    lines = []
    for line in ElementTree.parse(DOCS / "images" / "search.svg").iterfind("{*}g[{*}animate]"):
        row = ""
        for text in line.iterfind("{*}text"):
            row = row.ljust(round((float(text.attrib["x"]) - 14) / 8.4)) + "".join(text.itertext())
        lines.append(row)
    begun = [number for number, line in enumerate(lines) if "which setting?" in line]
    return "\n".join(lines[begun[-1] :])


def form(screen: str) -> str:
    """Return a screen without its numbers, and without the places where lines are folded and settings are cut."""
    numberless = re.sub(r"(?:[<=≤] )?[−+-]?\d+(?:[.,]\d+)*", "#", " ".join(screen.split()))
    return re.sub(r"[\w.]*…", "…", numberless).replace("# caveats;", "# caveat;")


def test_the_page_shows_the_recorded_screen() -> None:
    assert shown_on_the_page() == recorded()


def test_each_of_the_four_questions_has_the_products_sentences_on_the_page_of_answers() -> None:
    _, _, text = (DOCS / "reading.md").read_text().partition("\n| question | compared |\n|---|---|\n")
    rows = [row.strip("| ").split(" | ") for row in text.partition("\n\n")[0].splitlines()]
    said = by_heading((DOCS / "answers.md").read_text())
    assert [question for question, _ in rows if not said[question]] == []
    assert len(rows) == 4


def test_the_screen_of_the_page_has_the_form_that_a_search_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment, folder = load_experiment("flickr8k-quick"), Path("runs/flickr8k-quick")
    folder.mkdir(parents=True)
    ledger = Ledger(folder / "journal.jsonl")
    start(ledger, experiment)
    for loss, setting, value, rank in CONFIRMED:
        cell = next(cell for cell in experiment.cells() if cell.loss == loss)
        number = len(ledger.history.study(cell.name))
        trial = ledger.create(cell.name, number, setting, experiment.trial_config(cell, setting))
        ledger.report(trial, 1, {"val/rsum": value}, TrialState.FINISHED)
        repeats = add_repeats(ledger, [(trial, [value] * 3)])
        append(ledger, "test_opened", dataset="flickr8k", trials=[repeat.id for repeat in repeats])
        for seed, repeat in enumerate(repeats):
            ranks = draw_ranks(seed, rank, np.repeat(np.arange(200, dtype=np.int32), 5))
            append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics_of(ranks), ranks=ranks.to_text())
    ledger.close()
    registered = [Registered("icr-flickr8k", 1, is_champion=True)]
    result = SearchResult(ledger.history, folder, default_uri(Path("runs")), None, "trials", registered)
    monkeypatch.setattr("orchestrator.commands.search.run_experiment", lambda *_, **__: result)
    monkeypatch.setattr("orchestrator.commands.search.print_summary", partial(print_summary, width=100))
    run_and_print(experiment, StartOptions(output=Path("runs")))
    page, printed = form(shown_on_the_page()), form(capsys.readouterr().out)
    # The runs of the recording and those made here differ in the settings that the table shows.
    assert [part for part in PARTS if part not in page] == [part for part in PARTS if part not in printed] == []
