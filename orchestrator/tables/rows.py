"""Rows of a result table, and how they come from verdicts and from publications."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.reference.published import PublishedRow
from orchestrator.results.candidates import DatasetVerdict, Standing, Verdict
from orchestrator.results.statistics import Measure


@dataclass(frozen=True)
class Row:
    """One line of a table, about one candidate.

    Attributes:
        dataset: Name as in ``TrialConfig``; so are ``model`` and ``loss``.
        parameters: See ``history.Trial.parameters``; for a published row, the parameters of the loss.
        measures: Metric without prefix, e.g. ``i2t_r1``, ``rsum``, ``i2t_negatives_per_query``; other metrics are shown
            as missing.
        number: Rank on the dataset; for a published row, the number of the experiment in Bleeker and de Rijke (2022),
            or the name of another paper.
        verdict: The winner's verdict against the other candidates, or a candidate's against the winner; empty for a
            candidate that was not compared.
        published: Whether the row is from a paper.
    """

    dataset: str
    model: str
    loss: str
    parameters: Mapping[str, Any]
    measures: Mapping[str, Measure]
    number: str = ""
    verdict: str = ""
    published: bool = field(default=False, kw_only=True)

    @property
    def seeds(self) -> int:
        """Largest number of runs behind a mean of the row."""
        return max((measure.seeds for measure in self.measures.values()), default=0)


def rows_of(verdict: DatasetVerdict) -> list[Row]:
    """Return a row for each candidate of a dataset, the winner first, with the metrics of the split that decided."""
    split = verdict.metric.partition("/")[0]
    opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    verdicts = {one.label: opposite.get(one.verdict, one.verdict).value for one in verdict.comparisons}
    verdicts |= {standing.candidate.label: verdict.verdict.value for standing in verdict.standings[:1]}
    return [
        Row(
            dataset=verdict.dataset,
            model=standing.candidate.model,
            loss=standing.candidate.loss,
            parameters=standing.candidate.parameters,
            measures=_measures(standing, split),
            number=str(standing.rank),
            verdict=verdicts.get(standing.candidate.label, ""),
        )
        for standing in verdict.standings
    ]


def row_of_published(row: PublishedRow) -> Row:
    """Return a published row."""
    measures = {name: Measure(mean, std, row.runs) for name, (mean, std) in row.values.items()}
    return Row(row.dataset, row.model, row.loss, row.parameters, measures, row.number, published=True)


def _measures(standing: Standing, split: str) -> dict[str, Measure]:
    """Return metrics without prefix; the spread of COCOS is over batches, as in the published tables."""
    ours = standing.measures
    retrieval = {name.partition("/")[2]: value for name, value in ours.items() if name.startswith(f"{split}/")}
    cocos = {name: value for name, value in ours.items() if name.startswith("cocos/") and not name.endswith("_std")}
    for name, value in cocos.items():
        batches = ours.get(f"{name}_std")
        retrieval[name.removeprefix("cocos/")] = Measure(value.mean, batches.mean if batches else None, value.seeds)
    return retrieval
