"""A search space: a function that suggests, the bounds that it searches, and the domains of a loss's parameters.

How many of a query's hardest negatives count can be searched beside the other parameters of a loss. No loss searches it
where an experiment does not ask, so that earlier searches keep their spaces. A range is of whole numbers on a
logarithmic scale. The default range reaches from the hardest negative to all negatives of a batch of pairs.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from search_spaces.other_names import suggestion
from trainables.hyper_parameters import Space
from trainables.parameter_values import Domain, is_number


class SpaceError(ValueError):
    """Bounds or a parameter that a loss cannot have; the message names the parameter, the rule and the value."""


class Trial(Protocol):
    """The methods of an Optuna trial that a search space needs."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Suggest a number in [low, high]."""

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """Suggest a whole number in [low, high]."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Suggest one of the choices."""


@dataclass(frozen=True)
class Range:
    """An interval to search, both ends included.

    With ``log`` equal ratios are equally likely, and ``low`` is above 0. With ``whole`` only whole numbers are meant,
    and both ends are whole.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SpaceError(f"a range needs finite low < high, got [{self.low}, {self.high}]")
        if self.log and self.low <= 0:
            raise SpaceError(f"a log-uniform range must start above 0, got [{self.low}, {self.high}]")
        if self.whole and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise SpaceError(f"a range of whole numbers needs whole ends, got [{self.low}, {self.high}]")

    def __str__(self) -> str:
        """Return the range as in an experiment's YAML file, with its scale."""
        return f"[{self.low:g}, {self.high:g}]{' whole' if self.whole else ''}{' log' if self.log else ''}"

    def suggest(self, trial: Trial, name: str) -> float:
        """Let the trial choose a number of the range."""
        if self.whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def contains(self, value: Any) -> bool:
        """Say whether a number lies in the range."""
        return is_number(value) and self.low <= value <= self.high

    def nearest(self, value: Any) -> float:
        """Return the number of the range that is nearest to a number; ``None``, no limit, gives the upper end."""
        low, high = self.ends()
        return high if value is None else min(max(value, low), high)

    def ends(self) -> tuple[float, ...]:
        """Return the values that a domain must accept in order to accept all values."""
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)

    def at(self, share: float) -> float:
        """Return the value at a share of the way from the lower to the upper end, on the scale of the range.

        A share that is drawn uniformly from [0, 1] gives a draw of the range.

        Example:
            >>> Range(0.01, 1.0, log=True).at(0.5)
            0.1
        """
        value = self.low * (self.high / self.low) ** share if self.log else self.low + share * (self.high - self.low)
        # Rounding may leave the range.
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else value

    def share_of(self, value: float) -> float:
        """Return where a value lies between the ends, from 0 to 1; ``at`` goes back."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def beyond(self, share: float, *, upper: bool) -> float:
        """Return the value that lies outside, by a share of the range on its own scale, behind one of its ends.

        Example:
            >>> Range(0.01, 1.0, log=True).beyond(0.5, upper=True)
            10.0
            >>> Range(1, 5, whole=True).beyond(0.2, upper=False)
            0
        """
        factor = (self.high / self.low) ** share if self.log else share * (self.high - self.low)
        if self.log:
            value = self.high * factor if upper else self.low / factor
        else:
            value = self.high + factor if upper else self.low - factor
        if not self.whole:
            return value
        return math.ceil(value) if upper else math.floor(value)


@dataclass(frozen=True)
class Values:
    """Listed values, which a grid takes one after the other, and from which other samplers choose.

    At least one value is listed, each once.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise SpaceError(f"values must be listed, each once, got {list(self.values)}")

    def __str__(self) -> str:
        """Return the values in braces."""
        return f"{{{', '.join(map(str, self.values))}}}"

    def suggest(self, trial: Trial, name: str) -> Any:
        """Let the trial choose one of the values."""
        return trial.suggest_categorical(name, self.values)

    def contains(self, value: Any) -> bool:
        """Say whether a value is listed."""
        return value in self.values

    def nearest(self, value: Any) -> Any:
        """Return a listed value itself, otherwise the nearest number, or the first of listed words."""
        if value in self.values or not all(map(is_number, (value, *self.values))):
            return value if value in self.values else self.values[0]
        return min(self.values, key=lambda listed: abs(listed - value))

    def ends(self) -> tuple[Any, ...]:
        """Return the values that a domain must accept in order to accept all values."""
        return self.values

    def at(self, share: float) -> Any:
        """Return the listed value at a share of the list, from 0, the first, to 1, the last."""
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]


Bounds = Mapping[str, Range | Values]
"""Name of a parameter -> its bounds."""


def bounds_of(spaces: Mapping[str, Space | None]) -> dict[str, Range | Values]:
    """Return the bounds of the hyper-parameters that have any in their table (``SpaceError`` for wrong ones).

    Example:
        >>> print(*bounds_of({"margin": (0.1, 1.0, "log"), "direction": ["i2t", "t2i"], "gate": None}).values())
        [0.1, 1] log {i2t, t2i}
    """
    bounds: dict[str, Range | Values] = {}
    for name, space in spaces.items():
        try:
            if isinstance(space, list):
                bounds[name] = Values(tuple(tuple(value) if isinstance(value, list) else value for value in space))
            elif space is not None:
                bounds[name] = Range(space[0], space[1], "log" in space, "int" in space)
        except SpaceError as error:
            raise SpaceError(f"space[{name!r}]: {error}") from None
    return bounds


Choose = Callable[[str], Any]
"""Returns the value of a searched parameter in a suggestion: a trial chooses the value, or a point has it."""


def chosen_by(trial: Trial, bounds: Bounds, prefix: str = "") -> Choose:
    """Return the choice of a trial within bounds; the trial knows the parameters by names that begin with a prefix."""
    return lambda name: bounds[name].suggest(trial, prefix + name)


@dataclass(frozen=True)
class Asked:
    """The settings of a study on which the space of a loss depends.

    Named are the parameters that have bounds, or are fixed, in the experiment. ``pairs`` are the positive pairs of a
    batch, >= 2: the sum of a loss over a batch is ``pairs`` times its mean.
    """

    names: frozenset[str] = frozenset()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    pairs: int = 128


def suggest_each(choose: Choose, bounds: Bounds) -> dict[str, Any]:
    """Suggest every parameter that has bounds: in most spaces all of them exist."""
    return {name: choose(name) for name in bounds}


@dataclass(frozen=True)
class LossSpace:
    """All that a search needs to know about one loss.

    Attributes:
        bounds: Bounds of the searched parameters: the default bounds, or those of a study.
        published: Suggested parameters with which the loss was published; among the first trials of every study.
        parameters: Parameters of the loss's constructor, with their domains.
        assemble: Function that returns the loss's parameters, given a choice of values and the bounds.
        searched: Suggested parameters that the constructor does not have, with their domains.
        relevant: Function of bounds and fixed parameters that returns the bounds that then matter; in most spaces no
            parameter depends on another.
        check: Refuses combinations of the constructor's parameters.
        starts: Suggested parameters that are tried before ``published``, at which this loss equals another loss.
        adapt: Function of this space and the settings of a study that returns the space of the study.
        twins: Function of another loss's name and parameters that returns the points, within bounds or not, at which
            this loss equals the other loss.
        switches: Searched parameters whose values decide which other parameters exist.
        fixed: Parameters of the constructor that a study does not search.
    """

    bounds: Bounds
    published: tuple[Mapping[str, Any], ...]
    parameters: Mapping[str, Domain]
    assemble: Callable[[Choose, Bounds], dict[str, Any]] = suggest_each
    searched: Mapping[str, Domain] = field(default_factory=dict)
    relevant: Callable[[Bounds, Mapping[str, Any]], Bounds] = lambda bounds, fixed: bounds
    check: Callable[[Mapping[str, Any]], None] = lambda values: None
    starts: tuple[Mapping[str, Any], ...] = ()
    adapt: Callable[["LossSpace", Asked], "LossSpace"] = lambda space, asked: space
    twins: Callable[[str, Mapping[str, Any]], tuple[Mapping[str, Any], ...]] = lambda loss, parameters: ()
    switches: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def domains(self) -> Mapping[str, Domain]:
        """Domains of the constructor's parameters and of the suggested parameters."""
        return {**self.parameters, **self.searched}

    @property
    def is_conditional(self) -> bool:
        """Whether some parameters exist only at some values of others."""
        return any(len(self.bounds[name].ends()) > 1 for name in self.switches if name in self.bounds)

    def adapted(self, asked: Asked) -> "LossSpace":
        """Return the space of a study (``SpaceError`` if the study's names do not go together)."""
        return self.adapt(self, asked)

    def narrowed(self, bounds: Bounds, fixed: Mapping[str, Any]) -> "LossSpace":
        """Return the space with some bounds replaced and some parameters fixed.

        A parameter that is not searched, or bounds beyond its domain, are refused (``SpaceError``).
        """
        narrowed, own = dict(self.bounds), {}
        for name, bound in bounds.items():
            check_name(name, {**self.bounds, **self.searched}, "searched parameters")
            domain = self.domains[name]
            for end in bound.ends():
                check_value(name, end, domain)
            if domain.is_count and isinstance(bound, Range):
                bound = replace(bound, log=True, whole=True)
            narrowed[name] = bound
        for name, value in fixed.items():
            if name in narrowed or name in self.searched:
                narrowed[name] = Values((value,))
            else:
                own[name] = value
        return replace(self, bounds=self.relevant(narrowed, own), fixed=own)

    def check_parameters(self, values: Mapping[str, Any]) -> None:
        """Refuse parameters that the loss's constructor would refuse (``SpaceError``)."""
        for name, value in values.items():
            check_name(name, self.parameters, "parameters")
            check_value(name, value, self.parameters[name])
        self.check(values)

    def check_fixed(self, values: Mapping[str, Any]) -> None:
        """Refuse wrong names and values of fixed parameters, of the constructor or suggested (``SpaceError``)."""
        own = {name: value for name, value in values.items() if name not in self.searched}
        for name in values.keys() - own.keys():
            check_value(name, values[name], self.searched[name])
        self.check_parameters(own)

    def suggest(self, trial: Trial, prefix: str = "") -> dict[str, Any]:
        """Return the loss's parameters at the point that a trial chooses; for ``prefix`` see ``chosen_by``."""
        return {**self.assemble(chosen_by(trial, self.bounds, prefix), self.bounds), **self.fixed}

    def parameters_at(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the loss's parameters at a point (``KeyError`` if the point lacks one of its parameters)."""
        return {**self.assemble(point.__getitem__, self.bounds), **self.fixed}

    def first_points(self) -> list[Mapping[str, Any]]:
        """Return the points that a study tries first: ``starts``, then ``published``, as far as within bounds.

        Of points for one loss, the first is returned.
        """
        return self._distinct(self.within((*self.starts, *self.published)))

    def published_points(self) -> list[Mapping[str, Any]]:
        """Return the published points among the first points."""
        return self._distinct(self.within(self.published))

    def _distinct(self, points: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        distinct_points: list[tuple[Any, Mapping[str, Any]]] = []
        for point in points:
            loss_parameters = self.parameters_at(point)
            if all(loss_parameters != other for other, _ in distinct_points):
                distinct_points.append((loss_parameters, point))
        return [point for _, point in distinct_points]

    def within(self, points: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the points that lie within bounds and lack no parameter, by the searched names."""
        named = [{name: value for name, value in point.items() if name in self.bounds} for point in points]
        return [
            point
            for point in named
            if (point or not self.bounds)
            and all(self.bounds[name].contains(value) for name, value in point.items())
            and self._is_whole(point)
        ]

    def _is_whole(self, point: Mapping[str, Any]) -> bool:
        """Whether a point has all parameters that its suggestion asks for."""
        try:
            self.parameters_at(point)
        except KeyError:
            return False
        return True


def check_value(name: str, value: Any, domain: Domain) -> None:
    """Refuse a value outside the domain of a parameter (``SpaceError``)."""
    if not domain.accepts(value):
        raise SpaceError(f"{name} must be {domain.rule}, got {value!r}")


def check_name(name: str, known: Iterable[str], label: str) -> None:
    """Refuse an unknown name (``SpaceError``); the message has the nearest known name."""
    known = list(known)
    if name not in known:
        raise SpaceError(f"unknown name {name[:60]!r}; {suggestion(name, known, label)}")


NEGATIVES = "negatives"
ALL = "all"


def with_searched(space: LossSpace, asked: Asked, name: str, bound: Range | Values, values: Sequence[Any]) -> LossSpace:
    """Return the space of a loss for a study, which searches one more parameter if the study asks for that.

    ``values`` are those of the parameter in the loss's own points: of ``published``, ``starts`` and ``twins``.
    """
    if name not in asked.names or name in asked.fixed:
        return space

    def rest(bounds: Bounds) -> Bounds:
        return {other: bound for other, bound in bounds.items() if other != name}

    def counted(points: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        return tuple({**point, name: value} for point in points for value in values)

    return replace(
        space,
        assemble=lambda choose, bounds: {**space.assemble(choose, rest(bounds)), name: choose(name)},
        bounds={**space.bounds, name: bound},
        relevant=lambda bounds, fixed: {**space.relevant(rest(bounds), fixed), name: bounds[name]},
        published=counted(space.published),
        starts=counted(space.starts),
        twins=lambda loss, parameters: counted(space.twins(loss, parameters)),
    )


def with_negatives(space: LossSpace, asked: Asked, default: int | str) -> LossSpace:
    """Return the space of a loss for a study, which searches the number of negatives if the study asks for that.

    ``default`` is the number of negatives in the loss's own points.
    """
    most = max(2, asked.pairs - 1)
    counts = (most, ALL) if default == ALL else (default,)
    return with_searched(space, asked, NEGATIVES, Range(1, most, log=True, whole=True), counts)
