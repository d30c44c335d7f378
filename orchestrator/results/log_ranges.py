"""Which searched parameters lie on a logarithmic scale, as the experiment itself says."""

from collections.abc import Mapping

from orchestrator.experiment.experiment import Experiment
from orchestrator.experiment.yaml_files import validate
from orchestrator.journal.history import History
from search_spaces.space import Range
from trainables.errors import ConfigError


def log_ranges(history: History) -> Mapping[str, Mapping[str, bool]]:
    """Return for each study which of its ranges are logarithmic, by the names that a sampler has for them.

    A parameter that is no range, e.g. one of listed values, is left out; so are all studies of an experiment that this
    version would refuse, e.g. for a plug-in that is gone.
    """
    if not history.experiment:
        return {}
    try:
        experiment = validate(Experiment, history.experiment, "journal")
    except ConfigError:
        return {}
    return {
        cell.name: {name: bound.log for name, bound in cell.space.bounds().items() if isinstance(bound, Range)}
        for cell in experiment.cells()
    }
