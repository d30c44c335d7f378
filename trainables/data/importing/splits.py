"""Splits of imported pictures: as the source says, or drawn over groups.

Pictures belong to one group if they have equal bytes, one name, or one value of a column that a person named. A group
is in one split as a whole, so that no picture and no copy of it is trained on and tested on.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainables.data.corpus import SPLIT_ALIASES, SPLITS
from trainables.errors import ConfigError, DataError


@dataclass(frozen=True)
class Rule:
    """A rule by which splits are drawn: shares of train, val and test that add up to 100, and a seed."""

    shares: tuple[float, float, float]
    seed: int

    def __str__(self) -> str:
        return f"{'/'.join(f'{share:g}' for share in self.shares)}, seed {self.seed}"


def parse_rule(text: str, seed: int) -> Rule:
    """Return the rule of ``80/10/10`` (``ConfigError`` if it is none).

    Example:
        >>> parse_rule("8/1/1", 0).shares
        (80.0, 10.0, 10.0)
    """
    parts = [part.strip() for part in re.split(r"[/,:]", text)]
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not all(0 < number < 1e6 for number in numbers):
        raise ConfigError(
            f"--split must be three shares above 0 of train, val and test, such as 80/10/10; got {text!r:.40}"
        )
    total = sum(numbers)
    train, val, test = (100 * number / total for number in numbers)
    return Rule((train, val, test), seed)


def named_splits(splits: Sequence[str], places: Sequence[str]) -> list[str]:
    """Return the splits of pictures that their source names, as ours.

    Raises:
        DataError: If a name is none that is known, or a split has no pictures; the message has place and remedy.
    """
    known = [SPLIT_ALIASES.get(split.strip().lower(), "") for split in splits]
    problems = [
        f"{place}: the split {split!r:.40} is none of {', '.join(SPLIT_ALIASES)}; rename it, or draw new splits with "
        "--split 80/10/10"
        for place, split, ours in zip(places, splits, known, strict=True)
        if not ours
    ]
    if problems:
        raise DataError(problems)
    if missing := [split for split in SPLITS if split not in known]:
        raise DataError(
            f"the source has pictures of {', '.join(sorted(set(known)))} and none of {', '.join(missing)}; draw new "
            "splits with --split 80/10/10 --seed 0, or add the files of the others"
        )
    return known


def join_groups(keys: Sequence[Sequence[str]]) -> list[int]:
    """Return a number of the group of each picture; pictures that share a key, directly or over others, share it.

    Example:
        >>> join_groups([["a"], ["b", "x"], ["a", "y"], ["y", "z"]])
        [0, 1, 0, 0]
    """
    parent = list(range(len(keys)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    first: dict[str, int] = {}
    for place, own in enumerate(keys):
        for key in own:
            other = root(first.setdefault(key, place))
            parent[max(other, root(place))] = min(other, root(place))
    return [root(place) for place in range(len(keys))]


def draw_splits(groups: Sequence[int], names: Sequence[str], rule: Rule) -> list[str]:
    """Draw the split of each picture, whole groups at a time.

    The groups come in the order of the SHA-256 of the seed and the name of their first picture, so that the draw does
    not depend on the machine. They fill test, then val, each until it has its share of the pictures; the rest is train.

    Raises:
        DataError: If a split stays empty, because there are too few groups.
    """
    members: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    order = sorted(
        members,
        key=lambda group: hashlib.sha256(f"{rule.seed} {min(names[m] for m in members[group])}".encode()).digest(),
    )
    wanted = {split: round(len(groups) * share / 100) for split, share in zip(SPLITS, rule.shares, strict=True)}
    splits = [""] * len(groups)
    counts = dict.fromkeys(SPLITS, 0)
    for group in order:
        filling = next((split for split in ("test", "val") if counts[split] < max(wanted[split], 1)), "train")
        for member in members[group]:
            splits[member] = filling
        counts[filling] += len(members[group])
    if 0 in counts.values():
        empty = next(split for split, count in counts.items() if not count)
        raise DataError(f"{len(members):,} groups of pictures are too few for three splits: {empty} would be empty")
    return splits
