"""Passages and queries: read, made into features of both sides, trained on by ``head``, packed and asked."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run_command as main
from tests.trainables.data import folders
from trainables.data.dataset import load_dataset
from trainables.data.source import find_source
from trainables.data.text_features import read_extractor
from trainables.dataset_description import describe_dataset
from trainables.serving.packed import write_retriever
from trainables.serving.retriever import Retriever

TOPICS = ["river", "bridge", "tower", "forest", "island", "desert", "harbour", "castle"]


def write_passages(folder: Path) -> None:
    """Passages about two topics each, and two queries of each that name these topics in other words' company."""
    folder.mkdir(parents=True)
    pairs = [(a, b) for a in TOPICS for b in TOPICS if a < b]
    lines = ["passage,query,split"]
    for number, (first, second) in enumerate(pairs):
        split = "test" if number % 5 == 0 else "val" if number % 5 == 1 else "train"
        passage = f"The {first} is near the {second}, and people know both."
        lines += [f'"{passage}",where is the {first} by the {second},{split}']
        lines += [f'"{passage}",{second} and {first},{split}']
    (folder / "passages.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_passages(tmp_path / "data" / "facts")
    return tmp_path / "data"


def test_queries_of_a_passage_are_its_captions(root: Path) -> None:
    corpus = find_source("facts", root).read()
    assert len(corpus.images) == 28 and {len(image.captions) for image in corpus.images} == {2}
    assert corpus.images[0].id == "The river is near the tower, and people know both."
    assert corpus.images[0].captions == ("where is the river by the tower", "tower and river")


def test_both_sides_are_made_searched_packed_and_asked(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    place = ["--data-root", str(root)]
    assert main(["data", "extract", "facts", *place]) == 2
    assert "has passages and no pictures; name --text or --encoder" in capsys.readouterr().err
    assert main(["data", "extract", "facts", "--text", "tfidf-svd", "--dimensions", "8", *place]) == 0
    folder = root / "facts"
    fit, corpus = read_extractor(folder / "extractor_text.safetensors"), find_source("facts", root).read()
    # One fit of both sides, so that passages and queries are compared as they are.
    assert {"near", "where"} <= set(fit.terms)
    of_passages = fit.transform([image.id for image in corpus.images])
    assert np.allclose(np.load(folder / "features_global.npy"), of_passages, atol=0.02)
    capsys.readouterr()
    assert main(["data", "describe", "facts", "--json", *place]) == 0
    assert json.loads(capsys.readouterr().out)["zero_shot"] > 400
    train = ["train", "--set", "dataset=facts", "--set", "model=head", "--set", "loss=nt_xent", "--name", "one"]
    settings = {"batch_size": 16, "epochs": 15, "embedding_size": 8, "learning_rate": 0.01}
    small = [part for key, value in settings.items() for part in ("--set", f"training.{key}={value}")]
    assert main([*train, *small, *place, "--output", str(tmp_path / "runs"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["metrics"]["val/rsum"] > 400
    data = load_dataset("facts", root, text=True)
    write_retriever(
        tmp_path / "packed",
        Path(result["checkpoint"]),
        data,
        "test",
        pictures=folder / "features_global.npy",
        texts=folder / "features_text.npy",
    )
    retriever = Retriever(tmp_path / "packed")
    passage = corpus.images[0].id
    assert retriever.images_for("is the tower beside the river", 1)[0].image == passage
    answers = retriever.captions_for(passage, 3)
    assert any(answer.image == passage and "river" in answer.caption for answer in answers)


def test_an_encoder_of_texts_makes_both_sides(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from tests.support.encoders import sentence_folder

    encoder = str(sentence_folder(tmp_path / "encoder"))
    assert main(["data", "extract", "facts", "--encoder", encoder, "--data-root", str(root), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made["dimensions"]) == {"global", "text"} and made["zero_shot"] is not None
    passages, queries = (np.load(root / "facts" / f"features_{side}.npy") for side in ("global", "text"))
    assert (len(passages), len(queries)) == (28, 56)


BAD = {
    "columns": ('"a",b', "line 2: must have 3 columns, got 2"),
    "split": ("a,b,most", "line 2: split must be train, val or test, got 'most'"),
    "query": ("a, ,train", "line 2: empty caption"),
}


@pytest.mark.parametrize(("line", "problem"), BAD.values(), ids=BAD)
def test_bad_lines_are_named(root: Path, line: str, problem: str) -> None:
    file = root / "facts" / "passages.csv"
    header, _, *rest = file.read_text().splitlines()
    file.write_text("\n".join([header, line, *rest]))
    assert problem in " ".join(describe_dataset("facts", root).problems)


def test_a_passage_whose_lines_are_apart_is_refused(root: Path) -> None:
    file = root / "facts" / "passages.csv"
    header, first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([header, *rest, first]))
    assert "two images of one id" in " ".join(describe_dataset("facts", root).problems)


def test_the_form_is_that_of_the_tests_of_damage(tmp_path: Path) -> None:
    folders.passages(tmp_path / "tiny")
    assert describe_dataset("tiny", tmp_path).problems == []
