"""The answers to one query as a page with pictures: what ``orchestrator retrieve --html`` writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.report.queries import embedded_picture
from orchestrator.report.render import stylesheet, templates
from trainables.data.pictures.images import image_folders
from trainables.errors import DataError
from trainables.files import write_whole

if TYPE_CHECKING:
    from trainables.serving.retriever import Answer


@dataclass(frozen=True)
class Found:
    """An answer on the page.

    Attributes:
        name: What the source calls the image, with the name of its file where this is another one.
        image: JPEG as a data URI; empty where the image file is not at hand.
        captions: Of an image that was asked for all that belong to it, of a caption the caption alone.
        score: As shown.
    """

    name: str
    image: str
    captions: list[str]
    score: str


@dataclass(frozen=True)
class AnswersPage:
    """The page.

    Attributes:
        model: Name and version of the model that was asked.
        query: The caption, or the name of the image.
        picture: Of the image that was asked with, as a data URI; empty where there is none.
        notes: What is to be known before believing the answers, and why pictures are missing.
        found: The best answer first.
    """

    model: str
    query: str
    picture: str
    notes: list[str]
    found: list[Found]


def find_pictures(dataset: str, data_root: Path) -> tuple[Callable[[str], str], str]:
    """Return what gives the picture of a file name as a data URI, and why it gives none where the data are missing."""
    from trainables.data.source import find_source

    try:
        source = find_source(dataset, data_root)
    except DataError as error:
        return lambda filename: "", f"The page has no pictures: {str(error).splitlines()[0]}"
    folders = image_folders(source.folder)
    return lambda filename: embedded_picture(filename, folders, source), ""


def found_answers(
    answers: Sequence["Answer"], captions: Mapping[str, Sequence[str]], picture: Callable[[str], str]
) -> list[Found]:
    """Return answers with their pictures.

    Args:
        answers: The best first.
        captions: Image -> its captions; empty where captions were asked for.
        picture: File name -> data URI.
    """
    return [
        Found(
            name=" · ".join(dict.fromkeys(filter(None, (answer.image, answer.filename)))),
            image=picture(answer.filename) if answer.filename else "",
            captions=list(captions.get(answer.image, ())) or [answer.caption],
            score=f"{answer.score:.3f}",
        )
        for answer in answers
    ]


def write_answers(page: AnswersPage, path: Path) -> None:
    """Write the page whole, or not at all; every string of the page is text in it, whatever it holds."""
    write_whole(path, templates("report").get_template("answers.html.j2").render(page=page, style=stylesheet()))
