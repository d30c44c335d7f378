"""Hyper-parameters of which the best settings of a study lie at an end of the range that was searched.

Where the best settings lie there, the best value may lie outside, and what the study says of its loss may be due to the
bounds. Three settings that are drawn uniformly lie in one and the same outermost fifth of a range in 1.6 % of draws. A
sampler that has found a good setting tries others beside it, so that the best settings of a study may lie at an end by
chance, too: the sentence says where they lie, and a search of a wider range says what that means.
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
"""Best settings that must lie there; of a large study a quarter of the settings that were trained to their end."""

ENOUGH = 8
"""Settings trained to their end, of which fewer say nothing: the published settings are among them."""


@dataclass(frozen=True)
class Edge:
    """A hyper-parameter of a study whose best settings lie at an end of its range.

    Attributes:
        study: Name of the study.
        parameter: By the name of the study's space, e.g. ``training.learning_rate``.
        key: Of the experiment file, under which a wider range can be asked for.
        bound: What was searched.
        lowest: The lowest of the best settings' values.
        highest: Their highest value.
        is_upper: Whether they lie at the upper end of the range.
        settings: How many best settings there are.
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
        """What a reader is told."""
        end = "highest" if self.is_upper else "lowest"
        return (
            f"{self.study}: its {self.settings} best settings have {self.parameter} from {value_text(self.lowest)} to "
            f"{value_text(self.highest)}, all in the {end} fifth of what was searched, {self.bound}: "
            f"a wider {self.key} may hold a better setting."
        )


def space_edges(history: History, studies: Mapping[str, Sequence[Point]]) -> dict[str, list[Edge]]:
    """Return, for each study that has any, the hyper-parameters whose range may have been too narrow.

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
    """Return what a reader is told of the studies that trials belong to."""
    names = {trial.study for trial in trials}
    return [edge.sentence for name, found in edges.items() if name in names for edge in found]


def _best(settings: Sequence[Point]) -> list[Point]:
    """Return the best settings of a study; none where too few were trained to their end."""
    finished = ranked(settings)
    return finished[: max(FEWEST, len(finished) // 4)] if len(finished) >= ENOUGH else []


def _edges(cell: Cell, best: Sequence[Point]) -> Iterator[Edge]:
    for name, bound in cell.space.bounds().items():
        # A hyper-parameter that depends on another one is not in every setting.
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
