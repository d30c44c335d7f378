"""``orchestrator data unpack``: features that another program saved, as a dataset's feature files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Dataset, FeatureFolder, Json
from orchestrator.extraction.dumps import unpack_dumps
from orchestrator.text.terminal import say


def unpack(
    dataset: Dataset,
    dumps: Annotated[
        list[Path],
        typer.Argument(
            help="One .npz, .pt or .safetensors file of all splits, or one file each for train, val and test."
        ),
    ],
    out: FeatureFolder = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Import image and caption features that another program saved as image_features and text_features (open_clip)."""
    made = unpack_dumps(dataset, data_root, dumps, out)
    if as_json:
        print(json.dumps(made.to_dict(), indent=2))
    else:
        say(
            f"{made.images:,} images with {made.image_size} features each, {made.captions:,} captions with "
            f"{made.caption_size}",
            *made.files,
        )
