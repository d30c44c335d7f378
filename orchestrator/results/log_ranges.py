"""Which searched parameters lie on a logarithmic scale, as the experiment itself says."""

from collections.abc import Mapping

from orchestrator.experiment.journalled import known_experiment
from orchestrator.journal.history import History
from search_spaces.space import Range


def log_ranges(history: History) -> Mapping[str, Mapping[str, bool]]:
    """Return study -> parameter, as samplers name it -> whether the range of the parameter is logarithmic.

    Parameters without a range, e.g. with listed values, are left out; so are all studies of an experiment that this
    version would refuse, e.g. because a plug-in is missing.
    """
    experiment = known_experiment(history)
    cells = [] if experiment is None else experiment.cells()
    return {
        cell.name: {name: bound.log for name, bound in cell.space.bounds().items() if isinstance(bound, Range)}
        for cell in cells
    }
