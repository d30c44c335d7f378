import pytest

from trainables.config import derive_seed

DERIVED = 5652199152434014057


def test_seeds_depend_on_all_their_parts() -> None:
    seeds = {derive_seed(seed, name, number) for seed in (0, 1) for name in ("a", "b") for number in range(50)}
    assert len(seeds) == 200
    assert derive_seed(0, "a", 1) == derive_seed(0, "a", 1)


@pytest.mark.parametrize("bits", [32, 63])
def test_seeds_fill_their_range_and_stay_in_it(bits: int) -> None:
    seeds = [derive_seed(0, number, bits=bits) for number in range(200)]
    assert min(seeds) >= 0 and 2 ** (bits - 1) < max(seeds) < 2**bits


def test_a_seed_is_the_same_in_every_version() -> None:
    """Resumed trials and journals rely on it."""
    assert derive_seed(0, "batches", 7) == DERIVED
    assert derive_seed(0, "batches", 7, bits=32) == DERIVED >> 31
