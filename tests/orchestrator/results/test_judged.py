"""Whether a verdict survives people's judgements: from the journal on, with values of images that make the metrics."""

import re
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.journal.history import History
from orchestrator.journal.ledger import Ledger
from orchestrator.results import confirmation
from orchestrator.results.answers import Summary, analyses_of, summarise
from orchestrator.results.confirmation import Confirmation, confirmations
from orchestrator.results.judged import judged_answer, judged_image_values, judged_verdicts
from orchestrator.results.question import Verdict
from orchestrator.results.runs import Runs
from orchestrator.results.verdict import DatasetVerdict, judge
from orchestrator.views.grid import grid
from tests.support.experiments import confirm_two_losses, make_experiment, start
from tests.support.ranked import draw_ranks, metrics_of
from tests.support.records import append
from trainables.judged_ranks import DirectionRanks, JudgedRanks, judged_metrics, named_metrics

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


@settings(max_examples=40)
@given(
    seed=st.integers(0, 999),
    metric=st.sampled_from(["rsum", "map_r", "r_precision", "i2t_r1", "t2i_map_r", "rsum_condensed", "rsum_annotated"]),
    images=st.lists(st.integers(0, 30), min_size=2, max_size=20, unique=True),
    captions=st.lists(st.integers(0, 30), min_size=2, max_size=40),
)
def test_the_mean_of_the_images_is_the_metric(seed: int, metric: str, images: list[int], captions: list[int]) -> None:
    rng = np.random.default_rng(seed)
    ranks = JudgedRanks("eccv", "", direction(rng, sorted(images), 4, True), direction(rng, sorted(captions), 4, True))
    values = judged_image_values(ranks, metric)
    assert len(values) == len({*images, *captions})
    assert values.mean() == pytest.approx(judged_metrics(ranks)[metric], abs=1e-9)


def test_an_image_counts_with_the_mean_of_its_queries() -> None:
    """Two images with two captions each: the value of an image is the recall of its captions."""
    ranks = [np.array(of, dtype=np.int32) for of in ([0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 9])]
    captions = DirectionRanks(ranks[0], ranks[1], ranks[2], ranks[2])
    queries = DirectionRanks(*(np.array(of, dtype=np.int32) for of in ([0, 1], [1, 1], [1, 1], [1, 1])))
    assert judged_image_values(JudgedRanks("eccv", "", queries, captions), "t2i_r1").tolist() == [100.0, 50.0]


def confirmed(ledger: Ledger, ranks_of: list[JudgedRanks | None]) -> None:
    """Confirm two losses with three seeds each, the first far ahead; with the judged ranks of each evaluation."""
    repeats = confirm_two_losses(ledger)
    owners = np.repeat(np.arange(IMAGES, dtype=np.int32), 5)
    for number, (repeat, each) in enumerate(zip(repeats, ranks_of, strict=True)):
        ranks = draw_ranks(number, 3.0 if number < 3 else 9.0, owners)
        kept: dict[str, Any] = {"ranks": ranks.to_text()}
        if each is not None:
            kept["judged"] = [each.to_text()]
        named = named_metrics([each] if each else [])
        append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics_of(ranks) | named, **kept)


def said_of(history: History) -> list[str]:
    """Return the sentences of the answer about people's judgements."""
    answers = analyses_of(Summary(history), "pets")
    return [text for answer in answers if answer.key == "judged" for text in answer.sentences]


@pytest.fixture
def started(ledger: Ledger) -> Ledger:
    start(ledger, make_experiment(confirm={"top": 1, "seeds": 3}))
    return ledger


def test_a_lead_that_the_judgements_share_survives(started: Ledger) -> None:
    confirmed(started, [judged_ranks(seed, 3.0 if seed < 3 else 9.0) for seed in range(6)])
    (verdict,) = Summary(started.history).verdicts.values()
    (judged,) = judged_verdicts(confirmations(started.history)["pets"]).values()
    assert verdict.verdict is Verdict.BETTER
    assert list(judged) == ["rsum", "map_r", "rsum_condensed", "map_r_condensed"]
    assert all(one.decided_by == "seeds_and_images" for one in judged.values())
    headline, source = said_of(started.history)
    leads = [judged[metric].pairs[0].difference for metric in ("rsum", "map_r")]
    assert headline == (
        "Counting the captions that people judged correct, the verdict is the same: "
        f"{leads[0]:+.1f} rsum, {leads[1]:+.3f} mAP@R."
    )
    (written,) = summarise(started.history)["judged"]["pets"]
    assert written["survives"]
    share = f"{written['known']:.0%}".replace("%", " %")
    (table,) = [one.table for one in analyses_of(Summary(started.history), "pets") if one.key == "judged"]
    shown = {(column.column.group, column.heading): column.texts for column in grid(table)}
    assert shown["rsum", "lead"][0] == f"{leads[0]:+.1f}" and shown["mAP@R", "lead"][0] == f"{leads[1]:+.3f}"
    assert shown["", "candidates"] == ["all", "without unjudged pairs"]
    assert source == f"Judgements: Flickr8k's experts and crowd; {share} of the winner's first ten are judged."


def test_a_summary_judges_once_and_once_by_each_judged_metric(started: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed(started, [judged_ranks(seed, 3.0 if seed < 3 else 9.0) for seed in range(6)])
    calls = Mock(wraps=judge)
    monkeypatch.setattr(confirmation, "judge", calls)
    summary = Summary(started.history)
    (judged,) = summary.to_dict()["judged"]["pets"]
    assert analyses_of(summary, "pets")
    assert [call.kwargs["metric"] for call in calls.call_args_list] == [
        "test/rsum",
        *(f"test/judged_flickr8k/{metric}" for metric in judged["verdicts"]),
    ]


def test_a_lead_that_only_missing_annotations_made_does_not_survive(started: Ledger) -> None:
    confirmed(started, [judged_ranks(seed, 5.0) for seed in range(6)])
    (verdict,) = Summary(started.history).verdicts.values()
    (judged,) = judged_verdicts(confirmations(started.history)["pets"]).values()
    assert (verdict.verdict, judged["rsum"].verdict) == (Verdict.BETTER, Verdict.TIE)
    headline, _ = said_of(started.history)
    assert headline.startswith(
        "Counting the captions that people judged correct, the verdict changes from better to tie "
    )
    assert " rsum, " in headline
    (told,) = summarise(started.history)["judged"]["pets"]
    assert (told["name"], told["title"], told["survives"]) == ("flickr8k", "Flickr8k's experts and crowd", False)
    assert 0 < told["known"] < 1
    assert told["verdicts"]["rsum"] == judged["rsum"].to_dict()


@pytest.mark.parametrize("change", ["not judged", "other judgements"])
def test_what_not_all_candidates_were_judged_by_says_nothing(started: Ledger, change: str) -> None:
    ranks: list[JudgedRanks | None] = [judged_ranks(seed, 5.0) for seed in range(6)]
    ranks[5] = None if change == "not judged" else judged_ranks(5, 5.0, digest="cd" * 32)
    confirmed(started, ranks)
    summary = Summary(started.history)
    assert (summary.judged, summary.to_dict()["judged"]) == ({"pets": None}, {"pets": []})
    assert said_of(started.history) == []


def test_the_headline_is_what_is_asked_again() -> None:
    """Two settings of the winner's loss are equal, so that the weakest comparison of all is a tie."""
    candidates = [
        Runs.of_seeds(label, values, loss=loss, parameters={"scale": 2.0})
        for label, loss, mean in (("n1", "nt_xent", 100.0), ("n2", "nt_xent", 99.9), ("t1", "triplet", 91.0))
        for values in [{seed: {"val/rsum": mean, "test/rsum": mean + seed} for seed in range(3)}]
    ]
    verdict = judge(candidates)
    answer = judged_answer(verdict, {"flickr8k": {"rsum": verdict}})
    assert [str(pair.verdict) for pair in verdict.pairs] == ["tie", "better"]
    assert verdict.verdict is Verdict.BETTER
    (row,) = answer.table.to_dict()["rows"]
    assert (row["rsum"], row["rsum_verdict"]) == (pytest.approx(9.0), "better")
    assert answer.headline.endswith("the verdict is the same: +9.0 rsum.")


def test_of_a_candidate_that_is_alone_no_verdict_is_said_to_be_the_same() -> None:
    values = {seed: {"val/rsum": 91.0, "test/rsum": 91.0 + seed} for seed in range(3)}
    verdict = judge([Runs.of_seeds("n1", values, loss="nt_xent")])
    answer = judged_answer(verdict, {"flickr8k": {"rsum": verdict}})
    assert verdict.verdict is Verdict.UNTESTED
    assert answer.headline.startswith("Nothing was compared, so there is no verdict")
    assert answer.data["judged"][0]["survives"], "nothing takes a headline back"


def test_without_known_wrong_pairs_unjudged_candidates_cannot_be_left_out(started: Ledger) -> None:
    confirmed(started, [judged_ranks(seed, 5.0, known=False) for seed in range(6)])
    (judged,) = summarise(started.history)["judged"]["pets"]
    assert (list(judged["verdicts"]), judged["known"]) == (["rsum", "map_r"], None)


def test_a_verdict_survives_only_if_every_metric_agrees(started: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed(started, [judged_ranks(number, 3.0 if number < 3 else 9.0) for number in range(6)])
    (agreeing,) = summarise(started.history)["judged"]["pets"]
    assert agreeing["survives"]
    whole = Confirmation.judge

    def one_differs(own: Confirmation, *, metric: str | None = None, **further: Any) -> DatasetVerdict:
        verdict = whole(own, metric=metric, **further)
        ties = tuple(replace(pair, verdict=Verdict.TIE) for pair in verdict.pairs)
        return replace(verdict, pairs=ties) if str(metric).endswith("/map_r") else verdict

    monkeypatch.setattr(Confirmation, "judge", one_differs)
    (differing,) = summarise(started.history)["judged"]["pets"]
    assert not differing["survives"]
    # Only the metric by which the verdict is another one is named.
    assert re.search(r"the verdict changes from better to tie \(\S+ mAP@R\)\.$", said_of(started.history)[0])
