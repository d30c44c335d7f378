"""Published results of SCAN, GSMN, the polynomial loss and VSE-infinity, under the product's names.

Of each paper only the rows are here whose numbers could be read in a source that anybody can open (``README.md`` of
this folder names the sources); a recall that the source does not print is missing. All are on Karpathy's test split,
MS-COCO on all 5,000 images. A row of one run has no spread; a row of ten has the population standard deviation.

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024
    [Liu2020] Liu et al., Graph Structured Network for Image-Text Matching. arXiv:2004.00277
    [Wei2020] Wei et al., Universal Weighting Metric Learning for Cross-Modal Matching. arXiv:2010.03403
    [Chen2021] Chen et al., Learning the Best Pooling Strategy for Visual Semantic Embedding. arXiv:2011.04305
    [Rao2022] Rao et al., Where Does the Performance Improvement Come From? - A Reproducibility Concern about
        Image-Text Retrieval. arXiv:2203.03853
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from orchestrator.reference.published import PublishedRow

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "Lee2018": "Lee et al., Stacked Cross Attention for Image-Text Matching (ECCV 2018)",
        "Liu2020": "Liu et al., Graph Structured Network for Image-Text Matching (CVPR 2020)",
        "Liu2020code": "the authors' repository CrossmodalGroup/GSMN, a model released after Liu et al. (CVPR 2020)",
        "Wei2020code": "the authors' repository wayne980/PolyLoss, a model released after Wei et al. (CVPR 2020)",
        "Chen2021": "Chen et al., Learning the Best Pooling Strategy for Visual Semantic Embedding (CVPR 2021)",
        "Rao2022": "Rao et al., Where Does the Performance Improvement Come From? (SIGIR 2022), their trainings",
    }
)
"""Where the rows of each paper are from, by the name in the column of numbers."""

_RECALLS = tuple(f"{way}_r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10))


@cache
def other_rows() -> tuple[PublishedRow, ...]:
    """Return the rows of all papers but Bleeker and de Rijke (2022), in the order of the file."""
    text = files(__package__).joinpath("other_papers.csv").read_text(encoding="utf-8")
    return tuple(_row(record) for record in csv.DictReader(text.splitlines()))


def _row(record: Mapping[str, str]) -> PublishedRow:
    printed = {name: float(record[name]) for name in (*_RECALLS, "rsum") if record[name]}
    if "rsum" not in printed and all(name in printed for name in _RECALLS):
        printed["rsum"] = round(sum(printed.values()), 1)
    spread = {name: float(record[f"{name}_std"]) for name in printed if record[f"{name}_std"]}
    return PublishedRow(
        number=record["paper"],
        dataset=record["dataset"],
        model=record["model"],
        loss=record["loss"],
        parameters=MappingProxyType({"setting": record["setting"]}),
        runs=int(record["runs"]),
        values=MappingProxyType({name: (value, spread.get(name)) for name, value in printed.items()}),
    )
