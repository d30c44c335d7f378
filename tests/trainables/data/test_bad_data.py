"""Bad datasets: each mistake is named with its file and record, and nothing is left in the cache."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainables.data.karpathy_folder import KarpathyFolder
from trainables.data.dataset import load_dataset
from trainables.data.text_files import LARGEST_FILE, read_json, read_lines, read_text
from trainables.dataset_description import describe
from trainables.errors import DataError, UserError

Mutation = Callable[[KarpathyFolder], Any]


def edit(change: Mutation) -> Mutation:
    """Change the JSON's content and save it."""

    def apply(made: KarpathyFolder) -> None:
        change(made)
        made.save()

    return apply


def set_image(index: int, **values: Any) -> Mutation:
    return edit(lambda made: made.images[index].update(values))


def set_sentence(image: int, sentence: int, **values: Any) -> Mutation:
    return edit(lambda made: made.images[image]["sentences"][sentence].update(values))


def write(text: str | bytes) -> Mutation:
    return lambda made: made.file.write_bytes(text if isinstance(text, bytes) else text.encode())


def features(array: Any) -> Mutation:
    return lambda made: np.save(made.folder / "features_global.npy", array, allow_pickle=True)


def with_bad_values(made: KarpathyFolder) -> None:
    path = made.folder / "features_global.npy"
    array = np.load(path)
    array[1, 2], array[4, 0] = np.nan, np.inf
    np.save(path, array)


def truncate_features(made: KarpathyFolder) -> None:
    path = made.folder / "features_global.npy"
    path.write_bytes(path.read_bytes()[:-8])


def replace_features(data: bytes) -> Mutation:
    return lambda made: (made.folder / "features_global.npy").write_bytes(data)


def beside(name: str, text: str) -> Mutation:
    return lambda made: (made.folder / name).write_text(text)


def link_out(name: str) -> Mutation:
    """Put a link to a file outside the data root where a file of the dataset is looked for."""

    def apply(made: KarpathyFolder) -> None:
        outside, inside = made.root.parent / "outside", made.folder / name
        inside.parent.mkdir(exist_ok=True)
        outside.write_bytes(inside.read_bytes() if inside.exists() else b"secret")
        inside.unlink(missing_ok=True)
        inside.symlink_to(outside)

    return apply


def link_folder_out(made: KarpathyFolder) -> None:
    (made.root.parent / "pictures").mkdir()
    (made.folder / "images").symlink_to(made.root.parent / "pictures")


KARPATHY = {
    "broken": (write('{"images": [\n{"a": }]}'), "dataset_tiny.json: line 2, column 7: broken JSON"),
    "truncated": (write('{"images": [{"filename": "a'), "dataset_tiny.json: line 1, column 26: broken JSON"),
    "empty-file": (write(""), "dataset_tiny.json: line 1, column 1: broken JSON"),
    "deep": (write("[" * 100_000), "dataset_tiny.json: broken JSON: its lists or objects are nested too deeply"),
    "deep-objects": (write('{"a":' * 100_000), "dataset_tiny.json: broken JSON: its lists or objects are nested"),
    "null": (write("null"), "dataset_tiny.json: another schema: must be a JSON object, got a NoneType"),
    "large-number": (write("[" + "9" * 5000 + "]"), "dataset_tiny.json: broken JSON: Exceeds the limit"),
    "not-utf8": (write(b'{"images":\n["\xff"]}'), "dataset_tiny.json: line 2: not UTF-8 text"),
    "list": (write("[1]"), "dataset_tiny.json: another schema: must be a JSON object, got a list"),
    "no-images": (write('{"a": 1, "b": 2}'), "dataset_tiny.json: another schema: Karpathy's JSON has a list 'images'"),
    "image-no-object": (edit(lambda m: m.images.append(3)), "images[6]: another schema: must be an object, got 3"),
    "split": (set_image(1, split="dev2"), "images[1]: 'split' must be one of train, restval, val, dev, test"),
    "split-list": (set_image(1, split=["train"]), "images[1]: 'split' must be one of"),
    "no-filename": (edit(lambda m: m.images[2].pop("filename")), "images[2]: another schema: has no 'filename'"),
    "filename-number": (set_image(2, filename=7), "images[2]: the file name must be text, got 7"),
    "absolute": (set_image(3, filename="/etc/passwd"), "images[3]: file name '/etc/passwd' is absolute"),
    "drive": (set_image(3, filename="C:\\a.jpg"), "images[3]: file name 'C:\\\\a.jpg' is absolute"),
    "leaves": (set_image(3, filename="a/../../b.jpg"), "images[3]: file name 'a/../../b.jpg' leaves the data root"),
    "leaves-windows": (set_image(3, filename="..\\b.jpg"), "images[3]: file name '..\\\\b.jpg' leaves the data root"),
    "filepath": (set_image(3, filepath="../x"), "images[3]: file name '../x' leaves the data root"),
    "no-sentences": (set_image(4, sentences=None), "images[4]: another schema: must have a list 'sentences'"),
    "no-captions": (set_image(4, sentences=[]), "images[4]: image without captions"),
    "no-raw": (set_image(4, sentences=[{"tokens": []}]), "images[4].sentences[0]: another schema: must be an object"),
    "empty": (set_sentence(1, 1, raw=" \t"), "images[1].sentences[1]: empty caption"),
    "no-text": (set_sentence(1, 1, raw=5), "images[1].sentences[1]: the caption must be text, got 5"),
    "surrogate": (set_sentence(0, 0, raw="a \ud800"), "images[0].sentences[0]: the caption 'a \\ud800' is no Unicode"),
    "stray": (set_sentence(5, 0, imgid=77), "images[5].sentences[0]: caption without image: its imgid is 77"),
    "same-id": (set_image(1, imgid=0, sentences=[{"raw": "a"}]), "images[1]: two images of one id: id '0' is that of"),
    "same-file": (set_image(1, filename="picture0.jpg"), "images[1]: two images of one file: filename 'picture0.jpg'"),
    "two-splits": (
        set_image(4, filename="picture0.jpg"),
        "images[4]: the same image in two splits, 'train' and 'test': filename 'picture0.jpg' is that of",
    ),
    "no-val": (set_image(3, split="test"), "dataset_tiny.json: split 'val' has no images"),
    "two-files": (
        beside("dataset_other.json", "{}"),
        "one dataset a folder, but here are dataset_other.json, dataset_t",
    ),
}

FEATURES = {
    "fewer-rows": (features(np.ones((5, 4), np.float16)), "features_global.npy: 5 feature rows for 6 images with 12 c"),
    "nan": (with_bad_values, "features_global.npy: 2 rows hold NaN or infinity: row 1 (picture1.jpg), row 4 (picture4"),
    "object": (features(np.array([{}] * 6, dtype=object)), "features_global.npy: an .npy that needs pickle is refused"),
    "pickle": (replace_features(pickle.dumps([1])), "features_global.npy: cannot be read as an .npy array"),
    "truncated": (truncate_features, "features_global.npy: cannot be read as an .npy array"),
    "empty-file": (replace_features(b""), "features_global.npy: cannot be read as an .npy array"),
    "float64": (features(np.ones((6, 4))), "features_global.npy: features must be float16 or float32, got float64"),
    "vector": (features(np.ones(6, np.float32)), "features_global.npy: features must have shape (rows, D)"),
    "fortran": (
        features(np.asfortranarray(np.ones((6, 4), np.float16))),
        "features_global.npy: is stored in Fortran order",
    ),
    "views": (
        lambda made: np.save(made.folder / "augmented_global.npy", np.asfortranarray(np.ones((6, 3, 4), np.float16))),
        "augmented_global.npy: is stored in Fortran order",
    ),
    "no-rows": (features(np.ones((0, 4), np.float32)), "features_global.npy: features must have shape (rows, D)"),
    "regions": (
        features(np.ones((6, 2, 4), np.float32)),
        "features_global.npy: global features must have shape (rows,",
    ),
    "other-digest": (
        beside("features_global.json", '{"images_digest": "ab"}'),
        "features_global.npy: features of anoth",
    ),
    "other-ids": (
        beside("features_global_ids.txt", "0\n1\npicture2.jpg\n3\nx9\n5\n"),
        "features_global.npy: features of another dataset: features_global_ids.txt: line 5 is 'x9'",
    ),
    "fewer-ids": (
        beside("features_global_ids.txt", "0\n1\n"),
        "features_global_ids.txt lists 2 images, the dataset has 6",
    ),
    "broken-sidecar": (beside("features_global.json", "{"), "features_global.json: line 1, column 2: broken JSON"),
}

LINKS = {
    "captions": (link_out("dataset_tiny.json"), "dataset_tiny.json: is a link that leaves the data root"),
    "features": (link_out("features_global.npy"), "features_global.npy: is a link that leaves the data root"),
    "views": (link_out("augmented_global.npy"), "augmented_global.npy: is a link that leaves the data root"),
    "image": (link_out("images/picture2.jpg"), "images[2]: "),
    "folder": (link_folder_out, "tiny/images: is a link that leaves the data root"),
}


def rows(table: dict[str, Any]) -> Any:
    return pytest.mark.parametrize(("mutate", "message"), table.values(), ids=table)


@rows(KARPATHY | FEATURES | LINKS)
def test_bad_dataset(karpathy_folder: KarpathyFolder, tmp_path: Path, mutate: Mutation, message: str) -> None:
    mutate(karpathy_folder)
    with pytest.raises(DataError) as caught:
        load_dataset("tiny", karpathy_folder.root, cache=tmp_path / "c")
    assert message in str(caught.value)
    assert str(karpathy_folder.folder) in str(caught.value)
    assert not list((tmp_path / "c").glob("tiny-*"))
    # Only who loads a dataset says that the features are to be global ones.
    if mutate is not FEATURES["regions"][0]:
        assert any(message in problem for problem in describe("tiny", karpathy_folder.root).problems)


def test_every_problem_is_found_and_a_repeated_one_shown_once(karpathy_folder: KarpathyFolder) -> None:
    for image in karpathy_folder.images:
        for sentence in image["sentences"]:
            sentence["raw"] = ""
    karpathy_folder.save()
    with_bad_values(karpathy_folder)
    with pytest.raises(DataError) as caught:
        load_dataset("tiny", karpathy_folder.root)
    # Twelve captions, then what is no number, then three empty splits and features that fit no image any more.
    assert len([p for p in caught.value.problems if "empty caption" in p]) == 12
    lines = str(caught.value).splitlines()
    assert lines[0].endswith(
        "images[0].sentences[0]: empty caption: write one, or remove the record (and 11 more like it)"
    )
    consequences = [line.endswith("(perhaps because of the problems above: mend those first)") for line in lines]
    assert consequences == sorted(consequences) and sum(consequences) == 4
    assert "NaN" in lines[consequences.index(True) - 1]


def test_more_than_ten_kinds_of_problems_are_counted() -> None:
    kinds = [f"kind {'x' * kind}: of record {record}" for kind in range(12) for record in range(5)]
    lines = str(DataError(kinds)).splitlines()
    assert lines[0] == "kind : of record 0 (and 4 more like it)"
    assert lines[10:] == ["... and 2 more lines of 60 problems"]


def change_coco(name: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return apply


VAL = "annotations/captions_val2014.json"


def in_val(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return change_coco(VAL, change)


def in_split(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return change_coco("dataset_coco.json", lambda content: change(content["images"]))


COCO = {
    "stray-caption": (
        in_val(lambda c: c["annotations"].append({"id": 9, "image_id": 999, "caption": "a"})),
        "captions_val2014.json: annotation 9: caption without image: there is no image 999",
    ),
    "empty": (
        in_val(lambda c: c["annotations"][2].update(caption="")),
        "captions_val2014.json: annotations[2]: annotation 2020 of image 202: empty caption",
    ),
    "same-id": (in_val(lambda c: c["images"].append({"id": 101, "file_name": "z"})), "image 101: two images of one id"),
    "same-id-here": (in_val(lambda c: c["images"].append({"id": 201, "file_name": "z"})), "201: two images of one id"),
    "id-no-number": (in_val(lambda c: c["images"].append({"id": "x"})), "images[4]: another schema: must be an object"),
    "no-image-id": (
        in_val(lambda c: c["annotations"].append({"id": 7})),
        "annotations[12]: another schema: must be an",
    ),
    "leaves": (in_val(lambda c: c["images"][1].update(file_name="../x.jpg")), "images[1]: file name '../x.jpg' leaves"),
    "instances": (in_val(lambda c: c.pop("annotations")), "a COCO captions file has a list 'annotations'"),
}
COCO_SPLIT = {
    "id-no-number": (in_split(lambda images: images[3].update(cocoid=[])), "'107.jpg' is in no annotation file"),
    "unknown-image": (in_split(lambda images: images[3].update(cocoid=55)), "'107.jpg' is in no annotation file"),
    "two-splits": (
        in_split(lambda images: images.append({**images[0], "split": "test"})),
        "dataset_coco.json: images[12]: the same image in two splits, 'val' and 'test': id '200' is that of",
    ),
    "bad-split": (in_split(lambda images: images[0].update(split="x")), "json: images[0]: 'split' must be one of"),
}


def problems_of(folder: Path) -> str:
    """Return what is said of a dataset that is refused."""
    with pytest.raises(DataError) as caught:
        load_dataset(folder.name, folder.parent)
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize("split", [True, False], ids=["karpathy-split", "own-split"])
@rows(COCO)
def test_bad_coco(make_coco_folder: Callable[..., Path], split: bool, mutate: Any, message: str) -> None:
    folder = make_coco_folder(split=split)
    mutate(folder)
    assert message in problems_of(folder)


@pytest.mark.parametrize(
    ("split", "place"),
    [(True, "dataset_coco.json: images[11]"), (False, "captions_val2014.json: image 203")],
    ids=["karpathy-split", "own-split"],
)
def test_coco_image_without_captions(make_coco_folder: Callable[..., Path], split: bool, place: str) -> None:
    folder = make_coco_folder(split=split)
    change_coco(VAL, lambda c: c.update(annotations=[a for a in c["annotations"] if a["image_id"] != 203]))(folder)
    assert f"{place}: image without captions" in problems_of(folder)


@rows(COCO_SPLIT)
def test_bad_coco_split(coco_folder: Path, mutate: Any, message: str) -> None:
    mutate(coco_folder)
    assert message in problems_of(coco_folder)


def test_coco_reader_prints_nothing(make_coco_folder: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    load_dataset("coco", make_coco_folder().parent)
    assert capfd.readouterr() == ("", "")


def put_sentences(folder: Path, change: Callable[[int, list[str]], list[str]]) -> None:
    """Give the split file the captions of the annotations, changed."""
    captions: dict[int, list[str]] = {}
    for path in (folder / "annotations").glob("*.json"):
        for annotation in json.loads(path.read_text())["annotations"]:
            captions.setdefault(annotation["image_id"], []).append(annotation["caption"])
    split = json.loads((folder / "dataset_coco.json").read_text())
    for image in split["images"]:
        changed = change(image["cocoid"], captions[image["cocoid"]])
        image["sentences"] = [{"raw": caption} for caption in changed]
    (folder / "dataset_coco.json").write_text(json.dumps(split))


SAME_CAPTIONS: dict[str, Callable[[int, list[str]], list[str]]] = {
    "equal": lambda key, captions: captions,
    "other-order": lambda key, captions: captions[::-1],
    "tidied": lambda key, captions: [f" {caption.capitalize()} .\n" for caption in captions],
    "fewer": lambda key, captions: captions[:2],
    "none": lambda key, captions: [],
}


@pytest.mark.parametrize("change", SAME_CAPTIONS.values(), ids=SAME_CAPTIONS)
def test_captions_of_annotations_and_split_file_may_be_written_differently(
    coco_folder: Path, change: Callable[[int, list[str]], list[str]]
) -> None:
    put_sentences(coco_folder, change)
    told = describe("coco", coco_folder.parent)
    assert (told.problems, told.notes) == ([], [])


def test_images_with_other_captions_in_annotations_and_split_file_are_problems(coco_folder: Path) -> None:
    put_sentences(coco_folder, lambda key, captions: [f"of {key + 1} alone"] if key < 105 else captions)
    told = describe("coco", coco_folder.parent)
    assert len(told.problems) == 5
    assert "dataset_coco.json: images[6]: '104.jpg' has other captions than " in told.problems[0]
    assert "such as 'of 105 alone': these are two images" in told.problems[0]


def test_images_with_some_other_captions_in_the_split_file_are_counted(coco_folder: Path) -> None:
    put_sentences(coco_folder, lambda key, captions: [*captions[:2], "edited"] if key < 105 else captions)
    told = describe("coco", coco_folder.parent)
    assert told.problems == []
    assert told.notes == [
        "5 images have captions in dataset_coco.json that the annotations do not have; the captions of the "
        "annotations are taken"
    ]


@pytest.mark.parametrize(("read", "good"), [(read_json, "{}"), (read_lines, "a"), (read_text, "a")])
def test_a_file_that_takes_too_much_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any], good: str
) -> None:
    path = tmp_path / "large.json"
    path.write_text(good)
    os.truncate(path, LARGEST_FILE)
    os.truncate(path, LARGEST_FILE + 1)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    with pytest.raises(DataError, match=r"large\.json: has 256 MB; a file of captions or splits has at most 256"):
        read(path)


def test_the_largest_files_of_coco_are_taken() -> None:
    assert LARGEST_FILE > 1.5 * 144e6


def append(name: str, text: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(text)

    return apply


def remove(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


TOKENS = "Flickr8k.token.txt"
FLICKR = {
    "no-tab": (
        append(TOKENS, "f.jpg#0 no tab\n"),
        "Flickr8k.token.txt: line 16: must be 'NAME.jpg#NUMBER<tab>caption'",
    ),
    "no-number": (append(TOKENS, "f.jpg\tcaption\n"), "Flickr8k.token.txt: line 16: must be 'NAME.jpg#NUMBER<tab>"),
    "empty": (append(TOKENS, "a.jpg#3\t \n"), "Flickr8k.token.txt: line 16: empty caption"),
    "twice": (append(TOKENS, "a.jpg#2\tagain\n"), "Flickr8k.token.txt: line 16: caption 2 of 'a.jpg' is there twice"),
    "leaves": (append(TOKENS, "../a.jpg#0\tcaption\n"), "Flickr8k.token.txt: line 16: file name '../a.jpg' leaves"),
    "no-captions": (append("Flickr_8k.testImages.txt", "q.jpg\n"), "testImages.txt: line 2: image without captions"),
    "two-splits": (append("Flickr_8k.testImages.txt", "d.jpg\n"), "testImages.txt: line 2: the same image in two spli"),
    "empty-line": (
        append("Flickr_8k.testImages.txt", "\nc.jpg\n"),
        "testImages.txt: line 2: the file name must be text",
    ),
    "absolute": (append("Flickr_8k.testImages.txt", "/c.jpg\n"), "testImages.txt: line 2: file name '/c.jpg' is absol"),
    "no-list": (remove("Flickr_8k.devImages.txt"), "Flickr8k.token.txt: split 'val' has no images"),
    "no-lists": (
        remove(*(f"Flickr_8k.{split}Images.txt" for split in ("train", "dev", "test"))),
        "Flickr8k.token.txt: no lists of the splits beside it; fetch Flickr_8k.trainImages.txt",
    ),
    "two-tokens": (
        append("results_20130124.token", "x"),
        "one caption file a folder, but here are Flickr8k.token.txt,",
    ),
}


@rows(FLICKR)
def test_bad_flickr(flickr_folder: Path, mutate: Any, message: str) -> None:
    mutate(flickr_folder)
    assert message in problems_of(flickr_folder)


def save(name: str, array: np.ndarray) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, array)


PRECOMPUTED = {
    "empty-line": (append("dev_caps.txt", "\n" * 5), "dev_caps.txt: line 11: empty caption"),
    "incomplete": (
        append("test_caps.txt", "one more\n"),
        "test_caps.txt: line 6: 6 captions, which is no multiple of 5",
    ),
    "no-test": (remove("test_caps.txt"), "train_caps.txt: split 'test' has no images"),
    "no-features": (remove("dev_ims.npy"), "dev_ims.npy: no such file"),
    "rows": (save("dev_ims.npy", np.ones((3, 4), np.float32)), "dev_ims.npy: 3 feature rows for 2 images with 10 capt"),
    "nan": (
        save("dev_ims.npy", np.array([[1], [np.nan]], np.float32)),
        "dev_ims.npy: 1 rows hold NaN or infinity: row 1",
    ),
}


@rows(PRECOMPUTED)
def test_bad_precomputed(make_precomputed_folder: Callable[..., Path], mutate: Any, message: str) -> None:
    folder = make_precomputed_folder()
    mutate(folder)
    assert message in problems_of(folder)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tyny", {}, r"no dataset 'tyny' in the data root .*There are: tiny\. Perhaps 'tiny' is meant"),
        (
            "scenes",
            {},
            r"There are: tiny\. Make scenes with `orchestrator data generate scenes .* --out .*data/scenes`",
        ),
        ("./tiny", {"root": "nowhere"}, r"no dataset './tiny' in the data root nowhere\. That folder does not exist"),
        ("tiny", {"features": "box"}, r"features_box.npy: no such features; there are: global, regions\."),
        ("tiny", {"vocabulary": "all"}, r"vocabulary must be one of train, published, got 'all'"),
        ("empty", {}, r"empty: holds no dataset of a known format: COCO captions .*; Karpathy JSON;"),
    ],
    ids=["near", "scenes", "path", "features", "vocabulary", "no-format"],
)
def test_bad_request(karpathy_folder: KarpathyFolder, name: str, options: dict[str, Any], message: str) -> None:
    (karpathy_folder.root / "empty").mkdir()
    root = Path(options.pop("root", karpathy_folder.root))
    with pytest.raises(UserError, match=message):
        load_dataset(name, root, **options)


def test_links_inside_the_data_root_are_fine(karpathy_folder: KarpathyFolder, tmp_path: Path) -> None:
    shared = karpathy_folder.root / "features.npy"
    (karpathy_folder.folder / "features_global.npy").rename(shared)
    (karpathy_folder.folder / "features_global.npy").symlink_to(shared)
    # The dataset's folder itself may be anywhere.
    (tmp_path / "data" / "linked").symlink_to(karpathy_folder.folder)
    assert load_dataset("tiny", karpathy_folder.root).digest
    assert load_dataset("linked", karpathy_folder.root).name == "tiny"
