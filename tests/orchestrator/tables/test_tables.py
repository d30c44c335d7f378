"""Which rows a table has, in which order, with which notes; how numbers look; what a verdict becomes."""

from dataclasses import replace

import pytest

from orchestrator.reference.published import published_rows
from orchestrator.results.statistics import Measure
from orchestrator.results.verdict import Candidate, judge
from orchestrator.tables import FORMATS, cells, cocos_tables, render, retrieval_table, rows_of
from orchestrator.tables.layouts import COCOS_LAYOUTS, RETRIEVAL_LAYOUT
from orchestrator.tables.table import class_tables
from tests.support.rows import ROWS, row
from trainables.errors import ConfigError


def losses(table):
    return [(one.model, one.loss, one.published) for one in table.rows]


PUBLISHED = [layout for layout in (RETRIEVAL_LAYOUT, *COCOS_LAYOUTS) if layout.published is not None]


@pytest.mark.parametrize("layout", PUBLISHED, ids=lambda layout: layout.name)
def test_layouts_have_the_columns_of_the_published_tables_in_their_order(layout):
    assert [column.metric for column in layout.columns] == list(published_rows(layout.published)[0].values)


def test_blocks_of_datasets_and_models_in_the_order_of_their_first_rows():
    shuffled = [ROWS[4], ROWS[0], ROWS[2], ROWS[1], ROWS[3]]
    assert [(one.dataset, one.model, one.number) for one in retrieval_table(shuffled).rows] == [
        ("data/flickr8k", "wsabie", "1"),
        ("flickr30k", "vsepp", "1"),
        ("flickr30k", "vsepp", "2"),
        ("flickr30k", "vsepp", "4"),
        ("flickr30k", "vsrn", "3"),
    ]


def test_published_rows_stand_beside_ours():
    twice = row("triplet_sh", number="5")
    table = retrieval_table([ROWS[0], twice, ROWS[3]], with_published=True)
    assert losses(table) == [
        ("vsepp", "triplet_sh", False),
        ("vsepp", "triplet_sh", False),
        *[("vsepp", "triplet_sh", True)] * 3,
        ("vsepp", "polynomial_relative", False),
        ("vsepp", "triplet", True),
        ("vsepp", "nt_xent", True),
        ("vsepp", "smooth_ap", True),
    ]
    assert table.rows[2].measures["rsum"] == Measure(353.8, 1.6, 5)
    assert {one.number for one in table.rows[3:5]} == {"Chen2021", "Rao2022"}


@pytest.mark.parametrize("dataset", ["coco", "MS-COCO", "data/mscoco"])
def test_coco_is_known_by_its_names(dataset):
    table = retrieval_table([row(dataset=dataset)], with_published=True)
    assert [one.number for one in table.rows] == ["1", "2.2", "2.1", "2.3", "2.4"]


def test_losses_that_the_study_does_not_count_have_a_table_of_their_own():
    measures = {f"{way}_{name}": Measure(0.5, 0.1, 5) for way in ("i2t", "t2i") for name in ("negative_weight",)}
    ours = [replace(row(loss), measures=measures) for loss in ("sigmoid", "circle")]
    (table,) = cocos_tables(ours, with_published=True)
    assert losses(table) == [("vsepp", "sigmoid", False), ("vsepp", "circle", False)]
    assert table.notes[-1] == "Bleeker and de Rijke (ECIR 2022) have no table of these losses."


def test_a_dataset_that_the_study_lacks_is_said():
    table = retrieval_table(ROWS[4:], with_published=True)
    assert len(table.rows) == 1
    assert table.notes[-1].startswith("There is no published row for flickr8k with wsabie; ")


def test_rows_of_other_papers_stand_under_ours_with_their_sources():
    ours = [row("polynomial_self", dataset="f30k", model="scan"), row("nt_xent", dataset="f30k", model="gsmn")]
    table = retrieval_table(ours, with_published=True)
    assert [(one.model, one.number) for one in table.rows] == [
        ("scan", "1"),
        ("scan", "Wei2020code"),
        *[("scan", "Lee2018")] * 5,
        ("scan", "Rao2022"),
        ("gsmn", "1"),
        ("gsmn", "Liu2020"),
        ("gsmn", "Liu2020code"),
    ]
    assert table.rows[1].measures["rsum"] == Measure(460.7, None, 1)
    assert table.rows[7].measures["rsum"] == Measure(447.42, 1.98, 10)
    assert table.notes[-1].startswith("Liu2020code: the authors' repository CrossmodalGroup/GSMN")
    assert table.notes[-1].endswith(", 1 run.")
    assert any(note.startswith("Rao2022") and note.endswith(", 10 runs.") for note in table.notes)
    assert not any("Bleeker" in note for note in table.notes)


def test_cocos_tables_by_kind_of_loss():
    tables = cocos_tables(ROWS, with_published=True)
    assert [table.layout.published for table in tables] == [2, 3, 4]
    assert losses(tables[0])[:3] == [
        ("vsepp", "triplet_sh", False),
        ("vsepp", "triplet_sh", True),
        ("vsepp", "polynomial_relative", False),
    ]
    assert "wrong axis" in tables[0].notes[-1]
    assert [len(table.rows) for table in cocos_tables(ROWS)] == [2, 1, 1]
    assert cocos_tables(ROWS[4:]) == ()


def test_a_loss_that_says_no_weights_of_its_own_has_the_general_counts_in_a_table():
    own = replace(
        ROWS[0], loss="mine", measures={"gradient_negatives": Measure(12.0, 1.0, 5), "rsum": Measure(1.0, 0.0, 5)}
    )
    (table,) = cocos_tables([own], with_published=True)
    assert (table.layout.name, losses(table)) == ("cocos_general", [("vsepp", "mine", False)])
    assert "12.00 ± 1.00" in render([table], "markdown")


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        pytest.param(ROWS[:1], "Mean ± population standard deviation over 5 runs.", id="five"),
        pytest.param(ROWS[4:], "Mean ± population standard deviation over 1 run.", id="one"),
        pytest.param(ROWS, "Mean ± population standard deviation over 1 or 5 runs.", id="both"),
    ],
)
def test_the_note_says_how_many_runs(rows, note):
    assert retrieval_table(rows).notes == (note,)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (353.849, 1, "353.8"),
        (0.5, 2, "0.50"),
        (-0.04, 1, "0.0"),
        (0.0, 2, "0.00"),
        (-1.25, 2, "-1.25"),
        (1e6, 1, "1000000.0"),
    ],
)
def test_numbers(value, decimals, text):
    assert cells.number(value, decimals) == text


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_without_rows_is_a_table(form):
    assert render([retrieval_table([])], form).endswith("\n")


def test_unknown_format():
    with pytest.raises(ConfigError, match="one of table, json, csv, markdown, latex, html, got 'pdf'"):
        render([], "pdf")


def confirmed(label, level):
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
    return Candidate("flickr8k", "vsepp", label, {"margin": 0.2}, label, values)


def test_rows_of_a_verdict():
    candidates = [confirmed("triplet", 250.0), confirmed("warp", 270.0), confirmed("triplet_sh", 300.0)]
    (verdict,) = judge(candidates, baseline="triplet", resamples=10)
    rows = rows_of(verdict)
    assert [(one.loss, one.number, one.verdict) for one in rows] == [
        ("triplet_sh", "1", "better"),
        ("warp", "2", "worse"),
        ("triplet", "3", "worse"),
    ]
    measures = rows[0].measures
    assert measures["rsum"].mean == 295
    assert measures["i2t_negatives_per_query"] == Measure(4.0, 0.5, 5)
    assert measures["t2i_negatives_per_query"] == Measure(3.0, None, 5)
    assert rows[0].seeds == 5


def test_a_candidate_that_was_not_compared_has_no_verdict():
    (verdict,) = judge([confirmed("a", 300.0), confirmed("b", 280.0), confirmed("c", 260.0)], resamples=10)
    assert [one.verdict for one in rows_of(verdict)] == ["better", "worse", ""]


def test_on_val_the_rows_show_val():
    (verdict,) = judge([confirmed("a", 300.0)], metric="val/rsum", resamples=10)
    assert rows_of(verdict)[0].measures["rsum"].mean == 300
    assert "i2t_r1" not in rows_of(verdict)[0].measures


def test_images_that_retrieve_images_have_a_table_of_their_recalls():
    recalls = {f"i2t_r{k}": Measure(10.0 * k, 1.0, 5) for k in (1, 2, 4, 8)}
    ours = replace(row(dataset="birds", model="head"), measures=recalls)
    (table,) = class_tables([ROWS[0], ours])
    assert (table.layout.name, table.rows) == ("classes", (ours,))
    assert [column.heading for column in table.layout.columns] == ["R@1", "R@2", "R@4", "R@8"]
    assert class_tables(ROWS) == ()
