"""The decorators with which a plug-in offers a loss, a model, a form of data, a sampler or a metric.

A decorator only notes the offer: it returns the decorated function or class unchanged.

The signature of a sampler is checked without running it, and without Optuna.
"""

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainables.errors import ConfigError

ASKED = ("study", "seed")
"""The parameters of a sampler."""

QUERIES = {("positions", "counts"): "positions", ("similarity", "positives"): "similarities"}
"""The parameters of a metric -> what it is a function of."""


def _check_sampler(definition: Any, name: str, place: str) -> None:
    """Refuse a sampler that cannot be made, or called for a suggestion; the sampler does not run."""
    # Only a class of Optuna's BaseSampler has this method.
    is_of_optuna = hasattr(definition, "sample_independent")
    made = _named(definition) if inspect.isclass(definition) else []
    if needed := [
        parameter.name
        for parameter in made
        if parameter.default is parameter.empty and not (is_of_optuna and parameter.name == "seed")
    ]:
        raise ConfigError(f"{place}: {name} is made for each suggestion; give {', '.join(needed)} a default")
    if is_of_optuna:
        if "seed" not in {parameter.name for parameter in made}:
            raise ConfigError(f"{place}: {name} must take seed, with which it is made for each suggestion")
        return
    asked = vars(definition).get("__call__") if inspect.isclass(definition) else definition
    names = [] if asked is None else [parameter.name for parameter in _named(asked) if parameter.name != "self"]
    if tuple(names) != ASKED:
        got = ", ".join(names) or "none"
        raise ConfigError(f"{place}: {name} must be called with {', '.join(ASKED)}, got {got}")


def _named(called: Any) -> list[inspect.Parameter]:
    parameters = inspect.signature(called).parameters.values()
    return [
        parameter for parameter in parameters if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


Definition = TypeVar("Definition", bound=Callable[..., Any])
Space = Mapping[str, Sequence[Any]]
"""Parameter -> ``(low, high)``, ``(low, high, "log")``, ``(low, high, "int")``, or a list of values."""

FEATURES = ("global", "regions")
"""Kinds of image features that a model can read."""

MARK = "__icr_offer__"
SCALES = ("log", "int")
BATCH = ("similarity", "positives", "ignore")
NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


@dataclass(frozen=True)
class Offer:
    """The offer that one decorator noted.

    Attributes:
        kind: ``losses``, ``models``, ``formats``, ``samplers`` or ``metrics``.
        definition: The function or class that is offered.
        options: Options of the kind: ``features`` of a model, ``vectorised`` of a loss, abilities of a sampler, the
            range of a metric.
    """

    kind: str
    name: str
    definition: Any
    space: Space = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def describe(self, place: str) -> dict[str, Any]:
        """Return the offer as plain values, which can be stored and read without its code.

        ``place`` is the ``FILE:LINE`` of the definition.

        Raises:
            ConfigError: If the function or class does not fit its decorator; the message says what is missing.
        """
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"{place}: a name has small letters, digits and _, the first a letter, got {self.name[:60]!r}"
            )
        if (features := self.options.get("features", FEATURES[0])) not in FEATURES:
            raise ConfigError(f"{place}: features must be {' or '.join(FEATURES)}, got {features!r}")
        defaults = _defaults(self, place)
        return {
            "summary": (inspect.getdoc(self.definition) or "").partition("\n")[0],
            "place": place,
            "defaults": defaults,
            "space": {name: _bound(name, bound, defaults, place) for name, bound in self.space.items()},
            **self.options,
            **({"of": _check_metric(self, place)} if self.kind == "metrics" else {}),
        }


def loss(
    *, space: Space | None = None, name: str | None = None, vectorised: bool = False
) -> Callable[[Definition], Definition]:
    """Offer a loss: a function of ``similarity, positives, ignore`` and its parameters, or a dataclass.

    A function gets one batch of one trial: ``similarity`` (I, C) floating, ``positives`` and ``ignore`` (I, C) bool,
    then its parameters as plain numbers or words, each with a default. It returns a scalar that depends on
    ``similarity``. A class is a dataclass whose fields are the parameters; it is called with the same three arguments.

    Args:
        space: Search space of the parameters; parameters without an entry keep their defaults.
        name: Name in experiments; by default the function's name, or the class's in small letters.
        vectorised: Whether the loss takes leading dimensions, ``similarity`` (..., I, C) and parameters (...), and
            returns shape (...). By default the losses of fused trials are computed one after the other.
    """
    return _offer("losses", name, space or {}, {"vectorised": vectorised})


def model(
    *, features: str = "global", space: Space | None = None, name: str | None = None
) -> Callable[[Definition], Definition]:
    """Offer a model: a ``trainables.models.retrieval_model.RetrievalModel``.

    The parameters (``model_parameters``) are the keyword-only arguments of the constructor, each with a default.

    Args:
        features: Image features that the model reads: ``global`` (I, D) or ``regions`` (I, R, D).
        space: Search space of the parameters, used if an experiment asks for ``default``.
        name: Name in experiments; by default the class's name in small letters.
    """
    return _offer("models", name, space or {}, {"features": features})


def data_format(*, name: str | None = None) -> Callable[[Definition], Definition]:
    """Offer a form of data: a class with a text ``FORMAT``, ``find(folder)`` and ``read(files)``.

    Both are static methods, like the functions of ``trainables.data.formats.flickr``: ``find`` returns the files with
    captions and splits, ``read`` returns a ``trainables.data.corpus.Corpus``.
    """
    return _offer("formats", name, {}, {})


def sampler(
    *, conditional: bool = False, several_objectives: bool = False, name: str | None = None
) -> Callable[[Definition], Definition]:
    """Offer a sampler, which suggests the point of the next trial (``search.sampler``).

    A function gets a ``search_spaces.StudySoFar``, with the bounds and all trials so far, and a seed of its own for
    each suggestion. The function returns a dict of parameters and values within the bounds; parameters without a value
    are drawn at random. A class is made anew for each suggestion, and its object is called with the same two
    arguments. A subclass of Optuna's ``BaseSampler`` is made anew with ``seed``. Nothing is kept from one suggestion
    to the next, so that an interrupted search suggests the points of an undisturbed search.

    Args:
        conditional: Whether the sampler can search a space in which some parameters exist only at some values of
            others: ``search.loss: choose``, or a polynomial of several degrees.
        several_objectives: Whether the sampler can search with ``search.objectives``.
        name: Name in experiments; by default the function's name, or the class's in small letters.
    """
    return _offer("samplers", name, {}, {"conditional": conditional, "several_objectives": several_objectives})


def metric(
    *, low: float = 0.0, high: float = 1.0, larger_is_better: bool = True, printed: str = "", name: str | None = None
) -> Callable[[Definition], Definition]:
    """Offer a metric: a function of ranks, or of similarities, that returns a value for each of Q queries.

    A function of ``positions, counts`` gets arrays of NumPy: the positions of each query's positives among all
    candidates, ascending from 1, float64, shape (Q, P), infinite behind the last of a query; and the numbers of
    positives, int64, shape (Q,). A function of ``similarity, positives`` gets tensors of some queries: similarities of
    all candidates, floating, (Q, N), larger is closer; and which of them match, bool, (Q, N).

    The metric is the mean of the values over queries. It is reported as ``i2t_NAME`` and ``t2i_NAME``, and their mean
    as ``NAME``, of captions. Where larger is better, each of the three may select epochs and winners, and decide.

    Args:
        low: Lowest value; may be infinite.
        high: Highest value; may be infinite.
        larger_is_better: Whether a larger value is better; otherwise the metric is reported, and cannot select.
        printed: Name for people, such as ``nDCG@10``.
        name: Name in experiments, of small letters and digits; by default the function's name.
    """
    ends = [end if math.isfinite(end) else None for end in (low, high)]
    options = {"range": ends, "larger_is_better": larger_is_better, "printed": printed}
    return _offer("metrics", name, {}, options)


def offer_of(value: Any) -> Offer | None:
    """Return the offer that a decorator noted on an object, or ``None``."""
    # Attributes of the object itself: a subclass of a decorated class is not offered.
    offer = getattr(value, "__dict__", {}).get(MARK)
    return offer if isinstance(offer, Offer) else None


def _defaults(offer: Offer, place: str) -> dict[str, Any]:
    """Return parameter -> default; ``ConfigError`` where one has none, or none that is plain."""
    if offer.kind == "samplers":
        _check_sampler(offer.definition, offer.name, place)
    if offer.kind in ("formats", "samplers", "metrics"):
        return {}
    defaults = {}
    for name, default in _parameters(offer, place).items():
        if default is inspect.Parameter.empty:
            raise ConfigError(f"{place}: parameter {name} of {offer.name} needs a default, from which a search starts")
        if not _is_plain(default):
            raise ConfigError(
                f"{place}: the default of {name} must be a number, a word, true or false, or a tuple of numbers, "
                f"got {default!r:.60}"
            )
        defaults[name] = list(default) if isinstance(default, tuple) else default
    return defaults


def _check_metric(offer: Offer, place: str) -> str:
    """Return what a metric is a function of, without running it (``ConfigError`` where it fits neither)."""
    if not re.fullmatch("[a-z][a-z0-9]*", offer.name):
        raise ConfigError(f"{place}: the name of a metric has small letters and digits alone, got {offer.name[:60]!r}")
    names = () if inspect.isclass(offer.definition) else tuple(part.name for part in _named(offer.definition))
    if names not in QUERIES:
        wanted = " or ".join(", ".join(parameters) for parameters in QUERIES)
        raise ConfigError(f"{place}: {offer.name} must be a function of {wanted}, got {', '.join(names) or 'none'}")
    low, high = offer.options["range"]
    if low is not None and high is not None and not low < high:
        raise ConfigError(f"{place}: the range of {offer.name} needs low below high, got {low:g} and {high:g}")
    return QUERIES[names]


def _offer(kind: str, name: str | None, space: Space, options: Mapping[str, Any]) -> Callable[[Definition], Definition]:
    def mark(definition: Definition) -> Definition:
        setattr(definition, MARK, Offer(kind, name or default_name(definition), definition, dict(space), dict(options)))
        return definition

    return mark


def default_name(definition: Any) -> str:
    """Return a function's name, or a class's with small letters: ``PairLoss`` is ``pair_loss``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", definition.__name__).lower()


def _parameters(offer: Offer, place: str) -> dict[str, Any]:
    if offer.kind == "models":
        signature = inspect.signature(offer.definition.__init__)
        return {
            parameter.name: parameter.default
            for parameter in signature.parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
    if inspect.isclass(offer.definition):
        made = as_dataclass(offer.definition)
        empty = inspect.Parameter.empty
        return {
            parameter.name: empty if parameter.default is dataclasses.MISSING else parameter.default
            for parameter in dataclasses.fields(made)
        }
    parameters = list(inspect.signature(offer.definition).parameters.values())
    if tuple(parameter.name for parameter in parameters[:3]) != BATCH:
        got = ", ".join(parameter.name for parameter in parameters[:3]) or "none"
        raise ConfigError(f"{place}: the first parameters of {offer.name} must be {', '.join(BATCH)}, got {got}")
    if odd := [
        parameter for parameter in parameters[3:] if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]:
        raise ConfigError(f"{place}: {offer.name} must name its parameters, got {odd[0]}")
    return {parameter.name: parameter.default for parameter in parameters[3:]}


def as_dataclass(made: type) -> type:
    """Return a class as a frozen dataclass; a dataclass is returned as it is."""
    return made if dataclasses.is_dataclass(made) else dataclasses.dataclass(frozen=True)(made)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
    return isinstance(value, bool | int | float | str)


def _bound(name: str, bound: Any, defaults: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return a bound as plain values: ``{low, high, log, whole}`` or ``{values}``."""
    if name not in defaults:
        known = ", ".join(defaults) or "none"
        raise ConfigError(f"{place}: space names {name!r}, which is no parameter; there are: {known}")
    if isinstance(bound, list):
        return {"values": bound}
    ends = bound[:2] if isinstance(bound, tuple) else ()
    scale = bound[2:] if isinstance(bound, tuple) else ()
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not numbers or len(scale) > 1 or not set(scale) <= set(SCALES):
        raise ConfigError(
            f"{place}: space[{name!r}] must be (low, high), (low, high, 'log'), (low, high, 'int') or a list of "
            f"values, got {bound!r:.60}"
        )
    return {"low": ends[0], "high": ends[1], "log": "log" in scale, "whole": "int" in scale}
