import hashlib
import json
import mmap
import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools.coco import COCO

from tests.trainables.data.folders import KarpathyFolder
from trainables.config import TrainingConfig
from trainables.data import dataset
from trainables.data.dataset import Dataset, Split, check_batch_size, load_dataset
from trainables.data.formats import karpathy
from trainables.data.text_files import Strings
from trainables.dataset_description import describe_dataset
from trainables.errors import ConfigError, DataError

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def captions_of(split: Split, image: int) -> list[str]:
    return [split.captions[c] for c in np.flatnonzero(split.image_of_caption == image)]


def words_of(data: Dataset, split: Split, caption: int) -> list[str]:
    return [data.vocabulary.words[token] for token in split.tokens[split.offsets[caption] : split.offsets[caption + 1]]]


def check_contract(data: Dataset) -> None:
    """The arrays of every split fit together, whatever the format was."""
    assert list(data.splits) == ["train", "val", "test"]
    for name, split in data.splits.items():
        images, captions = len(split.image_rows), len(split.captions)
        assert split.name == name
        assert len(split.image_ids) == len(split.filenames) == images
        assert split.tokens.dtype == np.int32
        assert all(a.dtype == np.int64 for a in (split.image_rows, split.offsets, split.image_of_caption))
        assert split.offsets.shape == (captions + 1,)
        assert split.offsets[0] == 0 and split.offsets[-1] == len(split.tokens)
        assert (np.diff(split.offsets) >= 3).all()
        assert (np.diff(split.image_of_caption) >= 0).all()
        assert set(split.image_of_caption) == set(range(images))
        assert split.image_rows.max() < len(split.features)
        assert split.tokens.min() >= 0 and split.tokens.max() < len(data.vocabulary)
        assert (split.tokens[split.offsets[:-1]] == 1).all() and (split.tokens[split.offsets[1:] - 1] == 2).all()
        for caption in range(captions):
            tokens = split.tokens[split.offsets[caption] : split.offsets[caption + 1]].tolist()
            assert data.vocabulary.encode(split.captions[caption]) == tokens


def test_karpathy(karpathy_folder: KarpathyFolder) -> None:
    data = load_dataset("tiny", karpathy_folder.root)
    check_contract(data)
    train, val, test = data.splits.values()
    assert train.image_rows.tolist() == [0, 1, 2]
    assert val.image_rows.tolist() == [3]
    assert list(test.filenames) == ["picture4.jpg", "picture5.jpg"]
    assert captions_of(train, 2) == ["A dog number three runs .", "The dog's three"]
    assert test.features[test.image_rows[1]].tolist() == [20, 21, 22, 23]
    # dog 6 times, 's and the 3 times each in train: below the threshold.
    assert words_of(data, train, 1) == ["<start>", "<unk>", "dog", "<unk>", "<unk>", "<end>"]


def test_published_vocabulary_counts_val_too(karpathy_folder: KarpathyFolder) -> None:
    assert load_dataset("tiny", karpathy_folder.root).vocabulary.words[4:] == ("dog",)
    published = load_dataset("tiny", karpathy_folder.root, vocabulary="published").vocabulary
    # val brings the fourth of each: ties go by the alphabet.
    assert published.words[4:] == ("dog", "'s", ".", "a", "number", "runs", "the")


def test_features_are_chosen_by_kind_and_mapped(karpathy_folder: KarpathyFolder) -> None:
    regions = load_dataset("tiny", karpathy_folder.root, features="regions").splits["val"].features
    assert regions.shape == (6, 2, 3)
    assert isinstance(regions.base, mmap.mmap)
    assert load_dataset("tiny", karpathy_folder.root, features=None).splits["train"].features.shape == (3, 0)


def test_rows_may_repeat_once_a_caption(karpathy_folder: KarpathyFolder) -> None:
    path = karpathy_folder.folder / "features_global.npy"
    np.save(path, np.load(path).repeat(2, axis=0))
    test = load_dataset("tiny", karpathy_folder.root).splits["test"]
    assert test.image_rows.tolist() == [8, 10]
    assert test.features[10].tolist() == [20, 21, 22, 23]


def test_coco_with_karpathy_split(coco_folder: Path) -> None:
    data = load_dataset("coco", coco_folder.parent)
    check_contract(data)
    train, val, test = data.splits.values()
    assert list(train.image_ids) == ["202", *(str(key) for key in range(107, 99, -1))]
    assert train.image_rows.tolist() == list(range(2, 11))
    assert (list(val.image_ids), list(test.image_ids)) == (["200"], ["201", "203"])
    assert captions_of(test, 1) == [f"caption {number} of image 203" for number in range(3)]
    assert test.filenames[0] == "COCO_val2014_000000000201.jpg"


def test_coco_with_a_split_of_its_own_and_captions_as_its_library_finds(make_coco_folder: Callable[..., Path]) -> None:
    folder = make_coco_folder(split=False)
    splits = load_dataset(str(folder), Path("nowhere")).splits
    train, val, test = splits.values()
    assert len(train.image_ids) == 8
    # Two of the four official val images each, by the SHA-256 of their ids.
    assert (list(val.image_ids), list(test.image_ids)) == (["200", "201"], ["202", "203"])
    assert sorted([*train.image_rows, *val.image_rows, *test.image_rows]) == list(range(12))
    assert train.image_ids[0] == "100" and train.image_rows[0] == 0
    for file in (folder / "annotations").iterdir():
        for image, records in COCO(file).imgToAnns.items():
            (split,) = (split for split in splits.values() if str(image) in split.image_ids)
            listed = [record["caption"] for record in records]
            assert captions_of(split, list(split.image_ids).index(str(image))) == listed


def test_flickr(flickr_folder: Path) -> None:
    data = load_dataset("Flickr8k", flickr_folder.parent)
    check_contract(data)
    train, val, test = data.splits.values()
    assert [list(split.filenames) for split in (train, val, test)] == [["d.jpg", "b.jpg"], ["a.jpg"], ["e.jpg"]]
    (note,) = describe_dataset("Flickr8k", flickr_folder.parent).notes
    assert note == "1 images with captions are in no list and left out"
    assert captions_of(train, 1) == ["caption 0 of b", "caption 1 of b", "caption 2 of b"]
    assert test.image_rows.tolist() == [3]


def test_flickr_lists_without_ending(flickr_folder: Path) -> None:
    for path in flickr_folder.glob("*Images.txt"):
        split = path.name.removeprefix("Flickr_8k.").removesuffix("Images.txt")
        (flickr_folder / f"{split}.txt").write_text(path.read_text().replace(".jpg", ""))
        path.unlink()
    (flickr_folder / "Flickr8k.token.txt").rename(flickr_folder / "results_20130124.token")
    data = load_dataset("Flickr8k", flickr_folder.parent)
    assert list(data.splits["train"].filenames) == ["d.jpg", "b.jpg"]


@pytest.mark.parametrize("repeated", [(), ("dev", "test"), ("train", "dev", "test")], ids=["no", "some", "all"])
@pytest.mark.parametrize("regions", [False, True], ids=["global", "regions"])
@pytest.mark.parametrize("each", [3, 5])
def test_precomputed(
    make_precomputed_folder: Callable[..., Path], repeated: tuple[str, ...], regions: bool, each: int
) -> None:
    folder = make_precomputed_folder(repeated=repeated, regions=regions, each=each)
    data = load_dataset("f8k_precomp", folder.parent, features="regions" if regions else "global")
    check_contract(data)
    for split in data.splits.values():
        assert [split.features[row].flat[0] for row in split.image_rows] == list(range(len(split.image_rows)))
    assert captions_of(data.splits["val"], 1) == [f"dev image 1 caption {number}" for number in range(each)]


@pytest.mark.parametrize(("each", "twins"), [(1, False), (1, True), (3, True)])
def test_rows_that_differ_say_how_many_captions_an_image_has(tmp_path: Path, each: int, twins: bool) -> None:
    """Five images with a caption each were read as one image with five captions; the first two may have equal rows."""
    folder = tmp_path / "own"
    folder.mkdir()
    for split, count in {"train": 10, "dev": 6, "test": 5}.items():
        rows = np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32)
        rows[1] = rows[0] if twins else rows[1]
        np.save(folder / f"{split}_ims.npy", rows.repeat(each, axis=0))
        lines = [f"the {split} image {image} {n}" for image in range(count) for n in range(each)]
        (folder / f"{split}_caps.txt").write_text("\n".join(lines) + "\n")
    data = load_dataset("own", tmp_path)
    assert {name: len(split.image_ids) for name, split in data.splits.items()} == {"train": 10, "val": 6, "test": 5}
    assert captions_of(data.splits["val"], 5) == [f"the dev image 5 {n}" for n in range(each)]


def test_each_split_has_the_captions_an_image_that_its_own_rows_say(
    make_precomputed_folder: Callable[..., Path],
) -> None:
    folder = make_precomputed_folder()
    (folder / "train_caps.txt").write_text("a dog\na cat\na hat\n")
    data = load_dataset("f8k_precomp", folder.parent)
    assert {name: len(split.image_ids) for name, split in data.splits.items()} == {"train": 3, "val": 2, "test": 1}
    assert {name: len(split.captions) for name, split in data.splits.items()} == {"train": 3, "val": 10, "test": 5}


def test_captions_that_nothing_counts_are_said_to_be_five_an_image(
    make_precomputed_folder: Callable[..., Path],
) -> None:
    folder = make_precomputed_folder()
    for path in folder.glob("*.npy"):
        path.unlink()
    (note,) = describe_dataset("f8k_precomp", folder.parent).notes
    assert note == "nothing says how many captions an image has: 5, as in the published folders"


def test_a_row_a_caption_is_refused_where_rows_of_an_image_differ(karpathy_folder: KarpathyFolder) -> None:
    captions = sum(len(image["sentences"]) for image in karpathy_folder.images)
    rows = np.random.default_rng(0).normal(size=(captions, 3)).astype(np.float32)
    np.save(karpathy_folder.folder / "features_global.npy", rows)
    with pytest.raises(DataError, match=r"has one row a caption, and the rows of '.*' \(.*images\[0\]\) differ"):
        load_dataset("tiny", karpathy_folder.root)


def test_precomputed_testall_is_the_test_split(make_precomputed_folder: Callable[..., Path]) -> None:
    folder = make_precomputed_folder()
    former = (folder / "test_caps.txt").read_text()
    (folder / "testall_caps.txt").write_text(former + "more of it\n" * 5)
    np.save(folder / "testall_ims.npy", np.ones((2, 4), dtype=np.float32))
    assert len(load_dataset("f8k_precomp", folder.parent).splits["test"].image_ids) == 2


def test_val_may_be_truncated(make_precomputed_folder: Callable[..., Path]) -> None:
    folder = make_precomputed_folder(repeated=("dev",))
    data = load_dataset("f8k_precomp", folder.parent, val_images=1)
    check_contract(data)
    assert len(data.splits["val"].image_ids) == 1
    assert len(data.splits["val"].captions) == 5
    assert len(data.splits["train"].image_ids) == 3


def test_prepared_once(karpathy_folder: KarpathyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_dataset("tiny", karpathy_folder.root)
    monkeypatch.setattr(karpathy, "read", lambda files: pytest.fail("read again"))
    again = load_dataset("tiny", karpathy_folder.root)
    assert again.digest == first.digest
    assert again.vocabulary == first.vocabulary
    assert np.array_equal(again.splits["train"].tokens, first.splits["train"].tokens)
    assert isinstance(again.splits["train"].tokens, np.memmap)


def test_digest_follows_content_not_place(karpathy_folder: KarpathyFolder, tmp_path: Path) -> None:
    digest = load_dataset("tiny", karpathy_folder.root).digest
    shutil.copytree(karpathy_folder.folder, tmp_path / "elsewhere" / "tiny")
    assert load_dataset("tiny", tmp_path / "elsewhere").digest == digest
    assert load_dataset("tiny", karpathy_folder.root, features="regions").digest != digest
    karpathy_folder.images[0]["sentences"][0]["raw"] = "Another caption"
    karpathy_folder.save()
    changed = load_dataset("tiny", karpathy_folder.root)
    assert changed.digest != digest
    assert changed.splits["train"].captions[0] == "Another caption"
    features = karpathy_folder.folder / "features_global.npy"
    np.save(features, np.load(features) + np.float16(1))
    assert load_dataset("tiny", karpathy_folder.root).digest != changed.digest


@pytest.mark.parametrize("damage", ["truncate", "remove", "garbage"])
def test_damaged_preparation_is_made_anew(karpathy_folder: KarpathyFolder, private_cache: Path, damage: str) -> None:
    good = load_dataset("tiny", karpathy_folder.root).splits["train"].tokens.tolist()
    [tokens] = private_cache.rglob("tiny-*/train/tokens.npy")
    if damage == "truncate":
        tokens.write_bytes(tokens.read_bytes()[:-4])
    elif damage == "remove":
        tokens.unlink()
    else:
        (tokens.parent.parent / "meta.json").write_text("[")
    assert load_dataset("tiny", karpathy_folder.root).splits["train"].tokens.tolist() == good


def _load(root: Path) -> list[int]:
    return load_dataset("tiny", root).splits["test"].tokens.tolist()


@pytest.mark.proof
def test_several_processes_prepare_at_once(karpathy_folder: KarpathyFolder, private_cache: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        first, *others = pool.map(_load, [karpathy_folder.root] * 4, chunksize=1)
    assert others == [first] * 3
    assert len([path for path in private_cache.rglob("tiny-*") if path.is_dir()]) == 1


def test_what_another_process_prepares_meanwhile_is_not_taken_for_damaged(
    karpathy_folder: KarpathyFolder, private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_problems = dataset.find_problems

    def find_while_another_prepares(*arguments: Any) -> list[str]:
        monkeypatch.setattr(dataset, "find_problems", find_problems)
        load_dataset("tiny", karpathy_folder.root)
        [folder] = private_cache.rglob("tiny-*")
        (folder / "theirs").touch()
        return find_problems(*arguments)

    monkeypatch.setattr(dataset, "find_problems", find_while_another_prepares)
    load_dataset("tiny", karpathy_folder.root)
    assert list(private_cache.rglob("tiny-*/theirs"))


def test_cache_that_cannot_be_written(
    karpathy_folder: KarpathyFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"file.*cannot be written.*XDG_CACHE_HOME"):
        load_dataset("tiny", karpathy_folder.root)


@pytest.mark.skipif(not (SHARED / "flickr8k").is_dir(), reason="needs ../shared/data/flickr8k")
def test_flickr8k(tmp_path: Path) -> None:
    published = load_dataset("flickr8k", SHARED, vocabulary="published")
    assert len(published.vocabulary) == 3178
    assert [len(split.image_ids) for split in published.splits.values()] == [6000, 1000, 1000]
    assert all(len(split.captions) == 5 * len(split.image_ids) for split in published.splits.values())
    test = published.splits["test"]
    source = json.loads((SHARED / "flickr8k" / "dataset_flickr8k.json").read_text())["images"]
    assert test.image_rows[-1] == 7999 and source[7999]["filename"] == test.filenames[999]
    assert captions_of(test, 999) == [sentence["raw"] for sentence in source[7999]["sentences"]]


def with_seven_captions(folder: Path, *, karpathy_only: bool) -> Path:
    """Let the images of a COCO folder have three captions and four more."""
    more = [f"another caption {number}" for number in range(4)]
    for path in (folder / "annotations").glob("*.json"):
        content = json.loads(path.read_text())
        content["annotations"] += [
            {"id": 10_000 + 10 * image["id"] + number, "image_id": image["id"], "caption": caption}
            for image in content["images"]
            for number, caption in enumerate(more)
        ]
        path.write_text(json.dumps(content))
    if karpathy_only:
        content = json.loads((folder / "dataset_coco.json").read_text())
        for image in content["images"]:
            captions = [f"caption {number} of image {image['cocoid']}" for number in range(3)]
            image["sentences"] = [{"raw": caption} for caption in captions + more]
        (folder / "dataset_coco.json").write_text(json.dumps(content))
        shutil.rmtree(folder / "annotations")
    return folder


@pytest.mark.parametrize(("split", "karpathy_only"), [(True, False), (False, False), (True, True)])
def test_coco_keeps_five_captions_of_an_image_in_val_and_test(
    make_coco_folder: Callable[..., Path], split: bool, karpathy_only: bool
) -> None:
    folder = with_seven_captions(make_coco_folder(split=split), karpathy_only=karpathy_only)
    data = load_dataset("coco", folder.parent)
    check_contract(data)
    assert [len(part.captions) / len(part.image_rows) for part in data.splits.values()] == [7, 5, 5]
    for name in ("val", "test"):
        part = data.splits[name]
        key = part.image_ids[0]
        kept = [*(f"caption {number} of image {key}" for number in range(3)), "another caption 0", "another caption 1"]
        assert captions_of(part, 0) == kept
    images = sum(len(data.splits[name].image_rows) for name in ("val", "test"))
    (note,) = [note for note in describe_dataset("coco", folder.parent).notes if "left out" in note]
    assert note.startswith(f"val and test keep the first 5 captions of each image, as published: {2 * images} captions")


def with_own_pictures(folder: Path) -> None:
    """Give the pictures of a COCO folder, and its split file, names that are not those of MS-COCO."""
    for path in folder.rglob("*.json"):
        path.write_text(path.read_text().replace("COCO_", "RSICD_"))


def test_other_datasets_keep_all_captions_in_files_of_any_name(make_coco_folder: Callable[..., Path]) -> None:
    folder = with_seven_captions(make_coco_folder(), karpathy_only=False)
    with_own_pictures(folder)
    data = load_dataset("coco", folder.parent)
    assert len(data.splits["test"].captions) == 7 * len(data.splits["test"].image_rows)
    assert not any("left out" in note for note in describe_dataset("coco", folder.parent).notes)


SIZES = {"train": 5, "val": 3, "test": 2}


def write_own_coco(
    folder: Path, file: str = "captions_{}.json", picture: str = "{}.jpg", field: bool = False, **aliases: str
) -> Path:
    """Write images in COCO's form whose splits are told by names of files or pictures, or by a field."""
    (folder / "annotations").mkdir(parents=True)
    written: dict[str, dict[str, list[dict[str, Any]]]] = {}
    key = 0
    for split, count in SIZES.items():
        name = aliases.get(split, split)
        content = written.setdefault(file.format(name), {"images": [], "annotations": []})
        for _ in range(count):
            key += 1
            image = {"id": key, "file_name": picture.format(key, split=name)} | ({"split": name} if field else {})
            content["images"].append(image)
            content["annotations"] += [
                {"id": 10 * key + n, "image_id": key, "caption": f"picture {key} {n}"} for n in range(6)
            ]
    for name, content in written.items():
        (folder / "annotations" / name).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"file": "captions_{}2017.json"},
        {"file": "captions_rsicd-{}.json", "val": "Validation", "train": "training", "test": "testing"},
        {"file": "captions_all.json", "field": True, "val": "dev"},
        {"file": "captions_all.json", "picture": "{split}2014/{}.jpg"},
        {"file": "captions_all.json", "picture": "VizWiz_{split}_{:08d}.jpg"},
    ],
    ids=["files", "names of COCO", "other names", "field", "folders", "pictures"],
)
def test_the_splits_that_annotations_tell_are_used(tmp_path: Path, how: dict[str, Any]) -> None:
    """A file of test captions was pooled into train, val was cut in two, and captions of val and test were cut."""
    write_own_coco(tmp_path / "own", **how)
    data = load_dataset("own", tmp_path, features=None)
    assert {name: len(split.image_ids) for name, split in data.splits.items()} == SIZES
    assert {name: len(split.captions) for name, split in data.splits.items()} == {n: 6 * c for n, c in SIZES.items()}
    assert describe_dataset("own", tmp_path).notes == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"file": "captions_all.json"}, "no splits: give each image a field 'split'"),
        ({"file": "captions_all.json"}, "or draw splits with `orchestrator data import FOLDER --split 80/10/10"),
        ({"test": "held_out"}, "captions_held_out.json: image 9: neither a field 'split' nor the file's name gives"),
        ({"test": "trainval"}, "captions_trainval.json: image 9: neither a field 'split' nor the file's name gives"),
        ({"test": "val"}, "split 'test' has no images"),
        ({"file": "captions_all.json", "field": True, "val": "most"}, "'split' must be one of train, training"),
    ],
    ids=["none", "none, and a command", "unknown name", "two splits", "no test", "unknown field"],
)
def test_annotations_that_tell_no_splits_or_not_all_are_refused(
    tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    write_own_coco(tmp_path / "own", **how)
    assert any(message in problem for problem in describe_dataset("own", tmp_path).problems)


def digest_of(files: list[Path]) -> str:
    """Return the digest of a dataset without features, all of whose captions are read."""
    listed = "".join(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def test_coco_whose_captions_are_cut_has_another_digest_than_uncut_ones_had(coco_folder: Path) -> None:
    """Other datasets keep the digests that are in the records of older versions."""
    files = [*sorted((coco_folder / "annotations").glob("*.json")), coco_folder / "dataset_coco.json"]
    assert load_dataset("coco", coco_folder.parent, features=None).digest != digest_of(files)
    with_own_pictures(coco_folder)
    assert load_dataset("coco", coco_folder.parent, features=None).digest == digest_of(files)


@pytest.mark.parametrize(("batches", "most", "what"), [("pairs", 6, "captions"), ("images", 3, "images")])
def test_a_batch_is_at_most_an_epoch(karpathy_folder: KarpathyFolder, batches: Any, most: int, what: str) -> None:
    data = load_dataset("tiny", karpathy_folder.root)
    check_batch_size(data, TrainingConfig(batches=batches, batch_size=most))
    too_many = rf"batch_size: {most + 1} is more than the {most} {what} of tiny's train split; choose at most {most}"
    with pytest.raises(ConfigError, match=too_many):
        check_batch_size(data, TrainingConfig(batches=batches, batch_size=most + 1))


def test_a_description_counts(karpathy_folder: KarpathyFolder) -> None:
    told = describe_dataset("tiny", karpathy_folder.root)
    assert told.problems == []
    train = told.splits["train"]
    counts = {"images": 3, "captions": 6, "captions_per_image": (2, 2), "image_files": 0}
    assert counts.items() <= train.items()
    # "a dog number one runs ." and "the dog 's one"; of these ten tokens "dog" alone is in the vocabulary.
    assert train["caption_lengths"] == {"min": 4, "median": 5, "mean": 5, "max": 6}
    assert train["unknown_tokens"] == 0.8
    assert told.vocabulary == 5
    assert told.features["regions"]["val"] == {"file": "features_regions.npy", "shape": [6, 2, 3], "dtype": "float32"}
    assert told.digest["global"] == load_dataset("tiny", karpathy_folder.root).digest
    assert told.digest["regions"] == load_dataset("tiny", karpathy_folder.root, features="regions").digest
    assert json.loads(json.dumps(told.to_dict()))["splits"]["test"]["images"] == 2


def test_a_description_without_features(karpathy_folder: KarpathyFolder) -> None:
    for path in karpathy_folder.folder.glob("*.npy"):
        path.unlink()
    told = describe_dataset("tiny", karpathy_folder.root)
    assert (told.problems, told.features, list(told.digest)) == ([], {}, ["none"])


def test_a_description_has_the_problems_of_all_features(karpathy_folder: KarpathyFolder) -> None:
    np.save(karpathy_folder.folder / "features_global.npy", np.ones((3, 2), np.float32))
    np.save(karpathy_folder.folder / "features_other.npy", np.full((6, 2), np.nan, np.float32))
    told = describe_dataset("tiny", karpathy_folder.root)
    assert len(told.problems) == 2
    assert "features_other.npy: 6 rows hold NaN or infinity" in told.problems[0]
    assert "features_global.npy: 3 feature rows for 6 images" in told.problems[1]
    assert told.splits["train"]["images"] == 3


def test_missing_pictures_are_described(karpathy_folder: KarpathyFolder, write_pictures: Callable[..., None]) -> None:
    images = karpathy_folder.folder / "images"
    write_pictures(images, ["picture0.jpg", "picture1.jpg", "picture3.jpg"])
    (images / "picture1.jpg").write_bytes((images / "picture1.jpg").read_bytes()[:300])
    told = describe_dataset("tiny", karpathy_folder.root)
    # A split without any picture is one whose features stand for them.
    (problem,) = told.problems
    assert problem.endswith(": images[2]: image 'picture2.jpg' is missing; 2 others of train are there")
    assert told.splits["val"]["image_files"] == 1
    broken = describe_dataset("tiny", karpathy_folder.root, decode_images=True).problems
    assert len(broken) == 2
    assert broken[1].startswith(f"{images / 'picture1.jpg'}: cannot be decoded: ")


TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=8)


@given(TEXTS, st.slices(8))
def test_strings_are_the_list_they_were_packed_from(texts: list[str], part: slice) -> None:
    packed = Strings.pack(texts)
    assert list(packed) == texts
    assert len(packed) == len(texts)
    assert list(packed[part]) == texts[part]
    assert [packed[-1 - i] for i in range(len(texts))] == texts[::-1]
    with pytest.raises(IndexError):
        packed[len(texts)]
