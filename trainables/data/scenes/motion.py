"""Writes ``motion``: clips of one thing that moves, whose captions differ in a direction and nothing else.

    captions.tsv                        a caption a line, ``ID<tab>a red circle moves left``; two captions a clip
    splits/{train,val,test}.txt         the clips of each split
    clips/ID.gif                        the frames
    features_global.npy                 float16 (clips, D): mean over the frames
    features_regions.npy                float16 (clips, F, D): the frames in their order, padded with zeros
    region_lengths.npy                  number of frames of each clip
    experts/frames.npy                  the same frames and numbers as an expert, with experts/frames_lengths.npy
    boxes.npy                           float32 (clips, F, 4): the box of the thing in each frame
    graphs.jsonl                        the role graph of each caption: the thing, its verb and the direction
    motion.json                         the arguments of the generator

Clips come in pairs. The second clip of a pair has the frames of the first in reverse. So a system that ignores the
order of frames gives both clips the same vector and is at chance on their directions. ``is_moving`` adds to each frame
the difference to the next, which holds the direction.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image as Picture

from trainables.data.corpus import SPLITS, Image
from trainables.data.features import images_digest
from trainables.data.inputs import lengths_file
from trainables.data.scenes.descriptor import describe_picture
from trainables.data.scenes.render import render_pixels
from trainables.data.scenes.scene import COLOURS, SHAPES, SIDE, Scene, Thing, pick, random_generator

DIRECTIONS = {"left": ("right", -1, 0), "up": ("down", 0, -1)}
"""Direction of the first clip of a pair -> the direction of the second, and the steps across and down."""

FEWEST, MOST = 6, 10
"""Frames of a clip."""

RADIUS, STEP, SMALLER = 30, 12, 2
"""Radius of a thing and its step between two frames, in pixels, and the divisor of the side of a GIF."""


class Clip(NamedTuple):
    """A clip: its frames (F, SIDE, SIDE, 3), uint8, boxes (F, 4) in [0, 1], the thing and its direction."""

    frames: np.ndarray
    boxes: np.ndarray
    thing: str
    direction: str


def draw_pair(seed: int, index: int) -> tuple[Clip, Clip]:
    """Return pair number ``index``: a thing that moves, and the same frames in reverse."""
    generator = random_generator(seed, index, purpose=4)
    direction = pick(generator, sorted(DIRECTIONS))
    opposite, across, down = DIRECTIONS[direction]
    count = int(generator.integers(FEWEST, MOST + 1))
    colour, shape = pick(generator, COLOURS), pick(generator, SHAPES)
    middle = SIDE // 2
    aside = int(generator.integers(-40, 41))
    frames, boxes = [], []
    for frame in range(count):
        moved = STEP * (2 * frame - count + 1) // 2
        x, y = middle + across * moved + aside * abs(down), middle + down * moved + aside * abs(across)
        thing = Thing(shape, colour, "medium", "plain", x, y, RADIUS)
        frames.append(render_pixels(Scene("paper", "centre", (thing,)), seed, index))
        boxes.append([x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS])
    forward = Clip(np.stack(frames), np.array(boxes, np.float32) / SIDE, f"{colour} {shape}", direction)
    backward = Clip(forward.frames[::-1], forward.boxes[::-1], forward.thing, opposite)
    return forward, backward


def write_motion(folder: Path, info: dict[str, Any], on_progress: Callable[[int], None]) -> None:
    """Fill an empty folder with ``info["images"]`` clips, an even number."""
    clips, is_moving = info["images"], info["motion_features"]
    (folder / "clips").mkdir()
    (folder / "splits").mkdir()
    captions, graphs, features, boxes = [], {}, [], []
    for number, clip in enumerate(_clips(info["seed"], clips // 2)):
        _write_gif(folder / "clips" / f"{number:06d}.gif", clip.frames)
        for text, graph in _captions(clip):
            captions.append(f"{number:06d}\t{text}")
            graphs[text] = graph
        features.append(describe_clip(clip.frames, is_moving=is_moving))
        boxes.append(clip.boxes)
        on_progress(number + 1)
    (folder / "captions.tsv").write_text("\n".join(captions) + "\n")
    (folder / "graphs.jsonl").write_text("\n".join(json.dumps({"sentence": k, **v}) for k, v in graphs.items()) + "\n")
    for split, numbers in _splits(clips).items():
        (folder / "splits" / f"{split}.txt").write_text("".join(f"{number:06d}\n" for number in numbers))
    order = images_digest([Image("", f"{number:06d}", "", "", ()) for number in range(clips)])
    lengths = np.array([len(frames) for frames in features])
    np.save(folder / "boxes.npy", _padded(boxes, np.float32))
    (folder / "experts").mkdir()
    for frames_file in (folder / "features_regions.npy", folder / "experts" / "frames.npy"):
        np.save(frames_file, _padded(features, np.float16))
        np.save(lengths_file(frames_file), lengths)
    np.save(folder / "features_global.npy", np.stack([frames.mean(0) for frames in features]).astype(np.float16))
    for kind in ("global", "regions"):
        (folder / f"features_{kind}.json").write_text(json.dumps({"images_digest": order}))
    (folder / "motion.json").write_text(json.dumps(info))


def describe_clip(frames: np.ndarray, *, is_moving: bool) -> np.ndarray:
    """Return features of frames (F, SIDE, SIDE, 3), shape (F, D), float32; with ``is_moving`` (F, 2 D).

    Features are those of the cells of a frame, one cell after the other. The second half is the difference to the next
    frame, and of the last frame the difference to the frame before.
    """
    rows = np.stack([describe_picture(frame)[0] for frame in frames]).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if not is_moving:
        return rows
    steps = np.diff(rows, axis=0)
    return np.concatenate([rows, np.concatenate([steps, steps[-1:]])], axis=1)


def _clips(seed: int, pairs: int) -> Iterator[Clip]:
    for index in range(pairs):
        yield from draw_pair(seed, index)


def _captions(clip: Clip) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield both captions of a clip, each with its role graph."""
    for text, verb in ((f"a {clip.thing} moves {clip.direction}", 3), (f"{clip.direction} goes the {clip.thing}", 1)):
        words = text.split()
        where = words.index(clip.direction)
        thing = [place for place in range(len(words)) if place not in (verb, where)]
        nodes = {
            "1": {"role": "V", "spans": [verb]},
            "2": {"role": "ARG0", "spans": thing},
            "3": {"role": "ARGM-DIR", "spans": [where]},
        }
        yield text, {"nodes": nodes, "edges": [["1", "2", "ARG0"], ["1", "3", "ARGM-DIR"]]}


def _splits(clips: int) -> dict[str, range]:
    """Return the clips of each split; both clips of a pair are in one split."""
    tenth = 2 * max(clips // 20, 1)
    ends = (0, clips - 2 * tenth, clips - tenth, clips)
    return {split: range(first, last) for split, first, last in zip(SPLITS, ends[:-1], ends[1:], strict=True)}


def _padded(parts: list[np.ndarray], dtype: type[np.floating]) -> np.ndarray:
    padded = np.zeros((len(parts), max(map(len, parts)), parts[0].shape[1]), dtype=dtype)
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
    return padded


def _write_gif(path: Path, frames: np.ndarray) -> None:
    first, *rest = (Picture.fromarray(frame).resize((SIDE // SMALLER, SIDE // SMALLER)) for frame in frames)
    first.save(path, save_all=True, append_images=rest, duration=80, loop=0)
