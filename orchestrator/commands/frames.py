"""``orchestrator data frames``: features of a video's frames as a dataset's feature files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Json
from orchestrator.text.terminal import say


def frames(
    dataset: Annotated[str, typer.Argument(help="Name of a folder under the data root, or a path.")],
    folder: Annotated[Path, typer.Argument(help="Holds ID.npy of each clip, of shape (frames, D).")],
    count: Annotated[int, typer.Option(help="Frames of a clip that are kept as a set, evenly spaced.")] = 12,
    out: Annotated[Path | None, typer.Option(help="Folder of the features; left out, the dataset's own.")] = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Pool features of frames: their mean as global features, some of them as the regions of a clip."""
    from orchestrator.extraction.frames import pool_frames

    clips, size, files = pool_frames(dataset, data_root, folder, count=count, out=out)
    if as_json:
        print(json.dumps({"clips": clips, "dimensions": size, "frames": count, "files": list(map(str, files))}))
    else:
        say(f"{clips:,} clips: the mean of their frames, and {count} frames of {size} features each", *map(str, files))
