"""The examples of the docstrings run and give what they print."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    "trainables.cocos",
    "trainables.losses",
    "trainables.losses.circle",
    "trainables.losses.gradient_weights",
    "trainables.losses.decoupled",
    "trainables.losses.multi_similarity",
    "trainables.losses.nt_xent",
    "trainables.losses.polynomial",
    "trainables.losses.selective",
    "trainables.losses.sigmoid",
    "trainables.losses.smooth_ap",
    "trainables.losses.triplet",
    "trainables.metrics",
    "trainables.feasibility",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
