"""The published tables under the names that the product uses for models, losses, parameters and metrics.

Beside the tables of Bleeker and de Rijke (2022), which are whole, there are rows of SCAN, GSMN, the polynomial loss and
VSE-infinity. Of these papers, only the rows are here whose numbers could be read in a source that anybody can open.
``README.md`` of this folder names the sources. A recall that the source does not print is missing. All are on
Karpathy's test split, MS-COCO on all 5,000 images. A row of one run has no spread; a row of ten has the population
standard deviation.

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024
    [Liu2020] Liu et al., Graph Structured Network for Image-Text Matching. arXiv:2004.00277
    [Wei2020] Wei et al., Universal Weighting Metric Learning for Cross-Modal Matching. arXiv:2010.03403
    [Chen2021] Chen et al., Learning the Best Pooling Strategy for Visual Semantic Embedding. arXiv:2011.04305
    [Rao2022] Rao et al., Where Does the Performance Improvement Come From? - A Reproducibility Concern about
        Image-Text Retrieval. arXiv:2203.03853
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath
from types import MappingProxyType

from trainables.metric_table import STD, name_parts, parts_of, spread_of

RETRIEVAL, TRIPLET_COCOS, NT_XENT_COCOS, SMOOTH_AP_COCOS = 1, 2, 3, 4
"""Numbers of the tables of Bleeker and de Rijke (2022)."""

BLEEKER = "Bleeker2022"
"""Name of the paper of these tables, as ``SOURCES`` names others."""

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
"""Where the rows of each other paper are from, by the name in the column of numbers."""

DATASETS = {"Flickr30k": "flickr30k", "MS-COCO": "coco"}
SYNONYMS = {"mscoco": "coco", "coco2014": "coco", "f30k": "flickr30k", "f8k": "flickr8k"}
"""Other names of datasets, in lower-case letters and digits -> the names of published rows."""
TEST_IMAGES = {"flickr30k": 1_000, "coco": 5_000}
"""Dataset of published rows -> images of its test split."""

CAPTIONS_PER_IMAGE = 5

MODELS = {"VSE++": "vsepp", "VSRN": "vsrn"}
LOSSES = {"Triplet loss": "triplet", "Triplet loss SH": "triplet_sh", "NT-Xent": "nt_xent", "SmoothAP": "smooth_ap"}
PARAMETERS = {"alpha": "margin", "tau": "temperature"}
"""Printed name of a parameter -> name in this software."""

_METRICS = {
    "avg_recall": "average_recall",
    "Cq": "negatives_per_query",
    "CB": "negatives_per_batch",
    "C0": "queries_without_gradient",
    "C_qvneg": "negatives_per_query",
    "W_qvneg": "negative_weight",
    "W_qvpos": "positive_weight",
}


_RECALLS = tuple(parts_of("rsum")[0])


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table.

    Attributes:
        number: Number of the experiment in Bleeker and de Rijke (2022), e.g. ``1.1``, or the name of another paper.
        dataset: ``flickr30k`` or ``coco``.
        model, loss: Names as in ``TrialConfig``.
        parameters: The loss's hyper-parameter; of another paper the ``setting`` in words.
        runs: Number of runs behind each mean.
        values: Metric without prefix, e.g. ``i2t_r1`` -> mean and population standard deviation, ``None`` if the
            source prints no deviation.
    """

    number: str
    dataset: str
    model: str
    loss: str
    parameters: Mapping[str, float | str]
    runs: int
    values: Mapping[str, tuple[float, float | None]]


@cache
def published_rows(table: int) -> tuple[PublishedRow, ...]:
    """Return the rows of table 1 (retrieval), 2 (triplet COCOS), 3 (NT-Xent COCOS) or 4 (SmoothAP COCOS)."""
    return tuple(_row(record, 5 if table == RETRIEVAL else 1) for record in _records(f"paper_table{table}.csv"))


@cache
def other_rows() -> tuple[PublishedRow, ...]:
    """Return the rows of all papers but Bleeker and de Rijke (2022), in the order of the file."""
    return tuple(map(_other_row, _records("other_papers.csv")))


def shipped_claims() -> dict[str, Path]:
    """Return name -> file of the claims that ship."""
    folder = Path(str(files(__package__).joinpath("claims")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def _records(name: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines())


def study_dataset(dataset: str) -> str:
    """Return the published rows' name of a dataset, given its name or folder."""
    name = "".join(letter for letter in PurePath(dataset).name.lower() if letter.isalnum())
    return SYNONYMS.get(name, name)


def published_row(
    table: int, dataset: str, model: str, loss: str, parameters: Mapping[str, object]
) -> PublishedRow | None:
    """Return the row of a training with these hyper-parameters, or ``None``; published values may be left out."""
    for row in published_rows(table):
        is_same_study = (row.dataset, row.model, row.loss) == (study_dataset(dataset), model, loss)
        if is_same_study and all(parameters.get(name, value) == value for name, value in row.parameters.items()):
            return row
    return None


def _row(record: Mapping[str, str], runs: int) -> PublishedRow:
    spreads = [parts for column in record if (parts := name_parts(column)).ending == STD]
    means = [str(parts._replace(ending="")) for parts in spreads]
    return PublishedRow(
        number=record["experiment_id"],
        dataset=DATASETS[record["dataset"]],
        model=MODELS[record["model"]],
        loss=LOSSES[record["loss"]],
        parameters=MappingProxyType({PARAMETERS[record["hyperparameter"]]: float(record["hyperparameter_value"])}),
        runs=runs,
        values=MappingProxyType(
            {_metric(name): (float(record[name]), float(record[spread_of(name)])) for name in means}
        ),
    )


def _other_row(record: Mapping[str, str]) -> PublishedRow:
    printed = {name: float(record[name]) for name in (*_RECALLS, "rsum") if record[name]}
    if "rsum" not in printed and all(name in printed for name in _RECALLS):
        printed["rsum"] = round(sum(printed.values()), 1)
    spread = {name: float(record[spread_of(name)]) for name in printed if record[spread_of(name)]}
    return PublishedRow(
        number=record["paper"],
        dataset=record["dataset"],
        model=record["model"],
        loss=record["loss"],
        parameters=MappingProxyType({"setting": record["setting"]}),
        runs=int(record["runs"]),
        values=MappingProxyType({name: (value, spread.get(name)) for name, value in printed.items()}),
    )


def _metric(column: str) -> str:
    """Return our name of a column, e.g. ``i2t_avg_recall`` -> ``i2t_average_recall``."""
    parts = name_parts(column)
    return str(parts._replace(measure=_METRICS.get(parts.measure, parts.measure)))
