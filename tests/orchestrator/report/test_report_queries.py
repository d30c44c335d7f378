"""Queries on pages: of a checkpoint, against loops; of two candidates; of ``retrieve --html``."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from orchestrator.journal.ledger import Ledger
from orchestrator.report.page import Page
from orchestrator.report.queries import (
    ANSWERS,
    QUERIES,
    WAYS,
    Item,
    ShownQueries,
    ask_model,
    compared_queries,
    find_pictures,
    pictures_note,
    retrieved_items,
    write_retrieved,
)
from orchestrator.report.render import render_page
from orchestrator.report.studies import studies_of, trial_names
from orchestrator.results.answers import Summary
from orchestrator.results.verdict import DatasetVerdict
from tests.support.experiments import confirm_two_losses, make_experiment, start
from tests.support.ranked import metrics_of
from tests.support.records import append
from tests.support.videos import write_video
from tests.trainables.scenes_folder import write_scenes
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables import extras
from trainables.checkpoint import save_epoch
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import Dataset, Split
from trainables.data.source import Source
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
from trainables.ranks import Ranks
from trainables.serving.retriever import Match
from trainables.trial import Trial, run_trial


@dataclass(frozen=True)
class Asked:
    data: Dataset
    checkpoint: Path
    source: Source
    answers: ShownQueries


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """A tiny model that answered on val, whose folder has the image files but for one that is broken."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    data = tiny_dataset()
    for image, name in enumerate(data.splits["val"].filenames):
        PIL.Image.new("RGB", (400, 300), (image * 10, 80, 120)).save(folder / name)
    (folder / data.splits["val"].filenames[2]).write_bytes(b"no image at all")
    (report,) = run_trial(tiny_config(epochs=1), data)
    checkpoint = save_epoch(folder / "checkpoints", report)
    source = Source("tiny", folder, (folder.resolve(),), None, ())
    return Asked(data, checkpoint, source, ask_model(checkpoint, data, source, "val", "asked", device="cpu"))


def test_answers_and_ranks_are_those_of_a_loop(asked: Asked) -> None:
    model, _ = load_best(asked.checkpoint, asked.data)
    split = asked.data.splits["val"]
    resident = ResidentSplit(split, torch.device("cpu"))
    with evaluating(model):
        scores = (encode_images(model, resident) @ encode_captions(model, resident).T).numpy()
    i2t, t2i = asked.answers.groups.values()
    for place, query in enumerate(i2t):
        row = scores[place * 2]
        own = [c for c in range(len(row)) if split.image_of_caption[c] == place * 2]
        best = max(row[c] for c in own)
        assert query.ranks["first right answer"] == 1 + sum(row[c] >= best for c in range(len(row)) if c not in own)
        highest = sorted(row, reverse=True)[:ANSWERS]
        assert [answer.score for answer in query.answers] == pytest.approx(highest, abs=1e-6)
        assert query.answers[0].correct == (query.ranks["first right answer"] == 1)
    for place, query in enumerate(t2i):
        column = scores[:, place * 10]
        own = int(split.image_of_caption[place * 10])
        assert query.ranks["first right answer"] == 1 + sum(
            column[i] >= column[own] for i in range(len(column)) if i != own
        )


def test_a_model_that_compares_pairs_is_asked_for_pairs(tmp_path: Path) -> None:
    config = replace(tiny_config(epochs=1), model="scan")
    data = suited(tiny_dataset(), config)
    (report,) = run_trial(config, data, device="cpu")
    checkpoint = save_epoch(tmp_path, report)
    found = ask_model(checkpoint, data, Source("tiny", tmp_path, (tmp_path,), None, ()), "val", "asked", device="cpu")
    model, _ = load_best(checkpoint, data)
    split = ResidentSplit(data.splits["val"], torch.device("cpu"))
    with evaluating(model):
        scores = model.compare(encode_images(model, split), encode_captions(model, split))
    i2t, t2i = found.groups.values()
    for row, query in zip(scores[::2], i2t, strict=True):
        wanted = row.sort(descending=True).values[:ANSWERS].tolist()
        assert [answer.score for answer in query.answers] == pytest.approx(wanted, abs=1e-5)
    for column, query in zip(scores.T[::10], t2i, strict=True):
        wanted = column.sort(descending=True).values[:ANSWERS].tolist()
        assert [answer.score for answer in query.answers] == pytest.approx(wanted, abs=1e-5)


def test_images_are_small_jpegs_and_a_broken_one_is_its_name(asked: Asked) -> None:
    first, broken, *_ = (query.query for query in asked.answers.groups[WAYS[0]])
    picture = PIL.Image.open(io.BytesIO(base64.b64decode(first.image.removeprefix("data:image/jpeg;base64,"))))
    assert (picture.format, picture.size) == ("JPEG", (336, 252))
    assert (broken.image, broken.text) == ("", asked.data.splits["val"].image_ids[2])


def test_an_image_that_is_missing_or_outside_the_data_root_is_not_shown(asked: Asked, tmp_path: Path) -> None:
    elsewhere = Source("tiny", tmp_path, (tmp_path.resolve(),), None, ())
    found = ask_model(asked.checkpoint, asked.data, elsewhere, "val", "asked", device="cpu")
    assert "were not found" in found.note
    assert not any(query.query.image for query in found.groups[WAYS[0]])
    name = asked.data.splits["val"].filenames[0]
    (tmp_path / name).symlink_to(asked.source.folder / name)
    found = ask_model(asked.checkpoint, asked.data, elsewhere, "val", "asked", device="cpu")
    assert not found.groups[WAYS[0]][0].query.image


@pytest.mark.parametrize("split", ["val", "test"])
def test_queries_and_answers_are_of_the_split_that_was_asked_for(asked: Asked, split: str) -> None:
    found = ask_model(asked.checkpoint, asked.data, asked.source, split, "asked", device="cpu")
    part = asked.data.splits[split]
    assert found.title == "asked"
    i2t, t2i = found.groups.values()
    assert [query.query.text for query in i2t] == [part.image_ids[place] for place in range(0, 20, 2)]
    assert len(t2i) == QUERIES and all(len(query.answers) == ANSWERS for query in (*i2t, *t2i))
    assert {answer.text for query in t2i for answer in query.answers} <= set(part.image_ids)


def test_ties_rank_against_the_query(asked: Asked, tmp_path: Path) -> None:
    """A model whose weights are all zero scores every pair alike."""
    trial = Trial(tiny_config(), asked.data, torch.device("cpu"))
    report = trial.run_epoch()
    for weights in trial.best_weights.values():
        weights.zero_()
    found = ask_model(save_epoch(tmp_path, report), asked.data, asked.source, "val", "asked", device="cpu")
    ranks = [{query.ranks["first right answer"] for query in queries} for queries in found.groups.values()]
    assert ranks == [{96}, {20}], "95 captions of other images, and 19 other images, come first"


SEEDS = 3


@pytest.fixture(scope="module")
def split() -> Split:
    return tiny_dataset().splits["test"]


def confirmed(
    ledger: Ledger, split: Split, change: Callable[[Ranks], Ranks | None] = lambda ranks: ranks
) -> DatasetVerdict:
    """Confirm two losses with three seeds; the winner alone finds the first image and the last caption."""
    start(ledger, make_experiment(confirm={"top": 1, "seeds": SEEDS}))
    owner = split.image_of_caption.astype(np.int32)
    for number, repeat in enumerate(confirm_two_losses(ledger)):
        is_winner = number < SEEDS
        i2t, t2i = (np.full(len(owner), 5, dtype=np.int32) for _ in range(2))
        i2t[owner == 0], t2i[-1] = (1, 1) if is_winner else (20, 9)
        i2t[owner == 1] = 7 if is_winner else 6
        ranks = change(Ranks(i2t, t2i, owner, split.queries_digest(), "test"))
        kept = {} if ranks is None else {"ranks": ranks.to_text()}
        metrics = metrics_of(Ranks(i2t, t2i, owner, "", "test"))
        append(ledger, "test_evaluated", trial=repeat.id, metrics=metrics, **kept)
    (verdict,) = Summary(ledger.history).verdicts.values()
    return verdict


def test_the_queries_that_one_loss_finds_are_shown(ledger: Ledger, split: Split, tmp_path: Path) -> None:
    for name in split.filenames:
        PIL.Image.new("RGB", (40, 30), (80, 120, 10)).save(tmp_path / name)
    verdict = confirmed(ledger, split)
    source = Source("tiny", tmp_path, (tmp_path.resolve(),), None, ())
    shown = compared_queries(ledger.history, verdict, trial_names(studies_of(ledger.history)), (split, source))
    images = len(split.image_ids)
    assert list(shown.table.rows[:3]) == [
        ("an image", 1, 0, 1, 0, images - 1),
        ("an image", 5, images - 2, 1, 0, 1),
        ("an image", 10, images - 1, 1, 0, 0),
    ]
    (gained,), (lost,), (of_caption,) = shown.groups.values()
    assert (gained.query.text, gained.ranks) == (split.image_ids[0], {"NT-Xent 0000": 1, "Triplet SH 0000": 20})
    assert gained.query.image.startswith("data:image/jpeg")
    assert [answer.text for answer in gained.answers] == [split.captions[0]]
    assert (lost.query.text, list(lost.ranks.values())) == (split.image_ids[1], [7, 6])
    assert (of_caption.query.text, of_caption.answers[0].text) == (split.captions[-1], split.image_ids[-1])
    text = render_page(Page(ledger.history, queries=[shown]))
    places = [" do not differ significantly", "<summary>Numbers</summary>", "beside Triplet SH 0000, query by"]
    assert sorted(places, key=text.index) == places


def test_a_comparison_without_its_data_says_so(ledger: Ledger, split: Split, tmp_path: Path) -> None:
    verdict, names = confirmed(ledger, split), trial_names(studies_of(ledger.history))
    others = replace(split, captions=split.image_ids[:0]), Source("tiny", tmp_path, (tmp_path,), None, ())
    for data, said in ((others, "The data have other queries now"), ("They are missing.", "They are missing.")):
        compared = compared_queries(ledger.history, verdict, names, data)
        assert compared.table is not None and said in compared.note and not compared.groups


def test_without_ranks_the_page_says_so(ledger: Ledger, split: Split) -> None:
    verdict = confirmed(ledger, split, lambda ranks: None)
    compared = compared_queries(ledger.history, verdict, trial_names(studies_of(ledger.history)), "")
    assert compared.table is None
    assert compared.note == "The ranks of the queries were not kept when the test split was evaluated."


EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenes(tmp_path_factory.mktemp("data"), images=10)


def test_pictures_are_those_of_the_dataset_where_it_is_there(root: Path, tmp_path: Path) -> None:
    picture, missing = find_pictures("scenes", root)
    assert missing == ""
    assert picture("scene_000001.jpg").startswith("data:image/jpeg;base64,")
    # What a packed model names a file cannot lead out of the data root.
    (root.parent / "secret.jpg").write_bytes((next(root.rglob("scene_000001.jpg"))).read_bytes())
    assert picture("../../secret.jpg") == picture("no such file.jpg") == ""
    picture, missing = find_pictures("scenes", tmp_path)
    assert picture("scene_000001.jpg") == ""
    assert missing.startswith("The page has no pictures: ")
    shown, hidden = Item("a", "data:image/jpeg;base64,"), Item("b")
    assert pictures_note([hidden], missing) == missing
    assert pictures_note([hidden, shown], "") == ""
    assert pictures_note([hidden], "").startswith("The page has no pictures: the files of these images are not in")


def test_a_clip_is_shown_moving(root: Path) -> None:
    colours = ("red", "green", "blue")
    (root / "scenes" / "clips" / "45").mkdir(parents=True)
    frames = [PIL.Image.new("RGB", (40, 30), colour) for colour in colours]
    frames[0].save(root / "scenes" / "clips" / "44.gif", save_all=True, append_images=frames[1:], duration=100)
    for number, frame in enumerate(frames):
        frame.save(root / "scenes" / "clips" / "45" / f"{number}.png")
    picture, _ = find_pictures("scenes", root)
    items = retrieved_items([Match("44", "", "a clip", 0.5), Match("45", "", "frames", 0.4)], {}, picture)
    for item in items:
        kind, _, text = item.image.partition(";base64,")
        assert kind == "data:image/webp"
        with PIL.Image.open(io.BytesIO(base64.b64decode(text))) as shown:
            assert getattr(shown, "n_frames", 1) == 3
    assert picture("44") == items[0].image and picture("", "../44") == ""


def test_a_video_is_shown_moving(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av", reason="the extra video is not installed")
    write_video(root / "scenes" / "46.webm", [(255, 0, 0)] * 20 + [(0, 0, 255)] * 20)
    picture, _ = find_pictures("scenes", root)
    kind, _, text = picture("", "46").partition(";base64,")
    assert kind == "data:image/webp"
    with PIL.Image.open(io.BytesIO(base64.b64decode(text))) as shown:
        assert getattr(shown, "n_frames", 1) > 1
        left = []
        for frame in (0, shown.n_frames - 1):
            shown.seek(frame)
            left.append(np.asarray(shown.convert("RGB"))[10:-10, 10:30].mean((0, 1)))
    assert left[0][0] > 200 > 50 > left[0][2] and left[1][2] > 200 > 50 > left[1][0], "red, then blue"
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "av")
    assert picture("", "46") == "", "without the extra the page shows the name"


def test_the_page_has_every_answer_with_picture_captions_and_score(root: Path, tmp_path: Path) -> None:
    picture, _ = find_pictures("scenes", root)
    answers = [Match("1", "scene_000001.jpg", "", 0.51234), Match("2", "", "", 0.25), Match("3", "", "its own", 0.1)]
    arabic = "كلبان يركضان على العشب"
    items = retrieved_items(answers, {"1": ["a red box", f"{EVIL}\x1b[2J"], "2": [arabic]}, picture)
    assert [item.text for item in items] == ["1 · scene_000001.jpg", "2", "3"]
    assert [bool(item.image) for item in items] == [True, False, False]
    assert items[2].captions == ["its own"]
    path = tmp_path / "answers.html"
    write_retrieved("icr-scenes version 1", Item(EVIL), ["a note"], items, path)
    text = path.read_text(encoding="utf-8")
    assert text.count("data:image/jpeg;base64,") == 1
    assert text.count("<script") == 1 and "\x1b" not in text
    for said in ("a red box", "0.512", "a note", "icr-scenes version 1", "&lt;script&gt;alert(1)&lt;/script&gt;"):
        assert said in text
    assert f'<p class="item-text" dir="auto">{arabic}</p>' in text, "captions run in the direction of their letters"
