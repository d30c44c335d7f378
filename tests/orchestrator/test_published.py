"""The published tables: as printed but for one value, consistent in themselves, and under our names."""

import csv
from pathlib import Path

import pytest

from orchestrator.reference import published
from orchestrator.reference.published import published_rows

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "reference"


@pytest.mark.parametrize(("table", "rows"), [(1, 16), (2, 8), (3, 4), (4, 4)])
def test_rows(table, rows):
    found = published_rows(table)
    assert len({(row.dataset, row.model, row.loss) for row in found}) == rows
    assert {row.runs for row in found} == {5 if table == 1 else 1}


@pytest.mark.parametrize(
    ("table", "number", "metric", "expected"),
    [
        pytest.param(1, "1.2", "rsum", (353.8, 1.6), id="rsum"),
        pytest.param(1, "2.8", "i2t_map5", (0.54, 0.0), id="map5"),
        pytest.param(1, "1.1", "t2i_average_recall", (47.3, 0.1), id="average recall"),
        pytest.param(1, "2.7", "t2i_average_recall", (54.8, 0.1), id="the misprint, corrected"),
        pytest.param(2, "1.1", "i2t_negatives_per_batch", (768.92, 96.87), id="C^B"),
        pytest.param(2, "2.6", "t2i_queries_without_gradient", (95.08, 5.4), id="C^0"),
        pytest.param(3, "1.3", "i2t_negatives_per_query", (9.88, 0.51), id="C^qv-"),
        pytest.param(3, "2.7", "t2i_negative_weight", (0.09, 0.02), id="W^qv-"),
        pytest.param(3, "1.7", "t2i_positive_weight", (0.20, 0.02), id="W^qv+"),
        pytest.param(4, "1.4", "t2i_negatives_per_query", (1.47, 0.83), id="C^q"),
    ],
)
def test_values_as_printed(table, number, metric, expected):
    (row,) = [row for row in published_rows(table) if row.number == number]
    assert row.values[metric] == expected


def test_names_are_ours():
    row = published_rows(1)[1]
    assert (row.dataset, row.model, row.loss, dict(row.parameters)) == (
        "flickr30k",
        "vsepp",
        "triplet_sh",
        {"margin": 0.2},
    )
    losses = {row.loss: next(iter(row.parameters)) for row in published_rows(1)}
    assert losses == {"triplet": "margin", "triplet_sh": "margin", "nt_xent": "temperature", "smooth_ap": "temperature"}


@pytest.mark.parametrize("row", published_rows(1), ids=lambda row: row.number)
def test_sums_agree_with_recalls(row):
    means = {name: mean for name, (mean, _) in row.values.items()}
    recalls = {way: [means[f"{way}_{name}"] for name in ("r1", "r5", "r10")] for way in ("i2t", "t2i")}
    assert means["rsum"] == pytest.approx(sum(recalls["i2t"] + recalls["t2i"]), abs=0.31)
    for way, values in recalls.items():
        assert means[f"{way}_average_recall"] == pytest.approx(sum(values) / 3, abs=0.11)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there to compare with")
@pytest.mark.parametrize("table", [1, 2, 3, 4])
def test_files_are_the_print_but_for_one_value(table):
    name = f"paper_table{table}.csv"
    ours, printed = (
        list(csv.reader((folder / name).read_text().splitlines()))
        for folder in (Path(published.__file__).parent, SHARED)
    )
    assert len(ours) == len(printed)
    changed = [
        (a, b) for one, other in zip(ours, printed, strict=True) for a, b in zip(one, other, strict=True) if a != b
    ]
    assert changed == ([("54.8", "54.6")] if table == 1 else [])
