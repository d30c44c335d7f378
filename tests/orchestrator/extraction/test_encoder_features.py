"""``data extract --encoder``: both sides in one pass, resumed, recorded, packed with a model, and asked."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from tests.support import encoders as tiny
from tests.support.commands import CommandLine
from tests.support.photos import IMAGES, contents
from tests.trainables.tiny import tiny_config
from trainables import extras
from trainables.checkpoint import save_epoch
from trainables.data.dataset import load_dataset
from trainables.data.features import captions_digest, images_digest
from trainables.data.pictures import decode
from trainables.data.source import find_source
from trainables.encoders import read_encoder
from trainables.errors import DataError
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever
from trainables.trial import run_trial

pytestmark = pytest.mark.usefixtures("own_folders")

COUNT = 2 * IMAGES


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.clip_folder(tmp_path_factory.mktemp("encoder") / "tiny-clip")


def test_both_sides_are_made_in_one_pass_and_recorded(photos: Path, clip: Path, cli: CommandLine) -> None:
    made = cli.json("data", "extract", "photos", "--encoder", clip, "--shard-size", 5)
    files = [photos / "features_global.npy", photos / "features_text.npy"]
    assert made["files"] == list(map(str, files)) and made["extracted"] == COUNT and made["captions"] == IMAGES
    assert made["dimensions"] == {"global": tiny.WIDTH, "text": tiny.WIDTH}
    assert made["zero_shot"] is not None and made["chance"] > 0
    encoder = read_encoder(str(clip))
    images = find_source("photos", photos.parent).read().images
    pixels = np.stack([encoder.prepare(decode(photos / "images" / image.filename)) for image in images])
    vectors = [np.load(path, allow_pickle=False) for path in files]
    assert [array.dtype for array in vectors] == [np.float16, np.float16]
    np.testing.assert_allclose(vectors[0], encoder.encode_images(pixels), atol=1e-3)
    np.testing.assert_allclose(
        vectors[1], encoder.encode_captions([text for image in images for text in image.captions]), atol=1e-3
    )
    np.testing.assert_allclose(np.linalg.norm(vectors[0].astype(np.float32), axis=1), 1, atol=1e-3)
    about = [json.loads(path.with_suffix(".json").read_text()) for path in files]
    assert about[0]["images_digest"] == images_digest(images)
    assert about[1]["captions_digest"] == captions_digest(images)
    assert {(one["encoder"], one["weights_digest"]) for one in about} == {("clip:tiny-clip", encoder.digest)}
    assert load_dataset("photos", photos.parent, text=True).splits["train"].caption_features.shape == (12, tiny.WIDTH)
    # The first search is on both sides, beside the features as they are.
    said = cli.shows("init", photos.parent.parent / "mine.yaml", "--dataset", "photos")
    assert "its pictures are there: --encoder FOLDER fine-tunes a CLIP or SigLIP of yours" in said
    written = (photos.parent.parent / "mine.yaml").read_text()
    assert "models: [head]" in written and "image_head: identity, caption_head: identity" in written
    assert "is there already" in cli.refuses("data", "extract", "photos", "--encoder", clip)


def test_a_first_search_fine_tunes_the_encoder_that_is_named(photos: Path, clip: Path, cli: CommandLine) -> None:
    file = photos.parent.parent / "mine.yaml"
    said = cli.shows("init", file, "--dataset", "photos", "--encoder", clip)
    assert "a first search on photos" in said and "its pictures are there" not in said
    plan = cli.shows("search", file, "--dry-run")
    assert "2 studies" in plan or "12 trials" in plan
    for arguments, message in (
        (("--encoder", photos), "is no folder of an encoder; it needs open_clip_config.json or config.json"),
        (("--encoder", clip, "--from", "scenes-smoke"), "goes without --from scenes-smoke"),
        (("--encoder", clip, "--data-root", clip), "holds no dataset on which to fine-tune"),
    ):
        assert message in cli.refuses("init", photos.parent.parent / "other.yaml", *arguments)
    assert not (photos.parent.parent / "other.yaml").exists()


@pytest.mark.parametrize("finished", [1, 3])
def test_a_pass_that_is_interrupted_goes_on_to_the_same_bytes(
    photos: Path, clip: Path, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    from orchestrator.extraction import extraction

    arguments = ("data", "extract", "photos", "--encoder", clip, "--shard-size", 5, "--out")
    extract_shards, taken = extraction.extract_shards, 0

    def interrupted(*passed: Any) -> Iterator[Any]:
        nonlocal taken
        for result in extract_shards(*passed):
            taken += 1
            yield result
            if taken == finished:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(extraction, "extract_shards", interrupted)
        assert "finished shards are kept" in cli.refuses(*arguments, tmp_path / "stopped", code=130)
    assert not list((tmp_path / "stopped").glob("features_*"))
    # Shards of 5, 5 and 2 pictures; captions come after them.
    assert cli.json(*arguments, tmp_path / "stopped")["extracted"] == COUNT - (5 if finished == 1 else IMAGES)
    cli.shows(*arguments, tmp_path / "whole")
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert not (tmp_path / "stopped" / ".extract").exists()


def test_one_side_alone(photos: Path, clip: Path, tmp_path: Path, cli: CommandLine) -> None:
    dinov2 = tiny.dinov2_folder(tmp_path / "dino")
    made = cli.json("data", "extract", "photos", "--encoder", dinov2)
    assert made["files"] == [str(photos / "features_global.npy")] and made["captions"] == 0
    told = cli.refuses("data", "extract", "photos", "--encoder", dinov2, "--features", "text")
    assert "--features text: dinov2:dino makes global alone" in told
    # The words come from another encoder, for which no picture needs to be there.
    for path in (photos / "images").iterdir():
        path.unlink()
    assert "is missing from" in cli.refuses("data", "extract", "photos", "--encoder", clip, "--out", tmp_path / "x")
    made = cli.json("data", "extract", "photos", "--encoder", clip, "--features", "text")
    assert made["files"] == [str(photos / "features_text.npy")] and "zero_shot" not in made
    test = cli.json("data", "extract", "photos", "--text", clip, "--split", "test", "--out", tmp_path / "test")
    assert test["captions"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["open_clip:ViT-B-32"], "needs a file of weights with --weights, such as open_clip_model.safetensors of"),
        (["openai/clip-vit-base-patch32"], "`hf download openai/clip-vit-base-patch32 --local-dir FOLDER`"),
        (["CLIP", "--backbone", "resnet18"], "--backbone and --encoder are two ways to make features"),
        (["CLIP", "--augmentations", "2"], "--augmentations goes with --backbone"),
        (["CLIP", "--features", "regions"], "--features must be one of global, text, got 'regions'"),
        (["CLIP", "--weights", "a.pt"], "a folder holds its weights"),
        (["CLIP", "--text", "tfidf-svd"], "--text FOLDER is --encoder FOLDER --features text"),
    ],
)
def test_bad_usage_is_refused_before_any_work(
    photos: Path, clip: Path, cli: CommandLine, options: list[str], message: str
) -> None:
    before = contents(photos)
    arguments = [clip if option == "CLIP" else option for option in options]
    assert message in " ".join(cli.refuses("data", "extract", "photos", "--encoder", *arguments).split())
    assert contents(photos) == before and not list(photos.glob("encoder_*"))


def test_a_picture_that_cannot_be_read_is_named_and_the_rest_is_kept(
    photos: Path, clip: Path, cli: CommandLine
) -> None:
    whole = (photos / "images" / "3.jpg").read_bytes()
    (photos / "images" / "3.jpg").write_bytes(b"no picture")
    arguments = ("data", "extract", "photos", "--encoder", clip, "--shard-size", 5)
    told = " ".join(cli.refuses(*arguments).split())
    assert "images[3]" in told and "3.jpg: cannot be decoded" in told
    (photos / "images" / "3.jpg").write_bytes(whole)
    assert cli.json(*arguments)["extracted"] == 5


@pytest.mark.parametrize("kind", ["clip", "open_clip"])
def test_a_packed_model_answers_new_captions_and_pictures_with_its_encoder(
    photos: Path, tmp_path: Path, cli: CommandLine, kind: str
) -> None:
    folder = getattr(tiny, f"{kind}_folder")(tmp_path / kind)
    # An extractor that is left of earlier features is none of these.
    (photos / "extractor_text.safetensors").write_bytes(b"of earlier features")
    cli.shows("data", "extract", "photos", "--encoder", folder)
    data = load_dataset("photos", photos.parent, features="global", text=True)
    config = replace(tiny_config(epochs=1, batch_size=4), dataset="photos", model="head")
    (report,) = run_trial(config, data, device="cpu")
    checkpoint = save_epoch(tmp_path / "run", report)
    files = {"pictures": photos / "features_global.npy", "texts": photos / "features_text.npy"}
    write_retriever(tmp_path / "packed", checkpoint, data, "test", **files)
    # The packed model needs neither the dataset nor the user's folder.
    for path in [*photos.rglob("*"), *folder.rglob("*")]:
        if path.is_file() and path.suffix != ".jpg":
            path.unlink()
    retriever = Retriever(tmp_path / "packed")
    test = data.splits["test"]
    assert retriever.reads_pictures
    for place, caption in enumerate(test.captions):
        asked = {answer.image: answer.score for answer in retriever.images_for(caption)}
        known = retriever._compare(retriever._images, retriever._captions[place : place + 1])[:, 0]
        assert [asked[name] for name in test.image_ids] == pytest.approx(known.tolist(), abs=5e-3)
    assert len(retriever.images_for("a dog seen from the side")) == len(test.image_ids)
    # A new picture: a copy of one of the gallery, by another name.
    picture = tmp_path / "new.png"
    PIL.Image.open(photos / "images" / test.filenames[0]).save(picture)
    asked = [answer.score for answer in retriever.captions_for(picture)]
    assert asked == pytest.approx([one.score for one in retriever.captions_for(test.image_ids[0])], abs=5e-3)
    doubts = retriever.doubts_about("flurp flarp", retriever.images_for("flurp flarp"))
    assert not any("know" in doubt for doubt in doubts), "an encoder reads parts of words"


def test_a_model_whose_encoder_is_not_there_says_which(
    photos: Path, clip: Path, tmp_path: Path, cli: CommandLine
) -> None:
    cli.shows("data", "extract", "photos", "--encoder", clip)
    data = load_dataset("photos", photos.parent, features="global", text=True)
    config = replace(tiny_config(epochs=1, batch_size=4), dataset="photos", model="head")
    (report,) = run_trial(config, data, device="cpu")
    (kept,) = photos.glob("encoder_*")
    kept.rename(tmp_path / "elsewhere")
    files = {"pictures": photos / "features_global.npy", "texts": photos / "features_text.npy"}
    write_retriever(tmp_path / "packed", save_epoch(tmp_path / "run", report), data, "test", **files)
    retriever = Retriever(tmp_path / "packed")
    with pytest.raises(DataError, match="is not packed with the model; ask with --image"):
        retriever.images_for("a dog")
    assert not retriever.reads_pictures
    with pytest.raises(DataError, match="come from clip:tiny-clip, which is not packed with the model"):
        retriever.captions_for(photos / "images" / "1.jpg")


def test_an_encoder_without_its_package_is_refused_in_a_line(
    photos: Path, clip: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "transformers")
    told = " ".join(cli.refuses("data", "extract", "photos", "--encoder", clip).split())
    assert "needs transformers, which is not installed: pip install 'icr-orchestrator[encoders]'" in told


@pytest.mark.proof
def test_workers_of_ray_make_the_same_bytes(photos: Path, clip: Path, tmp_path: Path, cli: CommandLine) -> None:
    arguments = ("data", "extract", "photos", "--encoder", clip, "--shard-size", 2)
    cli.shows(*arguments, "--out", tmp_path / "alone")
    cli.shows(*arguments, "--out", tmp_path / "workers", "--workers", 2)
    assert contents(tmp_path / "workers") == contents(tmp_path / "alone")
