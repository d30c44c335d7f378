import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.data.text_files import Strings

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=8)


@given(TEXTS, st.slices(8))
def test_is_the_list_it_was_packed_from(texts: list[str], part: slice) -> None:
    packed = Strings.pack(texts)
    assert list(packed) == texts
    assert len(packed) == len(texts)
    assert list(packed[part]) == texts[part]
    assert [packed[-1 - i] for i in range(len(texts))] == texts[::-1]


def test_index_out_of_range() -> None:
    with pytest.raises(IndexError):
        Strings.pack(["a"])[1]


def test_is_flat() -> None:
    packed = Strings.pack(["ab", "", "ü"])
    assert packed.data.dtype == np.uint8
    assert packed.offsets.tolist() == [0, 2, 2, 4]
