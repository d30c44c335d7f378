"""What a page brings is what it was before it was packed, in fewer bytes."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.render import DIGITS, FEWEST, PLACE, packed, rounded

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
LONG = st.lists(st.sampled_from([0, 1, "a"]), min_size=FEWEST, max_size=FEWEST + 1)
"""Few different lists, so that equal ones come up."""

VALUES = st.recursive(
    SCALARS | LONG,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def unpacked(made: dict[str, Any]) -> Any:
    """Return what ``data.js`` makes of packed values."""

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return made["lists"][value[PLACE]] if PLACE in value else {name: whole(one) for name, one in value.items()}
        return [whole(one) for one in value] if isinstance(value, list) else value

    return whole(made["data"])


@given(VALUES)
def test_nothing_is_lost(value: Any) -> None:
    assert unpacked(json.loads(json.dumps(packed(value)))) == value


def test_a_list_that_stands_there_several_times_is_written_once() -> None:
    names, once = ["nt_xent 0001"] * 20, list(range(20))
    made = packed({"charts": [{"text": names, "x": once}, {"text": list(names)}], "short": [1, 1], "also": [1, 1]})
    assert made["lists"] == [names]
    assert made["data"] == {
        "charts": [{"text": {PLACE: 0}, "x": once}, {"text": {PLACE: 0}}],
        "short": [1, 1],
        "also": [1, 1],
    }


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_coordinate_keeps_the_digits_that_a_screen_shows(value: float) -> None:
    (shown,) = rounded([value])
    assert abs(shown - value) <= abs(value) * 10.0 ** (1 - DIGITS)


def test_what_is_no_coordinate_stays_as_it_is() -> None:
    value = {"x": [1, True, None, "0.123456789"], "size": 1234567}
    assert rounded(value) == value
