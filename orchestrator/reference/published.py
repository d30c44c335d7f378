"""The published tables under the names that the product uses for models, losses, parameters and metrics."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType

RETRIEVAL, TRIPLET_COCOS, NT_XENT_COCOS, SMOOTH_AP_COCOS = 1, 2, 3, 4
"""Numbers of the tables of Bleeker and de Rijke (2022)."""

BLEEKER = "Bleeker2022"
"""Name of the paper of these tables, as ``other_papers.SOURCES`` names others."""

DATASETS = {"Flickr30k": "flickr30k", "MS-COCO": "coco"}
SYNONYMS = {"mscoco": "coco", "coco2014": "coco", "f30k": "flickr30k", "f8k": "flickr8k"}
"""Other names of datasets, in lower-case letters and digits -> the names of published rows."""
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


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table.

    Attributes:
        number: Number of the experiment in Bleeker and de Rijke (2022), e.g. ``1.1``, or the name of another paper.
        dataset: ``flickr30k`` or ``coco``.
        model: Name of the model, as in ``TrialConfig``.
        loss: Name of the loss, as in ``TrialConfig``.
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
    text = files(__package__).joinpath(f"paper_table{table}.csv").read_text(encoding="utf-8")
    return tuple(_row(record, 5 if table == RETRIEVAL else 1) for record in csv.DictReader(text.splitlines()))


def study_dataset(dataset: str) -> str:
    """Return the published rows' name of a dataset, given its name or folder."""
    name = "".join(letter for letter in PurePath(dataset).name.lower() if letter.isalnum())
    return SYNONYMS.get(name, name)


def published_row(
    table: int, dataset: str, model: str, loss: str, parameters: Mapping[str, object]
) -> PublishedRow | None:
    """Return the row of a training with these hyper-parameters, or ``None``; published values may be left out."""
    for row in published_rows(table):
        same = (row.dataset, row.model, row.loss) == (study_dataset(dataset), model, loss)
        if same and all(parameters.get(name, value) == value for name, value in row.parameters.items()):
            return row
    return None


def _row(record: Mapping[str, str], runs: int) -> PublishedRow:
    means = [column.removesuffix("_std") for column in record if column.endswith("_std")]
    return PublishedRow(
        number=record["experiment_id"],
        dataset=DATASETS[record["dataset"]],
        model=MODELS[record["model"]],
        loss=LOSSES[record["loss"]],
        parameters=MappingProxyType({PARAMETERS[record["hyperparameter"]]: float(record["hyperparameter_value"])}),
        runs=runs,
        values=MappingProxyType({_metric(name): (float(record[name]), float(record[f"{name}_std"])) for name in means}),
    )


def _metric(column: str) -> str:
    """Return our name of a column, e.g. ``i2t_avg_recall`` -> ``i2t_average_recall``."""
    if column == "rsum":
        return column
    way, name = column.split("_", 1)
    return f"{way}_{_METRICS.get(name, name)}"
