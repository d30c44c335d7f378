"""Sentences about the settings that a reader must know before comparing the losses of an experiment."""

from collections.abc import Sequence

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.journalled import known_experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.journal.history import History
from orchestrator.text.values import count_text, value_text


def comparability(history: History) -> dict[str, list[str]]:
    """Return, for each dataset, the sentences about its losses; none where the experiment has a single loss."""
    experiment = known_experiment(history)
    if experiment is None or len(experiment.losses) < 2:
        return {}
    cells = experiment.cells()
    return {
        dataset: [
            _settings(experiment, [cell for cell in cells if cell.dataset == dataset]),
            *(f"{sentence}." for sentence in overlaps(experiment, dataset)),
        ]
        for dataset in experiment.datasets
    }


def _settings(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Say which training settings were searched, or else at which learning rate the losses were trained."""
    searched = experiment.search.training
    if "learning_rate" in searched:
        names = " and ".join(f"{name} in {cells[0].space.training[name]}" for name in searched)
        budget = count_text(experiment.search.trials, "trial")
        if experiment.search.loss == "choose":
            return f"Searched beside the losses, in one study of {budget}: {names}."
        return f"Each loss had its own search of {names}, beside its parameters, in {budget}."
    rates = list(dict.fromkeys(value_text(cell.training.learning_rate) for cell in cells))
    if len(rates) > 1:
        return f"The losses were trained at learning rates {', '.join(rates)}, which were not searched."
    return f"All losses were trained at learning rate {rates[0]}: another rate may suit another loss better."
