"""Datasets with judgements beside them, small enough to read: two images in train and val, four in test."""

import json
from collections.abc import Callable
from pathlib import Path

IMAGES = {"t0": "train", "v0": "val", "a": "test", "b": "test", "c": "test", "d": "test"}
"""File name without its ending, and split."""

EXPERTS = [
    "a.jpg\tb.jpg#1\t3\t3\t1",  # the median is 3: fits
    "a.jpg\tc.jpg#1\t4\t2\t2",  # the median is 2: does not fit, whatever the mean
    "b.jpg\ta.jpg#1\t1\t1\t1",  # the crowd says yes, the experts decide
    "v0.jpg\ta.jpg#1\t4\t4\t4",  # of two splits
]
CROWD = [
    "b.jpg\ta.jpg#1\t1\t3\t0",
    "c.jpg\ta.jpg#1\t0.67\t2\t1",  # fits
    "d.jpg\ta.jpg#1\t0.5\t2\t2",  # as many say no: does not fit
    "d.jpg\td.jpg#1\t0\t0\t3",  # annotated, and refused
    "c.jpg\tc.jpg#1\t1\t3\t0",
    "d.jpg\tb.jpg#1\t0\t0\t3",
]


def write_flickr(root: Path, *, experts: list[str] = EXPERTS, crowd: list[str] = CROWD) -> Path:
    """Write a dataset ``small`` in Karpathy's form, two captions an image, of which the second was judged."""
    folder = root / "small"
    (folder / "judgements").mkdir(parents=True)
    _write_karpathy(folder / "dataset_small.json", lambda image, number: {})
    (folder / "judgements" / "ExpertAnnotations.txt").write_text("".join(f"{line}\n" for line in experts))
    (folder / "judgements" / "CrowdFlowerAnnotations.txt").write_text("".join(f"{line}\n" for line in crowd))
    return folder


def write_coco(root: Path, i2t: dict[str, list[int]], t2i: dict[str, list[int]]) -> Path:
    """Write a dataset whose image n has the captions 10 n and 10 n + 1, and judgements of ECCV Caption's form."""
    folder = root / "small"
    folder.mkdir(parents=True)
    _write_karpathy(folder / "dataset_small.json", lambda image, number: {"sentid": 10 * image + number})
    (folder / "eccv_image_to_caption.json").write_text(json.dumps(i2t))
    (folder / "eccv_caption_to_image.json").write_text(json.dumps(t2i))
    return folder


def _write_karpathy(path: Path, extra: Callable[[int, int], dict[str, int]]) -> None:
    images = [
        {
            "filename": f"{name}.jpg",
            "imgid": place,
            "split": split,
            "sentences": [
                {"raw": f"a dog called {name} seen {number} times", "imgid": place, **extra(place, number)}
                for number in (0, 1)
            ],
        }
        for place, (name, split) in enumerate(IMAGES.items())
    ]
    path.write_text(json.dumps({"images": images}))
