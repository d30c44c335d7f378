"""Checks the signature of a plug-in's sampler, without running it and without Optuna."""

import inspect
from collections.abc import Callable
from typing import Any

from trainables.errors import ConfigError

ASKED = ("study", "seed")
"""The parameters of a sampler."""


def check_signature(thing: Any, name: str, place: str) -> None:
    """Refuse a sampler that cannot be made, or called for a suggestion.

    Args:
        thing: The function or class.
        name: Name of the sampler.
        place: ``FILE:LINE`` of the definition.

    Raises:
        ConfigError: If the sampler takes other parameters than samplers do.
    """
    # Only a class of Optuna's BaseSampler has this method.
    if hasattr(thing, "sample_independent"):
        _check_made(thing, name, place, {"seed"})
        if "seed" not in {one.name for one in _named(thing)}:
            raise ConfigError(f"{place}: {name} must take seed, with which it is made for each suggestion")
        return
    if inspect.isclass(thing):
        _check_made(thing, name, place, set())
        _check_asked(vars(thing).get("__call__"), name, place)
    else:
        _check_asked(thing, name, place)


def _check_made(made: Any, name: str, place: str, given: set[str]) -> None:
    needed = [one.name for one in _named(made) if one.default is one.empty and one.name not in given]
    if needed:
        raise ConfigError(f"{place}: {name} is made for each suggestion; give {', '.join(needed)} a default")


def _check_asked(asked: Callable[..., Any] | None, name: str, place: str) -> None:
    names = [] if asked is None else [one.name for one in _named(asked) if one.name != "self"]
    if tuple(names) != ASKED:
        got = ", ".join(names) or "none"
        raise ConfigError(f"{place}: {name} must be called with {', '.join(ASKED)}, got {got}")


def _named(called: Any) -> list[inspect.Parameter]:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one for one in inspect.signature(called).parameters.values() if one.kind not in variable]
