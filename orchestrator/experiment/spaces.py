"""The space of each study of an experiment: default bounds with the bounds of the YAML file, checked whole."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from orchestrator.experiment.values import SAMPLERS, ListedValues, check_training, samplers_that
from search_spaces import SPACES, Bounds, LossSpace, Range, SpaceError, StudySpace, Values
from search_spaces.space import Asked, bounds_of, check_name
from trainables.config import RANGES, REGION_PARAMETERS, SEARCHED, TrainingConfig, check_bank
from trainables.errors import ConfigError, Mistakes
from trainables.model_parameters import MODEL_PARAMETERS, check_model_parameters, further_inputs, published_parameters

if TYPE_CHECKING:
    from orchestrator.experiment.sections import Search

Bound = tuple[float, float] | ListedValues | str
"""Bounds of a parameter in a YAML file; the only word is ``default``."""

NOT_SEARCHED = ("backbone", "weights", "encoder", "trained")
"""Parameters of models that are equal in all trials of a study, because the data and their digests depend on them."""

LARGEST_GRID = 100_000
"""Most points of a grid; every point is held in memory."""


def make_space(
    search: "Search", model: str, losses: Sequence[str], training: TrainingConfig, parameters: Mapping[str, Any]
) -> StudySpace:
    """Return the search space of a study of one loss, or of several losses to choose from.

    ``training`` and ``parameters`` are the settings of the training and of the model that are not searched.

    Raises:
        ValueError: If bounds or fixed parameters are refused; the message names the key.
    """
    entries = MODEL_PARAMETERS[model]
    beside = {name: bound for name, bound in search.model_parameters.items() if name in entries}
    ranges = bounds_of({name: entry.space for name, entry in entries.items()})
    usual = {f"training.{name}": value for name, value in asdict(training).items()}
    # Weights without a rate of their own have the rate of the others.
    own_rates = ("training.backbone_learning_rate", "training.loss_learning_rate")
    usual |= {name: training.learning_rate for name in own_rates if usual[name] is None}
    defaults = {**{name: entry.default for name, entry in entries.items()}, **parameters}
    published = published_parameters(model)
    space = StudySpace(
        losses={loss: _loss_space(search, loss, training.pairs) for loss in losses},
        training=_bounds_beside("training", search.training, bounds_of(SEARCHED)),
        model_parameters=_bounds_beside("model_parameters", beside, ranges),
        usual=usual | {f"model.{name}": value for name, value in defaults.items()},
        accepts={f"training.{name}": allowed.accepts for name, allowed in RANGES.items()}
        | {f"model.{name}": entry.rule.accepts for name, entry in entries.items()},
        published_model={} if published.items() <= defaults.items() else published,
    )
    for name, bound in space.bounds().items() if search.sampler == "grid" else ():
        if isinstance(bound, Range):
            raise ValueError(f"{space.key_of(name)}: a grid needs values, e.g. {{values: [{bound.low}]}}")
    return space


def enqueued_points(search: "Search", space: StudySpace) -> tuple[Mapping[str, Any], ...]:
    """Return the points that are tried right after the published points, by the names of the space.

    Raises:
        ValueError: If a point has an unknown name, or lies out of bounds; the message names the key.
    """
    points: list[Mapping[str, Any]] = []
    for loss, part in space.losses.items():
        for number, point in enumerate(search.enqueue.get(loss, ())):
            key = f"search.enqueue.{loss}.{number}"
            check_names(key, point, part.bounds)
            for name, value in point.items():
                if not part.bounds[name].contains(value):
                    raise ValueError(f"{key}.{name}: {value!r} lies outside {part.bounds[name]}; widen search.space")
            points.append(space.point(loss, point))
    return tuple(points)


def check_sampler(search: "Search", space: StudySpace) -> None:
    """Refuse a sampler that cannot search a space.

    Raises:
        ValueError: If the sampler cannot; the message names a sampler that can.
    """
    name, kind = search.sampler, SAMPLERS[search.sampler]
    ranges = [bound for bound in space.bounds().values() if isinstance(bound, Range)]
    beside = {"enqueue": search.enqueue, "warm_start_from": search.warm_start_from, "prior": search.prior != "none"}
    if name == "grid" and (key := next((key for key, asked in beside.items() if asked), None)):
        raise ValueError(f"search.{key}: a grid tries its own values alone; list them there, or take another sampler")
    if search.prior != "none" and search.loss == "choose":
        raise ValueError("search.prior: needs search.loss: each, because it takes the settings of one loss")
    if name == "grid" and space.grid_size > LARGEST_GRID:
        raise ValueError(
            f"search.space: a grid of {space.grid_size} points; at most {LARGEST_GRID} are taken, list fewer"
        )
    if space.is_conditional and not kind.conditional:
        able = samplers_that(lambda kind: kind.conditional)
        raise ValueError(
            f"search.sampler: {name} needs a space without conditions; take {able}, or one loss and degree"
        )
    if not ranges and kind.needs_range:
        raise ValueError(f"search.sampler: {name} needs a range to search; take grid or random for listed values")
    if len(search.goals) > 1 and not kind.several_objectives:
        able = samplers_that(lambda kind: kind.several_objectives)
        raise ValueError(f"search.sampler: {name} has one objective; take {able} for several")


def check_beside(space: StudySpace, model: str) -> None:
    """Refuse bounds that a training, or a model, would refuse when they are suggested.

    Raises:
        ConfigError: If bounds are refused; the message names the key.
    """
    mistakes = Mistakes()
    for name, bound in space.training.items():
        for end in bound.ends():
            mistakes.of(at(f"search.training.{name}")(check_training), {name: end})
    reads_regions = REGION_PARAMETERS.get(model)
    if reads_regions in space.model_parameters and space.usual[f"model.{reads_regions}"] is None:
        mistakes.problems.append(
            f"search.model_parameters.{reads_regions}: the study reads global features where "
            f"model_parameters.{reads_regions} is left out, and its trials would read regions; set it, e.g. to mean"
        )
    for name, bound in space.model_parameters.items():
        for end in bound.ends():
            mistakes.of(at(f"search.model_parameters.{name}")(check_model_parameters), model, {name: end})
    if len(read := _inputs_read(space, model)) > 1:
        listed = " or ".join(" and ".join(names) for names in sorted(read))
        mistakes.problems.append(
            f"search.model_parameters: trials of {model} would read {listed} by their parameters, and a study has one "
            "set of data; set graph or edges in model_parameters, and compare several experiments"
        )
    for end in space.training["bank"].ends() if "bank" in space.training else ():
        for loss in space.losses:
            mistakes.of(at("search")(check_bank), model, loss, int(end))
    mistakes.refuse()


def _inputs_read(space: StudySpace, model: str) -> set[tuple[str, ...]]:
    """Return the sets of further inputs that trials of a study may read."""
    if not further_inputs(model, {}):
        return set()
    own = {name.removeprefix("model."): (value,) for name, value in space.usual.items() if name.startswith("model.")}
    values = own | {name: tuple(bound.ends()) for name, bound in space.model_parameters.items()}
    relevant = {name: choices for name, choices in values.items() if name in MODEL_PARAMETERS[model]}
    return {further_inputs(model, dict(zip(relevant, point, strict=True))) for point in product(*relevant.values())}


def _loss_space(search: "Search", loss: str, pairs: int) -> LossSpace:
    """Return the space of a loss in a study, for batches of a number of pairs."""
    fixed, looked = search.fixed.get(loss, {}), search.space.get(loss, {})
    with at(f"search.fixed.{loss}"):
        SPACES[loss].check_fixed(fixed)
    key = f"search.space.{loss}"
    with at(key):
        space = SPACES[loss].adapted(Asked(frozenset({*looked, *fixed}), fixed, pairs))
    replacements: dict[str, Range | Values] = {}
    for name, bound in looked.items():
        with at(f"{key}.{name}"):
            replacements[name] = _bound(bound, space.bounds.get(name))
    with at(key):
        return space.narrowed(replacements, fixed)


def _bound(bound: Bound, default: Range | Values | None) -> Range | Values:
    if isinstance(bound, ListedValues):
        return Values(bound.values)
    if isinstance(bound, str):
        if default is None:
            raise SpaceError("has no default place to look; give [low, high] or {values: [...]}")
        return default
    if isinstance(default, Range):
        return replace(default, low=bound[0], high=bound[1])
    return Range(bound[0], bound[1])


def _bounds_beside(section: str, entries: Mapping[str, Bound], defaults: Mapping[str, Range | Values]) -> Bounds:
    bounds: dict[str, Range | Values] = {}
    for name, bound in entries.items():
        with at(f"search.{section}.{name}"):
            if section == "training":
                check_name(name, defaults, "searched settings")
            bounds[name] = _bound(bound, defaults.get(name))
            if section == "model_parameters" and name in NOT_SEARCHED:
                raise SpaceError(f"{name} cannot be searched: all trials of a study have one")
    return bounds


@contextmanager
def at(key: str) -> Iterator[None]:
    """Put a key in front of each mistake of a ``with`` block, or of a check that it decorates."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError([f"{key}: {problem}" for problem in error.problems]) from None
    except SpaceError as error:
        raise ValueError(f"{key}: {error}") from None


def check_names(key: str, names: Sequence[str] | Mapping[str, Any], known: Sequence[str] | Mapping[str, Any]) -> None:
    """Refuse unknown names, with their key."""
    mistakes = Mistakes()
    for name in names:
        mistakes.of(check_name, name, known, "known")
    with at(key):
        mistakes.refuse()
