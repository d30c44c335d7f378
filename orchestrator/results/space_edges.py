"""Finds hyper-parameters for which the best settings of a study lie at an end of the searched range.

The best value may then lie outside the range, and the result of the loss may be due to the bounds. Three settings that
are drawn uniformly lie in one outermost fifth of a range in 1.6 % of draws. A sampler that has found a good setting
tries neighbouring settings, so that the best settings may also lie at an end by chance: the sentence states where the
best settings lie, and only a search of a wider range shows why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.experiment.experiment import Cell
from orchestrator.experiment.journalled import known_experiment
from orchestrator.journal.history import History
from orchestrator.journal.points import Point, ranked
from orchestrator.journal.trial import Trial
from orchestrator.text.values import value_text
from search_spaces import Range

OUTERMOST = 0.2
"""Share of a range, on its own scale, that counts as its end."""

FEWEST = 3
"""Best settings that must lie at the end; in a large study a quarter of the settings that were trained to their end."""

ENOUGH = 8
"""Fewest settings trained to their end for a finding; the published settings are among them."""


@dataclass(frozen=True)
class Edge:
    """A hyper-parameter of a study whose best settings lie at an end of its range.

    Attributes:
        study: Name of the study.
        parameter: Name of the hyper-parameter in the study's space, e.g. ``training.learning_rate``.
        key: Key of the experiment file that sets the range.
        bound: The searched range.
        lowest: Lowest value among the best settings.
        highest: Highest value among the best settings.
        is_upper: Whether the values lie at the upper end of the range.
        settings: Number of best settings.
    """

    study: str
    parameter: str
    key: str
    bound: Range
    lowest: float
    highest: float
    is_upper: bool
    settings: int

    @property
    def sentence(self) -> str:
        """The finding in a sentence for people."""
        end = "highest" if self.is_upper else "lowest"
        return (
            f"{self.study}: its {self.settings} best settings have {self.parameter} from {value_text(self.lowest)} to "
            f"{value_text(self.highest)}, all in the {end} fifth of what was searched, {self.bound}: "
            f"a wider {self.key} may hold a better setting."
        )


def space_edges(history: History, studies: Mapping[str, Sequence[Point]]) -> dict[str, list[Edge]]:
    """Return study -> hyper-parameters whose range may have been too narrow; studies without any are left out.

    Args:
        history: History of the experiment; where this version refuses the experiment, its bounds are not known.
        studies: The settings of each study, see ``points_by_study``.
    """
    best = {name: _best(settings) for name, settings in studies.items()}
    experiment = known_experiment(history) if any(best.values()) else None
    if experiment is None:
        return {}
    found = {cell.name: list(_edges(cell, best[cell.name])) for cell in experiment.cells() if best.get(cell.name)}
    return {name: edges for name, edges in found.items() if edges}


def describe_edges(edges: Mapping[str, Sequence[Edge]], trials: Sequence[Trial]) -> list[str]:
    """Return the sentences about the studies to which the trials belong."""
    names = {trial.study for trial in trials}
    return [edge.sentence for name, found in edges.items() if name in names for edge in found]


def _best(settings: Sequence[Point]) -> list[Point]:
    """Return the best settings of a study; none where too few were trained to their end."""
    finished = ranked(settings)
    return finished[: max(FEWEST, len(finished) // 4)] if len(finished) >= ENOUGH else []


def _edges(cell: Cell, best: Sequence[Point]) -> Iterator[Edge]:
    for name, bound in cell.space.bounds().items():
        # A hyper-parameter that depends on another hyper-parameter is not in every setting.
        values = [value for point in best if isinstance(value := point.first.params.get(name), int | float)]
        if not isinstance(bound, Range) or len(values) < len(best):
            continue
        shares = [bound.share_of(value) for value in values]
        for is_upper in (False, True):
            if all(share >= 1 - OUTERMOST if is_upper else share <= OUTERMOST for share in shares):
                beyond = bound.beyond(OUTERMOST, upper=is_upper)
                if cell.space.takes(name, beyond):
                    key = cell.space.key_of(name)
                    yield Edge(cell.name, name, key, bound, min(values), max(values), is_upper, len(best))
