"""What the report draws: fronts, all curves, learned hyper-parameters, scales, axes, and several experiments."""

from dataclasses import asdict
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.journal.directory import JOURNAL_FILE
from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import TrialState
from orchestrator.report.experiments_page import Reported, build_experiments_page
from orchestrator.report.page import Page, build_page
from orchestrator.report.search_figures import FEW
from orchestrator.report.space import searched
from orchestrator.report.studies import studies_of
from orchestrator.report.verdict import bars, scale
from orchestrator.results.log_ranges import log_ranges
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
    assert [member.name for member in page.fronts[0].members] == ["nt_xent 0000", "nt_xent 0001", "nt_xent 0003"]
    assert option.panels[0].layout["xaxis"]["title"]["text"].endswith("(lower is better)")


def test_one_objective_has_no_front() -> None:
    page = build_page(search(3))
    assert page.figures["front"].options == []
    assert page.fronts == []


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


def test_the_ticks_of_a_scale_stand_where_the_intervals_do() -> None:
    intervals = [(190.0, 197.8, 202.8), (74.8, 81.0, 87.6)]
    places = bars(intervals)
    ticks = scale([(low, high) for low, _, high in intervals])
    assert [label for _, label in ticks] == ["100", "150", "200"]
    per_unit = (places[0][2] - places[1][2]) / (197.8 - 81.0)
    for place, label in ticks:
        assert place == pytest.approx(places[1][2] + (float(label) - 81.0) * per_unit, abs=0.02)
    assert scale([(5.0, 5.0)]) == []
    assert [label for _, label in scale([(0.2, 0.2021)])] == ["0.200", "0.201", "0.202"]


def test_several_studies_have_a_table_of_contents_and_a_lone_one_has_none() -> None:
    page = build_page(search(12))
    labels = {option.label for option in page.figures["slices"].options}
    assert {entry.label for entry in page.contents} == labels == {"nt_xent", "triplet_sh", "polynomial_relative"}
    bests = [float(entry.best) for entry in page.contents]
    assert bests == sorted(bests, reverse=True)
    assert build_page(search(12, losses=("nt_xent",))).contents == []


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


def write(folder: Path, values: dict[str, float], *, confirmed: bool = False) -> Path:
    folder.mkdir(parents=True)
    ledger = Ledger(folder / JOURNAL_FILE)
    start(ledger, make_experiment(name=folder.name, confirm={"top": 1, "seeds": 3} if confirmed else None))
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


def test_winners_are_on_one_scale_only_where_they_were_measured_alike(tmp_path: Path) -> None:
    from orchestrator.journal.journal import read_journal
    from orchestrator.results.confirmation import verdicts_of

    reported = []
    for name, value, confirmed in (("one", 100.0, True), ("two", 120.0, True), ("three", 500.0, False)):
        folder = write(tmp_path / name, {"nt_xent": value, "triplet_sh": 50.0}, confirmed=confirmed)
        history = History.of(read_journal(folder / JOURNAL_FILE))
        verdicts = list(verdicts_of(history).values())
        reported.append(Reported(history, build_page(history), f"{name}/report.html", verdicts))
    page = build_experiments_page(reported)
    cards = {card.measure: [standing.label for standing in card.standings] for card in page.cards}
    assert cards == {
        "test/rsum, mean over fresh seeds": ["two", "one"],
        "val/rsum, the best of a search, unconfirmed": ["three"],
    }
    assert [line.trials for line in page.lines] == [2, 2, 2]
    assert page.warnings == []
    reported[0].history.data = {"pets:global": "another"}
    assert "different versions of pets" in build_experiments_page(reported).warnings[0]
    assert asdict(page)["figures"]["searches"]["options"][0]["label"] == "pets: val rsum"
