"""``orchestrator retrieve``: the champion of a dataset answers a caption with images, an image with captions."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.commands.options import DataRoot, Device, Json, Output, TrackingUri, TrustPlugins
from orchestrator.report.queries import Item, find_pictures, pictures_note, retrieved_items, write_retrieved
from orchestrator.text.terminal import make_console, make_table, say
from orchestrator.text.wording import number_text
from orchestrator.tracking.registry import fetch_champion, find_store
from trainables.config import TrialConfig
from trainables.data.dataset import open_dataset
from trainables.errors import ConfigError, DataError

if TYPE_CHECKING:
    from trainables.serving.retriever import Match, Retriever


def retrieve(
    dataset: Annotated[str, typer.Option(help="Dataset whose champion ranks its images and captions.")],
    caption: Annotated[str | None, typer.Argument(help="Caption to find images for.")] = None,
    image: Annotated[str | None, typer.Option(help="Id of an image, or a picture file, to find captions for.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many answers to give.")] = 10,
    output: Output = Path("runs"),
    tracking_uri: TrackingUri = None,
    device: Device = "auto",
    trust_plugins: TrustPlugins = False,
    html: Annotated[Path | None, typer.Option(help="Also write the answers as a page with pictures.")] = None,
    data_root: DataRoot = Path("data"),
    as_json: Json = False,
) -> None:
    """Query the best model: orchestrator retrieve "two dogs on a beach" --dataset flickr8k."""
    if (caption is None) == (image is None):
        raise ConfigError("give a caption to find images for, or --image to find captions for; one of the two")
    if not (caption or image or "").strip():
        raise ConfigError("the query is empty; give a caption of at least one word, or an image")

    uri = find_store(tracking_uri, output)
    with tempfile.TemporaryDirectory() as scratch:
        folder, registered = fetch_champion(uri, dataset, Path(scratch))
        from trainables.serving.retriever import Retriever

        retriever = Retriever(folder, device=device, trust_plugins=trust_plugins)
        recognised: list[str] = []
        if image is None:
            answers = retriever.images_for(caption or "", top)
        else:
            query, recognised = _image_query(retriever, image, data_root)
            answers = retriever.captions_for(query, top)
    doubts = [*recognised, *retriever.doubts_about(caption, answers)]
    captions = {} if caption is None else {answer.image: retriever.captions_of(answer.image) for answer in answers}
    model = f"{registered.name} version {registered.version}"
    if html is not None:
        # Where the dataset is missing, the page says so instead of showing pictures.
        picture, missing = find_pictures(retriever.about["config"]["dataset"], data_root)
        asked_for = Item(caption or image or "", "" if captions else picture(caption or image or ""))
        items = retrieved_items(answers, captions, picture)
        note = pictures_note(items if captions else [asked_for], missing)
        try:
            write_retrieved(model, asked_for, [*doubts, *filter(None, [note])], items, html)
        except OSError as error:
            raise ConfigError(f"--html {html}: cannot be written: {error.strerror}") from None
        say(f"page: {html}", error=True)
    if as_json:
        asked = {"model": registered.name, "version": registered.version, "caption": caption, "image": image}
        entries = [{**asdict(answer), "captions": captions.get(answer.image, [])} for answer in answers]
        print(json.dumps({**asked, "answers": entries, "warnings": doubts}, indent=2))
    else:
        first = [next(iter(captions.get(answer.image, [])), answer.caption) for answer in answers]
        heading = "caption" if caption is None else "its first caption"
        show_answers(model, answers, heading, first)
        say(*(f"note: {doubt}" for doubt in doubts), error=True)


def _image_query(retriever: "Retriever", image: str, data_root: Path) -> "tuple[str | Sequence[float], list[str]]":
    """Return the query for ``--image``, and a sentence where a picture was found by its name in the model's dataset.

    Without the backbone of the dataset's features a picture file says nothing to the model. A picture of the dataset
    has features there: in the split that is packed with the model, or in another split under the data root.
    """
    name, dataset = Path(image).name, retriever.about["dataset"]
    if (known := retriever.recognised(image)) is not None:
        sentence = f"{known} is an image of {dataset} {retriever.about['split']}"
        return image, [f"{sentence}, found by its name: its features of the dataset were used"]
    if retriever.reads_pictures or not Path(image).is_file():
        return image, []

    try:
        data = open_dataset(TrialConfig.from_dict(retriever.about["config"]), data_root)
    except DataError:
        # The refusal of a picture without features says what to do.
        return image, []
    for split in data.splits.values() if data.digest == retriever.about["digest"] else ():
        if name in (names := list(split.filenames)):
            note = f"{name} is an image of {dataset} {split.name}, found by its name: its features there were used"
            return split.features[split.image_rows[names.index(name)]].tolist(), [note]
    return image, []


def show_answers(title: str, answers: Sequence["Match"], heading: str, captions: Sequence[str]) -> None:
    """Print the answers as a table, the best first, each with a caption."""
    shown = [name for name in ("image", "filename") if any(getattr(answer, name) for answer in answers)]
    rows = [
        [*(getattr(answer, name) for name in shown), caption, number_text(answer.score, decimals=3)]
        for answer, caption in zip(answers, captions, strict=True)
    ]
    make_console().print(make_table([*shown, heading, "score"], rows, title, texts=len(shown) + 1))
