"""What the report draws: fronts, all curves, learned hyper-parameters, scales, axes, and several experiments."""

from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.report.experiment_report import report_experiments
from orchestrator.report.page import Page, build_page
from orchestrator.report.render import write_answers_page
from orchestrator.report.search_figures import FEW
from orchestrator.report.space import searched
from orchestrator.report.studies import studies_of
from orchestrator.results.analyses import log_ranges
from orchestrator.results.answer import Answer, Column, table_of
from tests.support.experiments import add_repeat, add_trial, make_experiment, open_test, start
from tests.support.histories import Author, experiment, search

NEGATIVES = "cocos/gradient_negatives"


def two_goals(points: list[tuple[float, float]]) -> History:
    """Return a search for a high ``val/rsum`` and few negatives, with a trial at each point."""
    described = experiment(losses=("nt_xent",))
    described["search"]["objectives"] = [
        {"metric": "val/rsum", "direction": "maximize"},
        {"metric": NEGATIVES, "direction": "minimize"},
    ]
    author = Author(described)
    for number, (rsum, negatives) in enumerate(points):
        trial = author.create("nt_xent", number, {"temperature": 0.1})
        author.epoch(trial, 1, {"val/rsum": rsum, NEGATIVES: negatives}, "finished")
    return author.finish()


def test_a_front_is_drawn_with_all_that_it_beats() -> None:
    page = build_page(two_goals([(100.0, 5.0), (90.0, 2.0), (80.0, 4.0), (70.0, 1.0)]))
    (option,) = page.figures["front"].options
    beaten, front = option.panels[0].data
    assert (beaten["name"], beaten["x"], beaten["y"]) == ("beaten", [4.0], [80.0])
    # From few negatives to many, so that the line goes from member to member.
    assert (front["x"], front["y"]) == ([1.0, 2.0, 5.0], [70.0, 90.0, 100.0])
    assert option.panels[0].layout["xaxis"]["title"]["text"].endswith("(lower is better)")


def test_one_objective_has_no_front() -> None:
    assert build_page(search(3)).figures["front"].options == []


@pytest.mark.parametrize(
    ("trials", "losses", "label", "curves"),
    [
        (12, ("nt_xent", "triplet_sh"), "All trials on flickr8k", 12),
        (10, ("nt_xent",), "nt_xent", 10),
        (2 * FEW, ("nt_xent", "triplet_sh"), "Leaders on flickr8k", 2),
    ],
    ids=["few of two studies", "few of one", "many"],
)
def test_all_curves_are_shown_where_they_are_few(trials: int, losses: tuple[str, ...], label: str, curves: int) -> None:
    option = build_page(search(trials, losses=losses)).figures["curves"].options[0]
    assert option.label == label
    assert len(option.panels[0].data) == curves


def learning(values: list[list[float]]) -> Page:
    author = Author(experiment(losses=("nt_xent",)))
    for number, temperatures in enumerate(values):
        trial = author.create("nt_xent", number, {"temperature": "learned"})
        for epoch, temperature in enumerate(temperatures, start=1):
            state = "finished" if epoch == len(temperatures) else "running"
            author.epoch(trial, epoch, {"val/rsum": 10.0 * number + epoch, "loss/temperature": temperature}, state)
    return build_page(author.finish())


def test_a_learned_hyper_parameter_is_drawn_over_the_epochs() -> None:
    (option,) = learning([[0.1, 0.08, 0.07], [0.2, 0.1, 0.001]]).figures["learned"].options
    assert option.label == "temperature"
    first, leader = option.panels[0].data
    assert (first["x"], first["y"]) == ([1, 2, 3], [0.1, 0.08, 0.07])
    assert (leader["y"], leader["line"]["width"]) == ([0.2, 0.1, 0.001], 3)
    assert option.panels[0].layout["yaxis"]["type"] == "log"


def test_nothing_learned_is_not_drawn() -> None:
    assert build_page(search(3)).figures["learned"].options == []


@pytest.mark.parametrize(
    ("loss", "name", "values", "is_log"),
    [
        # The values tried span less than a factor of 20, which says nothing about the space.
        ("nt_xent", "temperature", (0.1, 0.11, 0.12), True),
        # And these lie as if the space were logarithmic, which it is not.
        ("triplet_sh", "margin", (0.01, 0.02, 0.9), False),
    ],
)
def test_an_axis_is_logarithmic_where_the_space_is(
    ledger: Ledger, loss: str, name: str, values: tuple[float, ...], is_log: bool
) -> None:
    asked = make_experiment(search={"sampler": "random", "trials": 4, "training": {"learning_rate": "default"}})
    start(ledger, asked)
    cell = next(cell for cell in asked.cells() if cell.loss == loss)
    for number, value in enumerate(values):
        params = {name: value, "training.learning_rate": 1e-4 * (1 + number)}
        trial = ledger.create(cell.name, number, params, asked.trial_config(cell, {name: value}))
        ledger.report(trial, 1, {"val/rsum": 1.0 * number}, TrialState.FINISHED)
    assert log_ranges(ledger.history)[cell.name] == {name: is_log, "training.learning_rate": True}
    (study,) = studies_of(ledger.history)
    assert searched(study).logs == {"training.learning_rate", *([name] if is_log else [])}


def write(folder: Path, values: dict[str, float], *, confirmed: bool = False, digest: str = "d1") -> Path:
    folder.mkdir(parents=True)
    ledger = Ledger(folder / JOURNAL_FILE)
    experiment = make_experiment(name=folder.name, confirm={"top": 1, "seeds": 3} if confirmed else None)
    start(ledger, experiment, data={"pets:global": digest})
    trials = [add_trial(ledger, [value], loss=loss) for loss, value in values.items()]
    if confirmed:
        repeats = [
            add_repeat(ledger, trial, seed, seed, trial.best_value + seed) for trial in trials for seed in range(3)
        ]
        open_test(ledger, repeats)
    ledger.close()
    return folder


def test_a_page_over_several_experiments_is_written_beside_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "one", {"nt_xent": 100.0, "triplet_sh": 90.0}, confirmed=True)
    write(tmp_path / "two", {"nt_xent": 120.0, "triplet_sh": 80.0}, confirmed=True)
    with pytest.raises(SystemExit) as ended:
        main(["report", "one", "two", "--output", str(tmp_path), "--no-queries"])
    assert ended.value.code == 0
    written = [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    paths = [tmp_path / name for name in ("one/report.html", "two/report.html", "report.html")]
    assert written == [str(path) for path in paths]
    text = paths[-1].read_text(encoding="utf-8")
    assert 'href="one/report.html">one</a>' in text and 'href="two/report.html">two</a>' in text
    assert text.count("NT-Xent beats Triplet SH by") == 2, "each shows its headline"
    assert "plotly" not in text
    assert "different versions" not in text
    write(tmp_path / "three", {"nt_xent": 1.0}, digest="d2")
    report_experiments([tmp_path / "one", tmp_path / "three"], tmp_path, data_root=None)
    assert "different versions of pets" in paths[-1].read_text(encoding="utf-8")


def test_answers_alone_are_a_page_without_plotly_whose_texts_are_no_markup(tmp_path: Path) -> None:
    table = table_of(
        [Column("name", "<i>cell"), Column("difference", "difference", "val/rsum", signed=True)], [("a<b", -2.0)]
    )
    answer = Answer("cell", "", "Is <b> slower?", "Yes & no.", "tie", numbers={"p": 0.0001, "low": None}, table=table)
    write_answers_page("suite <x>", "Rerun", [answer], tmp_path / "a.html", facts=[("Cells", "1")], notes=["<script>"])
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    for part in (
        "Is &lt;b&gt; slower?",
        "Yes &amp; no.",
        "&lt;i&gt;cell",
        "a&lt;b",
        "−2.0",
        "&lt; 0.001",
        "&lt;script&gt;",
    ):
        assert part in text, part
    assert '<span class="badge tie">tie</span>' in text and "<dt>Cells</dt>" in text and "<dt>low</dt>" not in text
    assert text.count("<script>") == 1 and "default-src 'none'" in text and "plotly" not in text
