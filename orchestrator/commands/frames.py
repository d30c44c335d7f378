"""``orchestrator data frames``: features of a video's frames as a dataset's feature files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Dataset, FeatureFolder, Json
from orchestrator.extraction.frames import pool_frames
from orchestrator.text.terminal import say


def frames(
    dataset: Dataset,
    folder: Annotated[Path, typer.Argument(help="Folder with a file ID.npy for each clip, of shape (frames, D).")],
    count: Annotated[int, typer.Option(help="Evenly spaced frames of each clip that are kept as its regions.")] = 12,
    out: FeatureFolder = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Pool the features of video frames: the mean of a clip's frames as global features, some frames as regions."""
    clips, size, files = pool_frames(dataset, data_root, folder, count=count, out=out)
    if as_json:
        print(json.dumps({"clips": clips, "dimensions": size, "frames": count, "files": list(map(str, files))}))
    else:
        say(f"{clips:,} clips: the mean of their frames, and {count} frames of {size} features each", *map(str, files))
