"""What a checkpoint retrieves, against loops over its own embeddings."""

import base64
import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from orchestrator.report.queries import ANSWERS, QUERIES, Queries, retrieve
from tests.trainables.tiny import suited, tiny_config, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import Dataset
from trainables.data.source import Source
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
from trainables.trial import Trial, run_trial


@dataclass(frozen=True)
class Asked:
    data: Dataset
    checkpoint: Path
    source: Source
    answers: Queries


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
    return Asked(data, checkpoint, source, retrieve(checkpoint, data, source, "val", device="cpu"))


def similarities(asked: Asked) -> np.ndarray:
    model, _ = load_best(asked.checkpoint, asked.data)
    split = ResidentSplit(asked.data.splits["val"], torch.device("cpu"))
    with evaluating(model):
        return (encode_images(model, split) @ encode_captions(model, split).T).numpy()


def test_ten_queries_in_each_direction_are_spread_over_the_split(asked: Asked) -> None:
    ids = [query.query.text for query in asked.answers.i2t]
    assert ids == [asked.data.splits["val"].image_ids[place] for place in range(0, 20, 2)]
    assert len(asked.answers.t2i) == QUERIES
    assert all(len(query.answers) == ANSWERS for query in (*asked.answers.i2t, *asked.answers.t2i))


def test_answers_and_ranks_are_those_of_a_loop(asked: Asked) -> None:
    scores, split = similarities(asked), asked.data.splits["val"]
    for place, query in enumerate(asked.answers.i2t):
        row = scores[place * 2]
        own = [c for c in range(len(row)) if split.image_of_caption[c] == place * 2]
        best = max(row[c] for c in own)
        assert query.rank == 1 + sum(row[c] >= best for c in range(len(row)) if c not in own)
        highest = sorted(row, reverse=True)[:ANSWERS]
        assert [answer.score for answer in query.answers] == pytest.approx(highest, abs=1e-6)
        assert query.answers[0].correct == (query.rank == 1)
    for place, query in enumerate(asked.answers.t2i):
        column = scores[:, place * 10]
        own = int(split.image_of_caption[place * 10])
        assert query.rank == 1 + sum(column[i] >= column[own] for i in range(len(column)) if i != own)


def test_a_model_that_compares_pairs_is_asked_for_pairs(tmp_path: Path) -> None:
    config = replace(tiny_config(epochs=1), model="scan")
    data = suited(tiny_dataset(), config)
    (report,) = run_trial(config, data, device="cpu")
    checkpoint = save_epoch(tmp_path, report)
    found = retrieve(checkpoint, data, Source("tiny", tmp_path, (tmp_path,), None, ()), "val", device="cpu")
    model, _ = load_best(checkpoint, data)
    split = ResidentSplit(data.splits["val"], torch.device("cpu"))
    with evaluating(model):
        scores = model.compare(encode_images(model, split), encode_captions(model, split))
    for row, query in zip(scores[::2], found.i2t, strict=True):
        wanted = row.sort(descending=True).values[:ANSWERS].tolist()
        assert [answer.score for answer in query.answers] == pytest.approx(wanted, abs=1e-5)
    for column, query in zip(scores.T[::10], found.t2i, strict=True):
        wanted = column.sort(descending=True).values[:ANSWERS].tolist()
        assert [answer.score for answer in query.answers] == pytest.approx(wanted, abs=1e-5)


def test_images_are_small_jpegs_and_a_broken_one_is_its_name(asked: Asked) -> None:
    first, broken = asked.answers.i2t[0].query, asked.answers.i2t[1].query
    picture = PIL.Image.open(io.BytesIO(base64.b64decode(first.image.removeprefix("data:image/jpeg;base64,"))))
    assert (picture.format, picture.size) == ("JPEG", (336, 252))
    assert (broken.image, broken.text) == ("", asked.data.splits["val"].image_ids[2])


def test_images_that_are_not_at_hand_are_said_to_be_missing(asked: Asked, tmp_path: Path) -> None:
    elsewhere = Source("tiny", tmp_path, (tmp_path,), None, ())
    found = retrieve(asked.checkpoint, asked.data, elsewhere, "val", device="cpu")
    assert "were not found" in found.note
    assert not any(query.query.image for query in found.i2t)


def test_image_behind_a_link_out_of_the_data_root_is_not_shown(asked: Asked, tmp_path: Path) -> None:
    name = asked.data.splits["val"].filenames[0]
    (tmp_path / name).symlink_to(asked.source.folder / name)
    outside = Source("tiny", tmp_path, (tmp_path.resolve(),), None, ())
    assert not retrieve(asked.checkpoint, asked.data, outside, "val", device="cpu").i2t[0].query.image


@pytest.mark.parametrize("split", ["val", "test"])
def test_queries_and_answers_are_of_the_split_that_was_asked_for(asked: Asked, split: str) -> None:
    found = retrieve(asked.checkpoint, asked.data, asked.source, split, device="cpu")
    part = asked.data.splits[split]
    assert found.title == f"tiny {split}"
    assert [query.query.text for query in found.i2t] == [part.image_ids[place] for place in range(0, 20, 2)]
    assert {answer.text for query in found.t2i for answer in query.answers} <= set(part.image_ids)


def test_ties_rank_against_the_query(asked: Asked, tmp_path: Path) -> None:
    """A model whose weights are all zero scores every pair alike."""
    trial = Trial(tiny_config(), asked.data, torch.device("cpu"))
    report = trial.run_epoch()
    for weights in trial.best_weights.values():
        weights.zero_()
    found = retrieve(save_epoch(tmp_path, report), asked.data, asked.source, "val", device="cpu")
    assert {query.rank for query in found.i2t} == {96}, "95 captions of other images come first"
    assert {query.rank for query in found.t2i} == {20}, "19 other images come first"
