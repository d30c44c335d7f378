"""The polynomials of a loss by name, and the checks of every search of their coefficients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces.negatives import COUNT_OR_ALL
from search_spaces.space import Bounds, Domain, SpaceError, is_number, one_of
from trainables.feasibility import Kind, constant_problem, domain_of, is_feasible, nearest_feasible

DEGREES = (1, 2, 3, 4)
POWERS = (0, *DEGREES)

COEFFICIENTS = Domain(
    "one or more finite numbers, ascending powers",
    lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(map(is_number, value)),
)
GATE = Domain("a number of at least 0, or null", lambda value: value is None or (is_number(value) and value >= 0))
NUMBER = Domain("a finite number", is_number)
DEGREE = Domain(f"one of {', '.join(map(str, DEGREES))}", lambda value: value in DEGREES and type(value) is int)


@dataclass(frozen=True)
class Side:
    """One polynomial of a loss.

    Attributes:
        name: Name of its coefficients in the loss's constructor.
        slope: Start of the names of its slopes.
        letter: Start of the names of its coefficients, as in [Wei2021].
        kind: The similarities that the polynomial weighs.
        prefix: Start of the names of its shape.
    """

    name: str
    slope: str
    letter: str
    kind: Kind
    prefix: str = ""

    def listed(self, bounds: Bounds) -> list[str]:
        """Return the coefficients that are searched one by one, lowest power first."""
        return [f"{self.letter}{power}" for power in POWERS if f"{self.letter}{power}" in bounds]

    def assemble(self, values: Mapping[str, float]) -> tuple[float, ...]:
        """Return the polynomial of coefficients by name; missing coefficients are 0."""
        highest = max(power for power in POWERS if f"{self.letter}{power}" in values)
        return tuple(float(values.get(f"{self.letter}{power}", 0.0)) for power in range(highest + 1))


RELATIVE = (Side("coefficients", "slope", "e", "relative"),)
SELF = (
    Side("positive_coefficients", "positive", "a", "positive", "positive_"),
    Side("negative_coefficients", "negative", "b", "negative", "negative_"),
)

RELATIVE_PARAMETERS = {
    "coefficients": COEFFICIENTS,
    "gate": GATE,
    "allow_infeasible": one_of(True, False),
    "negatives": COUNT_OR_ALL,
}
SELF_PARAMETERS = {
    "positive_coefficients": COEFFICIENTS,
    "negative_coefficients": COEFFICIENTS,
    "hinge": one_of("joint", "separate"),
    "gate": GATE,
    "allow_infeasible": one_of(True, False),
    "negatives": COUNT_OR_ALL,
}
"""The constructors' parameters, with their domains."""


def check(sides: Sequence[Side], values: Mapping[str, Any]) -> None:
    """Refuse coefficients that pull the wrong way somewhere, as the loss would, and tell the nearest good coefficients.

    Two separate hinges take all coefficients, because the published coefficients pull the wrong way.

    Raises:
        SpaceError: If they pull the wrong way.
    """
    check_slope(sides, values)
    if values.get("allow_infeasible") or values.get("hinge") == "separate":
        return
    for side in sides:
        domain = domain_of(side.kind, values.get("gate"))
        if side.name in values and not is_feasible(values[side.name], side.kind, domain):
            nearest = ", ".join(f"{n:.6g}" for n in nearest_feasible(values[side.name], side.kind, domain))
            raise SpaceError(
                f"{side.name} {list(values[side.name])} pull the wrong way somewhere in {list(domain)}; "
                f"the nearest that do not are [{nearest}], or set allow_infeasible: true"
            )


def check_slope(sides: Sequence[Side], values: Mapping[str, Any]) -> None:
    """Refuse a loss whose polynomials are all constants; a missing polynomial has a default that is no constant.

    Raises:
        SpaceError: If all are constants.
    """
    if all(side.name in values for side in sides):
        problem = constant_problem({side.name: len(values[side.name]) for side in sides})
        if problem:
            raise SpaceError(problem)


def can_be_triplet(loss: str, parameters: Mapping[str, Any], fixed: Mapping[str, Any]) -> bool:
    """Say whether a polynomial loss, with its fixed parameters, can equal the hardest-negative triplet loss.

    Args:
        loss: The other loss.
        parameters: Parameters of the other loss.
        fixed: Fixed parameters; a gate narrower than the margin would end the hinge before.
    """
    gate = fixed.get("gate")
    wide = gate is None or gate >= parameters.get("margin", 0.0)
    is_one = fixed.get("negatives", 1) == 1
    return loss == "triplet_sh" and is_one and wide and fixed.get("hinge") != "separate"


def are_fixed(sides: Sequence[Side], bounds: Bounds, fixed: Mapping[str, Any]) -> bool:
    """Say whether the coefficients are fixed, so that no parameter is searched.

    Raises:
        SpaceError: If coefficients are listed as well.
    """
    if not any(side.name in fixed for side in sides):
        return False
    listed = [name for side in sides for name in side.listed(bounds)]
    if listed:
        raise SpaceError(f"coefficients are fixed, so {', '.join(listed)} cannot be searched; leave out one of both")
    return True
