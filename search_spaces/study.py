"""The space of a study: the parameters of a loss, or a choice of losses, and settings of training and model."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from search_spaces.space import Bounds, LossSpace, Trial, Values, chosen_by, suggest_each

State = Literal["running", "finished", "stopped_early", "failed"]
"""State of a trial; a trial that diverged has ``failed`` for a sampler."""


@dataclass(frozen=True)
class PastTrial:
    """A trial of a study as a sampler sees it; trainings of one point are one trial with their mean values.

    Attributes:
        params: Parameter -> value, by the names of ``StudySoFar.bounds``; in a conditional space, a trial has only the
            parameters of its point.
        state: State of the trial.
        values: The objectives of a trial that has finished, in the order of ``StudySoFar.directions``; else empty.
        epochs: Epoch -> the metric so far; empty if the study has several objectives.
    """

    params: Mapping[str, Any]
    state: State
    values: tuple[float, ...] = ()
    epochs: Mapping[int, float] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether no further epoch comes."""
        return self.state != "running"

    @property
    def best(self) -> float | None:
        """The value with which the trial counts, larger is better; ``None`` if it failed or has no value yet.

        A finished trial counts with its first objective, any other trial with its best epoch so far.
        """
        if self.values:
            return self.values[0]
        return None if self.state == "failed" else max(self.epochs.values(), default=None)


@dataclass(frozen=True)
class StudySoFar:
    """A study before its sampler suggests the point of the next trial.

    Attributes:
        bounds: Parameter -> its bounds. With ``search.loss: choose`` the loss itself is the parameter ``loss``, and the
            parameters of a loss are called ``<loss>.<parameter>``; settings are ``training.<name>`` and
            ``model.<name>``.
        trials: All trials so far, in the order of their numbers: first the trials that ``warm_start_from`` took over,
            then the trials of this search, with running trials and published points.
        directions: ``maximize`` or ``minimize`` of each objective; the first is always maximised.
        number: Number of the trial whose point is asked for, from 0.
        size: How many trials the study has in the end, >= 1.
        seed: Seed of the study, equal for all its trials.
    """

    bounds: Bounds
    trials: Sequence[PastTrial]
    directions: Sequence[str]
    number: int
    size: int
    seed: int


@dataclass(frozen=True)
class Suggestion:
    """The loss, training and model of a point of a space."""

    loss: str
    loss_parameters: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)
    model_parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StudySpace:
    """The space of one study.

    Attributes:
        losses: Space of each loss; with several losses, the loss is a parameter itself (``loss``), on which the other
            parameters (``<loss>.<parameter>``) depend.
        training: Searched settings of ``training``.
        model_parameters: Searched parameters of the model.
        usual: Values of ``training`` and ``model_parameters`` that are not searched, by parameter name.
        accepts: Parameter name of ``training`` and ``model_parameters`` -> whether it accepts a value.
        published_model: Parameters of a pretrained model as it was published, which no other trial of the study has.
    """

    losses: Mapping[str, LossSpace]
    training: Bounds = field(default_factory=dict)
    model_parameters: Bounds = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    accepts: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    published_model: Mapping[str, Any] = field(default_factory=dict)

    @property
    def zero_shot(self) -> Mapping[str, Any]:
        """The setting of a pretrained model as it was published, by the sampler's names; empty where there is none.

        It is no point of the space: nothing is trained.
        """
        return {f"model.{name}": value for name, value in self.published_model.items()}

    def evaluate_only(self) -> Suggestion:
        """Return the trial of ``zero_shot``; a loss is a part of its name alone."""
        loss, space = next(iter(self.losses.items()))
        parameters = space.parameters_at(next(iter(space.published_points()), {})) if space.published_points() else {}
        return Suggestion(loss, {**parameters, **space.fixed}, {"epochs": 1}, self.published_model)

    @property
    def chooses(self) -> bool:
        """Whether the loss is a parameter."""
        return len(self.losses) > 1

    @property
    def is_conditional(self) -> bool:
        """Whether some parameters exist only at some values of others."""
        return self.chooses or any(space.is_conditional for space in self.losses.values())

    def suggest(self, trial: Trial) -> Suggestion:
        """Let a trial choose a point."""
        name = trial.suggest_categorical("loss", tuple(self.losses)) if self.chooses else next(iter(self.losses))
        return Suggestion(
            loss=name,
            loss_parameters=self.losses[name].suggest(trial, self._name(name, "")),
            training=suggest_each(chosen_by(trial, self.training, "training."), self.training),
            model_parameters=suggest_each(chosen_by(trial, self.model_parameters, "model."), self.model_parameters),
        )

    def bounds(self) -> dict[str, Any]:
        """Return the bounds of each parameter, by the sampler's name of the parameter."""
        bounds: dict[str, Any] = {"loss": Values(tuple(self.losses))} if self.chooses else {}
        for loss, space in self.losses.items():
            bounds |= {self._name(loss, name): bound for name, bound in space.bounds.items()}
        return bounds | self._beside()

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Say whether a setting has all parameters of the space, and no others, within their bounds."""
        bounds = self.bounds()
        inside = all(name in bounds and bounds[name].contains(value) for name, value in params.items())
        return inside and (self.is_conditional or set(params) == set(bounds))

    def takes(self, name: str, value: Any) -> bool:
        """Say whether a parameter, by the sampler's name of it, accepts a value, within bounds or not."""
        section, rest = self._section(name)
        if section in self.losses:
            return self.losses[section].domains[rest].accepts(value)
        return self.accepts[name](value)

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

        Of points for one loss, the first is returned; a usual setting out of bounds becomes the nearest value. A
        pretrained model as it was published comes before them.
        """
        beside = {name: bound.nearest(self.usual[name]) for name, bound in self._beside().items()}
        first = [(loss, point) for loss, space in self.losses.items() for point in space.first_points()]
        return [*self._zero_shots(), *({**self.point(loss, point), **beside} for loss, point in first)]

    def published_points(self) -> list[Mapping[str, Any]]:
        """Return the first points that are published settings of their loss, and not of another loss.

        Of a pretrained model, it is the model as it was published: a training must beat it.
        """
        if self.zero_shot:
            return self._zero_shots()
        settings = [(loss, setting) for loss, space in self.losses.items() for setting in space.published_points()]
        named = [self.point(loss, setting).items() for loss, setting in settings]
        return [point for point in self.first_points() if any(setting <= point.items() for setting in named)]

    def grid(self) -> list[Mapping[str, Any]]:
        """Return every combination of the listed values, the last parameter changing fastest; loss after loss.

        A pretrained model as it was published comes before them.
        """
        points = self._zero_shots()
        for loss, space in self.losses.items():
            bounds = {self._name(loss, name): bound for name, bound in space.bounds.items()} | self._beside()
            values = [bound.values for bound in bounds.values() if isinstance(bound, Values)]
            chosen = {"loss": loss} if self.chooses else {}
            points += [chosen | dict(zip(bounds, setting, strict=True)) for setting in itertools.product(*values)]
        return points

    @property
    def grid_size(self) -> int:
        """How many points ``grid`` returns, counted without making them."""
        beside = self._beside().values()
        bounds = ([*space.bounds.values(), *beside] for space in self.losses.values())
        sizes = (math.prod(len(bound.values) for bound in group if isinstance(bound, Values)) for group in bounds)
        return len(self._zero_shots()) + sum(sizes)

    def _zero_shots(self) -> list[Mapping[str, Any]]:
        return [self.zero_shot] if self.zero_shot else []

    def _name(self, loss: str, name: str) -> str:
        return f"{loss}.{name}" if self.chooses else name

    def point(self, loss: str, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a loss's parameters by the sampler's names."""
        chosen = {"loss": loss} if self.chooses else {}
        return {**chosen, **{self._name(loss, name): value for name, value in point.items()}}

    def _beside(self) -> dict[str, Any]:
        training = {f"training.{name}": bound for name, bound in self.training.items()}
        return training | {f"model.{name}": bound for name, bound in self.model_parameters.items()}
