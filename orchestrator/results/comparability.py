"""What a reader must know of the settings before comparing the losses of an experiment: a sentence each."""

from collections.abc import Sequence

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.experiment.overlaps import overlaps
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.history import History
from orchestrator.text.values import count_text, value_text
from trainables.errors import ConfigError


def comparability(history: History, dataset: str) -> list[str]:
    """Return the sentences about the losses that were compared on a dataset; none where there is one loss."""
    try:
        experiment = validate(Experiment, history.experiment, "journal")
    except ConfigError:
        # Of an experiment that is not taken any more nothing is known.
        return []
    cells = [cell for cell in experiment.cells() if cell.dataset == dataset]
    if len({loss for cell in cells for loss in cell.space.losses}) < 2:
        return []
    return [_settings(experiment, cells), *(f"{sentence}." for sentence in overlaps(experiment, dataset))]


def _settings(experiment: Experiment, cells: Sequence[Cell]) -> str:
    """Say which settings each loss had to itself, and at which learning rate the losses were trained otherwise."""
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
