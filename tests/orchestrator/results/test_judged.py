"""Whether a verdict survives people's judgements: from the journal on, with values of images that make the metrics."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orchestrator.results.sentences import statements
from orchestrator.tables.judged import judged_tables
from orchestrator.tables.rows import rows_of

from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.report.page import Extras, build_page
from orchestrator.report.render import render
from orchestrator.results import judged
from orchestrator.results.answers import summarise
from orchestrator.results.candidates import DatasetVerdict, Verdict
from orchestrator.results.confirmed import Question, verdicts_of
from orchestrator.results.judged import image_values, judged_verdicts
from orchestrator.results.summary import Summary
from tests.support.experiments import confirm_two_losses, make_experiment, start
from tests.support.ranked import metrics_of
from tests.support.records import append
from trainables.judgements.judged_metrics import DirectionRanks, JudgedRanks, judged_metrics, named_metrics
from trainables.ranks import Ranks

IMAGES = 80


def direction(rng: np.random.Generator, owners: list[int], typical: float, known: bool) -> DirectionRanks:
    """Return random positions of one to three positives of each query."""
    counts = rng.integers(1, 4, len(owners))
    lists = [np.sort(rng.geometric(1 / typical, 3))[:count] + np.arange(count) for count in counts]
    positions = np.concatenate(lists).astype(np.int32)
    annotated = np.array([each[-1] for each in lists], dtype=np.int32)
    nothing = np.empty(0, dtype=np.int32)
    condensed = np.maximum(1, positions // 2).astype(np.int32) if known else nothing
    tops = rng.integers(0, 11, len(owners)).astype(np.int32) if known else nothing
    return DirectionRanks(
        np.array(owners, dtype=np.int32), counts.astype(np.int32), positions, annotated, condensed, tops
    )


def judged_ranks(seed: int, typical: float, *, known: bool = True, digest: str = "ab" * 32) -> JudgedRanks:
    rng = np.random.default_rng(seed)
    owners = list(range(IMAGES))
    both = [direction(rng, owners, typical, known) for _ in range(2)]
    return JudgedRanks("flickr8k", digest, both[0], both[1])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999),
    metric=st.sampled_from(["rsum", "map_r", "r_precision", "i2t_r1", "t2i_map_r", "rsum_condensed", "rsum_annotated"]),
    images=st.lists(st.integers(0, 30), min_size=2, max_size=20, unique=True),
    captions=st.lists(st.integers(0, 30), min_size=2, max_size=40),
)
def test_the_mean_of_the_images_is_the_metric(seed: int, metric: str, images: list[int], captions: list[int]) -> None:
    rng = np.random.default_rng(seed)
    ranks = JudgedRanks("eccv", "", direction(rng, sorted(images), 4, True), direction(rng, sorted(captions), 4, True))
    values = image_values(ranks, metric)
    assert len(values) == len({*images, *captions})
    assert values.mean() == pytest.approx(judged_metrics(ranks)[metric], abs=1e-9)


def test_an_image_counts_with_the_mean_of_its_queries() -> None:
    """Two images with two captions each: the value of an image is the recall of its captions."""
    ranks = [np.array(of, dtype=np.int32) for of in ([0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 9])]
    captions = DirectionRanks(ranks[0], ranks[1], ranks[2], ranks[2])
    queries = DirectionRanks(*(np.array(of, dtype=np.int32) for of in ([0, 1], [1, 1], [1, 1], [1, 1])))
    assert image_values(JudgedRanks("eccv", "", queries, captions), "t2i_r1").tolist() == [100.0, 50.0]


def confirmed(ledger: Ledger, ranks_of: list[JudgedRanks | None]) -> None:
    """Confirm two losses with three seeds each, the first far ahead; with the judged ranks of each evaluation."""
    repeats = confirm_two_losses(ledger)
    owners = np.repeat(np.arange(IMAGES, dtype=np.int32), 5)
    for number, (repeat, each) in enumerate(zip(repeats, ranks_of, strict=True)):
        drawn = np.random.default_rng(number).geometric(1 / (3.0 if number < 3 else 9.0), (2, len(owners)))
        ranks = Ranks(*drawn.astype(np.int32), owners, "ab" * 32, "test")
        kept: dict[str, Any] = {"ranks": ranks.to_text()}
        if each is not None:
            kept["judged"] = [each.to_text()]
        named = named_metrics([each] if each else [])
        append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics_of(ranks) | named, **kept)


@pytest.fixture
def started(ledger: Ledger) -> Ledger:
    start(ledger, make_experiment(confirm={"top": 1, "seeds": 3}))
    return ledger


def test_a_lead_that_the_judgements_share_survives(started: Ledger) -> None:
    confirmed(started, [judged_ranks(seed, 3.0 if seed < 3 else 9.0) for seed in range(6)])
    (verdict,) = verdicts_of(started.history).values()
    (judged,) = judged_verdicts(started.history, verdict)
    assert verdict.verdict is Verdict.BETTER
    assert judged.survives
    assert list(judged.verdicts) == ["rsum", "map_r", "rsum_condensed", "map_r_condensed"]
    assert all(one.decided_by == "seeds_and_images" for one in judged.verdicts.values())
    said = statements("pets", Summary(started.history))
    assert any(
        one.startswith("with the pairs that people judged to fit (Flickr8k's experts and crowd) the verdict survives")
        for one in said
    )
    page = build_page(started.history, Extras(verdicts=[verdict]), drawn=False)
    (sentence,) = page.verdicts[0].judged
    assert sentence.startswith("With the pairs that people judged to fit") and sentence.endswith(".")


def test_a_lead_that_only_missing_annotations_made_does_not_survive(started: Ledger) -> None:
    confirmed(started, [judged_ranks(seed, 5.0) for seed in range(6)])
    (verdict,) = verdicts_of(started.history).values()
    (judged,) = judged_verdicts(started.history, verdict)
    assert (verdict.verdict, judged.survives) == (Verdict.BETTER, False)
    assert judged.verdicts["rsum"].verdict is Verdict.TIE
    said = statements("pets", Summary(started.history), brief=True)
    assert any("the verdict does not survive: rsum tie (" in one for one in said)
    (told,) = summarise(started.history)["judged"]["pets"]
    assert (told["name"], told["title"], told["survives"]) == ("flickr8k", "Flickr8k's experts and crowd", False)
    assert 0 < told["known"] == judged.known < 1
    assert told["verdicts"]["rsum"] == judged.verdicts["rsum"].to_dict()


@pytest.mark.parametrize("change", ["not judged", "other judgements"])
def test_what_not_all_candidates_were_judged_by_says_nothing(started: Ledger, change: str) -> None:
    ranks: list[JudgedRanks | None] = [judged_ranks(seed, 5.0) for seed in range(6)]
    ranks[5] = None if change == "not judged" else judged_ranks(5, 5.0, digest="cd" * 32)
    confirmed(started, ranks)
    summary = Summary(started.history)
    assert summary.judged == {"pets": []}
    assert not any("judged" in one for one in statements("pets", summary))


def test_without_known_wrong_pairs_unjudged_candidates_cannot_be_left_out(started: Ledger) -> None:
    confirmed(started, [judged_ranks(seed, 5.0, known=False) for seed in range(6)])
    (verdict,) = verdicts_of(started.history).values()
    (judged,) = judged_verdicts(started.history, verdict)
    assert (list(judged.verdicts), judged.known) == (["rsum", "map_r"], None)


def test_a_table_shows_the_candidates_with_judged_pairs(started: Ledger, tmp_path: Path) -> None:
    confirmed(started, [judged_ranks(seed, 5.0) for seed in range(6)])
    (verdict,) = verdicts_of(started.history).values()
    (table,) = judged_tables(rows_of(verdict), Summary(started.history))
    assert [row.loss for row in table.rows] == ["nt_xent", "triplet_sh"]
    shown = {column.metric for column in table.layout.columns}
    assert {"i2t_map_r", "t2i_r_precision", "rsum_annotated", "rsum_condensed"} <= shown
    assert all(metric in row.measures for row in table.rows for metric in shown)


def test_the_report_says_whether_the_verdict_survives(started: Ledger, tmp_path: Path) -> None:
    confirmed(started, [judged_ranks(seed, 5.0) for seed in range(6)])
    page = build_page(started.history, Extras(verdicts=list(verdicts_of(started.history).values())))
    (sentence,) = page.verdicts[0].judged
    assert "the verdict does not survive" in sentence
    assert not any(trial in sentence for trial in started.history.trials)
    assert "With judged pairs" in render(page)


def test_a_verdict_survives_only_if_every_metric_agrees(started: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed(started, [judged_ranks(number, 3.0 if number < 3 else 9.0) for number in range(6)])
    (verdict,) = verdicts_of(started.history).values()
    (agreeing,) = judged_verdicts(started.history, verdict)
    assert agreeing.survives
    whole = judged.answer

    def one_differs(history: History, dataset: str, question: Question) -> DatasetVerdict:
        found = whole(history, dataset, question)
        return replace(found, verdict=Verdict.TIE) if str(question.metric).endswith("/map_r") else found

    monkeypatch.setattr(judged, "answer", one_differs)
    (differing,) = judged_verdicts(started.history, verdict)
    assert not differing.survives
