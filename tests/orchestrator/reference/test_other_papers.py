"""The rows of other papers: the values that their sources print, and names that the product has."""

import pytest

from orchestrator.reference.other_papers import SOURCES, other_rows
from trainables.losses import LOSSES

RECALLS = ("i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10")


@pytest.mark.parametrize(
    ("paper", "dataset", "model", "recalls", "rsum"),
    [
        pytest.param("Lee2018", "flickr30k", "scan", (67.4, 90.3, 95.8, 48.6, 77.7, 85.2), 465.0, id="SCAN"),
        pytest.param("Lee2018", "coco", "scan", (50.4, 82.2, 90.0, 38.6, 69.3, 80.4), 410.9, id="SCAN on MS-COCO"),
        pytest.param("Liu2020", "flickr30k", "gsmn", (76.4, 94.3, 97.3, 57.4, 82.3, 89.0), 496.7, id="GSMN"),
        pytest.param("Liu2020code", "flickr30k", "gsmn", (74.4, 91.1, 95.4, 54.1, 79.9, 86.5), 481.4, id="dense"),
        pytest.param("Wei2020code", "flickr30k", "scan", (69.4, 89.9, 95.4, 47.5, 75.5, 83.1), 460.7, id="PolyLoss"),
        pytest.param("Chen2021", "flickr30k", "vsepp", (81.7, 95.4, None, 61.4, 85.9, None), None, id="GPO"),
    ],
)
def test_values_as_the_sources_print_them(paper, dataset, model, recalls, rsum):
    (row,) = [row for row in other_rows() if (row.number, row.dataset) == (paper, dataset)]
    found = {name: mean for name, (mean, _) in row.values.items()}
    assert (row.model, tuple(found.get(name) for name in RECALLS), found.get("rsum")) == (model, recalls, rsum)
    assert all(spread is None for _, spread in row.values.values())


def test_every_row_has_a_source_a_known_loss_and_a_sum_that_agrees_with_its_recalls():
    for row in other_rows():
        assert row.number in SOURCES
        assert row.loss in LOSSES
        assert row.parameters["setting"]
        if "rsum" in row.values:
            assert row.values["rsum"][0] == pytest.approx(sum(row.values[name][0] for name in RECALLS), abs=0.31)
