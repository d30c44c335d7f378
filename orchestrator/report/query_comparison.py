"""The winner and the best candidate of another loss, query by query, with pictures and captions if available."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.journal.history import History
from orchestrator.journal.trial import Stage
from orchestrator.report.queries import Item, Pictures
from orchestrator.results.candidates import Comparison, DatasetVerdict
from orchestrator.results.trial_comparison import DirectionComparison, compare_queries
from orchestrator.text.values import count_text
from trainables.ranks import Ranks

if TYPE_CHECKING:
    from trainables.data.dataset import Split
    from trainables.data.source import Source


@dataclass(frozen=True)
class Pair:
    """A query that one candidate answers well and the other candidate badly.

    Attributes:
        answer: The image or a caption that belongs to the query.
        first: Rank of the best right answer by the winner, as text.
        second: Rank of the best right answer by the other candidate, as text.
    """

    query: Item
    answer: Item
    first: str
    second: str


@dataclass(frozen=True)
class Direction:
    """One direction of retrieval.

    Attributes:
        compared: The comparison of both candidates.
        gained: Queries on which the winner's ranks are better by most; empty without the data.
        lost: Queries on which the other candidate's ranks are better by most; empty without the data.
    """

    heading: str
    compared: DirectionComparison
    gained: list[Pair] = field(default_factory=list)
    lost: list[Pair] = field(default_factory=list)


@dataclass(frozen=True)
class ComparedQueries:
    """The comparison of two candidates of a dataset on the page.

    Attributes:
        first: The winner's trial.
        second: The other candidate's trial.
        note: Number of seeds over which a rank is the median, and reasons for missing parts.
        directions: Images that query captions, and captions that query images; empty if no ranks were kept.
    """

    dataset: str
    first: str = ""
    second: str = ""
    note: str = ""
    directions: list[Direction] = field(default_factory=list)


HEADINGS = ("An image asks for captions", "A caption asks for images")


def compared_queries(history: History, verdict: DatasetVerdict) -> ComparedQueries | None:
    """Return the comparison of the winner with another candidate; ``None`` without another candidate.

    The other candidate is the best candidate of another loss, or else the runner-up.
    """
    dataset = Path(verdict.dataset).name
    opponent = _opponent(verdict)
    if verdict.winner is None or opponent is None:
        return None
    names = verdict.winner.candidate.label, opponent.label
    ranks = [_ranks(history, name) for name in names]
    empty = ComparedQueries(dataset, *names)
    if not all(ranks) or not all(one.has_queries_of(ranks[0][0]) for runs in ranks for one in runs):
        return replace(empty, note="The ranks of the queries were not kept when the test split was evaluated.")
    first, second = (count_text(len(runs), "seed") for runs in ranks)
    note = f"A rank is the median over {first if first == second else f'{first} and {second}'} of the two candidates."
    return replace(empty, note=note, directions=list(map(Direction, HEADINGS, compare_queries(*ranks))))


def with_pictures(compared: ComparedQueries, history: History, split: "Split", source: "Source") -> ComparedQueries:
    """Return a comparison with its queries and answers, with pictures and captions from a dataset."""
    if not compared.directions:
        return compared
    pictures = Pictures(split, source)
    if _ranks(history, compared.first)[0].queries != split.queries_digest():
        note = f"{compared.note} The data have other queries now, so pictures and captions are not shown."
        return replace(compared, note=note)
    shown = [
        replace(
            direction,
            gained=[_pair(*one, split, pictures, of_images) for one in direction.compared.gained],
            lost=[_pair(*one, split, pictures, of_images) for one in direction.compared.lost],
        )
        for direction, of_images in zip(compared.directions, (True, False), strict=True)
    ]
    return replace(compared, directions=shown)


def _opponent(verdict: DatasetVerdict) -> Comparison | None:
    """Return the comparison with the best candidate of another loss, or else with the runner-up."""
    winner = verdict.winner
    losses = {one.candidate.label: one.candidate.loss for one in verdict.standings}
    others = [one for one in verdict.comparisons if winner and losses[one.label] != winner.candidate.loss]
    return next(iter([*others, *verdict.comparisons]), None)


def _ranks(history: History, candidate: str) -> list[Ranks]:
    """Return the kept ranks of a candidate's seeds."""
    trials = [trial for trial in history.stage(Stage.CONFIRM) if trial.candidate == candidate]
    return [Ranks.from_text(history.test_ranks[trial.id]) for trial in trials if trial.id in history.test_ranks]


def _pair(number: int, first: float, second: float, split: "Split", pictures: Pictures, of_images: bool) -> Pair:
    if of_images:
        image, caption = number, int((split.image_of_caption == number).argmax())
    else:
        image, caption = int(split.image_of_caption[number]), number
    items = [pictures.item(image), Item(split.captions[caption])]
    query, answer = items if of_images else items[::-1]
    return Pair(query, answer, f"{first:g}", f"{second:g}")
