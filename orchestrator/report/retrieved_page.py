"""The answers to one query as a page with pictures, for ``orchestrator retrieve --html``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.report.queries import embedded_picture
from orchestrator.report.render import stylesheet, templates
from trainables.data.pictures import image_folders
from trainables.errors import DataError
from trainables.files import write_whole

if TYPE_CHECKING:
    from trainables.serving.retriever import Match


@dataclass(frozen=True)
class Found:
    """An answer on the page.

    Attributes:
        name: The source's name of the image, with the name of its file if that differs.
        image: JPEG as a data URI; empty if the image file is missing.
        captions: All captions of an image, or the caption that is the answer.
    """

    name: str
    image: str
    captions: list[str]
    score: str


@dataclass(frozen=True)
class AnswersPage:
    """The page with the answers to a query.

    Attributes:
        model: Name and version of the queried model.
        query: The caption, or the name of the image.
        picture: The image of the query as a data URI; empty for a caption.
        notes: Cautions about the answers, and the reason for missing pictures.
    """

    model: str
    query: str
    picture: str
    notes: list[str]
    found: list[Found]


def find_pictures(dataset: str, data_root: Path) -> tuple[Callable[[str], str], str]:
    """Return a function from a file name to its picture as a data URI, and the reason if the data are missing."""
    from trainables.data.source import find_source

    try:
        source = find_source(dataset, data_root)
    except DataError as error:
        return lambda filename: "", f"The page has no pictures: {str(error).splitlines()[0]}"
    folders = image_folders(source.folder)
    return lambda filename: embedded_picture(filename, folders, source), ""


def found_answers(
    answers: Sequence["Match"], captions: Mapping[str, Sequence[str]], picture: Callable[[str], str]
) -> list[Found]:
    """Return answers with their pictures.

    Args:
        answers: Answers, the best first.
        captions: Image -> its captions; empty if the answers are captions.
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
    """Write the page whole, or not at all; every string is escaped."""
    write_whole(path, templates("report").get_template("retrieved.html.j2").render(page=page, style=stylesheet()))
