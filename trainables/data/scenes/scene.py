"""A scene has a few things in places on a ground; scenes are drawn at random.

Scenes come in families of four: the first scene is drawn afresh, and most of the others differ from the first in one
attribute. So the dataset has hard negatives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

SIDE = 224
"""Width and height of a picture in pixels."""

SHAPES = ("circle", "square", "triangle", "star", "ring", "cross", "diamond", "heart", "moon", "hexagon")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray", "turquoise")
SIZES = ("small", "medium", "large")
TEXTURES = ("plain", "striped", "dotted", "checkered")
GROUNDS = ("grass", "sky", "sand", "night", "bricks", "wood", "water", "snow", "tiles", "sunset", "paper")

_RADII = {"small": 22, "medium": 35, "large": 50}
# Layout -> the centres of its things in pixels, and the size of the things in percent of their usual size.
_LAYOUTS: dict[str, tuple[tuple[tuple[int, int], ...], int]] = {
    "centre": (((112, 112),), 115),
    "left": (((66, 112),), 100),
    "right": (((158, 112),), 100),
    "row": (((60, 116), (164, 116)), 95),
    "stack": (((112, 60), (112, 164)), 95),
    "front": (((112, 108), (128, 130)), 110),
    "row of three": (((42, 116), (112, 116), (182, 116)), 68),
    "pyramid": (((112, 58), (58, 162), (166, 162)), 85),
}
_LAYOUT_TICKETS = ("centre", "left", "right", *["row"] * 5, *["stack"] * 5, "front", "front", "row of three", "pyramid")
_FAMILY = 4
_TWINS_PERCENT = 80
_JITTER = 12

Item = TypeVar("Item")


@dataclass(frozen=True)
class Thing:
    """One thing of a scene.

    Centre and radius are in pixels, from the upper left corner.
    """

    shape: str
    colour: str
    size: str
    texture: str
    x: int
    y: int
    radius: int


@dataclass(frozen=True)
class Scene:
    """The content of a picture.

    It has one to three things, in the order in which they are painted; in the layout ``front`` the second is in front
    of the first.
    """

    ground: str
    layout: str
    things: tuple[Thing, ...]


def random_generator(seed: int, index: int, purpose: int) -> np.random.Generator:
    """Return the generator of one image for one purpose; no two generators share their numbers."""
    return np.random.default_rng([seed, index, purpose])


def pick(generator: np.random.Generator, items: Sequence[Item]) -> Item:
    """Draw one of some items."""
    return items[int(generator.integers(len(items)))]


def draw_scene(seed: int, index: int) -> Scene:
    """Return scene number ``index`` of a seed; it may differ from the first scene of its family in one attribute."""
    generator = random_generator(seed, index, purpose=0)
    first = index - index % _FAMILY
    if index == first or int(generator.integers(100)) >= _TWINS_PERCENT:
        return _new_scene(generator)
    return _change_one_attribute(draw_scene(seed, first), generator)


def draw_single(seed: int, index: int, colour: str, shape: str) -> Scene:
    """Return a scene of one thing with a colour and a shape; place, size, texture and ground are random."""
    generator = random_generator(seed, index, purpose=0)
    layout = pick(generator, ("centre", "left", "right"))
    texture = pick(generator, ("plain", "plain", *TEXTURES))
    thing = Thing(shape, colour, pick(generator, SIZES), texture, 0, 0, 0)
    return Scene(pick(generator, GROUNDS), layout, (_place(thing, layout, 0, generator),))


def relation(scene: Scene, first: int, second: int) -> str:
    """Return the place of a thing relative to a second thing.

    It is ``left``, ``right``, ``above``, ``below``, ``front`` or ``behind``.
    """
    if scene.layout == "front":
        return "front" if first > second else "behind"
    dx = scene.things[second].x - scene.things[first].x
    dy = scene.things[second].y - scene.things[first].y
    if abs(dx) >= abs(dy):
        return "left" if dx > 0 else "right"
    return "above" if dy > 0 else "below"


def _new_scene(generator: np.random.Generator) -> Scene:
    layout = pick(generator, _LAYOUT_TICKETS)
    things: list[Thing] = []
    for place in range(len(_LAYOUTS[layout][0])):
        size = ("large", "small")[place] if layout == "front" else pick(generator, SIZES)
        # Of two things that share a colour or a shape, a caption that names only this attribute would mean either.
        while True:
            shape, colour = pick(generator, SHAPES), pick(generator, COLOURS)
            if all(thing.shape != shape and thing.colour != colour for thing in things):
                break
        texture = pick(generator, ("plain", "plain", *TEXTURES))
        things.append(_place(Thing(shape, colour, size, texture, 0, 0, 0), layout, place, generator))
    return Scene(pick(generator, GROUNDS), layout, tuple(things))


def _place(thing: Thing, layout: str, place: int, generator: np.random.Generator) -> Thing:
    """Return a thing at its place in the layout, a few pixels off, with the radius of its size."""
    centres, percent = _LAYOUTS[layout]
    x, y = (centre + int(generator.integers(-_JITTER, _JITTER + 1)) for centre in centres[place])
    radius = (_RADII[thing.size] + int(generator.integers(-2, 3))) * percent // 100
    return replace(thing, x=x, y=y, radius=radius)


def _change_one_attribute(scene: Scene, generator: np.random.Generator) -> Scene:
    """Return a scene that differs in one attribute of one thing, in the ground, or in the places of two things."""
    things = list(scene.things)
    changes = ["colour", "colour", "shape", "shape", "texture", "ground"]
    changes += [] if scene.layout == "front" else ["size"]
    changes += ["order", "order"] if len(things) > 1 and scene.layout != "front" else []
    change = pick(generator, changes)
    if change == "order":
        things[0], things[1] = things[1], things[0]
    elif change != "ground":
        position = int(generator.integers(len(things)))
        others = {"colour": COLOURS, "shape": SHAPES, "texture": TEXTURES, "size": SIZES}[change]
        taken = {getattr(thing, change) for thing in (things if change in ("colour", "shape") else [things[position]])}
        value = pick(generator, [value for value in others if value not in taken])
        changed: dict[str, Any] = {change: value}
        things[position] = replace(things[position], **changed)
    ground = pick(generator, [name for name in GROUNDS if name != scene.ground or change != "ground"])
    ground = ground if change == "ground" else scene.ground
    placed = tuple(_place(thing, scene.layout, place, generator) for place, thing in enumerate(things))
    return Scene(ground, scene.layout, placed)
