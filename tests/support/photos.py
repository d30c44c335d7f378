"""A small dataset of photographs in a folder of their own, in Karpathy's format."""

import json
from pathlib import Path

import numpy as np
import PIL.Image

IMAGES = 12


def write_photos(folder: Path) -> Path:
    """Write pictures with a caption each: 8 for train, 2 for val, 2 for test."""
    (folder / "images").mkdir(parents=True)
    records = []
    for index in range(IMAGES):
        colours = np.random.default_rng(index).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        image = PIL.Image.fromarray(colours).resize((320, 240), PIL.Image.Resampling.BICUBIC)
        image.save(folder / "images" / f"{index}.jpg")
        split = "train" if index < IMAGES - 4 else ("val", "test")[index % 2]
        sentence = {"raw": f"a picture with number {index}", "imgid": index, "sentid": index}
        records.append({"filename": f"{index}.jpg", "imgid": index, "split": split, "sentences": [sentence]})
    (folder / "dataset_photos.json").write_text(json.dumps({"dataset": "photos", "images": records}))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files directly in a folder by their names."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
