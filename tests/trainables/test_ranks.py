"""Kept ranks: what is written is what is read, what is damaged is named, and other queries are not compared."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.errors import DataError
from trainables.ranks import Ranks, chance_rsum, read_ranks, write_ranks


def ranks_of(captions_of_images: list[int], seed: int = 0, largest: int = 5000) -> Ranks:
    """Return random ranks of a split whose images have so many captions each."""
    drawn = np.random.default_rng(seed).integers(1, largest + 1, (2, sum(captions_of_images)), dtype=np.int32)
    owner = np.repeat(np.arange(len(captions_of_images), dtype=np.int32), captions_of_images)
    return Ranks(drawn[0], drawn[1], owner, "ab" * 32, "test")


def is_same(one: Ranks, other: Ranks) -> bool:
    arrays = ("i2t", "t2i", "image_of_caption")
    same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
    return same and (one.queries, one.split) == (other.queries, other.split)


@settings(max_examples=60, deadline=None)
@given(
    captions=st.lists(st.integers(1, 9), min_size=1, max_size=40),
    largest=st.sampled_from([1, 300, 70_000, 2**31 - 2]),
    seed=st.integers(0, 99),
)
def test_text_of_a_journal_holds_every_rank(captions: list[int], largest: int, seed: int) -> None:
    ranks = ranks_of(captions, seed, largest)
    again = Ranks.from_text(ranks.to_text())
    assert is_same(again, ranks)
    assert again.i2t.dtype == again.image_of_caption.dtype == np.int32
    assert again.has_queries_of(ranks)


def test_a_file_holds_every_rank_and_the_names_of_the_images(tmp_path: Path) -> None:
    ranks = ranks_of([5, 4, 1])
    names = ("dog.jpg", "katze-ü.jpg", "3")
    write_ranks(tmp_path / "a.npz", replace(ranks, image_ids=names))
    assert is_same(read_ranks(tmp_path / "a.npz"), ranks)
    assert read_ranks(tmp_path / "a.npz").image_ids == names
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert file["image_ids"].tolist() == list(names)
        assert file["i2t"].dtype == np.int32


def test_an_image_has_the_rank_of_its_best_caption() -> None:
    ranks = ranks_of([2, 1, 3])
    one = replace(ranks, i2t=np.array([7, 3, 9, 4, 2, 8], dtype=np.int32))
    assert one.of_images().tolist() == [3, 9, 2]
    assert one.images == 3


def test_text_of_a_real_size_stays_small() -> None:
    """Ranks spread as a trained model's are: about half of the queries are answered at once."""
    drawn = np.random.default_rng(0).geometric(0.05, (2, 5000)).astype(np.int32)
    ranks = Ranks(drawn[0], drawn[1], np.repeat(np.arange(1000, dtype=np.int32), 5), "ab" * 32, "test")
    assert len(ranks.to_text()["packed"]) < 20_000


def test_damaged_text_is_named() -> None:
    text = ranks_of([5, 5]).to_text()
    changes = ({"packed": text["packed"][:-8]}, {"packed": "!" + text["packed"][1:]}, {"captions": 3})
    for damaged in (*({**text, **change} for change in changes), {"captions": 10}):
        with pytest.raises(DataError, match="kept ranks are damaged"):
            Ranks.from_text(damaged)


def test_damaged_and_other_files_are_named(tmp_path: Path) -> None:
    for name, content in {"empty": b"", "cut": b"PK\x03\x04 cut", "text": b"no archive at all"}.items():
        (tmp_path / f"{name}.npz").write_bytes(content)
    np.savez(tmp_path / "other.npz", features=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", i2t=np.array([{}], dtype=object))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(DataError, match=rf"{path.name}: holds no ranks, or is damaged"):
            read_ranks(path)
    with pytest.raises(DataError, match="evaluate CHECKPOINT --ranks"):
        read_ranks(tmp_path / "missing.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"i2t": np.zeros(6, dtype=np.int32)}, "begin at 1"),
        ({"t2i": np.ones(5, dtype=np.int32)}, "one shape"),
        ({"image_of_caption": np.array([0, 0, 2, 2, 2, 2], dtype=np.int32)}, "every image needs a caption"),
        ({"image_of_caption": np.array([0, 1, 0, 1, 2, 2], dtype=np.int32)}, "in the order of their images"),
        ({"image_of_caption": np.array([1, 1, 1, 2, 2, 2], dtype=np.int32)}, "in the order of their images"),
    ],
)
def test_what_cannot_be_ranks_is_refused(changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(ranks_of([2, 1, 3]), **changes)


def test_ranks_of_other_queries_are_not_compared() -> None:
    ranks = ranks_of([2, 1, 3])
    assert not replace(ranks, queries="cd" * 32).has_queries_of(ranks)
    assert not ranks_of([2, 1, 2]).has_queries_of(ranks)
    assert ranks_of([2, 1, 3], seed=4).has_queries_of(ranks)


def counted_recall(candidates: int, positives: int, places: int) -> float:
    """Count the sets of places that the positives can take, and those of them with one in the first places."""
    sets = list(combinations(range(candidates), positives))
    return 100 * sum(min(chosen) < places for chosen in sets) / len(sets)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_the_recalls_are_those_of_all_rankings(captions_of_images: list[int]) -> None:
    images, captions = len(captions_of_images), sum(captions_of_images)
    i2t = sum(counted_recall(captions, own, k) for own in captions_of_images for k in (1, 5, 10)) / images
    t2i = sum(counted_recall(images, 1, k) for k in (1, 5, 10))
    owners = np.arange(images).repeat(captions_of_images)
    assert chance_rsum(owners) == pytest.approx(i2t + t2i)
