"""Candidates that were trained elsewhere, to be compared with the confirmed candidates of an experiment."""

from collections.abc import Mapping, Sequence

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage
from orchestrator.results.candidates import Candidate
from orchestrator.results.per_image import image_values
from trainables.errors import ConfigError
from trainables.ranks import Ranks

OUTSIDE = "outside"
"""Name of the model of a candidate that was trained elsewhere; the name of its loss is its label."""


def outside_candidate(
    history: History, dataset: str, label: str, runs: Sequence[tuple[Mapping[str, float], Ranks]]
) -> Candidate:
    """Return a candidate with the runs of a model that was trained elsewhere.

    Args:
        history: History of an experiment whose confirmation on the dataset is over.
        dataset: Name of the dataset.
        label: Label of the candidate.
        runs: Metrics on val and test of each run, and its ranks on test. A single run counts as the run of a model
            without seeds, whose further runs would give equal values.

    Raises:
        ConfigError: If the label is taken, or the queries of a run are not the queries of the experiment.
    """
    taken = {name for trial in history.trials.values() for name in (trial.id, trial.config.loss)}
    if label in taken:
        raise ConfigError(f"--candidate {label}: the experiment has a candidate or a loss of this name; take another")
    kept = [
        one for one in history.stage(Stage.CONFIRM) if one.config.dataset == dataset and one.id in history.test_ranks
    ]
    for _, ranks in runs:
        if kept and not ranks.has_queries_of(Ranks.from_text(history.test_ranks[kept[0].id])):
            raise ConfigError(
                f"--candidate {label}: answers other queries than the test split of {dataset} on which the experiment "
                "was confirmed; take the data that the experiment had"
            )
    metric = history.metric.partition("/")[2]
    return Candidate(
        dataset=dataset,
        model=OUTSIDE,
        loss=label,
        parameters={},
        label=label,
        values={index: metrics for index, (metrics, _) in enumerate(runs)},
        has_seeds=len(runs) > 1,
        images={index: image_values(ranks, metric) for index, (_, ranks) in enumerate(runs)},
    )
