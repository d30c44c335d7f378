"""The questions that people ask of a dataset, in their order, and the answers with their statistics.

    (a) Which setting?           the winner against the best setting of every other loss (and model)
        Which loss?              the same where searches were repeated, so that a candidate is a loss, not a setting
    (b) Which coefficients?      the winner against the other settings of its loss
    (c) Better than published?   the winner against the baseline
    (d) What would settle it?    the smallest detectable difference, and how many seeds would detect a measured one

Each answer is a conclusion over pairs of one verdict (``verdict.judge``), and a row of its table is one of the pairs.
This module says them in sentences and computes no word: ``winner_family`` has the p-values of the pairs.

Each case was simulated in 10,000 studies, with 2 to 30 candidates, 3 to 10 seeds and spreads that differ up to
fourfold: ``python -m tests.benchmarks questions``; ``docs/evidence/verdict-errors.md`` has the rates.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from orchestrator.results.answer import Answer, Cell, Column, Quantity, Table, table_of
from orchestrator.results.question import Conclusion, Pair, Verdict
from orchestrator.results.runs import Runs, Unit
from orchestrator.results.statistics import POWER
from orchestrator.results.verdict import PUBLISHED, WHICH_COEFFICIENTS, WHICH_LOSS, DatasetVerdict
from orchestrator.text.values import count_text
from orchestrator.text.wording import (
    BRIEF,
    at_setting,
    basis_text,
    interval_text,
    listed,
    loss_of_model,
    metric_name,
    number_text,
    p_equals,
    printed,
    probability_text,
    setting_text,
    share_text,
)
from trainables.metric_table import range_of
from trainables.model_parameters import ZERO_SHOT

MOSTLY = 0.5
"""Share of the uncertainty from which on a part of it is named: smaller shares are not estimated well apart."""

WHICH_SETTING = "setting"
"""Key of the answer to (a) after a single search of each loss; after repeated searches it is ``WHICH_LOSS``."""

SETTLE = "settle"
"""Key of the answer to what would settle a tie."""

THE_WINNER = "The winner"

NOT_TRAINED = "The published settings are the pretrained model, which was not trained (zero-shot)."

ONE_SEARCH = (
    "One search a loss: another search may find other settings, and how far that moves this was not measured. "
    "`search.repeats: 4` compares the losses themselves."
)
"""What limits an answer about settings."""


def answer_questions(verdict: DatasetVerdict) -> list[Answer]:
    """Return the answers to a dataset's questions that it has, the headline's first."""
    if verdict.winner is None:
        nothing = "No training of any candidate finished."
        return [Answer(WHICH_SETTING, verdict.dataset, "Which setting?", nothing, str(Verdict.UNTESTED))]
    return _Questions(verdict, verdict.winner).answers()


def needed_text(fewest: float | None, most: float | None, units: str, gap: str) -> str:
    """Return how many seeds, searches or runs each would detect a gap, see ``DifferenceTest.range_of_seeds``."""
    if fewest is None:
        return f"no affordable number of {units} would detect {gap}"
    if fewest == most:
        return f"{fewest:g} {units} each would detect {gap}"
    return f"{f'at least {fewest:g}' if most is None else f'{fewest:g} to {most:g}'} {units} each would detect {gap}"


class _Questions:
    """The questions of a dataset with a winner."""

    def __init__(self, verdict: DatasetVerdict, winner: Runs) -> None:
        self._verdict, self._winner = verdict, winner
        self._by_label = {candidate.label: candidate for candidate in verdict.candidates}
        self._several_models = len({candidate.model for candidate in verdict.candidates}) > 1
        # Question -> label -> name of the candidate in its sentences.
        self._names: dict[str, Mapping[str, str]] = {}

    def answers(self) -> list[Answer]:
        first_answers = (self._which_loss(), self._which_coefficients(), self._better_than_published())
        answers = [answer for answer in first_answers if answer is not None]
        return [*answers, *self._what_would_settle(answers)]

    def _which_loss(self) -> Answer | None:
        others, conclusion = self._verdict.others(WHICH_LOSS), self._verdict.conclusion(WHICH_LOSS)
        if not others:
            return None
        # The best of each other loss.
        best = {other.kind: other for other in reversed(others)}
        shown = [other for other in others if best[other.kind] is other]
        names = {candidate.label: self._loss_name(candidate) for candidate in (self._winner, *shown)}
        deciding = conclusion.deciding
        if deciding is not None and deciding.second not in names:
            # A setting that val ranks lower decides: it has a row of its own.
            hidden = self._by_label[deciding.second]
            names |= {setting.label: self._full_name(setting) for setting in (best[hidden.kind], hidden)}
            shown.insert(shown.index(best[hidden.kind]) + 1, hidden)
        closest, repeated = self._closest(conclusion, shown), self._verdict.unit is Unit.SEARCH
        key, noun = (WHICH_LOSS, "loss") if repeated else (WHICH_SETTING, "setting")
        question = f"Which model and {noun}?" if self._several_models else f"Which {noun}?"
        said = names if repeated else {of.label: self._at_setting(of) for of in (self._winner, *shown)}
        untrained = any(candidate.loss == ZERO_SHOT for candidate in (self._winner, *shown))
        every = self._every("candidate" if untrained else "loss", shown)
        # Other sentences have no room for the setting of a second loss; the table has all.
        second = names if repeated else {of.label: self._setting_of(of, names[of.label]) for of in shown}
        if every and not repeated and conclusion.verdict is Verdict.BETTER:
            were = "compared settings of" if every.endswith("compared") else "settings of all"
            every = f"the {were} other losses"
        elif conclusion.verdict is Verdict.BETTER:
            second = said
        self._names[WHICH_LOSS] = self._names[key] = {**second, self._winner.label: said[self._winner.label]}
        answer = self._answer(WHICH_LOSS, question, conclusion, closest, every)
        notes = (*self._notes(WHICH_LOSS, shown, said), *self._another_search(closest), *self._limits(closest))
        return replace(answer, key=key, table=self._table([self._winner, *shown]), notes=notes)

    def _at_setting(self, candidate: Runs) -> str:
        """Return a candidate's loss at the first parameter of its setting, short enough for a sentence."""
        return at_setting(self._loss_name(candidate), candidate.parameters)

    def _setting_of(self, candidate: Runs, name: str) -> str:
        """Return the name of a candidate whose setting has no room: a search found it, and the loss may have better."""
        return f"{name}'s" if candidate.parameters and "," not in name else name

    def _another_search(self, closest: Pair | None) -> Iterator[str]:
        """Say what is known of another search."""
        if self._verdict.unit is not Unit.SEARCH:
            # A model from elsewhere has no setting that a search found.
            yield from [ONE_SEARCH] if self._winner.parameters else []
        elif closest is not None:
            ours, theirs = (
                self._by_label[label].sample(self._verdict.metric, Unit.SEARCH)
                for label in (closest.first, closest.second)
            )
            ahead, names = int((ours[:, None] > theirs[None]).sum()), self._names[WHICH_LOSS]
            is_lone = any(self._by_label[label].is_constant for label in (closest.first, closest.second))
            pairs = f"{ahead} of {ours.size * theirs.size} {'' if is_lone else 'pairs of '}searches"
            yield f"{names[closest.first]} was ahead of {names[closest.second]} in {pairs}."

    def _which_coefficients(self) -> Answer | None:
        """Return the answer to (b); ``None`` where the winner's loss has a single candidate and others compete."""
        others, of_loss = self._verdict.others(WHICH_COEFFICIENTS), printed(self._winner.loss)
        has_other_losses = bool(self._verdict.others(WHICH_LOSS))
        if not others:
            alone = "Only one candidate was confirmed, so nothing was compared."
            about = (WHICH_COEFFICIENTS, self._verdict.dataset, "Which coefficients?")
            return None if has_other_losses else Answer(*about, alone, str(Verdict.UNTESTED))
        group, conclusion = [self._winner, *others], self._verdict.conclusion(WHICH_COEFFICIENTS)
        names = self._names[WHICH_COEFFICIENTS] = self._setting_names(group)
        every, closest = self._every(f"setting of {of_loss}", others), self._closest(conclusion, others)
        return replace(
            self._answer(WHICH_COEFFICIENTS, f"Which coefficients of {of_loss}?", conclusion, closest, every),
            table=self._table(group),
            notes=(
                *self._notes(WHICH_COEFFICIENTS, others, names),
                *(() if has_other_losses else self._limits(closest)),
            ),
        )

    def _better_than_published(self) -> Answer | None:
        """Return the answer to (c); ``None`` without a baseline among the candidates."""
        label = self._verdict.baseline
        if label is None:
            return None
        baseline = "baseline" if self._verdict.named_baseline else "published settings"
        question = f"Better than the {baseline}?"
        named = f"{baseline} ({self._full_name(self._by_label[label])})"
        zero_shot = self._zero_shot(self._by_label[label])
        if label == self._winner.label:
            verb = "wins" if self._verdict.named_baseline else "win"
            said = ("No confirmed training was better than the pretrained model on val.",) if zero_shot else ()
            return Answer(PUBLISHED, self._verdict.dataset, question, f"The {named} {verb}.", notes=(*zero_shot, *said))
        conclusion = self._verdict.conclusion(PUBLISHED)
        self._names[PUBLISHED] = {self._winner.label: THE_WINNER, label: f"the {named}"}
        answer = self._answer(PUBLISHED, question, conclusion, conclusion.deciding, "")
        notes = (*self._notes(PUBLISHED, [], {}), *zero_shot, *self._new_images(conclusion.deciding))
        return replace(answer, notes=notes)

    def _zero_shot(self, candidate: Runs) -> tuple[str, ...]:
        """Say that a candidate is a pretrained model that is not trained, if it is one."""
        if candidate.loss != ZERO_SHOT:
            return ()
        if not candidate.is_constant:
            return (NOT_TRAINED,)
        units = self._verdict.unit.plural
        return NOT_TRAINED, f"It has one value: the test is a one-sample test over the {units} of the other side."

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

    def _closest(self, conclusion: Conclusion, shown: Sequence[Runs]) -> Pair | None:
        """Return the pair that a headline names: of a winner over all the smallest lead, else the one that decides."""
        if conclusion.verdict is not Verdict.BETTER:
            return conclusion.deciding
        pairs = [pair for other in shown if (pair := self._verdict.pair_of.get(other.label)) is not None]
        return min(pairs, key=lambda pair: pair.difference, default=conclusion.deciding)

    def _every(self, noun: str, shown: Sequence[Runs]) -> str:
        """Return what a winner beats that beats all; empty where it was compared with a single candidate."""
        compared = sum(candidate.label in self._verdict.pair_of for candidate in shown)
        if compared < 2:
            return ""
        return f"every other {noun}" + (" that was compared" if compared < len(shown) else "")

    def _loss_name(self, candidate: Runs) -> str:
        """Return the printed name of a candidate's loss, after its model where models differ."""
        return loss_of_model(candidate.loss, candidate.model if self._several_models else None)

    def _full_name(self, candidate: Runs) -> str:
        """Return a candidate's loss with its setting, brief enough for a sentence."""
        setting = setting_text(candidate.parameters, most=BRIEF)
        return f"{self._loss_name(candidate)}, {setting}" if setting else self._loss_name(candidate)

    def _setting_names(self, candidates: Sequence[Runs], most: int | None = BRIEF) -> dict[str, str]:
        """Return label -> the hyper-parameters in which candidates differ, of all where the values are equal."""
        keys = list(dict.fromkeys(key for candidate in candidates for key in candidate.parameters))
        values = {key: [candidate.parameters.get(key) for candidate in candidates] for key in keys}
        differing = [key for key in keys if any(value != values[key][0] for value in values[key])]
        shown = differing or None
        names = {member.label: setting_text(member.parameters, shown, most=most) or "default" for member in candidates}
        unique = len(set(names.values())) == len(candidates)
        return names if unique else {member.label: f"{names[member.label]} ({member.label})" for member in candidates}

    def _answer(self, key: str, question: str, conclusion: Conclusion, closest: Pair | None, every: str) -> Answer:
        """Return headline and numbers of a conclusion; the headline names one pair.

        ``every`` names the candidates that a winner beats if it beats all of several; empty for a single candidate.
        """
        dataset, names = self._verdict.dataset, self._names[key]
        if closest is None:
            lost = f"the other candidates lost their {self._verdict.unit.plural}"
            alone = f"{names[self._winner.label]} could not be compared: {lost}."
            return Answer(key, dataset, question, alone, str(conclusion.verdict))
        test, p = closest.comparison.test, conclusion.p
        low, high = closest.interval or (None, None)
        numbers: dict[str, float | int | None] = {
            "difference": closest.difference,
            "low": low,
            "high": high,
            "p": p,
            "p_unadjusted": closest.comparison.p,
            "probability_on_new_images": test.probability_beyond(0.0) if test and test.images else None,
            "smallest_detectable_difference": None,
            "seeds_needed": None,
            "seeds_needed_at_most": None,
        }
        if test is not None:
            # A lead counts at this p-value: with it the luckiest of all chances leads an equal at the level.
            level = self._verdict.level
            level = min(level, 2 * -math.expm1(math.log1p(-level) / self._verdict.chances(key)))
            numbers["smallest_detectable_difference"] = test.detectable(level)
            needed = test.range_of_seeds(level) if test.difference > 0 else None
            numbers["seeds_needed"], numbers["seeds_needed_at_most"] = needed or (None, None)
        headline = self._headline(conclusion, closest, names, every)
        return Answer(key, dataset, question, headline, str(conclusion.verdict), closest.second, numbers)

    def _headline(self, conclusion: Conclusion, closest: Pair, names: Mapping[str, str], every: str) -> str:
        first, second = names[self._winner.label], names[closest.second]
        metric, outcome, interval = self._verdict.metric, conclusion.verdict, closest.interval
        if outcome is Verdict.UNTESTED and self._winner.missing:
            lost = self._winner.unit
            return f"{first} leads, and every candidate lost a {lost}: the remaining {lost.plural} may flatter it."
        signed, unit = number_text(closest.difference, metric, signed=True), metric_name(metric)
        # A constant has no runs that vary.
        pair = (self._winner, self._by_label[closest.second])
        varying = [candidate for candidate in pair if not candidate.is_constant] or pair
        runs = [candidate.count for candidate in varying]
        basis = basis_text(runs, self._verdict.images, self._verdict.unit, varying[0].trials)
        reason = closest.comparison.reason
        p = "" if conclusion.p is None else f", {p_equals(conclusion.p)}"
        within = f", {reason}" if reason else ""
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
        return f"{first} and {second} differ by {signed} {unit}, untested: {reason}."

    def _notes(self, question: str, shown: Sequence[Runs], names: Mapping[str, str]) -> Iterator[str]:
        """Name what a winner beats although it does not beat all, and say why a tie has an interval without 0."""
        conclusion = self._verdict.conclusion(question)
        pairs = [pair for other in shown if (pair := self._verdict.pair_of.get(other.label)) is not None]
        pairs = [] if conclusion.verdict is Verdict.BETTER else pairs
        beaten = [names[pair.second] for pair in pairs if pair.verdict is Verdict.BETTER]
        if len(beaten) > 3:
            count = count_text(len(beaten), "other")
            yield f"{names[self._winner.label]} beats {count} of {len(pairs)}; see the table."
        elif beaten:
            yield f"{names[self._winner.label]} beats {listed(beaten)}."
        asked = [self._verdict.pair_of.get(other.label) for other in self._verdict.others(question)]
        apart = [pair for pair in asked if pair is not None and self._is_tied_without_0(pair)]
        if any((pair.p or 0.0) > (pair.comparison.p or 0.0) for pair in apart):
            yield "An interval is of its pair alone; p also counts the choice of the winner among its candidates."
        elif any(pair is not conclusion.deciding for pair in apart):
            # Of the pair that decides, the headline says the level.
            yield f"An interval has 95 %; a difference counts where p is at most {self._verdict.level:g}."

    def _is_tied_without_0(self, pair: Pair) -> bool:
        """Whether a tie has an interval without 0, or a test that finds a difference without counting the choice."""
        p, interval = pair.comparison.p, pair.interval
        if pair.verdict is not Verdict.TIE or p is None or interval is None:
            return False
        return p <= self._verdict.level or not interval.low <= 0 <= interval.high

    def _new_images(self, pair: Pair | None) -> Iterator[str]:
        test = None if pair is None else pair.comparison.test
        # Beside a tie, a probability of its pair alone would say more than its p.
        if pair is None or test is None or test.images is None or pair.verdict is Verdict.TIE:
            return
        least, chance = self._verdict.smallest_difference, probability_text(test.probability_beyond(0.0))
        by = f", by at least {least:g} {metric_name(self._verdict.metric)} with probability "
        low, high = range_of(self._verdict.metric)
        # The default of 1 is meant for recalls: a fraction cannot lead by 1.
        further = f"{by}{probability_text(test.probability_beyond(least))}" if 0 < least < high - low else ""
        yield f"On new test images of this kind the winner is better with probability {chance}{further}."

    def _limits(self, closest: Pair | None) -> Iterator[str]:
        """Say what the verdict says of new images, and what limits it."""
        yield from self._new_images(closest)
        if self._verdict.images is None:
            yield f"The test varies the {self._verdict.unit.plural} alone, on these test images."
        yield from (f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in self._verdict.warnings)

    def _table(self, candidates: Sequence[Runs]) -> Table:
        metric, kinds = self._verdict.metric, {candidate.kind for candidate in candidates}
        names_losses = len(kinds) > 1
        names = {candidate.label: self._loss_name(candidate) for candidate in candidates}
        names = names if names_losses else self._setting_names(candidates, None)
        columns = [
            Column("candidate", "candidate", hidden=True),
            Column("model", "model", hidden=True),
            Column("loss", "loss", hidden=True),
            Column("name", "loss" if names_losses else "setting"),
            Column("setting", "best setting" if len(kinds) == len(candidates) else "setting"),
            Column("seeds", self._verdict.unit.plural, unit="count"),
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
                None if candidate.is_constant else candidate.count,
                candidate.quantity(metric),
            )
            pair, difference = self._verdict.pair_of.get(candidate.label), None
            if pair is not None:
                turned = pair.turned()
                difference = Quantity(turned.difference, None, *(turned.interval or ()))
            word = self._verdict.word_on(candidate.label)
            rows.append((*about, difference, None if pair is None else pair.p, word))
        return table_of(columns, rows)

    def _settle(self, answer: Answer) -> str:
        """Return what would settle a tie; empty where nothing was tested."""
        pair, smallest = self._verdict.pair_of[answer.closest], answer.numbers["smallest_detectable_difference"]
        if smallest is None:
            return ""
        metric, names, units = self._verdict.metric, dict(self._names[answer.key]), self._verdict.unit.plural
        if answer.key == PUBLISHED:
            names[pair.second] = "the baseline" if self._verdict.named_baseline else "the published settings"
        said = f"{names[self._winner.label]} against {names[pair.second]}: the smallest detectable difference is "
        said += number_text(smallest, metric)
        if pair.difference <= 0:
            return f"{said}."
        if pair.comparison.share_of_images >= MOSTLY:
            share = share_text(pair.comparison.share_of_images)
            return f"{said}; {share} of the uncertainty comes from the test images."
        fewest, most = (answer.numbers[name] for name in ("seeds_needed", "seeds_needed_at_most"))
        return f"{said}; {needed_text(fewest, most, units, number_text(pair.difference, metric))}."
