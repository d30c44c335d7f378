"""Further inputs of images and captions: read, laid beside tokens, gathered, described, and refused by name."""

import json
import mmap
from pathlib import Path

import numpy as np
import pytest
import torch

from trainables.config import TrialConfig
from trainables.data.batches import ResidentSplit
from trainables.data.dataset import check_region_counts, load_dataset
from trainables.data.inputs import INPUTS
from trainables.data.parses import number_heads, read_parses
from trainables.data.role_graphs import number_graph, read_role_graphs
from trainables.data.sentences import lay
from trainables.data.tokenizers import ENGLISH
from trainables.dataset_description import describe_dataset
from trainables.errors import ConfigError, DataError
from trainables.representations import Captions, Sets

IMAGES, REGIONS = 6, 3
CAPTION = "A dog doesn't run fast."
WORDS = [("A", 2, "det"), ("dog", 5, "nsubj"), ("does", 5, "aux"), ("n't", 5, "neg"), ("run", 0, "root")]
WORDS += [("fast", 5, "advmod"), (".", 5, "punct")]
GRAPH = {"nodes": {"0": {"role": "ROOT"}, "1": {"role": "V", "spans": [3]}, "2": {"role": "ARG0", "spans": [0, 1]}}}


def conllu(words: list[tuple[str, int, str]] = WORDS) -> str:
    rows = [f"{n}\t{form}\t{form}\tX\tX\t_\t{head}\t{rel}\t_\t_" for n, (form, head, rel) in enumerate(words, 1)]
    return "\n".join(["# sent_id = 0", *rows, "", ""])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of six images, one caption each, with every further input."""
    target = tmp_path / "pets"
    (target / "experts").mkdir(parents=True)
    splits = ["train"] * 4 + ["val", "test"]
    images = [
        {"filename": f"{n}.jpg", "imgid": n, "split": split, "sentences": [{"raw": CAPTION}]}
        for n, split in enumerate(splits)
    ]
    (target / "dataset_pets.json").write_text(json.dumps({"images": images}))
    rng = np.random.default_rng(0)
    np.save(target / "features_regions.npy", rng.random((IMAGES, REGIONS, 4), dtype=np.float32))
    corners = np.sort(rng.random((IMAGES, REGIONS, 2, 2), dtype=np.float32), axis=2)
    np.save(target / "boxes.npy", corners.reshape(IMAGES, REGIONS, 4))
    np.save(target / "experts" / "audio.npy", rng.random((IMAGES, 2, 5), dtype=np.float32))
    np.save(target / "experts" / "audio_lengths.npy", np.array([2, 0, 1, 2, 2, 2]))
    np.save(target / "experts" / "face.npy", rng.random((IMAGES, 3), dtype=np.float32))
    (target / "captions.conllu").write_text(conllu())
    graph = {"sentence": CAPTION, **GRAPH, "edges": [["1", "2", "ARG0"]]}
    (target / "graphs.jsonl").write_text(json.dumps(graph) + "\n")
    return target


def load(folder: Path, *inputs: str) -> ResidentSplit:
    data = load_dataset("pets", folder.parent, features="regions", inputs=inputs)
    return ResidentSplit(data.splits["train"], torch.device("cpu"))


def test_words_are_laid_on_tokens_by_their_characters() -> None:
    tokens = ENGLISH(CAPTION)
    assert tokens == ["a", "dog", "does", "n't", "run", "fast", "."]
    assert lay([word for word, *_ in WORDS], tokens).word_of == [-1, 0, 1, 2, 3, 4, 5, 6, -1]
    assert lay(CAPTION.split(), tokens).word_of == [-1, 0, 1, 2, 2, 3, 4, 4, -1]
    quoted = lay(["say", '"', "hi", '"'], ["say", "``", "hi", "''"])
    assert (quoted.word_of[1], quoted.word_of[3]) == (0, 2)


def test_heads_are_places_of_tokens(tmp_path: Path) -> None:
    (tmp_path / "x.conllu").write_text(conllu())
    (sentence,) = set(read_parses(tmp_path / "x.conllu", []).values())
    heads = number_heads(sentence.content, lay(sentence.words, ENGLISH(CAPTION)))["heads"]
    assert heads.tolist() == [0, 2, 5, 5, 5, 5, 5, 5, 8]


def test_role_graphs_become_bits_of_tokens(tmp_path: Path) -> None:
    entry = {CAPTION: [GRAPH["nodes"], [["1", "2", "ARG0"], ["0", "1", "V"]]]}
    (tmp_path / "sent2rolegraph.augment.json").write_text(json.dumps(entry))
    problems: list[str] = []
    (sentence,) = read_role_graphs(tmp_path / "sent2rolegraph.augment.json", problems).values()
    numbers = number_graph(sentence.content, lay(sentence.words, ENGLISH(CAPTION)))
    assert not problems
    assert numbers["phrases"].tolist() == [0, 1 << 4, 1 << 4, 0, 0, 1, 0, 0, 0]
    assert numbers["roles"].tolist() == [[0, -1, -1, -1, 2, -1, -1, -1, -1, -1]]
    assert numbers["links"].tolist() == [[1, 0, 0, 0]]


def test_inputs_are_gathered_by_image_and_caption(folder: Path) -> None:
    split = load(folder, "boxes", "experts", "parses", "role_graphs")
    images = split.request_images(torch.tensor([2, 1]))()
    assert isinstance(images, dict)
    np.testing.assert_array_equal(images["boxes"], np.load(folder / "boxes.npy")[[2, 1]])
    audio, face = images["experts.audio"], images["experts.face"]
    assert isinstance(audio, Sets) and isinstance(face, Sets)
    assert (audio.lengths.tolist(), face.lengths.tolist(), face.vectors.shape) == ([1, 0], [1, 1], (2, 1, 3))
    captions, lengths = split.captions(torch.tensor([0, 3]))
    assert isinstance(captions, Captions)
    assert (lengths.tolist(), captions.of_tokens["heads"][1].tolist()) == ([9, 9], [0, 2, 5, 5, 5, 5, 5, 5, 8])
    assert captions.of_captions["roles"].shape == (2, 10)


def test_arrays_are_mapped_and_not_read(folder: Path) -> None:
    np.save(folder / "region_lengths.npy", np.array([1, 2, 3, 1, 1, 1]))
    train = load_dataset("pets", folder.parent, features="regions", inputs=["boxes", "experts"]).splits["train"]
    assert train.columns.keys() == {"boxes", "experts.audio", "experts.face"}
    assert all(isinstance(column.values.base, mmap.mmap) for column in train.columns.values())
    assert isinstance(train.features.base, mmap.mmap) and train.feature_lengths is not None


def test_a_file_of_role_labels_in_the_form_of_hgr_is_read_as_ours_is(folder: Path) -> None:
    (ours, theirs) = (folder / "graphs.jsonl", folder / "sent2rolegraph.augment.json")
    of_ours = load_dataset("pets", folder.parent, features="regions", inputs=["role_graphs"]).splits["train"]
    ours.unlink()
    theirs.write_text(json.dumps({CAPTION: [GRAPH["nodes"], [["0", "1", "ROOT"], ["1", "2", "ARG0"]]]}))
    read = load_dataset("pets", folder.parent, features="regions", inputs=["role_graphs"]).splits["train"]
    for mine, other in ((of_ours.token_numbers, read.token_numbers), (of_ours.caption_numbers, read.caption_numbers)):
        assert mine.keys() == other.keys() and all(np.array_equal(mine[name], other[name]) for name in mine)
    assert "sent2rolegraph" in describe_dataset("pets", folder.parent).inputs["role_graphs"]["file"]


def test_every_input_is_in_the_digest(folder: Path) -> None:
    def digest() -> dict[str, str]:
        return {
            name: load_dataset("pets", folder.parent, features="regions", inputs=[name]).digest for name in INPUTS
        } | {"": load_dataset("pets", folder.parent, features="regions").digest}

    before = digest()
    assert len(set(before.values())) == len(INPUTS) + 1
    np.save(folder / "boxes.npy", np.load(folder / "boxes.npy") / 2)
    np.save(folder / "experts" / "audio_lengths.npy", np.array([2, 1, 1, 2, 2, 2]))
    (folder / "captions.conllu").write_text(conllu().replace("advmod", "obl"))
    (folder / "graphs.jsonl").write_text((folder / "graphs.jsonl").read_text().replace("ARG0", "ARG1"))
    after = digest()
    assert [name for name in before if before[name] == after[name]] == [""]
    np.save(folder / "region_lengths.npy", np.array([1, 2, 3, 1, 1, 1]))
    assert digest()[""] != after[""]


def test_regions_with_lengths_are_sets_and_refused_where_they_are_not_read(folder: Path) -> None:
    np.save(folder / "region_lengths.npy", np.array([1, 2, 3, 1, 1, 1]))
    data = load_dataset("pets", folder.parent, features="regions")
    regions = ResidentSplit(data.splits["train"], torch.device("cpu")).request_images(torch.tensor([2, 0]))()
    assert isinstance(regions, Sets) and regions.lengths.tolist() == [3, 1]
    with pytest.raises(ConfigError, match="different numbers of regions .region_lengths.npy., and vsrn reads equally"):
        check_region_counts(TrialConfig(dataset="pets", model="vsrn"), data)
    check_region_counts(TrialConfig(dataset="pets", model="scan"), data)


def test_describe_counts_inputs(folder: Path) -> None:
    description = describe_dataset("pets", folder.parent)
    assert description.problems == []
    assert description.inputs["experts.audio"] == {
        "file": "experts/audio.npy",
        "shape": [IMAGES, 2, 5],
        "dtype": "float32",
        "missing": 1,
        "members": [1, 2],
    }
    assert [description.inputs[name]["sentences"] for name in ("parses", "role_graphs")] == [1, 1]
    np.save(folder / "region_lengths.npy", np.array([1, 2, 3, 1, 1, 1]))
    regions = describe_dataset("pets", folder.parent).features["regions"]
    assert {split: about["members"] for split, about in regions.items()} == {key: [1, 3] for key in regions}
    assert list(description.inputs) == ["boxes", "experts.audio", "experts.face", "parses", "role_graphs"]


def array(values: object, name: str = "boxes.npy"):
    return lambda folder: np.save(folder / name, np.asarray(values))


def text(name: str, content: str):
    return lambda folder: (folder / name).write_text(content)


BOX = np.tile(np.array([0.1, 0.1, 0.5, 0.5], np.float32), (IMAGES, REGIONS, 1))
LINE = conllu().splitlines()[1]
DAMAGES = {
    "boxes in pixels": (array(BOX * 300), "row 0, region 0: must be x1, y1, x2, y2 in [0, 1] with x1 <= x2"),
    "corners turned": (array(BOX[..., [2, 1, 0, 3]]), "with x1 <= x2 and y1 <= y2"),
    "three numbers": (array(BOX[..., :3]), "boxes must have shape (images, R, 4), got (6, 3, 3)"),
    "fewer regions": (array(BOX[:, :2]), f"has 2 boxes an image, but features_regions.npy has {REGIONS} regions"),
    "NaN": (array(np.where(BOX == 0.5, np.nan, BOX).astype(np.float32)), "6 rows hold NaN or infinity"),
    "fewer rows": (array(BOX[:5]), "5 rows for 6 images; there must be one row an image"),
    "a box outside": (
        array(np.where(np.arange(6)[:, None, None] == 4, np.float32(1.5), BOX)),
        "row 4, region 0: must be x1, y1, x2, y2 in [0, 1]",
    ),
    "NaN in an expert": (array(np.full((6, 3), np.nan, np.float32), "experts/face.npy"), "row 0 (0.jpg)"),
    "fewer rows of an expert": (array(np.ones((5, 3), np.float32), "experts/face.npy"), "5 rows for 6 images"),
    "fewer lengths": (array(np.ones(5, int), "experts/audio_lengths.npy"), "whole numbers of shape (6,), got int64"),
    "lengths without an array": (
        array(np.ones(6, int), "experts/voice_lengths.npy"),
        "voice_lengths.npy: has no array of that name",
    ),
    "an expert of one number": (array(np.ones(6, np.float32), "experts/face.npy"), "got (6,)"),
    "a torn expert": (
        lambda folder: (folder / "experts" / "face.npy").write_bytes(b"\x93NUMPY"),
        "face.npy: cannot be read as an .npy array",
    ),
    "fewer frames than lengths": (array(np.full(6, 4), "region_lengths.npy"), "a length must be from 0 to 3, got 4"),
    "a word left out": (
        text("captions.conllu", conllu().replace("\n3\t", "\n4\t")),
        "must be word 3 with the number of its head",
    ),
    "torn array": (
        lambda folder: (folder / "boxes.npy").write_bytes((folder / "boxes.npy").read_bytes()[:-9]),
        "9 bytes are missing at its end",
    ),
    "lengths of floats": (
        array(np.ones(6), "experts/audio_lengths.npy"),
        "lengths must be whole numbers of shape (6,)",
    ),
    "a length too long": (
        array(np.full(6, 3), "experts/audio_lengths.npy"),
        "row 0: a length must be from 0 to 2, got 3",
    ),
    "lengths that need pickle": (
        array(np.array([{}] * 6), "experts/audio_lengths.npy"),
        "cannot be read as an .npy array",
    ),
    "no frames": (array(np.array([0, 1, 1, 1, 1, 1]), "region_lengths.npy"), "row 0: must be at least 1, got 0"),
    "nine columns": (
        text("captions.conllu", LINE.rpartition("\t")[0]),
        "line 1 must have 10 columns with tabs between, got 9",
    ),
    "heads in a circle": (
        text("captions.conllu", conllu([("A", 2, "x"), ("dog", 3, "x"), ("runs", 2, "x")])),
        "the word 'dog' is below itself",
    ),
    "a head outside": (text("captions.conllu", conllu([("A", 7, "x")])), "the word 'A' has a head that is not there"),
    "no number": (
        text("captions.conllu", LINE.replace("\t2\t", "\tx\t")),
        "line 1 must be word 1 with the number of its head",
    ),
    "a huge number": (
        text("captions.conllu", LINE.replace("\t2\t", "\t" + "9" * 5000 + "\t")),
        "names a head that is not there",
    ),
    "another caption": (
        text("captions.conllu", conllu([("No", 0, "root")])),
        "has no sentence for 6 captions, the first",
    ),
    "broken JSON": (text("graphs.jsonl", '{"sentence": "a'), "graphs.jsonl: line 1: broken JSON"),
    "nested JSON": (text("graphs.jsonl", "[" * 200_000), "graphs.jsonl: line 1: broken JSON: nested too deeply"),
    "a span outside": (
        text(
            "graphs.jsonl", json.dumps({"sentence": CAPTION, "nodes": {"1": {"role": "V", "spans": [99]}}, "edges": []})
        ),
        "line 1: node '1': spans must be places of the sentence's 5 words, got [99]",
    ),
    "no nodes": (text("graphs.jsonl", json.dumps({"sentence": CAPTION})), "nodes must be an object, and edges a list"),
    "not UTF-8": (lambda folder: (folder / "captions.conllu").write_bytes(b"\xff\xfe"), "line 1: not UTF-8 text"),
}


@pytest.mark.parametrize("damage, problem", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_named_before_any_training(folder: Path, damage, problem: str) -> None:
    damage(folder)
    found = describe_dataset("pets", folder.parent).problems
    assert any(problem in line and str(folder) in line for line in found), found
    with pytest.raises(DataError):
        load_dataset("pets", folder.parent, features="regions", inputs=list(INPUTS))


@pytest.mark.parametrize("name", ["captions.conllu", "graphs.jsonl"])
def test_a_file_with_a_sentence_too_few_names_the_caption(folder: Path, name: str) -> None:
    dataset = json.loads((folder / "dataset_pets.json").read_text())
    for number, image in enumerate(dataset["images"]):
        image["sentences"] = [{"raw": f"cat number {number}"}]
    (folder / "dataset_pets.json").write_text(json.dumps(dataset))
    parses = [conllu([("cat", 0, "root"), ("number", 1, "x"), (str(n), 2, "x")]) for n in range(IMAGES)]
    graphs = [json.dumps({"sentence": f"cat number {n}", "nodes": {}, "edges": []}) + "\n" for n in range(IMAGES)]
    for file, lines in (("captions.conllu", parses), ("graphs.jsonl", graphs)):
        (folder / file).write_text("".join(lines[: -1 if file == name else None]))
    (problem,) = describe_dataset("pets", folder.parent).problems
    assert problem.startswith(f"{folder / name}: has no sentence for 1 caption, the first 'cat number 5'")


def test_a_missing_input_is_named(folder: Path) -> None:
    (folder / "boxes.npy").unlink()
    with pytest.raises(DataError, match=r"pets: has no boxes.npy \(images, R, 4\)"):
        load_dataset("pets", folder.parent, features="regions", inputs=["boxes"])
