"""What takes the headline of a dataset back: chance, seeds that collapse, the other test, or people's judgements.

Each but the second is the question of the headline, asked again. Where the word is another one, a sentence stands
beside the headline wherever it is shown. These sentences have no error rate of their own: they say what it rests on.
"""

from collections.abc import Iterator

from orchestrator.results.answer import Answer
from orchestrator.results.collapse import find_collapse
from orchestrator.results.comparison import compare
from orchestrator.results.question import Direction, Question, Verdict
from orchestrator.results.runs import Runs, Unit
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.text.wording import number_text, p_equals, printed

CHANCE_METRIC = "test/rsum"
"""The metric of which the value of a random ranking is known."""


def taken_back(
    verdict: DatasetVerdict, other: DatasetVerdict | None, judged: Answer | None, chance: float | None
) -> tuple[str, ...]:
    """Return the sentences that take back the headline of a verdict, the gravest first; none where all agree.

    Args:
        verdict: The verdict of the headline.
        other: The verdict on the same runs by the other test, over units alone or over units and images; ``None`` where
            there is no other test.
        judged: The answer whether the headline holds with people's judgements, see ``judged.judged_answer``.
        chance: The test rsum of a random ranking, in [0, 600]; ``None`` if unknown.
    """
    sentences = [
        *_chance(verdict, chance),
        *_collapse(verdict),
        *(_other_test(verdict, other) if other is not None else ()),
    ]
    of_sources = [] if judged is None else judged.data["judged"]
    return (*sentences, *(source["sentence"] for source in of_sources if not source["survives"]))


def _chance(verdict: DatasetVerdict, chance: float | None) -> Iterator[str]:
    if chance is None or verdict.metric != CHANCE_METRIC or not verdict.candidates:
        return
    guess = Runs.of_seeds("chance", {0: {verdict.metric: chance}}, has_seeds=False)
    compared = [compare(candidate, guess, verdict.metric) for candidate in verdict.candidates]
    pairs = Question(verdict.level, direction=Direction.ABOVE).ask(compared)
    # A candidate that cannot be tested is given the benefit of the doubt.
    if not any(pair.verdict in (Verdict.BETTER, Verdict.UNTESTED) and pair.difference > 0 for pair in pairs):
        value = number_text(chance, verdict.metric)
        yield f"No candidate is better than chance (rsum {value}): check the order of the features' rows."


def _collapse(verdict: DatasetVerdict) -> Iterator[str]:
    """Say that seeds of the winner's loss collapse, where it is called better: few seeds do not say how often."""
    winner = verdict.winner
    if winner is None or winner.unit is not Unit.SEED or verdict.verdict is not Verdict.BETTER:
        return
    settings = [one.sample(verdict.metric) for one in verdict.candidates if one.kind == winner.kind and one.values]
    found = find_collapse(settings)
    if found is not None:
        lowest, median = (number_text(value, verdict.metric) for value in (found.lowest, found.median))
        yield (
            f"Seeds of {printed(winner.loss)} collapse, {found.count} of {found.seeds} (to {lowest} from {median}): "
            "how often others do is not known."
        )


def _other_test(verdict: DatasetVerdict, other: DatasetVerdict) -> Iterator[str]:
    word, again = verdict.verdict, other.conclusion(verdict.first_question)
    if word == again.verdict or Verdict.UNTESTED in (word, again.verdict) or other.decided_by == verdict.decided_by:
        return
    units = f"the {verdict.unit.plural}"
    p = "" if again.p is None else f" ({p_equals(again.p)})"
    said = {Verdict.TIE: "a tie"}.get(again.verdict, str(again.verdict))
    if verdict.images is None:
        yield f"Over {units} and images this is {said}{p}: the verdict holds for these test images alone."
    else:
        yield f"Over {units} alone this is {said}{p}, which holds for these test images alone."
