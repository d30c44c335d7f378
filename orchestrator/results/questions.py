"""The questions that people ask of a dataset, in their order, and the answers with their statistics.

    (a) Which loss?              the winner against the best candidate of every other loss (and model)
    (b) Which coefficients?      the winner against the other settings of its loss
    (c) Better than published?   the winner against the baseline
    (d) What would settle it?    the smallest detectable difference, and how many seeds would detect a measured one

All rest on the tests of one verdict (``verdict.judge``): the winner, which val chose, against every other candidate.
(a) and (b) are intersections: the winner beats them only where it leads every candidate of another loss, or every other
setting of its loss, at the level of the verdict. A winner is chosen for its high value, so the p-value of a lead is at
least the probability that the luckiest of k candidates leads an equal as far (``statistics.best_of_p``), where k is

    (a)  the number of candidates of the winner's loss
    (b)  twice the number of losses with several candidates that the winner does not beat, its own among them: the
         two best of each may be equal, and the winner is the luckiest of all of them
    (c)  the number of all candidates but the baseline

A row of a table is a comparison that nobody named beforehand, of any two candidates that could be the winner and the
other one. So the p-values of the rows are Holm-adjusted, and k is there in (a) the number of candidates of other losses
than the row's, and in (b) the number of settings of the loss, times the losses that the winner does not beat.

In 10,000 simulated studies of each case, with 2 to 30 candidates, 3 to 10 seeds and spreads that differ up to fourfold,
a false *beats* was in (a) in at most 4.1 %, in (b) in 4.1 %, in (c) in 3.1 % and in any of them in 5.8 %:
``python -m tests.benchmarks questions``; the table is in ``tests/benchmarks/README.md``.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.results.answer import Answer, Cell, Column, Quantity, Table, table_of
from orchestrator.results.candidates import Candidate, Comparison, DatasetVerdict, Verdict
from orchestrator.results.statistics import POWER, best_of_p, holm, needed_seeds
from orchestrator.text.values import count_text
from orchestrator.text.wording import (
    BRIEF,
    basis_text,
    interval_text,
    listed,
    metric_name,
    number_text,
    p_equals,
    printed,
    probability_text,
    setting_text,
    share_text,
)

MOSTLY = 0.5
"""Share of the uncertainty from which on a part of it is named: smaller shares are not estimated well apart."""

OPPOSITE = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}

WHICH_LOSS, WHICH_COEFFICIENTS, PUBLISHED, SETTLE = "loss", "coefficients", "published", "settle"
"""Keys of the answers."""

THE_WINNER = "the winner"


@dataclass(frozen=True)
class Contest:
    """The winner against several other candidates.

    Attributes:
        verdict: ``better`` where the winner leads every other candidate at the level, else the weakest outcome.
        p: The p-value that decides: the largest of the leads where the winner is better, else that of ``closest``;
            ``None`` where nothing was tested.
        closest: The smallest lead over a shown candidate where the winner is better, else the comparison that decides;
            ``None`` where there is no other candidate.
        adjusted: Label -> adjusted p-value of each candidate that was tested.
        chances: Number of candidates of which the luckiest could have been the winner, >= 1.
        is_whole: Whether the winner lost no seed; a winner that did, as all candidates then, beats nobody.
    """

    verdict: Verdict
    p: float | None
    closest: Comparison | None
    adjusted: Mapping[str, float]
    chances: int = 1
    is_whole: bool = True

    def outcome(self, comparison: Comparison, level: float) -> Verdict:
        """Return how the winner compares with a shown candidate."""
        p = self.adjusted.get(comparison.label)
        if p is None:
            outcome = comparison.verdict
        elif p > level:
            outcome = Verdict.TIE
        else:
            outcome = Verdict.BETTER if comparison.difference > 0 else Verdict.WORSE
        return outcome if self.is_whole or outcome is Verdict.WORSE else Verdict.UNTESTED


def hold_contest(comparisons: Sequence[Comparison], shown: Mapping[str, int], chances: int, level: float) -> Contest:
    """Return how the winner compares with all candidates of a question.

    Args:
        comparisons: The winner with each candidate of the question.
        shown: Label of each candidate whose own outcome is shown -> number of candidates of which the luckiest could
            have been the winner, if this one is its equal.
        chances: This number where the winner beats all candidates of the question, >= 1.
        level: Level of the verdict.
    """
    by_label = {comparison.label: comparison for comparison in comparisons}
    tested = {label: p for label in shown if (p := _of_luckiest(by_label[label], shown[label])) is not None}
    leads = {comparison.label: _lead(comparison, chances) for comparison in comparisons}
    adjusted = {
        comparison.label: leads[comparison.label] if comparison.difference > 0 else min(1.0, p * len(comparisons))
        for comparison in comparisons
        if (p := comparison.p) is not None
    } | dict(zip(tested, holm(list(tested.values())), strict=True))
    contest = Contest(Verdict.UNTESTED, None, None, adjusted, chances)
    if not comparisons:
        return contest
    # Of candidates that the winner does not lead, the highest is closest.
    closest = max(comparisons, key=lambda comparison: (leads[comparison.label], -comparison.difference))
    largest = leads[closest.label]
    if largest <= level:
        # Whoever beats all at this p beats each of them; the smallest lead is the one that people ask for.
        rows = {label: min(p, largest) for label, p in adjusted.items()}
        named = [comparison for comparison in comparisons if comparison.label in shown] or comparisons
        nearest = min(named, key=lambda comparison: comparison.difference)
        return Contest(Verdict.BETTER, largest if rows else None, nearest, rows, chances)
    worse = [comparison for comparison in comparisons if contest.outcome(comparison, level) is Verdict.WORSE]
    if worse:
        closest = min(worse, key=lambda comparison: (adjusted.get(comparison.label, 0.0), comparison.difference))
        return replace(contest, verdict=Verdict.WORSE, closest=closest, p=adjusted.get(closest.label))
    untested = [comparison for comparison in comparisons if comparison.verdict is Verdict.UNTESTED]
    if untested:
        return replace(contest, closest=max(untested, key=lambda comparison: -comparison.difference))
    if closest.label not in adjusted:
        return replace(contest, verdict=closest.verdict, closest=closest)
    p = largest if closest.difference > 0 else adjusted[closest.label]
    return Contest(Verdict.TIE, p, closest, {**adjusted, closest.label: p}, chances)


def _of_luckiest(comparison: Comparison, chances: int) -> float | None:
    """Return the p-value that decides, of a lead corrected for the choice of the winner; ``None`` without a test."""
    p = comparison.p
    return p if p is None or comparison.difference <= 0 else max(p, best_of_p(p, chances))


def _lead(comparison: Comparison, chances: int) -> float:
    """Return the p-value of a lead; 1 where there is none, or no test."""
    p = _of_luckiest(comparison, chances)
    if p is None:
        return 0.0 if comparison.verdict is Verdict.BETTER else 1.0
    return p if comparison.difference > 0 else 1.0


class Questions:
    """The answers to a dataset's questions, from its verdict.

    Args:
        verdict: The verdict on the dataset.
        published: Whether the baseline is the published setting; else it was named by the user.
    """

    def __init__(self, verdict: DatasetVerdict, *, published: bool = True) -> None:
        self.verdict, self._published = verdict, published
        self._candidates, self._winner = verdict.candidates, verdict.winner
        self._by_label = {candidate.label: candidate for candidate in verdict.candidates}
        # In the order of the candidates.
        compared = {comparison.label: comparison for comparison in (*verdict.comparisons, *verdict.others)}
        self._comparisons = {label: compared[label] for label in self._by_label if label in compared}
        self._several_models = len({candidate.model for candidate in verdict.candidates}) > 1

    def answers(self) -> list[Answer]:
        """Return the answers that the dataset has, the headline's first."""
        found = (self.which_loss(), self.which_coefficients(), self.better_than_published(), self.what_would_settle())
        return [answer for answer in found if answer is not None]

    def which_loss(self) -> Answer | None:
        """Return the answer to (a); ``None`` where all candidates have one model and loss."""
        winner = self._winner
        if winner is None:
            return self._answer(WHICH_LOSS, "Which loss?", "No training of any candidate finished.", Verdict.UNTESTED)
        others = [candidate for candidate in self._candidates if self._kind(candidate) != self._kind(winner)]
        if not others:
            return None
        best = {self._kind(candidate): candidate for candidate in reversed(others)}
        shown = [candidate for candidate in others if best[self._kind(candidate)] is candidate]
        contest = self._loss_contest(others, shown)
        names = {candidate.label: self.loss_name(candidate) for candidate in (winner, *shown)}
        if contest.closest is not None and contest.closest.label not in names:
            # A setting that val ranks lower decides: it has a row of its own.
            hidden = self._by_label[contest.closest.label]
            place = next(place for place, best in enumerate(shown) if self._kind(best) == self._kind(hidden))
            names |= {one.label: self._full_name(one) for one in (shown[place], hidden)}
            shown.insert(place + 1, hidden)
        question = "Which model and loss?" if self._several_models else "Which loss?"
        headline = self._headline(contest, names, self._every("loss", shown))
        return replace(
            self._of_contest(WHICH_LOSS, question, headline, contest),
            table=self._table([winner, *shown], contest, names),
            notes=(
                *self._beaten(contest, shown, names),
                *self._choice(contest),
                *self._new_images(contest),
                *self._limits(),
            ),
        )

    def which_coefficients(self) -> Answer | None:
        """Return the answer to (b); ``None`` where the winner's loss has a single candidate and others compete."""
        winner = self._winner
        if winner is None:
            return None
        others = [candidate for candidate in self._candidates[1:] if self._kind(candidate) == self._kind(winner)]
        if not others:
            alone = "Only one candidate was confirmed, so nothing was compared."
            question = "Which coefficients?"
            is_alone = len(self._candidates) == 1
            return self._answer(WHICH_COEFFICIENTS, question, alone, Verdict.UNTESTED) if is_alone else None
        names = self.setting_names([winner, *others])
        rivals = 1 + len(self._unbeaten_losses())
        contest = self._contest(others, {one.label: (1 + len(others)) * rivals for one in others}, chances=2 * rivals)
        headline = self._headline(contest, names, self._every(f"setting of {printed(winner.loss)}", others))
        is_only_question = len(others) == len(self._candidates) - 1
        return replace(
            self._of_contest(WHICH_COEFFICIENTS, f"Which coefficients of {printed(winner.loss)}?", headline, contest),
            table=self._table([winner, *others], contest, self.setting_names([winner, *others], None)),
            notes=(
                *self._beaten(contest, others, names),
                *self._choice(contest),
                *((*self._new_images(contest), *self._limits()) if is_only_question else ()),
            ),
        )

    def better_than_published(self) -> Answer | None:
        """Return the answer to (c); ``None`` without a baseline among the candidates."""
        winner, label = self._winner, self.verdict.baseline
        if winner is None or label is None:
            return None
        what = "published settings" if self._published else "baseline"
        question = f"Better than the {what}?"
        candidate = self._by_label[label]
        named = f"the {what} ({self._full_name(candidate)})"
        if candidate is winner:
            verb = "win" if self._published else "wins"
            return self._answer(PUBLISHED, question, f"T{named[1:]} {verb}.", Verdict.TIE)
        chances = len(self._candidates) - 1
        contest = self._contest([candidate], {label: chances}, chances=chances)
        headline = self._headline(contest, {winner.label: THE_WINNER, label: named}, "")
        return replace(
            self._of_contest(PUBLISHED, question, headline[:1].upper() + headline[1:], contest),
            notes=(*self._choice(contest), *self._new_images(contest)),
        )

    def what_would_settle(self) -> Answer | None:
        """Return the answer to (d); ``None`` where no answer is open."""
        answers = (self.which_loss(), self.which_coefficients(), self.better_than_published())
        open_answers = {answer.closest: answer for answer in reversed(answers) if answer and answer.verdict == "tie"}
        sentences = [self._settle(answer) for answer in reversed(open_answers.values()) if answer.closest]
        if not any(sentences):
            return None
        headline, *notes = filter(None, sentences)
        return replace(
            self._answer(SETTLE, "What would settle the open questions?", headline, ""),
            notes=(*notes, f"A detectable difference is found in {share_text(POWER)} of studies of this size."),
        )

    def _kind(self, candidate: Candidate) -> tuple[str, str]:
        return candidate.model, candidate.loss

    def _answer(self, key: str, question: str, headline: str, verdict: str) -> Answer:
        return Answer(key, self.verdict.dataset, question, headline, str(verdict))

    def _of_contest(self, key: str, question: str, headline: str, contest: Contest) -> Answer:
        answer, closest = self._answer(key, question, headline, contest.verdict), contest.closest
        if closest is None:
            return answer
        images, interval = closest.over_images, closest.deciding_interval
        numbers: dict[str, float | int | None] = {
            "difference": closest.difference,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "p": contest.p,
            "p_unadjusted": closest.p,
            "probability_on_new_images": images.probability_beyond(0.0) if images else None,
            **self._power(contest, closest),
        }
        return replace(answer, numbers=numbers, closest=closest.label)

    def _contest(self, others: Sequence[Candidate], shown: Mapping[str, int], *, chances: int) -> Contest:
        tested = [self._comparisons[other.label] for other in others if other.label in self._comparisons]
        compared = {label: count for label, count in shown.items() if label in self._comparisons}
        contest = hold_contest(tested, compared, chances, self.verdict.level)
        if self._winner is None or not self._winner.missing:
            return contest
        verdict = contest.verdict if contest.verdict is Verdict.WORSE else Verdict.UNTESTED
        return replace(contest, verdict=verdict, is_whole=False)

    def _loss_contest(self, others: Sequence[Candidate], shown: Sequence[Candidate]) -> Contest:
        sizes = Counter(map(self._kind, self._candidates))
        chances = {one.label: len(self._candidates) - sizes[self._kind(one)] for one in shown}
        return self._contest(others, chances, chances=len(self._candidates) - len(others))

    def _unbeaten_losses(self) -> list[tuple[str, str]]:
        """Return the other losses with several candidates that the winner does not beat."""
        kinds = Counter(self._kind(candidate) for candidate in self._candidates[1:])
        others = [one for one in self._candidates if self._kind(one) != self._kind(self._candidates[0])]
        best = {self._kind(candidate): candidate for candidate in reversed(others)}
        contest = self._loss_contest(others, list(best.values()))
        return [
            kind
            for kind, candidate in best.items()
            if kinds[kind] > 1 and self._row_outcome(contest, candidate) is not Verdict.BETTER
        ]

    def _row_outcome(self, contest: Contest, other: Candidate) -> Verdict:
        comparison = self._comparisons.get(other.label)
        return Verdict.UNTESTED if comparison is None else contest.outcome(comparison, self.verdict.level)

    def _every(self, what: str, shown: Sequence[Candidate]) -> str:
        """Return what a winner beats that beats all; empty where it was compared with a single candidate."""
        compared = sum(candidate.label in self._comparisons for candidate in shown)
        if compared < 2:
            return ""
        return f"every other {what}" + (" that was compared" if compared < len(shown) else "")

    def loss_name(self, candidate: Candidate) -> str:
        """Return the printed name of a candidate's loss, after its model where models differ."""
        name = printed(candidate.loss)
        return f"{printed(candidate.model)} {name}" if self._several_models else name

    def _full_name(self, candidate: Candidate) -> str:
        """Return a candidate's loss with its setting, brief enough for a sentence."""
        setting = setting_text(candidate.parameters, most=BRIEF)
        return f"{self.loss_name(candidate)}, {setting}" if setting else self.loss_name(candidate)

    def setting_names(self, candidates: Sequence[Candidate], most: int | None = BRIEF) -> dict[str, str]:
        """Return label -> the hyper-parameters in which candidates differ, of all where the values are equal."""
        keys = list(dict.fromkeys(key for candidate in candidates for key in candidate.parameters))
        values = {key: [candidate.parameters.get(key) for candidate in candidates] for key in keys}
        differing = [key for key in keys if any(value != values[key][0] for value in values[key])]
        shown = differing or None
        names = {one.label: setting_text(one.parameters, shown, most=most) or "default" for one in candidates}
        unique = len(set(names.values())) == len(candidates)
        return names if unique else {one.label: f"{names[one.label]} ({one.label})" for one in candidates}

    def _headline(self, contest: Contest, names: Mapping[str, str], every: str) -> str:
        """Return the sentence of a contest.

        Args:
            contest: The contest.
            names: Label -> name of the winner and the others.
            every: What a winner that beats all of several candidates beats; empty for a single candidate.
        """
        assert self._winner is not None
        first, closest = names[self._winner.label], contest.closest
        if closest is None:
            return f"{first} could not be compared: the other candidates lost their seeds."
        second, outcome = names[closest.label], contest.verdict
        if outcome is Verdict.UNTESTED and self._winner.missing:
            return f"{first} leads, and every candidate lost a seed: the remaining seeds may flatter it."
        gap = number_text(abs(closest.difference), self.verdict.metric)
        evidence = self._evidence(closest, contest.p)
        seeds = [len(one.values) for one in (self._winner, self._by_label[closest.label])]
        basis = basis_text(seeds, self.verdict.images)
        unit = metric_name(self.verdict.metric)
        if outcome is Verdict.BETTER and every:
            largest = "" if contest.p is None else f", {p_equals(contest.p)}"
            interval = evidence.removesuffix(largest)
            lead = f"{self._signed(closest)} {unit}{interval} ({basis})"
            return f"{first} beats {every}{largest}; closest is {second}: {lead}."
        if outcome is Verdict.BETTER:
            return f"{first} beats {second} by {gap} {unit}{evidence} ({basis})."
        if outcome is Verdict.WORSE:
            # That the winner was chosen on val is said where it has a name.
            chosen = "is" if first == THE_WINNER else "was best on val and is"
            return f"{first} {chosen} worse on test than {second}: {self._signed(closest)}{evidence}."
        if outcome is Verdict.TIE:
            return f"{first} and {second} do not differ significantly: {self._signed(closest)}{evidence}."
        return f"{first} and {second} differ by {self._signed(closest)} {unit}, untested: {closest.reason}."

    def _signed(self, comparison: Comparison) -> str:
        return number_text(comparison.difference, self.verdict.metric, signed=True)

    def _evidence(self, comparison: Comparison, p: float | None) -> str:
        """Return interval and p-value of a comparison after a comma; empty where nothing was tested."""
        interval = comparison.deciding_interval
        if interval is None or p is None:
            return f", {comparison.reason}" if comparison.reason else ""
        ends = interval_text(interval.low, interval.high, self.verdict.metric)
        return f", 95 % CI {ends}, {p_equals(p)}"

    def _power(self, contest: Contest, closest: Comparison) -> dict[str, float | int | None]:
        """Return the smallest difference that the test detects, and the seeds of each that detect a measured lead."""
        test = closest.test
        if test is None:
            return {"smallest_detectable_difference": None, "seeds_needed": None}
        # A lead counts at this p-value: with it the luckiest of all chances leads an equal at the level.
        level = min(self.verdict.level, 2 * -math.expm1(math.log1p(-self.verdict.level) / contest.chances))
        return {
            "smallest_detectable_difference": test.variances.detectable(level),
            "seeds_needed": needed_seeds(test.difference, test.variances, level) if test.difference > 0 else None,
        }

    def _table(self, candidates: Sequence[Candidate], contest: Contest, names: Mapping[str, str]) -> Table:
        metric = self.verdict.metric
        names_losses = len({self._kind(candidate) for candidate in candidates}) > 1
        columns = [
            Column("candidate", "candidate", hidden=True),
            Column("model", "model", hidden=True),
            Column("loss", "loss", hidden=True),
            Column("name", "loss" if names_losses else "setting"),
            Column("setting", "best setting"),
            Column("seeds", "seeds", unit="count"),
            Column("result", "mean ± sd", unit=metric, shows="apart"),
            Column("difference", "against the winner", unit=metric, signed=True, shows="both"),
            Column("p", "p" if len(candidates) < 3 else "p (Holm)", unit="p"),
            Column("verdict", "verdict"),
        ]
        rows: list[Sequence[Cell]] = []
        for one in candidates:
            setting = (setting_text(one.parameters) or "default") if names_losses else None
            about = (one.label, one.model, one.loss, names[one.label], setting, len(one.values), one.quantity)
            rows.append((*about, *self._compared(one, contest)))
        return table_of(columns, rows)

    def _compared(self, candidate: Candidate, contest: Contest) -> tuple[Cell, ...]:
        """Return a candidate's difference to the winner, its p-value and its verdict."""
        comparison = self._comparisons.get(candidate.label)
        if candidate is self._winner:
            return None, None, "winner"
        if comparison is None:
            return None, None, str(Verdict.UNTESTED)
        interval = comparison.deciding_interval
        ends = (-interval.high, -interval.low) if interval else (None, None)
        outcome = self._row_outcome(contest, candidate)
        verdict = str(OPPOSITE.get(outcome, outcome))
        return Quantity(-comparison.difference, None, *ends), contest.adjusted.get(candidate.label), verdict

    def _beaten(self, contest: Contest, shown: Iterable[Candidate], names: Mapping[str, str]) -> list[str]:
        """Name the candidates that a winner beats although it does not beat all."""
        if contest.verdict is Verdict.BETTER or self._winner is None:
            return []
        compared = [candidate for candidate in shown if candidate.label in self._comparisons]
        beaten = [names[one.label] for one in compared if self._row_outcome(contest, one) is Verdict.BETTER]
        winner = names[self._winner.label]
        if len(beaten) > 3:
            return [f"{winner} beats {count_text(len(beaten), 'other')} of {len(compared)}; see the table."]
        return [f"{winner} beats {listed(beaten)}."] if beaten else []

    def _choice(self, contest: Contest) -> tuple[str, ...]:
        """Say why a tie has an interval without 0, if it has one."""
        closest = contest.closest
        if closest is None or contest.verdict is not Verdict.TIE:
            return ()
        interval = closest.deciding_interval
        if interval is None or interval.low <= 0 <= interval.high:
            return ()
        return ("The interval is of this pair alone; p also counts the choice of the winner among its candidates.",)

    def _new_images(self, contest: Contest) -> tuple[str, ...]:
        closest = contest.closest
        if closest is None or closest.over_images is None:
            return ()
        images = closest.over_images
        sentence = (
            f"On new test images of this kind the winner is better with probability "
            f"{probability_text(images.probability_beyond(0.0))}"
        )
        least = self.verdict.smallest_difference
        if least > 0:
            smallest, chance = f"{least:g} {metric_name(self.verdict.metric)}", images.probability_beyond(least)
            sentence += f", by at least {smallest} with probability {probability_text(chance)}"
        return (f"{sentence}.",)

    def _limits(self) -> tuple[str, ...]:
        """Return what limits the verdict: how the winner was chosen, and the warnings of the verdict."""
        alone = () if self.verdict.images is not None else ("The test varies the seeds alone, on these test images.",)
        return (*alone, *(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in self.verdict.warnings))

    def _settle(self, answer: Answer) -> str:
        """Return what would settle a tie; empty where nothing was tested."""
        comparison, smallest = self._comparisons[answer.closest], answer.numbers["smallest_detectable_difference"]
        if smallest is None or self._winner is None:
            return ""
        metric = self.verdict.metric
        pair = (self._winner, self._by_label[comparison.label])
        names = self.setting_names(pair)
        if answer.key == WHICH_LOSS and answer.table is not None:
            names = {row["candidate"]: row["name"] for row in answer.table.to_dict()["rows"]}
        if answer.key == PUBLISHED:
            published = "the published settings" if self._published else "the baseline"
            names = {self._winner.label: "The winner", comparison.label: published}
        first, second = (names[candidate.label] for candidate in pair)
        said = f"{first} against {second}: the smallest detectable difference is {number_text(smallest, metric)}"
        if comparison.difference <= 0:
            return f"{said}."
        gap = number_text(comparison.difference, metric)
        if comparison.share_of_images >= MOSTLY:
            share = share_text(comparison.share_of_images)
            return f"{said}; {share} of the uncertainty comes from the test images, not from the seeds."
        seeds = answer.numbers["seeds_needed"]
        if seeds is None:
            return f"{said}; no affordable number of seeds would detect {gap}."
        return f"{said}; {seeds} seeds each would detect {gap}."
