"""The space of a study: the parameters of a loss, or a choice of losses, and settings of training and model.

The default bounds of ``training`` are two decades around the published settings of VSE++, and batch sizes that fit a
small GPU. The published lambdas of SCAN [Lee2018], 4 to 20, lie inside of their ranges. The radius is that of WSABIE's
maps [Weston2011].

References:
    [Lee2018] Lee et al., Stacked Cross Attention for Image-Text Matching. arXiv:1803.08024; code kuanghuei/SCAN@053693f
    [Weston2011] Weston et al., WSABIE: Scaling Up To Large Vocabulary Image Annotation, section 2. IJCAI 2011
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from search_spaces.space import Bounds, LossSpace, Range, Trial, Values, chosen_by, suggest_each

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


TRAINING_BOUNDS: Mapping[str, Range | Values] = {
    "learning_rate": Range(2e-5, 2e-3, log=True),
    "learning_rate_drop_epochs": Range(3, 30, whole=True),
    "learning_rate_drop_factor": Range(0.05, 1.0, log=True),
    "learning_rate_schedule": Values(("drops", "cosine")),
    "warmup_epochs": Range(0, 5, whole=True),
    "backbone_learning_rate": Range(1e-6, 1e-4, log=True),
    "loss_learning_rate": Range(1e-4, 1e-1, log=True),
    "weight_decay": Range(1e-6, 1e-2, log=True),
    "weight_decay_of": Values(("all", "matrices")),
    "weight_average": Values((0.0, 0.99, 0.999)),
    "gradient_clip": Range(0.2, 20.0, log=True),
    "batch_size": Values((32, 64, 128, 256)),
    "embedding_size": Values((256, 512, 1024)),
}
"""Settings of ``training`` that can be searched, with their default bounds."""


_HEADS = Values(("linear", "mlp", "residual"))
"""``identity`` is a baseline, and wants features of ``training.embedding_size`` dimensions."""

MODEL_BOUNDS: Mapping[str, Range | Values] = {
    "radius": Range(0.3, 10.0, log=True),
    "cross_attention": Values(("t2i", "i2t")),
    "raw_feature_norm": Values(("clipped_l2norm", "l2norm", "clipped_l1norm", "softmax", "no_norm")),
    "aggregation": Values(("lse", "mean")),
    "lambda_softmax": Range(2.0, 30.0, log=True),
    "lambda_lse": Range(2.0, 50.0, log=True),
    "image_head": _HEADS,
    "caption_head": _HEADS,
    "hidden_size": Values((128, 256, 512)),
    "dropout": Range(0.0, 0.5),
    "graph_dropout": Range(0.0, 0.7),
    "clusters": Values((4, 8, 16)),
    "text_clusters": Values((8, 12, 20, 28)),
    "gating": Values(("published", "simultaneous")),
}
"""Default bounds of ``model_parameters``; the values of other parameters must be listed."""

USUAL: Mapping[str, Any] = {
    "radius": 1.0,
    "region_norm": "features",
    "norm_before_reasoning": True,
    "pooling": None,
    "cross_attention": "t2i",
    "raw_feature_norm": "clipped_l2norm",
    "aggregation": "lse",
    "lambda_softmax": 9.0,
    "lambda_lse": 6.0,
    "negative_slope": 0.1,
    "image_head": "linear",
    "caption_head": "linear",
    "hidden_size": None,
}
"""Defaults of the models' constructors, with which a study begins."""

USUAL_OF: Mapping[str, Mapping[str, Any]] = {
    "gsmn": {"graph": "published", "edges": "dense", "lambda_softmax": 20.0},
    "hgr": {"lambda_softmax": 4.0, "dropout": 0.2, "graph_dropout": 0.5},
    "ce": {"clusters": 8, "text_clusters": 12, "gating": "published", "padding": "masked", "max_tokens": 37},
}
"""Model -> its defaults where they are its own, or differ from ``USUAL``."""


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
    """

    losses: Mapping[str, LossSpace]
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
        first = [(loss, point) for loss, space in self.losses.items() for point in space.first_points()]
        return [{**self.point(loss, point), **beside} for loss, point in first]

    def published_points(self) -> list[Mapping[str, Any]]:
        """Return the first points that are published settings of their loss, and not of another loss."""
        settings = [(loss, setting) for loss, space in self.losses.items() for setting in space.published_points()]
        named = [self.point(loss, setting).items() for loss, setting in settings]
        return [point for point in self.first_points() if any(setting <= point.items() for setting in named)]

    def grid(self) -> list[Mapping[str, Any]]:
        """Return every combination of the listed values, the last parameter changing fastest; loss after loss."""
        points: list[Mapping[str, Any]] = []
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
        return sum(math.prod(len(bound.values) for bound in group if isinstance(bound, Values)) for group in bounds)

    def _name(self, loss: str, name: str) -> str:
        return f"{loss}.{name}" if self.chooses else name

    def point(self, loss: str, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a loss's parameters by the sampler's names."""
        chosen = {"loss": loss} if self.chooses else {}
        return {**chosen, **{self._name(loss, name): value for name, value in point.items()}}

    def _beside(self) -> dict[str, Any]:
        training = {f"training.{name}": bound for name, bound in self.training.items()}
        return training | {f"model.{name}": bound for name, bound in self.model_parameters.items()}
