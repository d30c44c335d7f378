"""What parameters have to obey."""

from torch import Tensor


def require_not_negative(name: str, value: float | Tensor) -> None:
    """Raise ValueError unless every value is a number of at least 0."""
    lowest = float(value.min()) if isinstance(value, Tensor) else value
    if not lowest >= 0:
        raise ValueError(f"{name} must be at least 0, got {lowest}")
