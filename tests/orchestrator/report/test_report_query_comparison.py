"""The winner beside another loss, query by query: with pictures and captions, without data, and without ranks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from orchestrator.journal.ledger import Ledger
from orchestrator.report.page import build_page
from orchestrator.report.query_comparison import compared_queries, with_pictures
from orchestrator.report.render import render
from orchestrator.results.candidates import DatasetVerdict
from orchestrator.results.confirmation import verdicts_of
from tests.support.experiments import add_repeat, add_trial, make_experiment, start
from tests.support.ranked import metrics_of
from tests.support.records import append
from tests.trainables.tiny import tiny_dataset
from trainables.data.dataset import Split
from trainables.data.source import Source
from trainables.ranks import Ranks

SEEDS = 3


@pytest.fixture(scope="module")
def split() -> Split:
    return tiny_dataset().splits["test"]


def confirmed(
    ledger: Ledger, split: Split, change: Callable[[Ranks], Ranks | None] = lambda ranks: ranks
) -> DatasetVerdict:
    """Confirm two losses with three seeds; the winner alone finds the first image and the last caption."""
    start(ledger, make_experiment(confirm={"top": 1, "seeds": SEEDS}))
    trials = [add_trial(ledger, [value], loss=loss) for value, loss in ((50.0, "nt_xent"), (40.0, "triplet_sh"))]
    owner = split.image_of_caption.astype(np.int32)
    repeats = [
        (number, add_repeat(ledger, one, seed, 100 + seed, 50.0 - number))
        for number, one in enumerate(trials)
        for seed in range(SEEDS)
    ]
    append(ledger, "test_opened", dataset="pets", trials=[one.id for _, one in repeats])
    for number, repeat in repeats:
        i2t, t2i = (np.full(len(owner), 5, dtype=np.int32) for _ in range(2))
        i2t[owner == 0], t2i[-1] = (1, 1) if number == 0 else (20, 9)
        i2t[owner == 1] = 7 if number == 0 else 6
        ranks = change(Ranks(i2t, t2i, owner, split.queries_digest(), "test"))
        kept = {} if ranks is None else {"ranks": ranks.to_text()}
        metrics = metrics_of(Ranks(i2t, t2i, owner, "", "test"))
        append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics, **kept)
    (verdict,) = verdicts_of(ledger.history).values()
    return verdict


def test_the_queries_that_one_loss_finds_are_shown_with_picture_and_caption(
    ledger: Ledger, split: Split, tmp_path: Path
) -> None:
    for name in split.filenames:
        PIL.Image.new("RGB", (40, 30), (80, 120, 10)).save(tmp_path / name)
    verdict = confirmed(ledger, split)
    compared = compared_queries(ledger.history, verdict)
    assert compared is not None
    assert [direction.gained for direction in compared.directions] == [[], []], "nobody has looked at the data yet"
    shown = with_pictures(compared, ledger.history, split, Source("tiny", tmp_path, (tmp_path.resolve(),), None, ()))
    i2t, t2i = shown.directions
    images, captions = len(split.image_ids), len(split.captions)
    assert i2t.compared.found == ((1, 0, 1, 0, images - 1), (5, images - 2, 1, 0, 1), (10, images - 1, 1, 0, 0))
    (gained,), (lost,) = i2t.gained, i2t.lost
    assert (gained.query.text, gained.first, gained.second) == (split.image_ids[0], "1", "20")
    assert gained.query.image.startswith("data:image/jpeg")
    assert gained.answer.text == split.captions[0]
    assert (lost.query.text, lost.first, lost.second) == (split.image_ids[1], "7", "6")
    (gained,) = t2i.gained
    assert (gained.query.text, gained.answer.text) == (split.captions[captions - 1], split.image_ids[images - 1])
    page = build_page(ledger.history, compared=[shown])
    assert (page.compared[0].first, page.compared[0].second) == ("NT-Xent 0000", "Triplet SH 0000")
    text = render(page)
    places = [
        "NT-Xent and Triplet SH do not differ significantly",
        "<summary>Numbers</summary>",
        "beside Triplet SH 0000, query by",
    ]
    assert sorted(places, key=text.index) == places


def test_other_data_show_no_pictures_of_wrong_queries(ledger: Ledger, split: Split, tmp_path: Path) -> None:
    compared = compared_queries(ledger.history, confirmed(ledger, split))
    assert compared is not None
    others = replace(split, captions=split.image_ids[:0])
    shown = with_pictures(compared, ledger.history, others, Source("tiny", tmp_path, (tmp_path,), None, ()))
    assert "The data have other queries now" in shown.note
    assert shown.directions == compared.directions


def test_without_ranks_the_page_says_so(ledger: Ledger, split: Split) -> None:
    compared = compared_queries(ledger.history, confirmed(ledger, split, lambda ranks: None))
    assert compared is not None
    assert (compared.directions, compared.note) == (
        [],
        "The ranks of the queries were not kept when the test split was evaluated.",
    )
