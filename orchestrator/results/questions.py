"""The questions that people ask of a dataset, in their order, and the answers with their statistics.

    (a) Which loss?              the winner against the best candidate of every other loss (and model)
    (b) Which coefficients?      the winner against the other settings of its loss
    (c) Better than published?   the winner against the baseline
    (d) What would settle it?    the smallest detectable difference, and how many seeds would detect a measured one

All rest on the tests of one verdict (``verdict.judge``): the winner, which val chose, against every other candidate.
Questions (a) and (b) are intersections. The winner beats the others only where it leads every candidate of another
loss, or every other setting of its loss, at the level of the verdict. A winner is chosen for its high value. So the
p-value of a lead is at least the probability that the luckiest of k candidates leads an equal as far
(``statistics.best_of_p``):

    (a)  k is the number of candidates of the winner's loss
    (b)  k is twice the number of losses with several candidates that the winner does not beat, its own among them: the
         two best of a loss may be equal, and the winner is the luckiest of all of them
    (c)  k is the number of all candidates but the baseline

A row of a table is a comparison that nobody named beforehand, of any two candidates that could be the winner and the
other candidate. So the p-values of the rows are Holm-adjusted, with another k. In (a) it is the number of candidates of
other losses than the row's. In (b) it is the number of settings of the loss, times the losses that the winner does not
beat.

Each case was simulated in 10,000 studies, with 2 to 30 candidates, 3 to 10 seeds and spreads that differ up to
fourfold. A false *beats* was in (a) in at most 4.1 %, in (b) in 4.1 %, in (c) in 3.1 % and in any of them in 5.8 %:
``python -m tests.benchmarks questions``; the table is in ``tests/benchmarks/README.md``.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.results.answer import Answer, Cell, Column, Quantity, Table, table_of
from orchestrator.results.candidates import Candidate, Comparison, DatasetVerdict, Verdict, verdict_at
from orchestrator.results.statistics import POWER, holm
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

THE_WINNER = "The winner"


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
    """

    verdict: Verdict
    p: float | None
    closest: Comparison | None
    adjusted: Mapping[str, float]
    chances: int


def answer_questions(verdict: DatasetVerdict) -> list[Answer]:
    """Return the answers to a dataset's questions that it has, the headline's first."""
    if verdict.winner is None:
        nothing = "No training of any candidate finished."
        return [Answer(WHICH_LOSS, verdict.dataset, "Which loss?", nothing, str(Verdict.UNTESTED))]
    return _Questions(verdict, verdict.winner).answers()


def outcomes_of(answers: Sequence[Answer]) -> dict[str, str]:
    """Return candidate -> ``winner`` or how it compares with the winner, by the first answer that has the candidate."""
    rows = [
        row
        for answer in reversed(answers)
        if answer.table
        for row in answer.table.to_dict()["rows"]
        if "candidate" in row
    ]
    return {row["candidate"]: row["verdict"] for row in rows}


def outcome_against(verdict: DatasetVerdict, compared: Comparison) -> Verdict:
    """Return how the winner compares with a candidate: by a table's row, a headline, or else the comparison itself."""
    answers = answer_questions(verdict)
    row = outcomes_of(answers).get(compared.label)
    if row is not None:
        return OPPOSITE.get(Verdict(row), Verdict(row))
    return next((Verdict(answer.verdict) for answer in answers if answer.closest == compared.label), compared.verdict)


class _Questions:
    """The questions of a dataset with a winner."""

    def __init__(self, verdict: DatasetVerdict, winner: Candidate) -> None:
        self._verdict, self._winner = verdict, winner
        self._candidates = verdict.candidates
        self._by_label = {candidate.label: candidate for candidate in verdict.candidates}
        # In the order of the candidates.
        compared = {comparison.label: comparison for comparison in (*verdict.comparisons, *verdict.others)}
        self._comparisons = {label: compared[label] for label in self._by_label if label in compared}
        self._several_models = len({candidate.model for candidate in verdict.candidates}) > 1
        self._own = [other for other in verdict.candidates[1:] if other.kind == winner.kind]
        self._others = [other for other in verdict.candidates if other.kind != winner.kind]
        # The best of each other loss; each could lead any of the candidates of other losses by luck.
        kinds = dict.fromkeys(other.kind for other in self._others)
        self._best = {kind: next(other for other in self._others if other.kind == kind) for kind in kinds}
        sizes = Counter(configuration.kind for configuration in self._candidates)
        chances = {best.label: len(self._candidates) - sizes[best.kind] for best in self._best.values()}
        self._of_losses = self._contest(self._others, chances, len(self._candidates) - len(self._others))
        # Losses with several candidates that the winner does not beat, and its own.
        outcomes = {kind: self._outcome(self._of_losses.adjusted, best.label) for kind, best in self._best.items()}
        self._rivals = 1 + sum(sizes[kind] > 1 for kind, outcome in outcomes.items() if outcome != Verdict.BETTER)

    def answers(self) -> list[Answer]:
        first_answers = (self._which_loss(), self._which_coefficients(), self._better_than_published())
        answers = [answer for answer in first_answers if answer is not None]
        return [*answers, *self._what_would_settle(answers)]

    def _which_loss(self) -> Answer | None:
        if not self._others:
            return None
        contest, shown = self._of_losses, list(self._best.values())
        names = {candidate.label: self._loss_name(candidate) for candidate in (self._winner, *shown)}
        if contest.closest is not None and contest.closest.label not in names:
            # A setting that val ranks lower decides: it has a row of its own.
            hidden = self._by_label[contest.closest.label]
            best = self._best[hidden.kind]
            names |= {setting.label: self._full_name(setting) for setting in (best, hidden)}
            shown.insert(shown.index(best) + 1, hidden)
        question = "Which model and loss?" if self._several_models else "Which loss?"
        return replace(
            self._answer(WHICH_LOSS, question, contest, names, self._every("loss", shown)),
            table=self._table([self._winner, *shown], contest, names),
            notes=(*self._notes(contest, shown, names), *self._limits(contest)),
        )

    def _which_coefficients(self) -> Answer | None:
        """Return the answer to (b); ``None`` where the winner's loss has a single candidate and others compete."""
        others, of_loss = self._own, printed(self._winner.loss)
        if not others:
            alone = "Only one candidate was confirmed, so nothing was compared."
            about = (WHICH_COEFFICIENTS, self._verdict.dataset, "Which coefficients?")
            return None if self._others else Answer(*about, alone, str(Verdict.UNTESTED))
        group = [self._winner, *others]
        names = self._setting_names(group)
        contest = self._contest(others, {other.label: len(group) * self._rivals for other in others}, 2 * self._rivals)
        every = self._every(f"setting of {of_loss}", others)
        return replace(
            self._answer(WHICH_COEFFICIENTS, f"Which coefficients of {of_loss}?", contest, names, every),
            table=self._table(group, contest, self._setting_names(group, None)),
            notes=(*self._notes(contest, others, names), *(() if self._others else self._limits(contest))),
        )

    def _better_than_published(self) -> Answer | None:
        """Return the answer to (c); ``None`` without a baseline among the candidates."""
        label = self._verdict.baseline
        if label is None:
            return None
        baseline = "baseline" if self._verdict.named_baseline else "published settings"
        question = f"Better than the {baseline}?"
        named = f"{baseline} ({self._full_name(self._by_label[label])})"
        if label == self._winner.label:
            verb = "wins" if self._verdict.named_baseline else "win"
            return Answer(PUBLISHED, self._verdict.dataset, question, f"The {named} {verb}.")
        chances = len(self._candidates) - 1
        contest = self._contest([self._by_label[label]], {label: chances}, chances)
        answer = self._answer(PUBLISHED, question, contest, {self._winner.label: THE_WINNER, label: f"the {named}"}, "")
        return replace(answer, notes=(*self._notes(contest, [], {}), *self._new_images(contest)))

    def _what_would_settle(self, answers: Sequence[Answer]) -> list[Answer]:
        """Return the answer to (d) where an answer is open."""
        open_answers = {answer.closest: answer for answer in reversed(answers) if answer.verdict == Verdict.TIE}
        sentences = [self._settle(answer) for answer in reversed(open_answers.values()) if answer.closest]
        if not any(sentences):
            return []
        headline, *notes = filter(None, sentences)
        notes.append(f"A detectable difference is found in {share_text(POWER)} of studies of this size.")
        question = "What would settle the open questions?"
        return [Answer(SETTLE, self._verdict.dataset, question, headline, notes=tuple(notes))]

    def _contest(self, others: Sequence[Candidate], shown: Mapping[str, int], chances: int) -> Contest:
        """Return how the winner compares with all candidates of a question.

        Args:
            others: The candidates.
            shown: Label of each candidate whose own outcome is shown -> number of candidates of which the luckiest
                could have been the winner, if this candidate is its equal.
            chances: This number where the winner beats all candidates of the question, >= 1.
        """
        comparisons = [self._comparisons[other.label] for other in others if other.label in self._comparisons]
        if not comparisons:
            return Contest(Verdict.UNTESTED, None, None, {}, chances)
        leads = {comparison.label: comparison.lead(chances) for comparison in comparisons}
        p_values = [(comparison, comparison.p) for comparison in comparisons if comparison.p is not None]
        # Nobody named a candidate that is not shown, so its lead over the winner pays for every other candidate.
        adjusted = {
            comparison.label: leads[comparison.label] if comparison.difference > 0 else min(1.0, p * len(comparisons))
            for comparison, p in p_values
        }
        rows = {
            comparison.label: comparison.luckiest(p, shown[comparison.label])
            for comparison, p in p_values
            if comparison.label in shown
        }
        adjusted |= dict(zip(rows, holm(list(rows.values())), strict=True))
        # Of candidates that the winner does not lead, the highest is closest.
        closest = max(comparisons, key=lambda comparison: (leads[comparison.label], -comparison.difference))
        largest, verdict, p_value = leads[closest.label], Verdict.TIE, adjusted.get(closest.label)
        worse = [comparison for comparison in comparisons if self._outcome(adjusted, comparison.label) is Verdict.WORSE]
        untested = [comparison for comparison in comparisons if comparison.verdict is Verdict.UNTESTED]
        if largest <= self._verdict.level:
            # The winner beats every candidate at this p; the smallest lead is the lead that people ask for.
            verdict, p_value = Verdict.BETTER, largest if adjusted else None
            adjusted = {label: min(p, largest) for label, p in adjusted.items()}
            named = [comparison for comparison in comparisons if comparison.label in shown] or comparisons
            closest = min(named, key=lambda comparison: comparison.difference)
        elif worse:
            closest = min(worse, key=lambda comparison: (adjusted.get(comparison.label, 0.0), comparison.difference))
            verdict, p_value = Verdict.WORSE, adjusted.get(closest.label)
        elif untested:
            verdict, p_value, closest = Verdict.UNTESTED, None, min(untested, key=lambda pair: pair.difference)
        elif p_value is None:
            verdict = closest.verdict
        elif closest.difference > 0:
            p_value = adjusted[closest.label] = largest
        if self._winner.missing and verdict is not Verdict.WORSE:
            # A winner that lost a seed, as all candidates did then, beats nobody.
            verdict = Verdict.UNTESTED
        return Contest(verdict, p_value, closest, adjusted, chances)

    def _outcome(self, adjusted: Mapping[str, float], label: str) -> Verdict:
        """Return how the winner compares with a candidate, by adjusted p-values."""
        comparison, p = self._comparisons.get(label), adjusted.get(label)
        if comparison is None:
            return Verdict.UNTESTED
        outcome = comparison.verdict if p is None else verdict_at(comparison.difference, p, self._verdict.level)
        return Verdict.UNTESTED if self._winner.missing and outcome is not Verdict.WORSE else outcome

    def _every(self, noun: str, shown: Sequence[Candidate]) -> str:
        """Return what a winner beats that beats all; empty where it was compared with a single candidate."""
        compared = sum(candidate.label in self._comparisons for candidate in shown)
        if compared < 2:
            return ""
        return f"every other {noun}" + (" that was compared" if compared < len(shown) else "")

    def _loss_name(self, candidate: Candidate) -> str:
        """Return the printed name of a candidate's loss, after its model where models differ."""
        name = printed(candidate.loss)
        return f"{printed(candidate.model)} {name}" if self._several_models else name

    def _full_name(self, candidate: Candidate) -> str:
        """Return a candidate's loss with its setting, brief enough for a sentence."""
        setting = setting_text(candidate.parameters, most=BRIEF)
        return f"{self._loss_name(candidate)}, {setting}" if setting else self._loss_name(candidate)

    def _setting_names(self, candidates: Sequence[Candidate], most: int | None = BRIEF) -> dict[str, str]:
        """Return label -> the hyper-parameters in which candidates differ, of all where the values are equal."""
        keys = list(dict.fromkeys(key for candidate in candidates for key in candidate.parameters))
        values = {key: [candidate.parameters.get(key) for candidate in candidates] for key in keys}
        differing = [key for key in keys if any(value != values[key][0] for value in values[key])]
        shown = differing or None
        names = {member.label: setting_text(member.parameters, shown, most=most) or "default" for member in candidates}
        unique = len(set(names.values())) == len(candidates)
        return names if unique else {member.label: f"{names[member.label]} ({member.label})" for member in candidates}

    def _answer(self, key: str, question: str, contest: Contest, names: Mapping[str, str], every: str) -> Answer:
        """Return headline and numbers of a contest.

        ``names`` are label -> name of the winner and the others; ``every`` names the candidates that a winner beats if
        it beats all of several, and is empty for a single candidate.
        """
        closest, dataset = contest.closest, self._verdict.dataset
        if closest is None:
            lost = f"the other candidates lost their {self._winner.units}"
            alone = f"{names[self._winner.label]} could not be compared: {lost}."
            return Answer(key, dataset, question, alone, str(contest.verdict))
        test, images = closest.test, closest.over_images
        low, high = closest.deciding_interval or (None, None)
        numbers: dict[str, float | int | None] = {
            "difference": closest.difference,
            "low": low,
            "high": high,
            "p": contest.p,
            "p_unadjusted": closest.p,
            "probability_on_new_images": images.probability_beyond(0.0) if images else None,
            "smallest_detectable_difference": None,
            "seeds_needed": None,
        }
        if test is not None:
            # A lead counts at this p-value: with it the luckiest of all chances leads an equal at the level.
            level = self._verdict.level
            level = min(level, 2 * -math.expm1(math.log1p(-level) / contest.chances))
            numbers["smallest_detectable_difference"] = test.detectable(level)
            if test.difference > 0:
                numbers["seeds_needed"] = test.needed_seeds(level)
        headline = self._headline(contest, closest, names, every)
        return Answer(key, dataset, question, headline, str(contest.verdict), closest.label, numbers)

    def _headline(self, contest: Contest, closest: Comparison, names: Mapping[str, str], every: str) -> str:
        first, second = names[self._winner.label], names[closest.label]
        metric, outcome, interval = self._verdict.metric, contest.verdict, closest.deciding_interval
        if outcome is Verdict.UNTESTED and self._winner.missing:
            unit, rest = self._winner.unit, self._winner.units
            return f"{first} leads, and every candidate lost a {unit}: the remaining {rest} may flatter it."
        signed, unit = number_text(closest.difference, metric, signed=True), metric_name(metric)
        seeds = [len(candidate.values) for candidate in (self._winner, self._by_label[closest.label])]
        basis = basis_text(seeds, self._verdict.images, self._winner.unit)
        p = "" if contest.p is None else f", {p_equals(contest.p)}"
        within = f", {closest.reason}" if closest.reason else ""
        evidence = within
        if interval is not None and p:
            within = f", 95 % CI {interval_text(*interval, metric)}"
            evidence = f"{within}{p}"
            if outcome is Verdict.TIE and not interval.low <= 0 <= interval.high:
                evidence += f" at a level of {self._verdict.level:g}"
        if outcome is Verdict.BETTER and every:
            # It is the largest of all leads, and need not be that of the closest.
            p = p.replace("=", "≤")
            return f"{first} beats {every}{p}; closest is {second}: {signed} {unit}{within} ({basis})."
        if outcome is Verdict.BETTER:
            gap = number_text(abs(closest.difference), metric)
            return f"{first} beats {second} by {gap} {unit}{evidence} ({basis})."
        if outcome is Verdict.WORSE:
            # That the winner was chosen on val is said where it has a name.
            chosen = "is" if first == THE_WINNER else "was best on val and is"
            return f"{first} {chosen} worse on test than {second}: {signed}{evidence}."
        if outcome is Verdict.TIE:
            return f"{first} and {second} do not differ significantly: {signed}{evidence}."
        return f"{first} and {second} differ by {signed} {unit}, untested: {closest.reason}."

    def _notes(self, contest: Contest, shown: Sequence[Candidate], names: Mapping[str, str]) -> Iterator[str]:
        """Name what a winner beats although it does not beat all, and say why a tie has an interval without 0."""
        compared = [
            other for other in shown if other.label in self._comparisons and contest.verdict is not Verdict.BETTER
        ]
        outcomes = {other.label: self._outcome(contest.adjusted, other.label) for other in compared}
        beaten = [names[label] for label, outcome in outcomes.items() if outcome is Verdict.BETTER]
        if len(beaten) > 3:
            count = count_text(len(beaten), "other")
            yield f"{names[self._winner.label]} beats {count} of {len(compared)}; see the table."
        elif beaten:
            yield f"{names[self._winner.label]} beats {listed(beaten)}."
        closest, interval = contest.closest, contest.closest and contest.closest.deciding_interval
        is_adjusted = closest is not None and contest.p is not None and contest.p > (closest.p or 0.0)
        if contest.verdict is Verdict.TIE and is_adjusted and interval and not interval.low <= 0 <= interval.high:
            yield "The interval is of this pair alone; p also counts the choice of the winner among its candidates."

    def _new_images(self, contest: Contest) -> Iterator[str]:
        if contest.closest is None or contest.closest.over_images is None:
            return
        images, least = contest.closest.over_images, self._verdict.smallest_difference
        chance = probability_text(images.probability_beyond(0.0))
        by = f", by at least {least:g} {metric_name(self._verdict.metric)} with probability "
        further = f"{by}{probability_text(images.probability_beyond(least))}" if least > 0 else ""
        yield f"On new test images of this kind the winner is better with probability {chance}{further}."

    def _limits(self, contest: Contest) -> Iterator[str]:
        """Say what the verdict says of new images, and what limits it."""
        yield from self._new_images(contest)
        if self._verdict.images is None:
            yield f"The test varies the {self._winner.units} alone, on these test images."
        yield from (f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in self._verdict.warnings)

    def _table(self, candidates: Sequence[Candidate], contest: Contest, names: Mapping[str, str]) -> Table:
        metric = self._verdict.metric
        names_losses = len({configuration.kind for configuration in candidates}) > 1
        columns = [
            Column("candidate", "candidate", hidden=True),
            Column("model", "model", hidden=True),
            Column("loss", "loss", hidden=True),
            Column("name", "loss" if names_losses else "setting"),
            Column("setting", "best setting"),
            Column("seeds", self._winner.units, unit="count"),
            Column("result", "mean ± sd", unit=metric, shows="apart"),
            Column("difference", "against the winner", unit=metric, signed=True, shows="both"),
            Column("p", "p" if len(candidates) < 3 else "p (Holm)", unit="p"),
            Column("verdict", "verdict"),
        ]
        rows: list[Sequence[Cell]] = []
        for candidate in candidates:
            setting = (setting_text(candidate.parameters) or "default") if names_losses else None
            about = (
                candidate.label,
                candidate.model,
                candidate.loss,
                names[candidate.label],
                setting,
                len(candidate.values),
                candidate.quantity,
            )
            comparison, difference = self._comparisons.get(candidate.label), None
            if comparison is not None:
                ends = (-end for end in reversed(comparison.deciding_interval or ()))
                difference = Quantity(-comparison.difference, None, *ends)
            outcome = self._outcome(contest.adjusted, candidate.label)
            verdict = "winner" if candidate is self._winner else str(OPPOSITE.get(outcome, outcome))
            rows.append((*about, difference, contest.adjusted.get(candidate.label), verdict))
        return table_of(columns, rows)

    def _settle(self, answer: Answer) -> str:
        """Return what would settle a tie; empty where nothing was tested."""
        comparison, smallest = self._comparisons[answer.closest], answer.numbers["smallest_detectable_difference"]
        if smallest is None:
            return ""
        metric, label = self._verdict.metric, comparison.label
        names = self._setting_names([self._winner, self._by_label[label]])
        if answer.key == WHICH_LOSS and answer.table is not None:
            names = {row["candidate"]: row["name"] for row in answer.table.to_dict()["rows"]}
        if answer.key == PUBLISHED:
            baseline = "the baseline" if self._verdict.named_baseline else "the published settings"
            names = {self._winner.label: THE_WINNER, label: baseline}
        said = f"{names[self._winner.label]} against {names[label]}: the smallest detectable difference is "
        said += number_text(smallest, metric)
        if comparison.difference <= 0:
            return f"{said}."
        if comparison.share_of_images >= MOSTLY:
            share = share_text(comparison.share_of_images)
            return f"{said}; {share} of the uncertainty comes from the test images, not from the seeds."
        gap, runs = number_text(comparison.difference, metric), answer.numbers["seeds_needed"]
        units = self._winner.units
        if runs is None:
            return f"{said}; no affordable number of {units} would detect {gap}."
        return f"{said}; {runs} {units} each would detect {gap}."
