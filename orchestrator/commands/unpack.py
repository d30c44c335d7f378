"""``orchestrator data unpack``: features of both sides that another program saved, as a dataset's feature files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import DataRoot, Json
from orchestrator.text.terminal import say


def unpack(
    dataset: Annotated[str, typer.Argument(help="Name of a folder under the data root, or a path.")],
    dumps: Annotated[
        list[Path],
        typer.Argument(help="A .npz, .pt or .safetensors of all splits, or one each of train, val and test."),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder of the features; left out, the dataset's own.")] = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Take features that another program saved: image_features and text_features, such as those of open_clip."""
    from orchestrator.extraction.dumps import unpack_dumps

    made = unpack_dumps(dataset, data_root, dumps, out)
    if as_json:
        print(json.dumps(made.to_dict(), indent=2))
    else:
        say(
            f"{made.images:,} images with {made.image_size} features each, {made.captions:,} captions with "
            f"{made.caption_size}",
            *made.files,
        )
