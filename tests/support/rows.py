"""Rows to make tables of."""

from orchestrator.results.runs import Runs
from orchestrator.results.statistics import Measure
from orchestrator.results.tables import Row

RETRIEVAL = {
    **{
        f"{way}_{name}": Measure(mean, 0.52, 5)
        for way, means in (("i2t", (42.44, 71.2, 80.7, 64.78)), ("t2i", (30.0, 59.04, 70.4, 53.15)))
        for name, mean in zip(("r1", "r5", "r10", "average_recall"), means, strict=True)
    },
    "i2t_map5": Measure(0.504, 0.012, 5),
    "rsum": Measure(353.78, 1.61, 5),
}
COCOS = {
    f"{way}_{name}": Measure(mean, 0.25, 5)
    for way in ("i2t", "t2i")
    for name, mean in (
        ("negatives_per_query", 1.5),
        ("negatives_per_batch", 98.74),
        ("queries_without_gradient", 29.23),
        ("negative_weight", 0.42),
        ("positive_weight", 0.56),
    )
}


def row(loss="triplet_sh", dataset="flickr30k", model="vsepp", **changes):
    parameters, means = changes.pop("parameters", {"margin": 0.2}), changes.pop("measures", RETRIEVAL | COCOS)
    runs = Runs(loss, means=means, dataset=dataset, model=model, loss=loss, parameters=parameters)
    return Row(runs, **{"number": "1", "verdict": "better"} | changes)


ROWS = [
    row(),
    row("nt_xent", parameters={"temperature": 0.0712345}, number="2", verdict="worse"),
    row("smooth_ap", model="vsrn", parameters={"temperature": 0.01}, number="3", verdict=""),
    row("polynomial_relative", parameters={"coefficients": [0.2, 1.0, 0.5]}, number="4", verdict="tie"),
    row("warp", "data/flickr8k", "wsabie", measures={"rsum": Measure(120.0, None, 1)}, number="1", verdict="untested"),
]
