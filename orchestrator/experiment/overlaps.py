"""Sentences about a loss that is a point of another loss's space, said before the search and beside its results.

The hardest-negative triplet loss is a polynomial. If it is the baseline, a search of polynomials that excludes it, or
never tries it, says more about the bounds than about the losses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.experiment.experiment import Cell, Experiment
from orchestrator.text.wording import printed, setting_text
from search_spaces import Bounds, LossSpace, Values


def overlaps(experiment: Experiment, dataset: str | None = None) -> list[str]:
    """Return a sentence for each loss that another loss could equal, if the search of the other loss does not try it.

    Without a dataset, the studies of all datasets count.
    """
    cells = [cell for cell in experiment.studies() if dataset in (None, cell.dataset)]
    is_grid = experiment.search.sampler == "grid"
    sentences = [
        sentence
        for cell in cells
        for other in cells
        if (cell.dataset, cell.model) == (other.dataset, other.model)
        for sentence in _of_cell(cell, other, is_grid=is_grid)
    ]
    return list(dict.fromkeys(sentences))


def _of_cell(cell: Cell, other: Cell, *, is_grid: bool) -> Iterator[str]:
    """Yield sentences about the losses of a study that, with some parameters, are a loss of another study."""
    for loss, space in cell.space.losses.items():
        for baseline, its_space in other.space.losses.items():
            if loss == baseline or not space.bounds:
                continue
            for parameters in _settings(its_space):
                twins = space.twins(baseline, parameters)
                name = f"{printed(baseline)} with {setting_text(parameters)}"
                inside = space.within(twins)
                if inside and not is_grid and not _is_tried(cell, loss, space, inside):
                    yield (
                        f"{printed(loss)} with {setting_text(inside[0])} is {name}. "
                        f"The search does not try it first: `search.enqueue.{loss}` can list it"
                    )
                elif twins and not inside:
                    yield (
                        f"{printed(loss)} could be {name}, which is outside its space: "
                        f"{_outside(space.bounds, twins)}. "
                        f"How the two losses compare depends on these bounds"
                    )


def _settings(space: LossSpace) -> list[Mapping[str, Any]]:
    """Return the settings of a baseline: its first points, or the only point of its listed values."""
    points = space.first_points()
    listed = {name: bound.values for name, bound in space.bounds.items() if isinstance(bound, Values)}
    if not points and len(listed) == len(space.bounds) and all(len(values) == 1 for values in listed.values()):
        points = [{name: values[0] for name, values in listed.items()}]
    return [space.parameters_at(point) for point in points]


def _is_tried(cell: Cell, loss: str, space: LossSpace, twins: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of some points, or a point for an equal loss, is among the first points of a study."""
    wanted = [space.parameters_at(twin) for twin in twins]
    if any(space.parameters_at(point) in wanted for point in space.first_points()):
        return True
    return any(cell.space.point(loss, twin).items() <= point.items() for twin in twins for point in cell.enqueued)


def _outside(bounds: Bounds, twins: Sequence[Mapping[str, Any]]) -> str:
    """Name the parameters outside of bounds, for the point with the fewest outside of listed values, then of ranges."""
    wrong = [
        {name: value for name, value in twin.items() if name in bounds and not bounds[name].contains(value)}
        for twin in twins
        if any(name in bounds for name in twin)
    ]
    listed = {name for name, bound in bounds.items() if isinstance(bound, Values)}
    fewest = min(filter(None, wrong), key=lambda point: (len(point.keys() & listed), len(point)), default={})
    return ", ".join(f"{setting_text({name: value})} is not in {bounds[name]}" for name, value in fewest.items())
