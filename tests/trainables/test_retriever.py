"""A packed model answers as the model in its dataset does, holds no code, and says what it cannot do."""

import hashlib
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file

from tests.trainables.tiny import tiny_config, tiny_dataset
from trainables.checkpoint import save_epoch
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import Dataset
from trainables.data.text_features import TfidfSvd, extractor_path, fit_tfidf
from trainables.encoders.pretrained import weights_digest
from trainables.errors import CheckpointError, DataError
from trainables.evaluation import encode_captions, encode_images, evaluating, load_best
from trainables.models.backbones import build_backbone
from trainables.serving.packed import ABOUT, GALLERY, MODEL, write_retriever
from trainables.serving.queries import features_of_picture
from trainables.serving.retriever import Retriever, Served, _load_pyfunc
from trainables.trial import run_trial

DATA = tiny_dataset()


@pytest.fixture(scope="module", params=["vsepp", "wsabie"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny_config(epochs=2)
    config = type(config)(**{**vars(config), "model": request.param})
    root = tmp_path_factory.mktemp(request.param)
    for report in run_trial(config, DATA, device="cpu"):
        path = save_epoch(root, report)
    return path


@pytest.fixture(scope="module")
def folder(checkpoint: Path) -> Path:
    write_retriever(checkpoint.parent / "packed", checkpoint, DATA, "test")
    return checkpoint.parent / "packed"


def test_answers_are_those_of_the_model_in_its_dataset(checkpoint: Path, folder: Path) -> None:
    model, _ = load_best(checkpoint, DATA)
    split = DATA.splits["test"]
    with evaluating(model):
        resident = ResidentSplit(split, torch.device("cpu"))
        images, captions = encode_images(model, resident), encode_captions(model, resident)
    retriever = Retriever(folder)
    for caption in (0, 17, 99):
        words = " ".join(
            DATA.vocabulary.words[token] for token in split.tokens[slice(*split.offsets[caption : caption + 2])][1:-1]
        )
        scores, answers = images @ captions[caption], retriever.images_for(words, 5)
        wanted = scores.sort(descending=True).values[:5].tolist()
        assert [one.score for one in answers] == pytest.approx(wanted, abs=2e-3)
        assert scores[int(answers[0].image.removeprefix("image")) - 80] == pytest.approx(answers[0].score, abs=2e-3)
        assert {one.filename for one in answers} <= {f"image{row}.jpg" for row in range(80, 100)}
    features = split.features[83].astype(float).tolist()
    ways = [retriever.captions_for(image, 3) for image in ("image83", "image83.jpg", features)]
    assert [[one.caption for one in answers] for answers in ways] == [[one.caption for one in ways[0]]] * 3
    expected = (captions @ images[3]).sort(descending=True).values[:3].tolist()
    assert [one.score for one in ways[0]] == pytest.approx(expected, abs=2e-3)
    assert all(one.caption in list(split.captions) for one in ways[0])
    assert len(retriever.images_for("word1", 1000)) == 20


def test_what_speaks_against_answers_is_said(folder: Path) -> None:
    retriever = Retriever(folder)
    split = DATA.splits["test"]
    known, strange = retriever.images_for("word1 word2", 3), "florp word1 glimp florp"
    assert retriever.doubts_about("word1 word2", [replace(known[0], score=100.0)]) == []
    assert retriever.doubts_about(strange, [replace(known[0], score=100.0)]) == ["the model does not know florp, glimp"]
    (unknown, low) = retriever.doubts_about("florp glimp", [replace(known[0], score=-100.0)])
    assert unknown == "the model knows no word of the caption, so that the answers mean nothing"
    assert low.startswith("the best score, -100.000, is lower than the best score of 99 in 100 captions of ")
    (low,) = retriever.doubts_about(None, [replace(known[0], score=-100.0)])
    assert "99 in 100 images of " in low
    gallery = load_file(folder / GALLERY)
    best = (gallery["captions"].float() @ gallery["images"].float().T).amax(1).numpy()
    usual = float(np.quantile(best, 0.01))
    for score, doubts in ((usual + 1e-4, 0), (usual - 1e-4, 1)):
        assert len(retriever.doubts_about("word1", [replace(known[0], score=score)])) == doubts
    own = [caption for caption, owner in zip(split.captions, split.image_of_caption, strict=True) if owner == 3]
    assert retriever.captions_of("image83") == own


def test_mlflow_asks_it_with_a_table(folder: Path) -> None:
    served = _load_pyfunc(str(folder))
    assert isinstance(served, Served)
    answers = served.predict([{"caption": "word1 word2"}, {"caption": None, "image": "image80"}], {"top": 2})
    assert list(answers.columns) == ["query", "rank", "image", "filename", "caption", "score"]
    assert answers[["query", "rank"]].values.tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]
    images, captions = answers[answers["query"] == 0], answers[answers["query"] == 1]
    assert set(images["caption"]) == {""} and all(name.startswith("image") for name in images["image"])
    assert "" not in set(captions["caption"])
    assert images["score"].is_monotonic_decreasing


@pytest.fixture(scope="module")
def of_features(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dataset, TfidfSvd]:
    """A checkpoint of a model that reads features of captions, its data, and what made these features."""
    captions = {name: list(split.captions) for name, split in DATA.splits.items()}
    extractor = fit_tfidf(captions["train"], 8, 0)
    splits = {
        name: replace(split, caption_features=extractor.transform(texts), caption_rows=np.arange(len(texts)))
        for name, texts, split in zip(captions, captions.values(), DATA.splits.values(), strict=True)
    }
    data, root = replace(DATA, splits=splits), tmp_path_factory.mktemp("head")
    (report,) = run_trial(replace(tiny_config(epochs=1), model="head"), data, device="cpu")
    return save_epoch(root, report), data, extractor


def test_a_caption_is_asked_through_the_extractor_that_made_the_features(
    of_features: tuple[Path, Dataset, TfidfSvd], tmp_path: Path
) -> None:
    checkpoint, data, extractor = of_features
    texts = tmp_path / "features_text.npy"
    content = extractor.to_bytes()
    extractor_path(texts).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    texts.with_suffix(".json").write_text(json.dumps({"extractor": "tfidf-svd", "extractor_digest": digest}))
    write_retriever(tmp_path / "packed", checkpoint, data, "test", texts=texts)
    model, _ = load_best(checkpoint, data)
    with evaluating(model):
        resident = ResidentSplit(data.splits["test"], torch.device("cpu"))
        scores = encode_images(model, resident) @ encode_captions(model, resident)[17]
    retriever, caption = Retriever(tmp_path / "packed"), data.splits["test"].captions[17]
    answers = retriever.images_for(caption, 3)
    assert [one.score for one in answers] == pytest.approx(scores.sort(descending=True).values[:3].tolist(), abs=2e-3)
    assert retriever.captions_for("image83", 3)
    high = [replace(answers[0], score=100.0)]
    assert retriever.doubts_about(caption, high) == []
    assert retriever.doubts_about(f"{caption} florp", high) == ["the model does not know florp"]


def test_without_the_extractor_a_caption_is_refused_and_an_image_is_answered(
    of_features: tuple[Path, Dataset, TfidfSvd], tmp_path: Path
) -> None:
    checkpoint, data, _ = of_features
    write_retriever(tmp_path / "packed", checkpoint, data, "test")
    retriever = Retriever(tmp_path / "packed")
    with pytest.raises(DataError, match="what made those of tiny is not packed with the model; ask with --image"):
        retriever.images_for("word1")
    assert len(retriever.captions_for("image83", 3)) == 3


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([{"caption": float("nan")}], "query 0: holds neither a caption nor an image"),
        ([{"caption": "word1"}, {"caption": "  "}], "query 1: holds neither a caption nor an image"),
        ([{"Caption": "word1"}], "query 0: holds neither a caption nor an image, got Caption"),
        (pandas.DataFrame({"text": ["word1"]}), "a column caption or image.*the table has neither column, got text"),
        (pandas.DataFrame(), "the table has neither column$"),
        (["word1 word2"], r'queries are a table .*pandas.DataFrame\(\{"caption": .*; got str'),
        ("word1 word2", "got str"),
        (np.array(["word1"]), "got ndarray"),
    ],
)
def test_what_is_no_table_of_queries_is_refused_by_name(folder: Path, queries: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _load_pyfunc(str(folder)).predict(queries)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        pytest.param("image1", "neither an image of tiny test", id="of another split"),
        pytest.param("/9j/4AAQSkZJRg" * 50, "/9j/: neither an image of tiny test", id="too long for a name"),
        pytest.param([1.0, 2.0], "of shape \\(24,\\), got shape \\(2,\\)", id="wrong size"),
        pytest.param([float("nan")] * 24, "must be finite", id="nan"),
        pytest.param(["image83"], "features must be numbers", id="a list of names"),
    ],
)
def test_what_is_no_image_is_refused(folder: Path, image: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Retriever(folder).captions_for(image)  # type: ignore[arg-type]


def test_a_picture_of_the_gallery_is_found_by_its_name(folder: Path, tmp_path: Path) -> None:
    retriever = Retriever(folder)
    picture = tmp_path / "image83.jpg"
    assert retriever.recognised(picture) is None, "there is no such file"
    Image.fromarray(np.full((40, 60, 3), 80, dtype=np.uint8)).save(picture)
    assert retriever.recognised(picture) == "image83.jpg"
    assert retriever.captions_for(picture, 3) == retriever.captions_for("image83", 3)
    retriever.about["origin"] = {"backbone": "squeezenet1_1", "weights": "none"}
    assert retriever.recognised(picture) is None, "its pixels can be read"


def test_a_picture_needs_to_be_read_as_the_dataset_was(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "dog.png"
    Image.fromarray(np.full((40, 60, 3), 80, dtype=np.uint8)).save(picture)
    with pytest.raises(DataError, match="not known how"):
        Retriever(folder).captions_for(picture)
    digest = weights_digest(build_backbone("squeezenet1_1", "none", seed=3))
    origin = {"backbone": "squeezenet1_1", "weights": "none", "seed": 3, "weights_digest": digest}
    first, again = (features_of_picture(picture, origin, "global") for _ in range(2))
    assert first.shape == (512,) and np.array_equal(first, again)
    with pytest.raises(DataError, match="is not what it was"):
        features_of_picture(picture, {**origin, "seed": 4}, "global")
    with pytest.raises(DataError, match="not packed with the model"):
        features_of_picture(picture, {**origin, "weights": "mine.pth"}, "global")
    broken = tmp_path / "broken.png"
    broken.write_bytes(picture.read_bytes()[:50])
    with pytest.raises(DataError, match="cannot be decoded"):
        features_of_picture(broken, origin, "global")


@pytest.mark.parametrize("name", [ABOUT, GALLERY, MODEL])
def test_damage_is_named_and_a_pickle_is_none_of_it(folder: Path, tmp_path: Path, name: str) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    without_words = json.loads((folder / ABOUT).read_text()) | {"vocabulary": None}
    damages = (pickle.dumps({"format": 1}), b'{"format": 1}', json.dumps(without_words).encode(), None)
    for content in damages:
        (tmp_path / name).unlink()
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match="register the model again"):
            Retriever(tmp_path)
    assert not issubclass(SafetensorError, OSError), "it has to be caught by its own name"
