"""Shows numbers, and strings from other people, on a page or a terminal."""

import math
import unicodedata
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from trainables.loss_parameters import symbols

MINUS = "−"
"""The minus of numbers that people read, U+2212."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\0", "＝", "＋", "－", "＠")


class _Visible(dict[int, str]):
    """Code point -> its visible form, which is looked up once."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        category = unicodedata.category(letter)
        if category == "Cs":
            shown = "\ufffd"
        elif category in ("Cc", "Cf", "Zl", "Zp") and letter not in "\n\t":
            long = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
            shown = f"\\x{code:02x}" if code < 0x100 and category == "Cc" else long
        else:
            shown = letter
        self[code] = shown
        return shown


_VISIBLE = _Visible()


def visible(text: str) -> str:
    r"""Return a string whose control characters can be seen.

    Control characters, marks that reorder or hide text, and the separators of lines and paragraphs, which a terminal
    may obey, become their escapes, e.g. ``\x00``. Lone surrogates, which no file can hold, become U+FFFD. Line feeds
    and tabs stay.
    """
    # Nearly all texts are printable, and every cell of every table comes here.
    return text if text.isprintable() else text.translate(_VISIBLE)


def guarded(text: str) -> str:
    """Return a text that a spreadsheet shows instead of computing: an apostrophe before the start of a formula."""
    safe = visible(text)
    return f"'{safe}" if text.startswith(_FORMULA_STARTS) or safe.lstrip().startswith(_FORMULA_STARTS) else safe


def markdown(text: str) -> str:
    """Return Markdown, in which HTML is allowed, that shows a text as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*[]~" else letter for letter in escape(visible(text), quote=False))


def visible_values(value: Any) -> Any:
    """Return plain values with every string in them, keys included, made visible; NaN and infinity become ``None``."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {visible(str(key)): visible_values(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        # Most of a page's values are printable texts in a list, and a call for each text takes longer than the check.
        return [item if type(item) is str and item.isprintable() else visible_values(item) for item in value]
    return value


def value_text(value: Any) -> str:
    """Return a hyper-parameter in few characters: four significant digits, lists in brackets.

    Example:
        >>> value_text([-0.25, 12345.678, 1e-5, True])
        '[−0.25, 1.235e+04, 1e-05, true]'
    """
    if isinstance(value, float):
        return _signed(f"{value:.4g}")
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int):
        return _signed(str(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(item) for item in value)}]"
    return str(value)


def in_digits(value: float, digits: int) -> str:
    """Return a number with this many significant digits; two are more than 24 trials determine of a coefficient.

    Example:
        >>> in_digits(0.002814, 2), in_digits(118.3, 2), in_digits(0.0, 2), in_digits(-3.14159, 3)
        ('0.0028', '120', '0', '−3.14')
    """
    return _signed(f"{float(f'{value:.{digits}g}'):.10g}")


def _signed(text: str) -> str:
    """Return a number with the sign of people, and in an exponent with that of programs, so that it can be typed."""
    return f"{MINUS}{text[1:]}" if text.startswith("-") else text


def values_text(values: Mapping[str, Any]) -> str:
    """Return named hyper-parameters on one line."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def duration_text(seconds: float) -> str:
    """Return seconds in the unit that people would use."""
    if seconds == 0:
        return "–"
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h"


def clock_text(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds; a day is 24:00:00."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 trial``, ``12 trials``, ``3 studies``, ``2 searches``, ``4 epochs``."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    # The "ch" of an epoch is spoken as a k.
    hisses = noun.endswith(("s", "ch")) and not noun.endswith("epoch")
    return f"{count:,} {noun}{'es' if hisses else 's'}"


SYMBOLS = symbols()
"""Hyper-parameters that papers write with a letter."""


def short_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by their letters, or by names without their section, if these names differ.

    Example:
        >>> short_names({"temperature": 0.1, "training.weight_decay": 0.0})
        {'τ': 0.1, 'weight_decay': 0.0}
    """
    short = {name: SYMBOLS.get(name, name.rpartition(".")[2]) for name in values}
    names = list(short.values())
    return {(short[name] if names.count(short[name]) == 1 else name): value for name, value in values.items()}


def format_parameters(parameters: Mapping[str, Any]) -> str:
    """Return ``name=value`` pairs, numbers with four significant digits."""
    return " ".join(f"{name}={value_text(value)}" for name, value in parameters.items())


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted keys, such as ``training.epochs``."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return leaves
