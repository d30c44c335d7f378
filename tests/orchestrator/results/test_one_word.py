"""A pair of candidates has one word and one p-value, wherever it is shown: random journals through every view."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.experiment.experiment import known_experiment
from orchestrator.exports.tensorboard import write_events
from orchestrator.exports.trial_run import WRITERS, trial_runs
from orchestrator.journal.history import History
from orchestrator.journal.trial import TrialState
from orchestrator.results import frames
from orchestrator.results.answer import Answer, Quantity
from orchestrator.results.answers import Summary, dataset_answers, summarise
from orchestrator.results.confirmation import current_plans, race_names, trainings_of
from orchestrator.results.question import Verdict
from orchestrator.results.runs import Runs
from orchestrator.results.table_verdicts import VALUE, Circumstances, TableVerdict
from orchestrator.results.tables import tables_of
from orchestrator.results.trial_comparison import Side, which_is_better
from orchestrator.results.verdict import DatasetVerdict
from orchestrator.searches.display import race_lines
from orchestrator.text.wording import p_equals, printed
from orchestrator.tracking.description import confirmed_candidates, note_of, params_of, run_name, tags_of
from orchestrator.tuner.source import PlannedTrials
from orchestrator.views.forms import FORMS, render
from tests.answers_page import page
from tests.support.experiments import add_repeats, add_trial, make_experiment, open_test
from tests.support.ranked import draw_ranks, metrics_of
from tests.support.records import append
from tests.support.unwritten_ledger import UnwrittenLedger
from trainables.loss_parameters import LOSS_TABLE as LOSSES

PARAMETERS = {"nt_xent": ("temperature", 0.1), "triplet_sh": ("margin", 0.2)}
WORDS = ("winner", "baseline", "best", *Verdict)

# Leads from none to ten times the spread, so that every word is frequent. A few seeds, those of 17, are lost.
VALUES = st.lists(st.integers(0, 30).map(lambda value: None if value == 17 else value), min_size=4, max_size=4)
LEVELS = st.sampled_from([0, 3, 10, 25, 40, 80, 150])
Drawn = list[tuple[str, int, list[int | None]]]
FIELDS: st.SearchStrategy[Drawn] = st.lists(
    st.tuples(st.sampled_from(sorted(PARAMETERS)), LEVELS, VALUES), min_size=2, max_size=6
).filter(lambda drawn: len({level for _, level, _ in drawn}) > 1)


def journal_of(drawn: Drawn, by_images: bool = False) -> History:
    """Confirm candidates with four seeds each; a candidate is a loss, its level and its deviations, in tenths.

    ``by_images`` draws ranks of the test images, which then vary too; the deviation of a seed is a factor of the ranks.
    """
    ledger = UnwrittenLedger(make_experiment(losses=sorted(PARAMETERS), confirm={"top": 6, "seeds": 4}))
    trials = []
    for place, (loss, level, noise) in enumerate(drawn):
        name, published = PARAMETERS[loss]
        # The second has the published setting of its loss, and so is the baseline.
        setting = published if place == 1 else published + (1 + place) / 100
        trial = add_trial(ledger, [400.0 + level / 10], loss=loss, params={name: setting})
        trials.append((trial, [None if value is None else 400 + level / 10 + value / 10 for value in noise]))
    finished = [trial for trial in add_repeats(ledger, trials) if trial.state is TrialState.FINISHED]
    if not by_images:
        open_test(ledger, finished)
        return ledger.history
    append(ledger, "test_opened", dataset="pets", trials=[trial.id for trial in finished])
    for place, trial in enumerate(finished):
        ranks = draw_ranks(place, 1.2 + (420.0 - (trial.best_value or 0.0)) / 2, np.repeat(np.arange(20), 2))
        append(ledger, "test_evaluated", trial=trial.id, metrics=metrics_of(ranks), ranks=ranks.to_text())
    return ledger.history


def shown_words(text: str, form: str) -> list[str]:
    """Return the words in the last column of the tables of a text, in their order."""
    if form == "html":
        cells = re.findall(r"<td[^>]*>(?:<[^>]+>)*([^<]*)(?:</[^>]+>)*</td>\s*</tr>", text)
        return [word for cell in cells if (word := unescape(cell).strip()) in WORDS]
    ends = {"table": "", "markdown": r" \|", "latex": r" \\\\"}[form]
    return re.findall(rf"(?<![a-z])({'|'.join(WORDS)}){ends}\s*$", text, re.M)


def rows_of(answer: Answer) -> Iterator[Mapping[str, object]]:
    if answer.table is not None:
        keys = [column.key for column in answer.table.columns]
        yield from (dict(zip(keys, row, strict=True)) for row in answer.table.rows)


def check_pairs_of_answers(verdict: DatasetVerdict, answers: list[Answer]) -> None:
    """Rows, headlines, numbers and every form of the answers have the words and the p-values of the pairs."""
    for answer in answers:
        rows = [row for row in rows_of(answer) if "candidate" in row]
        for row in rows:
            label = str(row["candidate"])
            pair = verdict.pair_of.get(label)
            assert row["verdict"] == verdict.word_on(label)
            assert row.get("p") == (pair and pair.p)
            if pair is not None:
                turned, difference = pair.turned(), row["difference"]
                assert isinstance(difference, Quantity)
                assert (difference.low, difference.high) == (turned.interval or (None, None))
        words = [str(row["verdict"]) for row in rows]
        for form in ("table", "markdown", "latex", "html"):
            assert shown_words(render([answer], form), form) == words, form
        if answer.closest and answer.key != "settle":
            pair = verdict.pair_of[answer.closest]
            outcome = {"better": "beats", "worse": "worse on test than", "tie": "do not differ"}.get(answer.verdict, "")
            assert outcome in answer.headline
            # The headline says no more than each of its pairs, and a row has its p-value.
            assert answer.verdict == pair.verdict
            p_values = [row.get("p") for row in rows]
            assert not rows or answer.numbers["p"] in p_values


@settings(max_examples=30, deadline=None)
@given(drawn=FIELDS, by_images=st.booleans())
def test_a_pair_has_one_word_wherever_it_is_shown(drawn: Drawn, by_images: bool) -> None:
    history = journal_of(drawn, by_images)
    summary = Summary(history)
    (verdict,) = summary.verdicts.values()
    words = {candidate.label: verdict.word_on(candidate.label) for candidate in verdict.candidates}
    turned = {pair.second: str(pair.verdict) for pair in verdict.pairs}
    # The other candidate of a pair has the opposite word, and the sign of a difference is that of its word.
    opposite = {"better": "worse", "worse": "better", "tie": "tie", "untested": "untested"}
    assert {label: words[label] for label in turned} == {label: opposite[word] for label, word in turned.items()}
    assert all((pair.verdict == "better") <= (pair.difference > 0) for pair in verdict.pairs)

    answers = dataset_answers(summary, "pets")
    check_pairs_of_answers(verdict, answers)
    (table,) = tables_of([summary])
    in_order = [words[candidate.label] for candidate in verdict.candidates]
    assert [row["verdict"] for row in rows_of(table)] == in_order
    for form in FORMS:
        text = render([table], form)
        if form == "csv":
            assert [row["verdict"] for row in csv.DictReader(io.StringIO(text))] == in_order
        elif form == "json":
            assert [row["verdict"] for row in json.loads(text)[0]["table"]["rows"]] == in_order
        else:
            assert shown_words(text, form) == in_order, form

    written = json.loads(json.dumps(summarise(history), allow_nan=False))
    dataset, deprecated = written["datasets"]["pets"], written["verdicts"][0]
    assert {pair["second"]: pair["verdict"] for pair in dataset["pairs"]} == turned
    assert {one["label"]: one["verdict"] for one in deprecated["comparisons"]} == turned
    assert {one["label"]: one["verdict"] for one in dataset["standings"]} == words
    assert [one["holm_p"] for one in deprecated["comparisons"]] == [pair["p"] for pair in dataset["pairs"]]
    assert dataset["verdict"] == deprecated["verdict"] == answers[0].verdict

    if turned:
        assert dict(frames.verdicts_frame(history)["verdict"].droplevel(0)) == turned
    if words:
        assert dict(frames.candidates_frame(history)["verdict"].droplevel(0)) == words
    tags = {candidate.label: own["verdict"] for candidate, _, own in confirmed_candidates(history)}
    assert tags == words | {verdict.candidates[0].label: f"winner: {answers[0].badge}"}
    assert answers[0].badge.startswith(answers[0].verdict)

    sides = {label: Side("one", history.trials[label], {}, verdict=verdict) for label in words}
    for first, second in combinations(words, 2):
        said = which_is_better(sides[first], sides[second])
        if first == verdict.candidates[0].label and second in turned:
            pair = verdict.pair_of[second]
            assert f" is {pair.verdict}: " in said and (pair.p is None or p_equals(pair.p) in said)


@settings(max_examples=30, deadline=None)
@given(drawn=FIELDS, has_baseline=st.booleans(), lower=st.booleans())
def test_a_pair_of_a_judged_table_has_one_word_in_every_form(drawn: Drawn, has_baseline: bool, lower: bool) -> None:
    runs = []
    for place, (_, level, noise) in enumerate(drawn):
        values = {seed: {VALUE: (level + value) / 10} for seed, value in enumerate(noise) if value is not None}
        lost = {seed: "lost" for seed, value in enumerate(noise) if value is None}
        runs.append(Runs.of_seeds(f"c{place}", values, missing=lost))
    baseline = next((one.label for one in runs if one.values), None) if has_baseline else None
    verdict = TableVerdict("", runs, Circumstances("rsum", lower_is_better=lower, baseline=baseline))
    answer = verdict.answer()
    sides = [pair if baseline else pair.turned() for pair in verdict.shown]
    words = {pair.first: str(pair.verdict) for pair in sides}
    rows = list(rows_of(answer))
    assert {row["candidate"]: row["verdict"] for row in rows if row["verdict"] not in ("baseline", "best")} == words
    assert {row["candidate"]: row["p"] for row in rows if row.get("p") is not None} == {
        pair.first: pair.p for pair in sides if pair.p is not None
    }
    in_order = [str(row["verdict"]) for row in rows]
    for form in ("table", "markdown", "latex", "html"):
        assert shown_words(render([answer], form), form) == in_order, form
    if rows:
        assert [row["verdict"] for row in json.loads(render([answer], "json"))[0]["table"]["rows"]] == in_order
        assert [row["verdict"] for row in csv.DictReader(io.StringIO(render([answer], "csv")))] == in_order
    if baseline is None and rows:
        assert (answer.verdict == "better") is all(pair.verdict is Verdict.BETTER for pair in verdict.shown)
        outcome = {"better": "beats", "worse": "is worse than", "tie": "do not differ"}.get(answer.verdict, "differ by")
        assert outcome in answer.headline


@pytest.mark.parametrize("key", ["loss", "coefficients", "published"])
def test_a_headline_is_better_only_where_each_of_its_pairs_is(key: str) -> None:
    drawn = [("nt_xent", 40, [0, 4, 8, 6]), ("triplet_sh", 20, [3, 0, 5, 2]), ("nt_xent", 10, [1, 2, 3, 0])]
    (verdict,) = Summary(journal_of(drawn)).verdicts.values()
    pairs = [verdict.pair_of[other.label] for other in verdict.others(key)]
    assert pairs and (verdict.conclusion(key).verdict is Verdict.BETTER) == all(
        pair.verdict is Verdict.BETTER for pair in pairs
    )


NAMES = "|".join(re.escape(printed(loss)) for loss in sorted(LOSSES, key=len, reverse=True))
OF_LOSSES = re.compile(
    rf"(?<!of )\b(?:{NAMES}) (?:beats?|leads?|trails?|wins?|ha(?:s|ve) the (?!best val)|was best"
    rf"|was ahead|is worse|is [\d.]+ )|(?:beats|worse on test than|closest is|against|behind|ahead of) (?:{NAMES})"
    r"(?! at |, | [A-Z(]|'s|\\textquotesingle)"
)
"""A sentence whose subject or object is a loss, and not a setting, its trials or its seeds."""


def strings_of(value: object) -> Iterator[str]:
    """Yield the texts in JSON."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from strings_of(part)


@settings(max_examples=10, deadline=None)
@given(drawn=FIELDS)
def test_after_one_search_nothing_is_said_of_losses(drawn: list[tuple[str, int, list[int]]]) -> None:
    summary = Summary(journal_of(drawn))
    assert said_of_losses(texts_of(summary)) == []
    assert not any(key in ("loss", "order") for key in (answer.key for answer in summary.answers))


def texts_of(summary: Summary) -> Iterator[str]:
    """Yield what every form, frame, tag and export of an experiment says; programs get only what ``TrialRun`` has."""
    history = summary.history
    for answers in ([answer] for answer in [*summary.answers, *tables_of([summary])]):
        yield from (unescape(render(answers, form)) for form in FORMS if form not in ("csv", "json"))
        yield from strings_of(json.loads(render(answers, "json")))
        yield from (cell for row in csv.reader(io.StringIO(render(answers, "csv"))) for cell in row)
    yield from strings_of(json.loads(json.dumps(summarise(history), default=str)))
    yield from (str(tags) for _, _, tags in confirmed_candidates(history))
    for trial in history.trials.values():
        yield f"{run_name(trial, history)} {tags_of(trial, history)} {note_of(trial)} {params_of(trial)}"
    for make in (frames.trials_frame, frames.candidates_frame, frames.verdicts_frame, frames.winners_frame):
        yield from (str(cell) for row in make(history).reset_index().to_numpy() for cell in row)
    table = frames.trials_frame(history).reset_index()
    yield from (WRITERS[ending](table).decode() for ending in (".csv", ".jsonl"))
    yield from (f"{run.group} {run.settings} {run.best}" for run in trial_runs(history))


def said_of_losses(texts: Iterable[str]) -> list[str]:
    return [said for text in texts for said in OF_LOSSES.findall(" ".join(text.split()))]


def test_what_tensorboard_reads_says_nothing_of_losses(tmp_path: Path) -> None:
    history = journal_of([("nt_xent", 40, [0, 4, 8, 6]), ("triplet_sh", 20, [3, 0, 5, 2])])
    experiment = known_experiment(history)
    assert experiment is not None and write_events(history, experiment, tmp_path / "events") == len(history.trials)
    texts = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    assert texts and said_of_losses(texts) == []


def test_a_race_is_one_of_settings() -> None:
    """A round names each candidate at its setting, while the race runs and after it."""
    experiment = make_experiment(losses=sorted(PARAMETERS), confirm={"top": 1, "trainings": 12})
    ledger = UnwrittenLedger(experiment)
    for loss, value in zip(sorted(PARAMETERS), (404.0, 401.0), strict=True):
        add_trial(ledger, [value], loss=loss)
    plans = current_plans(experiment, ledger.history)
    for plan in plans:
        ledger.append(plan)
    source = PlannedTrials(lambda: trainings_of(plans, ledger.history), ledger)
    while (trial := source.next()) is not None:
        values = {"val/rsum": 400.0 + trial.config.seed % 5 + 6 * (trial.config.loss == "nt_xent")}
        ledger.report(trial, 1, values, TrialState.FINISHED)
        source.observe(trial)
    (race,) = Summary(ledger.history).races.values()
    assert race.rounds and set(race_names(ledger.history, race).values()) == {
        "NT-Xent at τ = 0.1",
        "Triplet SH at margin = 0.2",
    }
    said = [*race_lines(ledger.history), *texts_of(Summary(ledger.history))]
    assert said_of_losses(said) == [] and any(" behind NT-Xent at τ = 0.1" in text for text in said)


def test_verdicts_without_a_pair_have_their_columns() -> None:
    alone = frames.verdicts_frame(UnwrittenLedger(make_experiment()).history)
    pairs = frames.verdicts_frame(journal_of([("nt_xent", 40, [0, 4, 8, 6]), ("triplet_sh", 20, [3, 0, 5, 2])]))
    assert len(alone) == 0 < len(pairs)
    assert (list(alone.columns), alone.index.names) == (list(pairs.columns), pairs.index.names)


def test_the_page_of_answers_speaks_of_losses_after_repeated_searches_alone() -> None:
    sections = {part.partition("\n")[0]: part for part in page().split("\n## ")}
    repeated = [heading for heading in sections if OF_LOSSES.search(" ".join(sections[heading].split()))]
    assert repeated == ["Which loss?"]
