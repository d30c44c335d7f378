"""The tables in the layouts of the papers: which rows, in which order, with which notes and which verdicts."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.journal.directory import read_history
from orchestrator.journal.ledger import Ledger
from orchestrator.reference.published import published_rows
from orchestrator.results import tables
from orchestrator.results.answer import Answer, Quantity
from orchestrator.results.answers import Summary
from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure
from orchestrator.results.tables import (
    COCOS_LAYOUTS,
    RETRIEVAL_LAYOUT,
    Layout,
    Row,
    cocos_tables,
    layout_table,
    rows_of_verdict,
    tables_of,
)
from orchestrator.results.verdict import judge
from tests.support.confirmed_experiments import write
from tests.support.experiments import make_experiment, start
from tests.support.rows import ROWS, row


def column(answer: Answer, *keys: str) -> list[tuple]:
    """Return the plain values of some columns, a tuple a row."""
    return [tuple(line[key] for key in keys) for line in answer.table.to_dict()["rows"]]


def losses(answer: Answer) -> list[tuple]:
    return column(answer, "model", "loss", "published")


def retrieval(rows: Sequence[Row], *, with_published: bool = False) -> Answer:
    return layout_table(RETRIEVAL_LAYOUT, rows, with_published=with_published)


PUBLISHED = [layout for layout in (RETRIEVAL_LAYOUT, *COCOS_LAYOUTS) if layout.published is not None]


@pytest.mark.parametrize("layout", PUBLISHED, ids=lambda layout: layout.key)
def test_layouts_have_the_columns_of_the_published_tables_in_their_order(layout: Layout) -> None:
    assert [column.key for column in layout.columns] == list(published_rows(layout.published)[0].values)


def test_blocks_of_datasets_and_models_in_the_order_of_their_first_rows() -> None:
    shuffled = [ROWS[4], ROWS[0], ROWS[2], ROWS[1], ROWS[3]]
    assert column(retrieval(shuffled), "dataset", "model", "number") == [
        ("data/flickr8k", "wsabie", "1"),
        ("flickr30k", "vsepp", "1"),
        ("flickr30k", "vsepp", "2"),
        ("flickr30k", "vsepp", "4"),
        ("flickr30k", "vsrn", "3"),
    ]


def test_published_rows_are_beside_ours() -> None:
    table = retrieval([ROWS[0], row("triplet_sh", number="5"), ROWS[3]], with_published=True)
    assert losses(table) == [
        ("vsepp", "triplet_sh", "no"),
        ("vsepp", "triplet_sh", "no"),
        *[("vsepp", "triplet_sh", "yes")] * 3,
        ("vsepp", "polynomial_relative", "no"),
        ("vsepp", "triplet", "yes"),
        ("vsepp", "nt_xent", "yes"),
        ("vsepp", "smooth_ap", "yes"),
    ]
    assert column(table, "rsum", "seeds", "loss_name")[2] == (
        {"value": 353.8, "deviation": 1.6},
        5,
        "Triplet SH (published)",
    )
    assert {number for (number,) in column(table, "number")[3:5]} == {"Chen2021", "Rao2022"}


@pytest.mark.parametrize("dataset", ["coco", "MS-COCO", "data/mscoco"])
def test_coco_is_known_by_its_names(dataset: str) -> None:
    table = retrieval([row(dataset=dataset)], with_published=True)
    assert [number for (number,) in column(table, "number")] == ["1", "2.2", "2.1", "2.3", "2.4"]


def test_rows_of_other_papers_are_under_ours_with_their_sources() -> None:
    ours = [row("polynomial_self", dataset="f30k", model="scan"), row("nt_xent", dataset="f30k", model="gsmn")]
    table = retrieval(ours, with_published=True)
    assert column(table, "model", "number") == [
        ("scan", "1"),
        ("scan", "Wei2020code"),
        *[("scan", "Lee2018")] * 5,
        ("scan", "Rao2022"),
        ("gsmn", "1"),
        ("gsmn", "Liu2020"),
        ("gsmn", "Liu2020code"),
    ]
    sums = column(table, "rsum", "seeds")
    assert (sums[1], sums[7]) == (({"value": 460.7}, 1), ({"value": 447.42, "deviation": 1.98}, 10))
    assert table.notes[-1].startswith("Liu2020code: the authors' repository CrossmodalGroup/GSMN")
    assert table.notes[-1].endswith(", 1 run.")
    assert any(note.startswith("Rao2022") and note.endswith(", 10 runs.") for note in table.notes)
    assert not any("Bleeker" in note for note in table.notes)


def test_losses_and_datasets_that_the_study_lacks_are_named() -> None:
    measures = {f"{way}_negative_weight": Measure(0.5, 0.1, 5) for way in ("i2t", "t2i")}
    graded = [row(loss, measures=measures) for loss in ("sigmoid", "circle")]
    (table,) = cocos_tables(graded, with_published=True)
    assert losses(table) == [("vsepp", "sigmoid", "no"), ("vsepp", "circle", "no")]
    assert table.notes[-1] == "Bleeker and de Rijke (ECIR 2022) have no table of these losses."
    assert (
        retrieval(ROWS[4:], with_published=True)
        .notes[-1]
        .startswith("There is no published row for flickr8k with wsabie; ")
    )


def test_cocos_tables_by_kind_of_loss() -> None:
    tables = cocos_tables(ROWS, with_published=True)
    assert [table.key for table in tables] == ["cocos_triplet", "cocos_nt_xent", "cocos_smooth_ap"]
    assert losses(tables[0])[:3] == [
        ("vsepp", "triplet_sh", "no"),
        ("vsepp", "triplet_sh", "yes"),
        ("vsepp", "polynomial_relative", "no"),
    ]
    assert "over the batches of a run" in tables[0].notes[0] and "wrong axis" in tables[0].notes[-1]
    assert [len(losses(table)) for table in cocos_tables(ROWS)] == [2, 1, 1]
    assert cocos_tables(ROWS[4:]) == []


def test_a_loss_without_weights_of_its_own_has_the_general_counts_in_a_table() -> None:
    measures = {"gradient_negatives": Measure(12.0, 1.0, 5), "rsum": Measure(1.0, 0.0, 5)}
    (table,) = cocos_tables([row("mine", measures=measures)], with_published=True)
    assert (table.key, losses(table)) == ("cocos_general", [("vsepp", "mine", "no")])
    assert column(table, "gradient_negatives") == [({"value": 12.0, "deviation": 1.0},)]


@pytest.mark.parametrize(("rows", "runs"), [(ROWS[:1], "5 runs"), (ROWS[4:], "1 run"), (ROWS, "1 or 5 runs")])
def test_the_note_says_which_deviation_and_how_many_runs(rows: list[Row], runs: str) -> None:
    assert retrieval(rows).notes == (f"Mean ± population standard deviation, as in the papers' tables, over {runs}.",)


def confirmed(label: str, level: float) -> Runs:
    values = {
        seed: {
            "val/rsum": level + noise,
            "test/rsum": level + noise - 5,
            "test/i2t_r1": level / 10,
            "cocos/i2t_negatives_per_query": 2.0 + seed,
            "cocos/i2t_negatives_per_query_std": 0.5,
            "cocos/t2i_negatives_per_query": 3.0,
        }
        for seed, noise in enumerate((0.0, 1.0, -1.0, 0.5, -0.5))
    }
    return Runs.of_seeds(label, values, dataset="flickr8k", model="vsepp", loss=label, parameters={"margin": 0.2})


def read_summary(directory: Path) -> Summary:
    return Summary(read_history(directory))


def test_rows_of_a_verdict_have_the_verdicts_of_its_answers() -> None:
    candidates = [confirmed("triplet", 250.0), confirmed("warp", 299.5), confirmed("triplet_sh", 300.0)]
    verdict = judge(candidates, baseline="triplet")
    rows = rows_of_verdict(verdict)
    assert [(one.loss, one.number, one.verdict) for one in rows] == [
        ("triplet_sh", "1", "winner"),
        ("warp", "2", "tie"),
        ("triplet", "3", "worse"),
    ]
    measures = rows[0].measures
    assert measures["rsum"].mean == 295
    assert measures["i2t_negatives_per_query"] == Measure(4.0, 0.5, 5)
    assert measures["t2i_negatives_per_query"] == Measure(3.0, None, 5)
    assert rows[0].seeds == 5


def test_on_val_the_rows_show_val() -> None:
    verdict = judge([confirmed("a", 300.0)], metric="val/rsum")
    (shown,) = rows_of_verdict(verdict)
    assert shown.measures["rsum"].mean == 300
    assert "i2t_r1" not in shown.measures


def test_confirmed_rows_are_of_test_and_unconfirmed_rows_of_val(tmp_path: Path) -> None:
    (table,) = tables_of([read_summary(write(tmp_path, "sure", confirmed=True))])
    assert column(table, "loss", "number", "verdict", "seeds") == [
        ("triplet_sh", "1", "winner", 3),
        ("nt_xent", "2", "worse", 3),
    ]
    assert column(table, "rsum")[0][0] == {"value": 21.0, "deviation": pytest.approx((2 / 3) ** 0.5)}
    (table,) = tables_of([read_summary(write(tmp_path, "searched", confirmed=False))])
    assert column(table, "loss", "verdict", "rsum") == [
        ("nt_xent", "unconfirmed", {"value": 30.0}),
        ("triplet_sh", "unconfirmed", {"value": 20.0}),
    ]
    assert "pets: values are on val, of trainings of the search, unconfirmed." in table.notes


def test_experiments_on_other_data_are_not_compared_in_silence(tmp_path: Path) -> None:
    one, same = (read_summary(write(tmp_path, name, confirmed=True)) for name in ("one", "same"))
    assert not any("can't be compared" in note for note in tables_of([one, same])[0].notes)
    (table,) = tables_of([one, read_summary(write(tmp_path, "other", confirmed=True, data="d2"))])
    assert len(losses(table)) == 4
    assert "The experiments had different versions of pets:global; their values can't be compared." in table.notes


def test_an_experiment_without_a_trial_has_nothing_to_compare(ledger: Ledger) -> None:
    start(ledger, make_experiment())
    (table,) = tables_of([Summary(ledger.history)])
    assert losses(table) == []
    assert "no trial has been trained to its end yet" in table.notes[0]


def test_images_that_retrieve_images_have_a_table_of_recalls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recalls = {f"i2t_r{k}": Measure(10.0 * k, 1.0, 5) for k in (1, 2, 4, 8)}
    birds = row(dataset="birds", model="head", measures=recalls)

    result = read_summary(write(tmp_path, "tiny", confirmed=False))
    monkeypatch.setattr(tables, "rows_of_summary", lambda summary: [ROWS[0], birds])
    _, classes = tables_of([result])
    assert (classes.key, column(classes, "dataset")) == ("classes", [("birds",)])
    headings = [shown.heading for shown in classes.table.columns if shown.key.startswith("i2t_r")]
    assert headings == ["R@1", "R@2", "R@4", "R@8"]
    assert Quantity(80.0, 1.0) in classes.table.rows[0]
