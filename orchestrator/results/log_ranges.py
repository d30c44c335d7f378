"""Which searched parameters lie on a logarithmic scale, as the experiment itself says."""

from collections.abc import Mapping

from orchestrator.experiment.journalled import known_experiment
from orchestrator.journal.history import History
from search_spaces.space import Range


def log_ranges(history: History) -> Mapping[str, Mapping[str, bool]]:
    """Return for each study which of its ranges are logarithmic, by the names that a sampler has for them.

    A parameter that is no range, e.g. one of listed values, is left out; so are all studies of an experiment that this
    version would refuse, e.g. for a plug-in that is gone.
    """
    experiment = known_experiment(history)
    cells = [] if experiment is None else experiment.cells()
    return {
        cell.name: {name: bound.log for name, bound in cell.space.bounds().items() if isinstance(bound, Range)}
        for cell in cells
    }
