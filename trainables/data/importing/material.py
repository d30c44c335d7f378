"""What was read of a source, before anything is written: pictures with captions, and what was taken as what."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Suffixes of files of pictures, in lower case."""

Reader = Callable[[], bytes]
"""Returns the bytes of a picture that lies inside another file."""


@dataclass(frozen=True)
class CaptionedPicture:
    """A caption of a picture, as a source has it.

    Attributes:
        place: Place in the source, for messages.
        image: Name of the picture in the source.
        caption: The caption as written.
        split: What the source says about the split, such as ``validation``; empty if nothing.
        group: What the source says about pictures that belong together; empty if nothing.
        picture: Where the picture is; ``None`` if the source only names it.
    """

    place: str
    image: str
    caption: str
    split: str = ""
    group: str = ""
    picture: Path | Reader | None = None


@dataclass(frozen=True)
class Taken:
    """One line of the table of what was taken as what: a file or a column, and its meaning."""

    what: str
    meaning: str


@dataclass
class Material:
    """The pairs of all sources, in their order.

    Attributes:
        pairs: All captions with their pictures.
        taken: What was taken as what.
        vectors: Columns of numbers, by name: a row for each pair, shape (pairs, D), floating.
        problems: Mistakes, each with its place.
        splits_named: How the source names splits, in words; empty where it names none.
        columns: Columns of the first table, for messages; empty where there is no table.
    """

    pairs: list[CaptionedPicture] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    splits_named: str = ""
    columns: Sequence[str] = ()

    def add(self, other: "Material") -> None:
        """Add what was read of a further source; columns of numbers must be those of all sources."""
        if self.pairs and other.pairs and self.vectors.keys() != other.vectors.keys():
            names = sorted(self.vectors.keys() ^ other.vectors.keys())
            self.problems.append(f"{other.pairs[0].place}: not all sources have the column {names[0]!r} of numbers")
        self.vectors = {
            name: np.concatenate([self.vectors[name], values]) if name in self.vectors else values
            for name, values in other.vectors.items()
            if not self.pairs or name in self.vectors
        }
        self.pairs += other.pairs
        self.taken += other.taken
        self.problems += other.problems
        self.splits_named = self.splits_named or other.splits_named
        self.columns = self.columns or other.columns


@dataclass(frozen=True)
class NamedColumns:
    """The columns that a person named; an empty name is guessed."""

    image: str = ""
    caption: str = ""
    split: str = ""
    group: str = ""


def is_picture(name: str) -> bool:
    """Say whether a file name has the suffix of a picture."""
    return name.lower().endswith(PICTURES)


def as_texts(value: object) -> Sequence[str] | None:
    """Return the texts of a cell, which holds one or a list of them; ``None`` for anything else."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple | np.ndarray):
        listed = [item.get("raw") if isinstance(item, Mapping) else item for item in value]
        return [item for item in listed if isinstance(item, str)] if all(isinstance(i, str) for i in listed) else None
    return None
