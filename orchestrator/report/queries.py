"""Queries with their answers, as the pages show them: of the winner, of two candidates side by side, of one question.

A winner is asked ten queries in each direction. Two candidates are compared by the ranks that were kept when the test
split was evaluated. ``orchestrator retrieve --html`` writes a page about one query.
"""

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage
from orchestrator.results.answer import Table
from orchestrator.results.question import Pair
from orchestrator.results.trial_comparison import compare_queries, largest_leads, median_ranks
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.text.values import count_text
from orchestrator.text.wording import printed
from orchestrator.views.html import filled, theme
from trainables.data.clip_files import decode_frame, find_clip, spaced_frames
from trainables.data.pictures import find_image, image_folders, link_problem
from trainables.errors import DataError, reason_of
from trainables.extras import MissingExtraError
from trainables.files import write_whole
from trainables.ranks import Ranks

if TYPE_CHECKING:
    from trainables.data.dataset import Dataset, Split
    from trainables.data.source import Source
    from trainables.serving.retriever import Match

QUERIES, ANSWERS = 10, 5
SIDE = 168
"""Longer side of an embedded image in pixels; twice the image's size on the page."""
QUALITY = 72

FRAMES, SHOWN = 16, 2000
"""Most frames of an embedded clip, and the milliseconds in which all are shown."""

WAYS = ("An image queries captions", "A caption queries images")


@dataclass(frozen=True)
class Item:
    """An image or a caption; ``text`` is the caption, or the source's name of the image.

    ``image`` is a JPEG, or a WebP of a clip that moves, as a data URI; empty for a caption, and if the file is missing.
    ``captions`` are shown below an image. ``score`` is the similarity to the query, and ``correct`` whether the item
    belongs to it, where these are known.
    """

    text: str
    image: str = ""
    score: float | None = None
    correct: bool | None = None
    captions: Sequence[str] = ()


@dataclass(frozen=True)
class Query:
    """A query and its first answers.

    Attributes:
        ranks: ``first right answer``, or the name of a candidate -> rank of the first right answer, from 1, in the
            whole split; ties count against it.
    """

    query: Item
    ranks: Mapping[str, float]
    answers: Sequence[Item]


@dataclass(frozen=True)
class ShownQueries:
    """Queries of one model, or of two models that are compared, under headings.

    ``note`` says what the queries rest on, and the reason for missing answers or pictures; ``table`` how many queries
    two models find, whose queries a reader opens.
    """

    title: str = ""
    note: str = ""
    table: Table | None = None
    groups: Mapping[str, Sequence[Query]] = field(default_factory=dict)


def ask_model(
    checkpoint: Path, data: "Dataset", source: "Source", split: str, title: str, *, device: str
) -> ShownQueries:
    """Return the retrievals of a checkpoint's best model on ``val``, or on ``test`` if the test split has been opened.

    The queries are spread evenly over the split, so that no person selects the queries.

    Args:
        checkpoint: An ``epoch_NNNN`` directory.
        data: The dataset that the model was trained on.
        source: Source of the dataset's image files.
        split: Name of the split.
        title: Heading of the queries.
        device: See ``trainables.seeding``.

    Raises:
        CheckpointError: If the checkpoint is damaged or was trained on another dataset.
    """
    import torch

    from trainables.data.batches import ResidentSplit
    from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
    from trainables.seeding import choose_device

    model, _ = load_best(checkpoint, data)
    where = choose_device(device)
    part = data.splits[split]
    with evaluating(model.to(where)):
        resident = ResidentSplit(part, where, model.reading)
        scores = model.scores(encode_images(model, resident), encode_captions(model, resident))
        candidates = resident.candidates()
        everything = torch.arange(len(part.image_ids)), torch.arange(len(candidates))
        asked_images, asked_captions = (_spread(len(places)) for places in everything)
        of_images = scores.between(torch.tensor(asked_images), everything[1]).cpu().numpy()
        of_captions = scores.between(everything[0], torch.tensor(asked_captions)).T.cpu().numpy()
    shown = _SplitItems(part, Thumbnails(source))
    missing = "" if shown.image(0).image else "The image files were not found; names are shown."
    places = candidates.tolist()

    def right(images: torch.Tensor, captions: torch.Tensor) -> np.ndarray:
        if part.caption_labels is not None:
            return resident.fits(images, captions).numpy()
        return (images[:, None] == resident.image_of_caption[captions]).numpy()

    i2t = [
        _answered(
            shown.image(image),
            scores,
            right(torch.tensor([image]), candidates)[0],
            lambda row, *about: shown.caption(places[row], *about),
        )
        for image, scores in zip(asked_images, of_images, strict=True)
    ]
    t2i = [
        _answered(
            shown.caption(places[row]), scores, right(everything[0], candidates[row : row + 1])[:, 0], shown.image
        )
        for row, scores in zip(asked_captions, of_captions, strict=True)
    ]
    return ShownQueries(title, missing, groups=dict(zip(WAYS, (i2t, t2i), strict=True)))


class Thumbnails:
    """The image files of a dataset as small data URIs, looked up in the dataset's folder and the folders in it.

    A link that leads out of the dataset's roots is not followed.
    """

    def __init__(self, source: "Source") -> None:
        self._roots, self._folders = source.roots, image_folders(source.folder)

    def __call__(self, filename: str, key: str = "") -> str:
        """Return an image file by its name in the dataset, or a clip by its id; empty if the file is missing."""
        paths = [path] if (path := self.find(filename)) else find_clip(self._folders, key or filename)
        return _data_uri([path for path in paths if not link_problem(path, self._roots)])

    def find(self, filename: str) -> Path | None:
        """Return the path of an image file; ``None`` if the file is missing."""
        path = find_image(self._folders, filename)
        return None if path is None or link_problem(path, self._roots) else path


@dataclass(frozen=True)
class _SplitItems:
    """The images and captions of a split as items, by their places in the split."""

    split: "Split"
    pictures: Thumbnails

    def image(self, place: int, score: float | None = None, correct: bool | None = None) -> Item:
        key = str(self.split.image_ids[place])
        return Item(key, self.pictures(self.split.filenames[place], key), score, correct)

    def caption(self, place: int, score: float | None = None, correct: bool | None = None) -> Item:
        return Item(self.split.captions[place], "", score, correct)


def _answered(query: Item, scores: np.ndarray, correct: np.ndarray, item: Callable[[int, float, bool], Item]) -> Query:
    """Return the answers with the highest scores; ``correct`` says which candidates belong to the query."""
    best = np.argsort(-scores, kind="stable")[:ANSWERS]
    # Ties with wrong candidates rank against the query.
    rank = 1 + int((scores[~correct] >= scores[correct].max()).sum())
    answers = [item(int(place), float(scores[place]), bool(correct[place])) for place in best]
    return Query(query, {"first right answer": rank}, answers)


def _spread(count: int) -> list[int]:
    """Return up to ``QUERIES`` positions, evenly spaced from the first on."""
    return [place * count // min(QUERIES, count) for place in range(min(QUERIES, count))]


def _data_uri(paths: Sequence[Path]) -> str:
    """Return a picture, or the frames of a clip, as a small JPEG or a WebP that moves; empty if a file is unreadable.

    ``paths`` are a file, or the files of a clip's frames. The page then shows the name.
    """
    import PIL.Image

    try:
        # Copies are pictures of one frame, whose file is no longer read.
        images = [decode_frame(frame).copy() for frame in spaced_frames(paths, FRAMES)]
    except (DataError, MissingExtraError):
        return ""
    if not images:
        return ""
    buffer = io.BytesIO()
    for image in images:
        image.thumbnail((SIDE * 2, SIDE * 2), PIL.Image.Resampling.LANCZOS)
    if len(images) == 1:
        images[0].save(buffer, "JPEG", quality=QUALITY, optimize=True)
    else:
        duration = SHOWN // len(images)
        images[0].save(
            buffer, "WEBP", quality=QUALITY, save_all=True, append_images=images[1:], duration=duration, loop=0
        )
    kind = "jpeg" if len(images) == 1 else "webp"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def compared_queries(
    history: History, verdict: DatasetVerdict, names: Mapping[str, str], data: "tuple[Split, Source] | str"
) -> ShownQueries | None:
    """Return the comparison of the winner with another candidate; ``None`` without another candidate.

    The other candidate is the best candidate of another loss, or else the runner-up.

    Args:
        history: History of the experiment.
        verdict: Verdict of the confirmation of a dataset.
        names: Id of a trial -> its name on the page.
        data: Test split and source of the image files; or a sentence, which may be empty, on why the page has no
            pictures and captions.
    """
    winner, opponent = verdict.winner, _opponent(verdict)
    if winner is None or opponent is None:
        return None
    ids = winner.label, opponent.second
    first, second = (names[label] for label in ids)
    title = f"{printed(verdict.dataset)}: {first} beside {second}, query by query"
    ranks = [_ranks(history, label) for label in ids]
    if not all(ranks) or not all(run.has_queries_of(ranks[0][0]) for runs in ranks for run in runs):
        return ShownQueries(title, "The ranks of the queries were not kept when the test split was evaluated.")
    seeds = " and ".join(dict.fromkeys(count_text(len(runs), "seed") for runs in ranks))
    note = f"A rank is the median over {seeds} of the two candidates."
    compared = ShownQueries(title, note, compare_queries(ranks[0], ranks[1], (first, second)))
    if not isinstance(data, str) and ranks[0][0].queries != data[0].queries_digest():
        data = "The data have other queries now, so pictures and captions are not shown."
    if isinstance(data, str):
        return replace(compared, note=f"{note} {data}".strip())
    shown = _SplitItems(data[0], Thumbnails(data[1]))
    groups: dict[str, list[Query]] = {}
    for way, *pair in zip(WAYS, *(median_ranks(runs).values() for runs in ranks), strict=True):
        of_both = dict(zip((first, second), pair, strict=True))
        for leader, ahead, behind in ((first, *pair), (second, *pair[::-1])):
            queries = [
                _pair(place, {name: float(of[place]) for name, of in of_both.items()}, shown, way)
                for place in largest_leads(ahead, behind)
            ]
            groups |= {f"{way}: {leader} is ahead by most": queries} if queries else {}
    return replace(compared, groups=groups)


def _opponent(verdict: DatasetVerdict) -> Pair | None:
    """Return the winner with the best candidate of another loss, or else with the next of its own."""
    losses = {candidate.label: candidate.loss for candidate in verdict.candidates}
    others = [pair for pair in verdict.pairs if losses[pair.second] != losses[pair.first]]
    return next(iter([*others, *verdict.pairs]), None)


def _ranks(history: History, candidate: str) -> list[Ranks]:
    """Return the kept ranks of a candidate's seeds."""
    trials = [trial for trial in history.stage(Stage.CONFIRM) if trial.candidate == candidate]
    return [Ranks.from_text(history.test_ranks[trial.id]) for trial in trials if trial.id in history.test_ranks]


def _pair(number: int, ranks: Mapping[str, float], shown: _SplitItems, way: str) -> Query:
    """Return a query with the image or a caption that belongs to it; ``number`` is the query's place in the split."""
    owners = shown.split.image_of_caption
    if way == WAYS[0]:
        return Query(shown.image(number), ranks, [shown.caption(int((owners == number).argmax()), correct=True)])
    return Query(shown.caption(number), ranks, [shown.image(int(owners[number]), correct=True)])


def find_pictures(dataset: str, data_root: Path) -> tuple[Callable[..., str], str]:
    """Return file name, and id -> data URI of the pictures of a dataset, empty without its data, and the reason."""
    from trainables.data.source import find_source

    try:
        return Thumbnails(find_source(dataset, data_root)), ""
    except DataError as error:
        return lambda filename, key="": "", f"The page has no pictures: {reason_of(error)}"


def retrieved_items(
    answers: "Iterable[Match]", captions: Mapping[str, Sequence[str]], picture: Callable[..., str]
) -> list[Item]:
    """Return the answers of a retriever, best first, with their pictures: name and id -> data URI, which may be empty.

    ``captions`` has the captions of each image; it is empty if the answers are captions.
    """
    return [
        Item(
            " · ".join(dict.fromkeys(filter(None, (answer.image, answer.filename)))),
            picture(answer.filename, answer.image),
            answer.score,
            captions=captions.get(answer.image, ()) or [answer.caption],
        )
        for answer in answers
    ]


def pictures_note(items: Sequence[Item], missing: str) -> str:
    """Return why a page of images has no pictures, of which ``missing`` may be known; empty if it has any."""
    if missing or any(item.image for item in items):
        return missing
    return "The page has no pictures: the files of these images are not in the data root, or are links out of it."


def write_retrieved(model: str, query: Item, notes: Sequence[str], items: Sequence[Item], path: Path) -> None:
    """Write the answers of a model to one query, best first, as a page, whole, or not at all; every string is escaped.

    ``notes`` are cautions about the answers, and the reason for missing pictures.
    """
    values = {"model": model, "query": query, "notes": notes, "items": items}
    write_whole(path, filled("retrieved.html.j2", [theme()], "report", **values))
