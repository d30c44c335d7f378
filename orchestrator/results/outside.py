"""Candidates that an experiment has not trained, beside the confirmed ones."""

from collections.abc import Mapping, Sequence

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage
from orchestrator.results.candidates import Candidate
from orchestrator.results.per_image import image_values
from trainables.errors import ConfigError
from trainables.ranks import Ranks

OUTSIDE = "outside"
"""What stands for the model of a candidate that was trained elsewhere; its label stands for the loss."""


def outside_candidate(
    history: History, dataset: str, label: str, runs: Sequence[tuple[Mapping[str, float], Ranks]]
) -> Candidate:
    """Return a candidate with the runs of a model that was trained elsewhere.

    Args:
        history: Of an experiment whose confirmation on the dataset is over.
        dataset: Its name.
        label: What the candidate is called.
        runs: The metrics of val and test of each run, and its ranks on test. A single run is that of a model without
            seeds, whose other runs would say the same.

    Raises:
        ConfigError: If the label is taken, or a run is of other queries than the experiment's.
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
    metric = str(history.experiment["search"]["metric"]).partition("/")[2]
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
