"""``orchestrator data import``: a dataset of the files that people have, shown before it is written."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.options import Json
from orchestrator.extraction.import_dataset import check_target, read_plan, write_dataset, zero_shot_of
from orchestrator.text.terminal import say, typed_program
from orchestrator.text.wording import zero_shot_text
from trainables.data.importing.material import NamedColumns, Taken
from trainables.data.importing.splits import parse_rule


def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="Tables, lists, shards or folders of pictures with captions, and features of both sides.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the new dataset, such as DATA_ROOT/NAME.")],
    split: Annotated[
        str | None, typer.Option(metavar="80/10/10", help="Draw new splits of train, val and test with these shares.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the splits that are drawn.")] = 0,
    features: Annotated[
        list[Path] | None, typer.Option(help="File with features of pictures or captions. May be repeated.")
    ] = None,
    image: Annotated[str, typer.Option(help="Column with the name of the picture, or the picture itself.")] = "",
    caption: Annotated[str, typer.Option(help="Column with the caption, or a list of captions.")] = "",
    split_column: Annotated[str, typer.Option(help="Column with the split.")] = "",
    group: Annotated[str, typer.Option(help="Column of pictures that must be in one split, such as a scene.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is taken as what, and write nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Make a dataset of your own files: [bold]orchestrator data import captions.csv images --out data/mine[/bold]."""
    check_target(out)
    rule = None if split is None else parse_rule(split, seed)
    columns = NamedColumns(image, caption, split_column, group)
    named = [("--image", image), ("--caption", caption), ("--group", group), ("--out", out), ("--split", "80/10/10")]
    options = [*(("--features", file) for file in features or []), *((key, value) for key, value in named if value)]
    words = [typed_program(), "data", "import", *sources, *(part for option in options for part in option)]
    advice = f"draw them with: {shlex.join(map(str, words))} --seed {seed}"
    plan = read_plan(sources, features or [], columns, rule, advice)
    zero_shot = zero_shot_of(plan)
    if not as_json:
        say(*_table(plan.taken))
        if zero_shot["zero_shot"] is not None:
            say(zero_shot_text(zero_shot["zero_shot"], zero_shot["chance"]))
    made = {"out": str(out), "images": len(plan.images), "splits": plan.splits, "written": not dry_run}
    made |= {"taken": [asdict(taken) for taken in plan.taken], **zero_shot}
    if not dry_run:
        description = write_dataset(plan, out, [*sources, *(features or [])], rule)
        made |= {"digest": description.digest, "warnings": description.warnings}
        if not as_json:
            say(*(f"warning: {warning}" for warning in description.warnings))
            say(f"wrote {out}: {len(plan.images):,} pictures, {sum(len(i.captions) for i in plan.images):,} captions")
            root = ["--data-root", str(out.parent)]
            file = f"{out.name}.yaml"
            say(f"look at it: {shlex.join([typed_program(), 'data', 'describe', out.name, *root])}")
            say(f"search: {shlex.join([typed_program(), 'init', file, '--dataset', out.name, *root])}")
    if as_json:
        print(json.dumps(made, indent=2))


def _table(taken: Sequence[Taken]) -> list[str]:
    """Return the lines of the table of what was taken as what."""
    width = max(len(line.what) for line in taken)
    return [f"{line.what:{width}}  {line.meaning}" for line in taken]
