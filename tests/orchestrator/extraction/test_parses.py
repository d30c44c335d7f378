"""``data parse``: parses by a spaCy pipeline, role graphs of parses and without a parser."""

import json
from pathlib import Path

import pytest

from orchestrator.extraction import parses
from tests.support.commands import run_command as main
from tests.trainables.data import folders
from trainables.data.dataset import load_dataset
from trainables.data.source import find_source


class Pipeline:
    """A pipeline that calls the second word the root, and all others its subjects, in spaCy's own documents."""

    def pipe(self, texts):
        from spacy.tokens import Doc
        from spacy.vocab import Vocab

        for text in texts:
            words = text.split()
            tags = ["VBZ" if n == 1 else "NN" for n in range(len(words))]
            deps = ["ROOT" if n == 1 else "nsubj" for n in range(len(words))]
            yield Doc(
                Vocab(),
                words=words,
                tags=tags,
                pos=["VERB" if t == "VBZ" else "NOUN" for t in tags],
                deps=deps,
                heads=[1] * len(words),
            )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = tmp_path / "msvd"
    folders.msvd(target)
    return target


def test_a_pipeline_makes_parses_and_role_graphs_that_trainings_read(folder: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("spacy")
    monkeypatch.setattr(parses, "load_pipeline", lambda name: Pipeline())
    assert main(["data", "parse", "msvd", "--pipeline", "mine", "--data-root", str(folder.parent)]) == 0
    captions = {c for image in find_source("msvd", folder.parent).read().images for c in image.captions}
    assert f"{len(captions)} sentences with {len(captions)} verbs" in " ".join(capsys.readouterr().out.split())
    data = load_dataset("msvd", folder.parent, features=None, inputs=["parses", "role_graphs"])
    train = data.splits["train"]
    assert train.token_numbers["heads"][:3].tolist() == [0, 2, 2]
    assert train.caption_numbers["roles"][0, [0, 4]].tolist() == [0, 2]
    before = (folder / "graphs.jsonl").read_text()
    (folder / "graphs.jsonl").unlink()
    assert main(["data", "parse", "msvd", "--data-root", str(folder.parent)]) == 0
    assert (folder / "graphs.jsonl").read_text() == before


def test_chunks_need_no_parser(folder: Path) -> None:
    assert main(["data", "parse", "msvd", "--pipeline", "chunks", "--data-root", str(folder.parent)]) == 0
    lines = [json.loads(line) for line in (folder / "graphs.jsonl").read_text().splitlines()]
    assert {node["role"] for line in lines for node in line["nodes"].values()} == {"NOUN"}
    assert load_dataset("msvd", folder.parent, features=None, inputs=["role_graphs"]).splits


@pytest.mark.parametrize(
    "options, said",
    [
        ([], "captions.conllu: is not there; name a spaCy pipeline with --pipeline, or --pipeline chunks"),
        (["--pipeline", "no_such_pipeline"], "--pipeline no_such_pipeline: cannot be loaded by spaCy"),
    ],
)
def test_what_cannot_be_parsed_is_said(folder: Path, capsys, options: list[str], said: str) -> None:
    pytest.importorskip("spacy")
    assert main(["data", "parse", "msvd", *options, "--data-root", str(folder.parent)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (folder / "graphs.jsonl").exists()


def test_files_of_a_user_are_kept(folder: Path, capsys) -> None:
    (folder / "graphs.jsonl").write_text("mine")
    assert main(["data", "parse", "msvd", "--pipeline", "chunks", "--data-root", str(folder.parent)]) == 2
    assert "is there already" in " ".join(capsys.readouterr().err.split())
    assert (folder / "graphs.jsonl").read_text() == "mine"


def test_a_pipeline_without_a_parser_is_refused(monkeypatch) -> None:
    spacy = pytest.importorskip("spacy")
    monkeypatch.setattr(spacy, "load", lambda name: spacy.blank("en"))
    with pytest.raises(parses.ConfigError, match="--pipeline blank: has no parser"):
        parses.load_pipeline("blank")
