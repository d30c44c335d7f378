"""Features of captions: made of text, checked as those of images are, and read a row a caption."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.support.commands import run_command as main
from tests.trainables.data import folders
from tests.trainables.data.folders import KarpathyFolder
from trainables import extras
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import load_dataset
from trainables.data.text_features import extractor_file, fit_tfidf, read_extractor
from trainables.data.tokenizers import tokenize_english as tokenize
from trainables.dataset_description import describe_dataset
from trainables.errors import DataError

CAPTIONS = ["a dog runs", "a dog sleeps", "a cat sleeps", "a cat runs fast", "two dogs run fast", "a cat"]


def write_text(folder: KarpathyFolder, dtype: type = np.float32, rows: int = 12, width: int = 3) -> np.ndarray:
    features = np.arange(rows * width, dtype=dtype).reshape(rows, width)
    np.save(folder.folder / "features_text.npy", features)
    return features


def test_each_caption_gets_its_row_in_the_order_of_the_file(karpathy_folder: KarpathyFolder) -> None:
    features = write_text(karpathy_folder)
    row = {}
    for image in karpathy_folder.images:
        for sentence in image["sentences"]:
            row[sentence["raw"]] = len(row)
    data = load_dataset("tiny", karpathy_folder.root, text=True)
    for split in data.splits.values():
        found, _ = ResidentSplit(split, torch.device("cpu")).captions(torch.arange(len(split.captions)))
        expected = [features[row[caption]].tolist() for caption in split.captions]
        assert found.dtype == torch.float32
        assert found.tolist() == expected
    again = load_dataset("tiny", karpathy_folder.root, text=True)
    assert again.splits["val"].caption_rows.tolist() == data.splits["val"].caption_rows.tolist()
    first = data.splits["train"].head(1)
    assert len(first.caption_rows) == len(first.captions)


def test_the_digest_speaks_for_features_of_captions_where_they_are_read(karpathy_folder: KarpathyFolder) -> None:
    before = load_dataset("tiny", karpathy_folder.root).digest
    write_text(karpathy_folder)
    plain, both = (load_dataset("tiny", karpathy_folder.root, text=text) for text in (False, True))
    assert plain.digest == before != both.digest
    assert plain.splits["train"].caption_features is None
    write_text(karpathy_folder, width=4)
    assert load_dataset("tiny", karpathy_folder.root, text=True).digest != both.digest
    told = describe_dataset("tiny", karpathy_folder.root)
    assert told.digest["global"] == before
    assert told.digest["global and text"] == load_dataset("tiny", karpathy_folder.root, text=True).digest
    assert told.features["text"]["train"]["shape"] == [12, 4]
    assert told.problems == []


def test_embeddings_of_clip_retrieval_are_a_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "clip"
    folders.clip_retrieval(folder)
    data = load_dataset("clip", tmp_path / "data", text=True)
    train = data.splits["train"]
    assert list(train.image_ids) == ["/a/1.jpg", "/a/2.jpg"]
    assert list(train.captions) == ["a dog", "one dog", "a cat"]
    assert train.image_rows.tolist() == [0, 2]
    for name, split in data.splits.items():
        texts = np.load(folder / name / "text_emb" / "text_emb_0.npy")
        assert np.array_equal(split.caption_features[split.caption_rows], texts)
    assert describe_dataset("clip", tmp_path / "data").problems == []


def test_features_may_be_the_only_tensor_of_a_safetensors_file(karpathy_folder: KarpathyFolder) -> None:
    expected = write_text(karpathy_folder)
    path = karpathy_folder.folder / "features_text.npy"
    before = load_dataset("tiny", karpathy_folder.root, text=True)
    path.unlink()
    save_file({"embeddings": expected}, path.with_suffix(".safetensors"), metadata={"model": "any"})
    data = load_dataset("tiny", karpathy_folder.root, text=True)
    assert np.array_equal(data.splits["train"].caption_features, expected)
    assert data.digest == before.digest
    split = ResidentSplit(data.splits["train"], torch.device("cpu"))
    rows = data.splits["train"].caption_rows
    assert split.captions(torch.arange(3))[0].tolist() == expected[rows[:3]].tolist()
    path.with_suffix(".safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(DataError, match="cannot be read as a safetensors file: its header would have"):
        load_dataset("tiny", karpathy_folder.root, text=True)


def test_tfidf_weighs_terms_and_projects_them_as_the_formula_says(tmp_path: Path) -> None:
    extractor = fit_tfidf(CAPTIONS, 2, 0)
    terms = {term for caption in CAPTIONS for term in tokenize(caption)}
    held = {term: sum(term in tokenize(caption) for caption in CAPTIONS) for term in terms}
    kept = sorted(term for term in terms if held[term] >= 2)
    assert list(extractor.terms) == kept
    assert kept == ["a", "cat", "dog", "fast", "runs", "sleeps"]
    rows = np.zeros((len(CAPTIONS), len(kept)))
    for row, caption in zip(rows, CAPTIONS, strict=True):
        for place, term in enumerate(kept):
            count = tokenize(caption).count(term)
            if count:
                row[place] = (1 + np.log(count)) * (np.log((1 + len(CAPTIONS)) / (1 + held[term])) + 1)
        row /= np.linalg.norm(row)
    directions = np.linalg.svd(rows)[2][:2].T
    expected = rows @ directions
    expected /= expected.std(0)
    found = extractor.transform(CAPTIONS)
    # A singular vector may point the other way.
    np.testing.assert_allclose(found * np.sign(found[0] * expected[0]), expected, rtol=1e-4)
    (tmp_path / "extractor").write_bytes(extractor.to_bytes())
    assert np.array_equal(read_extractor(tmp_path / "extractor").transform(CAPTIONS), found)
    assert extractor.unknown("a Cat meows meows") == ["meows"]
    assert not extractor.transform(["meows"]).any()


def test_the_command_makes_features_that_load_and_refuses_to_make_them_twice(
    karpathy_folder: KarpathyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "extract", "tiny", "--data-root", str(karpathy_folder.root), "--text", "tfidf-svd"]
    assert main([*command, "--dimensions", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["captions"] == 12
    data = load_dataset("tiny", karpathy_folder.root, text=True)
    assert data.splits["train"].caption_features.shape == (12, 2)
    path = karpathy_folder.folder / "features_text.npy"
    train = data.splits["train"]
    made = read_extractor(extractor_file(path)).transform(list(train.captions))
    np.testing.assert_allclose(train.caption_features[train.caption_rows], made, atol=2e-3)
    assert main(command) == 2
    assert "is there already" in capsys.readouterr().err
    extractor_file(path).write_bytes(b"another")
    with pytest.raises(DataError, match="did not make features_text.npy"):
        extractor_file(path)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--text", "bert"], "--text must be tfidf-svd or the folder of an encoder; there is no folder bert"),
        (["--text", "tfidf-svd", "--dimensions", "100"], "--dimensions must be at least 1 and below"),
        (["--text", "tfidf-svd", "--split", "train"], "--split cannot be combined with --text tfidf-svd"),
        (["--text", "tfidf-svd", "--dimensions", "0"], "--dimensions must be at least 1 and below"),
        (["--text", "tfidf-svd", "--dimensions", "3", "--seed", "-1"], "--seed must be from 0 to 2**32 - 1, got -1"),
    ],
)
def test_bad_usage_is_refused_and_leaves_nothing(
    options: list[str], message: str, karpathy_folder: KarpathyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "extract", "tiny", "--data-root", str(karpathy_folder.root), *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(karpathy_folder.folder.glob("features_text*"))


def test_a_sentence_encoder_without_its_package_is_refused_in_a_line(
    karpathy_folder: KarpathyFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "sentence_transformers")
    (tmp_path / "modules.json").write_text("[]")
    assert main(["data", "extract", "tiny", "--data-root", str(karpathy_folder.root), "--text", str(tmp_path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "needs sentence_transformers, which is not installed: pip install" in said
