"""The values of a configuration: measures and samplers by name, and types with rules: names, bounds, durations."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from orchestrator.experiment.yaml_files import STRICT, short, validate
from search_spaces import SPACES
from search_spaces.space import check_name
from trainables.config import ParameterValue, TrainingConfig
from trainables.errors import ConfigError
from trainables.metric_table import counts, may_select
from trainables.model_parameters import FEATURES
from trainables.plugins.in_use import NameTable


@dataclass(frozen=True)
class SamplerKind:
    """The spaces that a sampler can search.

    Attributes:
        conditional: Whether some parameters may exist only at some values of other parameters.
        needs_range: Whether a study must have a parameter with a range.
    """

    meaning: str
    conditional: bool = True
    several_objectives: bool = True
    needs_range: bool = False


SAMPLERS: NameTable[SamplerKind] = NameTable(
    "samplers",
    {
        "tpe": SamplerKind("Parzen estimators of the good and of the other points"),
        "cmaes": SamplerKind(
            "a normal distribution that adapts to ranges", conditional=False, several_objectives=False, needs_range=True
        ),
        "gp": SamplerKind("a Gaussian process, for few and costly trials", conditional=False),
        "random": SamplerKind("independent draws"),
        "qmc": SamplerKind("a Sobol sequence, which leaves no gaps", conditional=False),
        "grid": SamplerKind("the listed values one after the other"),
    },
    lambda _, about: SamplerKind(about["summary"], about["conditional"], about["several_objectives"]),
)
"""Every sampler by the name that ``search.sampler`` uses; plug-ins join."""


def samplers_that(can: Callable[[SamplerKind], bool]) -> str:
    """Return the samplers that can do something, as a choice in words.

    Example:
        >>> samplers_that(lambda kind: not kind.conditional)
        'cmaes, gp or qmc'
    """
    *others, last = [name for name, kind in SAMPLERS.items() if can(kind)]
    return f"{', '.join(others)} or {last}" if others else last


NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""Names that an experiment or a suite can have: its folder has the name, and names in MLflow contain it."""

SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
"""Units that people write behind a duration."""

UNITS = {"h": "hours", "min": "minutes"}
"""Units of durations in a configuration, where the units are not written."""

LOWS, HIGHS = ("min", "low", "lower", "from"), ("max", "high", "upper", "to")
"""Keys under which people write the ends of a range, although a range has no keys."""


class ListedValues(BaseModel):
    """Listed values of a parameter.

    Attributes:
        values: Numbers, words, truth values or lists of coefficients, each once; at least one.
    """

    model_config = STRICT
    values: Annotated[tuple[ParameterValue, ...], Field(min_length=1)]


class _Names(Collection[str]):
    """Names that are made anew whenever they are asked for, because plug-ins add to them."""

    def __init__(self, make: Callable[[], Iterable[str]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[str]:
        return iter(self._make())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name == known_name for known_name in self)


SELECTING = _Names(may_select)
"""The metrics that can be maximised: a larger value is better."""

OBJECTIVES = _Names(lambda: chain(may_select(), counts()))
"""Those, and the counts of contributing samples, which can be further objectives."""


def known(names: Collection[str]) -> Any:
    """Return the annotation of a ``str`` that must be one of some names, to which plug-ins may add."""

    def check(name: str) -> str:
        check_name(name, names, "known")
        return name

    return AfterValidator(check), Field(json_schema_extra={"enum": list(names)})


def check_folder_name(name: str) -> str:
    """Return a name that can be a folder's on every machine.

    Raises:
        ValueError: If the name is no such name.
    """
    if re.fullmatch(NAME, name):
        return name
    odd = next((character for character in name if not re.match(r"[A-Za-z0-9._-]", character)), None)
    got = f"of {len(name)} characters" if len(name) > 100 else repr(name)
    if odd is not None:
        got += f", where {odd!r} is none of these"
    raise ValueError(
        f"must be 1 to 100 letters (A-Z, a-z), digits, '.', '_' and '-', the first a letter or digit, got {got}"
    )


def check_training(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings that have the names, types and ranges of ``training``.

    Raises:
        ConfigError: Naming each setting that is refused.
    """
    try:
        validate(TrainingConfig, changes)
    except ConfigError as error:
        raise ConfigError([problem.removeprefix(": ") for problem in error.problems]) from None
    return changes


def _in_unit(unit: str) -> Callable[[Any], Any]:
    """Return a check that refuses a duration with a unit, and gives its number in the key's unit."""

    def check(value: Any) -> Any:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]+)", value) if isinstance(value, str) else None
        if match is None or match[2] not in SECONDS:
            return value
        number = float(match[1]) * SECONDS[match[2]] / SECONDS[unit]
        raise ValueError(f"must be a number of {UNITS[unit]} without a unit: for {value} write {number:g}")

    return check


def _as_bound(value: Any) -> Any:
    """Refuse a value that is neither a range nor listed values, with both forms; JSON's lists become tuples."""
    ways = "[LOW, HIGH] is a range, {values: [A, B]} are values one by one"
    if isinstance(value, dict) and value.keys() == {"values"} and isinstance(value["values"], list):
        return {"values": tuple(tuple(choice) if isinstance(choice, list) else choice for choice in value["values"])}
    if isinstance(value, dict) and "values" not in value:
        low, high = (next((value[key] for key in keys if key in value), None) for keys in (LOWS, HIGHS))
        example = "" if None in (low, high) else f": write [{short(low)}, {short(high)}]"
        log = "; the scale, logarithmic or not, is the parameter's own" if "log" in value else ""
        raise ValueError(f"a range has no keys {', '.join(value)}{example}; {ways}{log}")
    if isinstance(value, list) and len(value) != 2:
        raise ValueError(f"a range has two ends, got {short(value)}; {ways}")
    if isinstance(value, int | float):
        raise ValueError(
            f"one value, {short(value)}, is nothing to search; {ways}; a fixed parameter of the loss goes "
            f"under search.fixed.LOSS, a setting under training, a parameter of the model under model_parameters"
        )
    return tuple(value) if isinstance(value, list) else value


Name = Annotated[str, AfterValidator(check_folder_name), Field(json_schema_extra={"pattern": NAME})]
ModelName = Annotated[str, *known(FEATURES)]
LossName = Annotated[str, *known(SPACES)]
SamplerName = Annotated[str, *known(SAMPLERS)]
Metric = Annotated[str, *known(SELECTING)]
Goal = Annotated[str, *known(OBJECTIVES)]
Hours = Annotated[float, Field(gt=0), BeforeValidator(_in_unit("h"))]
TrainingChange = Annotated[dict[str, Any], AfterValidator(check_training)]
Minutes = Annotated[float, Field(gt=0), BeforeValidator(_in_unit("min"))]
Bound = Annotated[tuple[float, float] | ListedValues, BeforeValidator(_as_bound)]
BoundOrDefault = Annotated[tuple[float, float] | ListedValues | Literal["default"], BeforeValidator(_as_bound)]
