"""The space of a study: the parameters of a loss, or a choice of losses, and settings of training and model."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from search_spaces.optimizer import optimizer
from search_spaces.space import Bounds, FixedPoint, LossSpace, Range, Trial, Values
from search_spaces.wsabie import model_parameters


@dataclass(frozen=True)
class Suggestion:
    """The loss, training and model of a point of a space.

    Attributes:
        loss: The loss's name.
        loss_parameters: Parameters of the loss's constructor.
        training: Settings of ``TrainingConfig``.
        model_parameters: Parameters of the model's constructor.
    """

    loss: str
    loss_parameters: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)
    model_parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LossPart:
    """A loss's part of a space.

    Attributes:
        space: Space of the loss.
        bounds: Bounds of each searched parameter.
        fixed: Parameters that are not searched.
    """

    space: LossSpace
    bounds: Bounds
    fixed: Mapping[str, Any]

    @property
    def is_conditional(self) -> bool:
        """Whether some parameters exist only at some values of others."""
        return any(len(self.bounds[name].ends()) > 1 for name in self.space.switches if name in self.bounds)

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """Return the loss's parameters."""
        return {**self.space.suggest(trial, self.bounds), **self.fixed}

    def first_points(self) -> list[Mapping[str, Any]]:
        """Return the points that are tried first; of points with one loss, the first."""
        return self._distinct(self.space.first_points(self.bounds))

    def published_points(self) -> list[Mapping[str, Any]]:
        """Return the published points among the first points."""
        return self._distinct(self.space.published_points(self.bounds))

    def _distinct(self, points: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        found: list[tuple[Any, Mapping[str, Any]]] = []
        for point in points:
            stands_for = self.suggest(FixedPoint(point))
            if all(stands_for != other for other, _ in found):
                found.append((stands_for, point))
        return [point for _, point in found]


class Prefixed:
    """A trial that adds the prefix of a loss to the names of parameters."""

    def __init__(self, trial: Trial, prefix: str) -> None:
        self._trial, self._prefix = trial, prefix

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Suggest a number under the longer name."""
        return self._trial.suggest_float(self._prefix + name, low, high, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """Suggest a whole number under the longer name."""
        return self._trial.suggest_int(self._prefix + name, low, high, log=log)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Suggest a choice under the longer name."""
        return self._trial.suggest_categorical(self._prefix + name, choices)


@dataclass(frozen=True)
class StudySpace:
    """The space of one study.

    Attributes:
        losses: Part of each loss; with several losses, the loss is a parameter itself (``loss``), on which the other
            parameters (``<loss>.<parameter>``) depend.
        training: Searched settings of ``training``.
        model_parameters: Searched parameters of the model.
        usual: Values of ``training`` and ``model_parameters`` that are not searched, by parameter name.
    """

    losses: Mapping[str, LossPart]
    training: Bounds = field(default_factory=dict)
    model_parameters: Bounds = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """Whether the loss is a parameter."""
        return len(self.losses) > 1

    @property
    def is_conditional(self) -> bool:
        """Whether some parameters exist only at some values of others."""
        return self.chooses or any(part.is_conditional for part in self.losses.values())

    def suggest(self, trial: Trial) -> Suggestion:
        """Let a trial choose a point."""
        name = trial.suggest_categorical("loss", tuple(self.losses)) if self.chooses else next(iter(self.losses))
        loss_parameters = self.losses[name].suggest(self._of(name, trial))
        return Suggestion(
            loss=name,
            loss_parameters=loss_parameters,
            training=optimizer(trial, self.training),
            model_parameters=model_parameters(trial, self.model_parameters),
        )

    def bounds(self) -> dict[str, Any]:
        """Return the bounds of each parameter, by the sampler's name of the parameter."""
        found: dict[str, Any] = {"loss": Values(tuple(self.losses))} if self.chooses else {}
        for loss, part in self.losses.items():
            found |= {self._name(loss, name): bound for name, bound in part.bounds.items()}
        return found | self._beside()

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Say whether a setting has all parameters of the space, and no others, within their bounds."""
        bounds = self.bounds()
        inside = all(name in bounds and bounds[name].contains(value) for name, value in params.items())
        return inside and (self.is_conditional or set(params) == set(bounds))

    def takes(self, name: str, value: Any) -> bool:
        """Say whether a parameter, by the sampler's name of it, accepts a value, within bounds or not."""
        section, rest = self._section(name)
        if section in self.losses:
            space = self.losses[section].space
            return {**space.parameters, **space.searched}[rest].accepts(value)
        # Settings of training and of models are rates, sizes, shares and counts: none is negative.
        return bool(value > 0)

    def key_of(self, name: str) -> str:
        """Return the key of an experiment file that holds the bounds of a parameter."""
        section, rest = self._section(name)
        sections = {"training": "search.training", "model": "search.model_parameters"}
        return f"{sections.get(section, f'search.space.{section}')}.{rest}"

    def _section(self, name: str) -> tuple[str, str]:
        """Return ``training``, ``model`` or a loss, and the name of a parameter there."""
        section, dot, rest = name.partition(".")
        return (section, rest) if dot else (next(iter(self.losses)), name)

    def first_points(self) -> list[Mapping[str, Any]]:
        """Return the published settings of each loss, with the usual other settings: the first trials of a study.

        Of points for one loss, the first is returned; a usual setting out of bounds becomes the nearest value.
        """
        beside = {name: bound.nearest(self.usual[name]) for name, bound in self._beside().items()}
        first = [(loss, point) for loss, part in self.losses.items() for point in part.first_points()]
        return [{**self.point(loss, point), **beside} for loss, point in first]

    def published_points(self) -> list[Mapping[str, Any]]:
        """Return the first points that are published settings of their loss, and not of another loss."""
        named = [self.point(loss, one) for loss, part in self.losses.items() for one in part.published_points()]
        return [point for point in self.first_points() if any(one.items() <= point.items() for one in named)]

    def grid(self) -> list[Mapping[str, Any]]:
        """Return every combination of the listed values, the last parameter changing fastest; loss after loss."""
        points: list[Mapping[str, Any]] = []
        beside = self._beside()
        for loss, part in self.losses.items():
            names = [*part.bounds, *beside]
            values = [bound.values for bound in (*part.bounds.values(), *beside.values()) if isinstance(bound, Values)]
            for combination in itertools.product(*values):
                point = dict(zip(names, combination, strict=True))
                own = {name: value for name, value in point.items() if name in part.bounds}
                points.append({**self.point(loss, own), **{name: point[name] for name in beside}})
        return points

    @property
    def grid_size(self) -> int:
        """How many points ``grid`` returns, counted without making them."""
        beside = self._beside().values()
        return sum(_count([*part.bounds.values(), *beside]) for part in self.losses.values())

    def _of(self, loss: str, trial: Trial) -> Trial:
        return Prefixed(trial, f"{loss}.") if self.chooses else trial

    def _name(self, loss: str, name: str) -> str:
        return f"{loss}.{name}" if self.chooses else name

    def point(self, loss: str, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a loss's parameters by the sampler's names."""
        chosen = {"loss": loss} if self.chooses else {}
        return {**chosen, **{self._name(loss, name): value for name, value in point.items()}}

    def _beside(self) -> dict[str, Any]:
        training = {f"training.{name}": bound for name, bound in self.training.items()}
        return training | {f"model.{name}": bound for name, bound in self.model_parameters.items()}


def _count(bounds: Iterable[Range | Values]) -> int:
    """Return the number of combinations of listed values."""
    count = 1
    for bound in bounds:
        count *= len(bound.values) if isinstance(bound, Values) else 1
    return count
