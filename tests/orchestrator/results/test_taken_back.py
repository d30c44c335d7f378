"""What takes a headline back stands beside it: chance, the other test, people's judgements; in every view."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.results.answer import Answer
from orchestrator.results.answers import Summary, dataset_answers, over_datasets, summarise
from orchestrator.results.question import Verdict
from orchestrator.results.runs import Runs
from orchestrator.results.taken_back import taken_back
from orchestrator.results.verdict import judge
from orchestrator.searches.display import end_of_search
from orchestrator.tracking.description import confirmed_candidates
from orchestrator.views.forms import render
from orchestrator.views.terminal import STYLES
from orchestrator.winners.winners import describe_champion
from tests.support.commands import CommandLine
from tests.support.crossed_runs import Effects, candidates_of, draw_runs
from tests.support.experiments import begun, confirm_two_losses, make_experiment
from tests.support.ranked import draw_ranks, metrics_of
from tests.support.records import append

CAPTIONS = np.repeat(np.arange(60, dtype=np.int32), 5)
CHANCE = "No candidate is better than chance"


@contextmanager
def confirmed(folder: Path, typical: tuple[float, float], **confirm: Any) -> Iterator[Ledger]:
    """Confirm two losses with three seeds; ``typical`` are the ranks of their right answers, of 60 images."""
    with begun(folder, make_experiment(name="one", confirm={"top": 1, "seeds": 3, **confirm})) as ledger:
        for number, repeat in enumerate(confirm_two_losses(ledger)):
            ranks = draw_ranks(number, typical[number // 3], CAPTIONS)
            append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics_of(ranks), ranks=ranks.to_text())
        yield ledger


def test_a_verdict_among_candidates_of_which_none_beats_chance_says_this_first(tmp_path: Path) -> None:
    with confirmed(tmp_path / "one", (200.0, 400.0)) as ledger:
        summary = Summary(ledger.history)
    (sentence, *_) = summary.taken_back["pets"]
    assert sentence.startswith(CHANCE) and sentence.endswith("check the order of the features' rows.")
    with confirmed(tmp_path / "good", (3.0, 9.0)) as ledger:
        assert not any(CHANCE in sentence for sentence in Summary(ledger.history).taken_back["pets"])


def test_seeds_of_the_winners_loss_that_collapse_take_its_lead_back() -> None:
    """One of ten seeds of the loss shows what the five of the winner do not."""
    winner = runs("a", (300.0, 301.0, 302.0, 299.5, 300.5))
    others = [runs("b", (297.0, 298.0, 299.0, 296.5, 230.0)), runs("c", (280.0, 281.0, 282.0, 279.0, 280.5), "circle")]
    verdict = judge([winner, *others])
    assert verdict.verdict is Verdict.BETTER
    (sentence,) = taken_back(verdict, None, None, None)
    assert sentence.startswith("Seeds of NT-Xent collapse, 1 of 10 (to 230.0 from 297.0): how")
    assert len(sentence.split()) <= 25
    whole = [winner, runs("b", (297.0, 298.0, 299.0, 296.5, 295.0)), others[1]]
    assert taken_back(judge(whole), None, None, None) == ()
    # Another loss that collapses makes no winner better.
    lost = [winner, whole[1], runs("c", (280.0, 281.0, 282.0, 279.0, 180.5), "circle")]
    assert taken_back(judge(lost), None, None, None) == ()


def runs(label: str, values: Sequence[float], loss: str = "nt_xent") -> Runs:
    of_seeds = {seed: {"val/rsum": value, "test/rsum": value} for seed, value in enumerate(values)}
    return Runs.of_seeds(label, of_seeds, loss=loss)


def study(seed: int, lead: float) -> list[Any]:
    """Five seeds of two candidates whose difference the images decide."""
    effects = Effects(seeds=0.2, both=0.2, lead=lead)
    return candidates_of(*draw_runs(np.random.default_rng(seed), effects, (5, 5), splits=2), (5, 5))


def test_the_other_test_takes_back_a_verdict_that_it_does_not_share() -> None:
    """Of ten studies without a difference, the seeds alone call most different, and new images hardly any."""
    said = []
    for seed in range(10):
        over, alone = (judge(study(seed, 0.0), over_images=over_images) for over_images in (True, False))
        assert bool(taken_back(over, alone, None, None)) == (over.verdict is not alone.verdict)
        if over.verdict is Verdict.TIE and alone.verdict is Verdict.BETTER:
            said += [*taken_back(over, alone, None, None), *taken_back(alone, over, None, None)]
    assert said[0].startswith("Over the seeds alone this is better (p ")
    assert said[1].startswith("Over the seeds and images this is a tie (p = ")
    assert all(sentence.endswith("holds for these test images alone.") for sentence in said)
    far = [judge(study(3, 30.0), over_images=over_images) for over_images in (True, False)]
    assert taken_back(far[0], far[1], None, None) == ()


@pytest.fixture
def hopeless(tmp_path: Path) -> Iterator[Ledger]:
    with confirmed(tmp_path / "one", (200.0, 400.0)) as ledger:
        yield ledger


def test_it_is_the_first_sentence_under_the_headline_in_every_view(hopeless: Ledger) -> None:
    summary = Summary(hopeless.history)
    answer = dataset_answers(summary, "pets")[0]
    sentence = answer.taken_back[0]
    assert answer.sentences[:2] == [answer.headline, sentence]
    assert answer.badge == f"{answer.verdict}, taken back"
    for form in ("table", "markdown", "latex", "html", "json"):
        text = " ".join(render([replace(answer, notes=())], form).replace(r"\textquotesingle{}", "'").split())
        text = text.replace("&#39;", "'").replace(r"\'", "'")
        said = next(verb for verb in ("beats", "do not differ", "worse on test") if verb in answer.headline)
        assert sentence[:40] in text and text.index(said) < text.index(sentence[:40]), form
    page = render([answer], "html")
    (classes,) = re.findall(rf'<span class="badge ([^"]*)">{answer.badge}</span>', page)
    # No colour of the word alone, and that of "taken back".
    assert answer.verdict not in classes.split() and "back" in classes.split() and ".shown, .back)" in page
    lines = [line.plain for line in end_of_search(summary, ["next"], 400)]
    assert lines[lines.index(answer.headline) + 1] == sentence
    winner, *_ = confirmed_candidates(hopeless.history)
    assert winner[2]["verdict"] == f"winner: {answer.badge}" and CHANCE in winner[2]["mlflow.note.content"]
    champion = summary.winners["pets"].model
    assert CHANCE in describe_champion(hopeless.history, "pets", champion).verdict
    written = next(one for one in summarise(hopeless.history)["answers"] if one["key"] == answer.key)
    assert written["taken_back"] == list(answer.taken_back)


def answer_of(ledger: Ledger) -> Answer:
    return dataset_answers(Summary(ledger.history), "pets")[0]


def test_status_says_it_and_so_does_the_table_over_datasets(hopeless: Ledger, tmp_path: Path, cli: CommandLine) -> None:
    text = " ".join(cli.shows("status", "one", "--output", tmp_path).split())
    headline = answer_of(hopeless).headline
    assert f"{headline} pets: {CHANCE}" in text
    winners: Answer = over_datasets(Summary(hopeless.history))[0]
    assert winners.taken_back[0].startswith(f"pets: {CHANCE}")
    assert "taken back)" in winners.headline
    assert winners.table is not None and winners.table.rows[0][-1] == answer_of(hopeless).badge
    assert STYLES[answer_of(hopeless).badge] == "yellow"
