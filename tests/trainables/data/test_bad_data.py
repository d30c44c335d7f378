"""Bad datasets: each mistake is named with its file and record, and nothing is left in the cache."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from safetensors.numpy import save_file

from tests.trainables.data import folders
from tests.trainables.data.folders import Change, KarpathyFolder, append, edit, remove, replaced, save, write
from trainables.data.dataset import load_dataset
from trainables.data.features import inspect_features
from trainables.data.source import find_source
from trainables.data.text_files import LARGEST_FILE, read_json, read_lines, read_text
from trainables.dataset_description import describe_dataset
from trainables.errors import DataError, UserError
from trainables.files import remembered

READ: dict[str, dict[str, Any]] = {
    "text": {"text": True},
    "clip-retrieval": {"text": True},
    "msrvtt": {"features": None},
    "msvd": {"features": None},
    "tgif": {"features": None},
}
"""Form -> what of it is read, where that is not the features of its images alone."""


def images(change: Callable[[Any], object]) -> Change:
    return edit("dataset_tiny.json", lambda content: change(content["images"]))


def image(index: int, **values: Any) -> Change:
    return images(lambda listed: listed[index].update(values))


def sentence(index: int, number: int, **values: Any) -> Change:
    return images(lambda listed: listed[index]["sentences"][number].update(values))


def with_bad_values(folder: Path) -> None:
    path = folder / "features_global.npy"
    array = np.load(path)
    array[1, 2], array[4, 0] = np.nan, np.inf
    np.save(path, array)


def link_out(name: str) -> Change:
    """Put a link to a file outside the data root where a file of the dataset is looked for."""

    def apply(folder: Path) -> None:
        outside, inside = folder.parents[1] / "outside", folder / name
        inside.parent.mkdir(exist_ok=True)
        outside.write_bytes(inside.read_bytes() if inside.exists() else b"secret")
        inside.unlink(missing_ok=True)
        inside.symlink_to(outside)

    return apply


def link_folder_out(folder: Path) -> None:
    (folder.parents[1] / "pictures").mkdir()
    (folder / "images").symlink_to(folder.parents[1] / "pictures")


def header(text: str) -> Change:
    """Leave a safetensors file of this header in place of the features of captions."""

    def apply(folder: Path) -> None:
        (folder / "features_text.npy").unlink()
        content = len(text).to_bytes(8, "little") + text.encode() + b"\0" * 64
        (folder / "features_text.safetensors").write_bytes(content)

    return apply


def tensor(shape: str, end: str) -> Change:
    return header(f'{{"a": {{"dtype": "F32", "shape": {shape}, "data_offsets": [0, {end}]}}}}')


def sidecars(**digests: str) -> Change:
    def apply(folder: Path) -> None:
        for name, digest in digests.items():
            (folder / f"{name}_global.json").write_text(json.dumps({"weights_digest": digest, "images_digest": "b3a2"}))

    return apply


def pairs(*rows: tuple[str, Any]) -> Change:
    return lambda folder: folders.write_pairs(folder / "val/metadata/metadata_0.parquet", list(rows))


JSON, GLOBAL, TEXT = "dataset_tiny.json", "features_global.npy", "features_text.npy"
MANY_DIGITS = "9" * 5000
LAST_DAY = pyarrow.array([2**31 - 1], pyarrow.int32()).cast(pyarrow.date32())[0]

KARPATHY = {
    "broken": (write(JSON, '{"images": [\n{"a": }]}'), "dataset_tiny.json: line 2, column 7: broken JSON"),
    "empty-file": (write(JSON, ""), "dataset_tiny.json: line 1, column 1: broken JSON"),
    "deep": (write(JSON, "[" * 100_000), "dataset_tiny.json: broken JSON: its lists or objects are nested too deeply"),
    "null": (write(JSON, "null"), "dataset_tiny.json: another schema: must be a JSON object, got a NoneType"),
    "large-number": (write(JSON, f"[{MANY_DIGITS}]"), "dataset_tiny.json: broken JSON: Exceeds the limit"),
    "not-utf8": (write(JSON, b'{"images":\n["\xff"]}'), "dataset_tiny.json: line 2: not UTF-8 text"),
    "no-images": (write(JSON, '{"a": 1, "b": 2}'), "another schema: Karpathy's JSON has a list 'images'; this file"),
    "folder": (lambda folder: [(folder / JSON).unlink(), (folder / JSON).mkdir()], "tiny.json: must be a regular file"),
    "image-no-object": (images(lambda m: m.append(3)), "images[6]: another schema: must be an object, got 3"),
    "split": (image(1, split="dev2"), "images[1]: 'split' must be one of train, training, restval, val"),
    "split-list": (image(1, split=["train"]), "images[1]: 'split' must be one of"),
    "no-filename": (images(lambda m: m[2].pop("filename")), "images[2]: another schema: has no 'filename'"),
    "filename-number": (image(2, filename=7), "images[2]: the file name must be text, got 7"),
    "absolute": (image(3, filename="/etc/passwd"), "images[3]: file name '/etc/passwd' is absolute"),
    "drive": (image(3, filename="C:\\a.jpg"), "images[3]: file name 'C:\\\\a.jpg' is absolute"),
    "leaves": (image(3, filename="a/../../b.jpg"), "images[3]: file name 'a/../../b.jpg' leaves the data root"),
    "leaves-windows": (image(3, filename="..\\b.jpg"), "images[3]: file name '..\\\\b.jpg' leaves the data root"),
    "filepath": (image(3, filepath="../x"), "images[3]: file name '../x' leaves the data root"),
    "no-sentences": (image(4, sentences=None), "images[4]: another schema: must have a list 'sentences'"),
    "no-captions": (image(4, sentences=[]), "images[4]: image without captions"),
    "no-raw": (image(4, sentences=[{"tokens": []}]), "images[4].sentences[0]: another schema: must be an object"),
    "empty": (sentence(1, 1, raw=" \t"), "images[1].sentences[1]: empty caption"),
    "no-text": (sentence(1, 1, raw=5), "images[1].sentences[1]: the caption must be text, got 5"),
    "surrogate": (sentence(0, 0, raw="a \ud800"), "images[0].sentences[0]: the caption 'a \\ud800' is no Unicode"),
    "surrogate-id": (image(3, cocoid="\ud800"), "images[3]: the id '\\ud800' is no Unicode text"),
    "stray": (sentence(5, 0, imgid=77), "images[5].sentences[0]: caption without image: its imgid is 77"),
    "same-id": (image(1, imgid=0, sentences=[{"raw": "a"}]), "images[1]: two images of one id: id '0' is that of"),
    "same-file": (image(1, filename="picture0.jpg"), "images[1]: two images of one file: filename 'picture0.jpg'"),
    "two-splits": (image(4, filename="picture0.jpg"), "images[4]: the same image in two splits, 'train' and 'test':"),
    "no-val": (image(3, split="test"), "dataset_tiny.json: split 'val' has no images"),
    "two-files": (write("dataset_other.json", "{}"), "one dataset a folder, but here are dataset_other.json, data"),
    "fewer-rows": (save(GLOBAL, np.ones((5, 4), np.float16)), "global.npy: 5 feature rows for 6 images with 12 capt"),
    "nan": (with_bad_values, "features_global.npy: 2 rows hold NaN or infinity: row 1 (picture1.jpg), row 4 (picture4"),
    "object": (save(GLOBAL, np.array([{}] * 6, dtype=object)), "global.npy: an .npy that needs pickle is refused"),
    "pickle": (write(GLOBAL, pickle.dumps([1])), "features_global.npy: cannot be read as an .npy array"),
    "cut-features": (lambda folder: os.truncate(folder / GLOBAL, 150), "global.npy: cannot be read as an .npy array"),
    "float64": (save(GLOBAL, np.ones((6, 4))), "global.npy: features must be float16 or float32, got float64"),
    "vector": (save(GLOBAL, np.ones(6, np.float32)), "features_global.npy: features must have shape (rows, D)"),
    "fortran": (save(GLOBAL, np.asfortranarray(np.ones((6, 4), np.float16))), "global.npy: is stored in Fortran order"),
    "no-rows": (save(GLOBAL, np.ones((0, 4), np.float32)), "features_global.npy: features must have shape (rows, D)"),
    "regions": (save(GLOBAL, np.ones((6, 2, 4), np.float32)), "global features must have shape (rows, D), got (6"),
    "other-digest": (write("features_global.json", '{"images_digest": "ab"}'), "global.npy: features of another data"),
    "other-ids": (write("features_global_ids.txt", "0\n1\npicture2.jpg\n3\nx9\n5\n"), "global_ids.txt: line 5 is 'x9'"),
    "fewer-ids": (write("features_global_ids.txt", "0\n1\n"), "global_ids.txt lists 2 images, the dataset has 6"),
    "broken-sidecar": (write("features_global.json", "{"), "features_global.json: line 1, column 2: broken JSON"),
    "link": (link_out(JSON), "dataset_tiny.json: is a link that leaves the data root"),
    "link-of-features": (link_out(GLOBAL), "features_global.npy: is a link that leaves the data root"),
    "link-of-views": (link_out("augmented_global.npy"), "augmented_global.npy: is a link that leaves the data root"),
    "link-of-image": (link_out("images/picture2.jpg"), "images[2]: "),
    "link-of-folder": (link_folder_out, "tiny/images: is a link that leaves the data root"),
}


def views(array: np.ndarray) -> Change:
    return save("augmented_global.npy", array)


VIEWS = {
    "fortran": (views(np.asfortranarray(np.ones((6, 3, 4), np.float16))), "augmented_global.npy: is stored in Fortran"),
    "rows": (views(np.ones((5, 3, 4), np.float16)), "augmented_global.npy: must have shape (6, 'N', 4) to go with"),
    "dimensions": (views(np.ones((6, 4), np.float16)), "augmented_global.npy: views must have shape (rows, N, D) or"),
    "nan": (views(np.full((6, 3, 4), np.nan, np.float16)), "augmented_global.npy: 6 rows hold NaN or infinity: row 0"),
    "backbone": (sidecars(features="a", augmented="b"), "augmented_global.npy: of another backbone than features_glob"),
    "images": (sidecars(augmented="b"), "augmented_global.npy: features of another dataset: augmented_global.json has"),
    "sidecar": (write("augmented_global.json", "{"), "augmented_global.json: line 1, column 2"),
}
CAPTION_FEATURES = {
    "rows": (save(TEXT, np.ones((6, 3), np.float32)), "6 feature rows for 12 captions"),
    "integers": (save(TEXT, np.ones((12, 3), np.int64)), "must be float16 or float32, got int64"),
    "values": (save(TEXT, np.full((12, 3), np.nan, np.float32)), "12 rows hold NaN or infinity: row 0, row 1"),
    "captions": (write("features_text.json", '{"captions_digest": "0000"}'), "_text.json has captions_digest '0000'"),
    "two tensors": (header('{"a": 1, "b": 2}'), "it holds 2 tensors"),
    "a header of null": (header("null"), "file: its header is no JSON object"),
    "an offset beyond every file": (tensor("[12, 3]", "9" * 30), "cannot be read as a safetensors file"),
    "a shape of texts": (tensor('["12", 3]', "144"), "a shape, or an offset, that is no whole number of at least 0"),
}

VAL = "annotations/captions_val2014.json"


def pictures(change: Callable[[Any], object]) -> Change:
    return edit(VAL, lambda content: change(content["images"]))


def annotations(change: Callable[[Any], object]) -> Change:
    return edit(VAL, lambda content: change(content["annotations"]))


def in_split(change: Callable[[Any], object]) -> Change:
    return edit("dataset_coco.json", lambda content: change(content["images"]))


COCO = {
    "stray-caption": (annotations(lambda c: c[0].update(image_id=999)), "annotation 2000: caption without image"),
    "empty": (annotations(lambda c: c[2].update(caption="")), "[2]: annotation 2020 of image 202: empty caption"),
    "same-id": (pictures(lambda c: c.append({"id": 101, "file_name": "z"})), "image 101: two images of one id"),
    "same-id-here": (pictures(lambda c: c.append({"id": 201, "file_name": "z"})), "201: two images of one id"),
    "id-no-number": (pictures(lambda c: c.append({"id": "x"})), "images[4]: another schema: must be an object"),
    "no-image-id": (annotations(lambda c: c.append({"id": 7})), "annotations[12]: another schema: must be"),
    "leaves": (pictures(lambda c: c[1].update(file_name="../x.jpg")), "images[1]: file name '../x.jpg' leaves"),
    "instances": (edit(VAL, lambda c: c.pop("annotations")), "a COCO captions file has a list 'annotations'"),
    "no-captions": (annotations(lambda c: [one.update(image_id=202) for one in c]), "image without captions"),
}
COCO_SPLIT = {
    "id-no-number": (in_split(lambda listed: listed[3].update(cocoid=[])), "107.jpg' is in no annotation file"),
    "unknown-image": (in_split(lambda listed: listed[3].update(cocoid=55)), "107.jpg' is in no annotation file"),
    "two-splits": (in_split(lambda c: c.append({**c[0], "split": "test"})), "images[12]: the same image in two splits"),
    "bad-split": (in_split(lambda listed: listed[0].update(split="x")), "json: images[0]: 'split' must be one of"),
}

TOKENS, TEST_LIST, FLICKR_LISTS = "Flickr8k.token.txt", "Flickr_8k.testImages.txt", ("train", "dev", "test")
FLICKR = {
    "no-tab": (append(TOKENS, "f.jpg#0 no tab\n"), "token.txt: line 16: must be 'NAME.jpg#NUMBER<tab>caption'"),
    "no-number": (append(TOKENS, "f.jpg\tcaption\n"), "Flickr8k.token.txt: line 16: must be 'NAME.jpg#NUMBER<tab>"),
    "digits": (replaced(TOKENS, "#1", "#" + MANY_DIGITS), "line 1: must be 'NAME.jpg#NUMBER"),
    "empty": (append(TOKENS, "a.jpg#3\t \n"), "Flickr8k.token.txt: line 16: empty caption"),
    "twice": (append(TOKENS, "a.jpg#2\tagain\n"), "Flickr8k.token.txt: line 16: caption 2 of 'a.jpg' is there twice"),
    "leaves": (append(TOKENS, "../a.jpg#0\tcaption\n"), "Flickr8k.token.txt: line 16: file name '../a.jpg' leaves"),
    "no-captions": (append(TEST_LIST, "q.jpg\n"), "testImages.txt: line 2: image without captions"),
    "two-splits": (append(TEST_LIST, "d.jpg\n"), "testImages.txt: line 2: the same image in two splits"),
    "empty-line": (append(TEST_LIST, "\nc.jpg\n"), "testImages.txt: line 2: the file name must be text"),
    "absolute": (append(TEST_LIST, "/c.jpg\n"), "testImages.txt: line 2: file name '/c.jpg' is absolute"),
    "no-list": (remove("Flickr_8k.devImages.txt"), "Flickr8k.token.txt: split 'val' has no images"),
    "two-lists": (append("val.txt", "c.jpg\n"), "val.txt: is of val like Flickr_8k.devImages.txt, and lists others"),
    "no-lists": (remove(*(f"Flickr_8k.{name}Images.txt" for name in FLICKR_LISTS)), "fetch Flickr_8k.trainImages.txt"),
    "two-tokens": (append("results_20130124.token", "x"), "one caption file a folder, but here are Flickr8k.token.txt"),
}
PRECOMPUTED = {
    "empty-line": (append("dev_caps.txt", "\n" * 5), "dev_caps.txt: line 11: empty caption"),
    "incomplete": (append("dev_caps.txt", "more\n"), "dev_caps.txt: line 11: 11 captions, which is no multiple of 5"),
    "irregular": (
        save("dev_ims.npy", np.array([[0]] * 6 + [[1]] * 4, np.float32)),
        "dev_ims.npy: row 0: 6 equal rows, where 4 are the fewest",
    ),
    "another val": (append("val_caps.txt", "of others\n"), "val_caps.txt: is of val like dev_caps.txt, and has other"),
    "another test": (append("testall_caps.txt", "of others\n"), "test_caps.txt: is of test like testall_caps.txt"),
    "no-test": (remove("test_caps.txt"), "train_caps.txt: split 'test' has no images"),
    "no-features": (remove("dev_ims.npy"), "dev_ims.npy: no such file"),
    "rows": (save("dev_ims.npy", np.ones((3, 4), np.float32)), "dev_ims.npy: 3 feature rows for 2 images with 10 capt"),
    "nan": (save("dev_ims.npy", np.array([[1], [np.nan]], np.float32)), "dev_ims.npy: 1 rows hold NaN or infinity"),
}


def another_folder(folder: Path) -> None:
    (folder / "held" / "metadata").mkdir(parents=True)
    folders.write_pairs(folder / "held" / "metadata" / "metadata_0.parquet", [("a", "x")])


CLIP_RETRIEVAL = {
    "apart": (pairs(("a", "x"), ("b", "x"), ("a", "x")), "metadata_0.parquet: row 2: image_path 'a' again: the rows"),
    "another folder": (another_folder, "held: the folder's name is no split"),
    "parts": (write("val/metadata/metadata_1.parquet", ""), "metadata_1.parquet: the embeddings of a split must"),
    "dates": (pairs(("a", LAST_DAY)), "image_path, caption: days=2147483647"),
    "more rows than bytes": (pairs(*[("a", "a")] * 10**6), "image_path, caption: 1,000,000 rows in"),
}
LABELS = {
    "empty": (write("labels.csv", ""), "line 1: must be filename,class,split, got"),
    "columns": (replaced("labels.csv", "filename", "file"), "line 1: must be filename,class,split"),
    "carriage return": (replaced("labels.csv", "a0.jpg,", "a0.jpg,a\rb"), "line 2: broken CSV: new-line"),
    "open quote": (replaced("labels.csv", "a0.jpg", '"'), "broken CSV: unexpected end of data"),
    "large field": (replaced("labels.csv", "class a", "x" * 140_000), "line 2: broken CSV: field"),
    "split": (replaced("labels.csv", "b,train", "b,most"), "line 7: split must be train, val or test, got 'most'"),
    "alone": (replaced("labels.csv", "g0.jpg,class g", "g0.jpg,class h"), "class 'class h' has one image in test"),
    "seen": (replaced("labels.csv", "a4.jpg,class a", "a4.jpg,class g"), "class 'class g' is in test and in train or"),
    "twice": (replaced("labels.csv", "a4.jpg", "a3.jpg"), "line 6: two images of one id: id 'a3.jpg'"),
    "outside": (replaced("labels.csv", "a4.jpg", "../a4.jpg"), "leaves the data root"),
    "no class": (replaced("labels.csv", "a4.jpg,class a", "a4.jpg,"), "line 6: empty caption"),
}
CLIPS_OF_TEST = "test_videodatainfo.json"
MSRVTT = {
    "split": (replaced(CLIPS_OF_TEST, '"split": "test"', '"split": "x"'), "videos[0]: split must be"),
    "split-list": (replaced(CLIPS_OF_TEST, '"split": "test"', '"split": ["test"]'), "or test, got ['test']"),
    "unknown clip": (replaced(CLIPS_OF_TEST, '"f", "cap', '"z", "cap'), "'z' is none of videos"),
    "list as id": (replaced(CLIPS_OF_TEST, '"f", "cap', '["f"], "cap'), "sentences[0]: video_id ['f'] is none of"),
    "twice": (replaced(CLIPS_OF_TEST, '"g", "split', '"a", "split'), "video_id 'a' is that of"),
}
TGIF = {
    "one name": (
        append("tgif-v1.0.tsv", "https://b.example/a.gif\ttwo cats\n"),
        "tgif-v1.0.tsv: line 17: 'https://b.example/a.gif' and 'https://38.media.tumblr.com/1/a.gif' have one name",
    )
}
MSVD = {
    "no tab": (replaced("sents_val_lc_nopunc.txt", "\t", " "), "line 1: must be 'ID<tab>caption'"),
    "no caption": (replaced("val_list.txt", "e\n", "q\n"), "val_list.txt: line 2: image without captions"),
}
TABLES: dict[str, dict[str, tuple[Change, str]]] = {
    "karpathy": KARPATHY,
    "views": VIEWS,
    "text": CAPTION_FEATURES,
    "coco": COCO,
    "coco with splits": COCO | COCO_SPLIT,
    "flickr": FLICKR,
    "precomputed": PRECOMPUTED,
    "clip-retrieval": CLIP_RETRIEVAL,
    "labels": LABELS,
    "msrvtt": MSRVTT,
    "msvd": MSVD,
    "tgif": TGIF,
}
CASES = [
    pytest.param(form, change, message, id=f"{form}: {name}")
    for form, table in TABLES.items()
    for name, (change, message) in table.items()
]
ONLY_LOADED = {("karpathy", "regions"), ("precomputed", "no-features")}
"""Who describes a dataset does not ask for features of a kind."""


@pytest.mark.parametrize(("form", "change", "message"), CASES)
def test_a_mistake_is_named_with_its_place(
    tmp_path: Path, private_cache: Path, form: str, change: Change, message: str
) -> None:
    folder = tmp_path / "data" / "tiny"
    folders.FORMS[form](folder)
    change(folder)
    with pytest.raises(DataError) as caught:
        load_dataset("tiny", folder.parent, **READ.get(form, {}))
    assert any(message in problem and str(folder) in problem for problem in caught.value.problems), caught.value
    assert not list(private_cache.rglob("tiny-*"))
    if not any(change is TABLES[form][name][0] for form, name in ONLY_LOADED):
        assert any(message in problem for problem in describe_dataset("tiny", folder.parent).problems)


def test_every_problem_is_found_and_a_repeated_one_shown_once(karpathy_folder: KarpathyFolder) -> None:
    for entry in karpathy_folder.images:
        for listed in entry["sentences"]:
            listed["raw"] = ""
    karpathy_folder.save()
    with_bad_values(karpathy_folder.folder)
    with pytest.raises(DataError) as caught:
        load_dataset("tiny", karpathy_folder.root)
    # Twelve captions, then what is no number, then three empty splits and features that fit no image any more.
    assert len([p for p in caught.value.problems if "empty caption" in p]) == 12
    lines = str(caught.value).splitlines()
    assert "images[0].sentences[0]: empty caption: " in lines[0] and lines[0].endswith(" (and 11 more like it)")
    consequences = [line.endswith("(perhaps because of the problems above: mend those first)") for line in lines]
    assert consequences == sorted(consequences) and sum(consequences) == 4
    assert "NaN" in lines[consequences.index(True) - 1]


def test_more_than_ten_kinds_of_problems_are_counted() -> None:
    kinds = [f"kind {'x' * kind}: of record {record}" for kind in range(12) for record in range(5)]
    lines = str(DataError(kinds)).splitlines()
    assert lines[0] == "kind : of record 0 (and 4 more like it)"
    assert lines[10:] == ["... and 2 more lines of 60 problems"]


def put_sentences(folder: Path, change: Callable[[int, list[str]], list[str]]) -> None:
    """Give the split file the captions of the annotations, changed."""
    captions: dict[int, list[str]] = {}
    for path in (folder / "annotations").glob("*.json"):
        for annotation in json.loads(path.read_text())["annotations"]:
            captions.setdefault(annotation["image_id"], []).append(annotation["caption"])

    def put(listed: list[dict[str, Any]]) -> None:
        for entry in listed:
            changed = change(entry["cocoid"], captions[entry["cocoid"]])
            entry["sentences"] = [{"raw": caption} for caption in changed]

    in_split(put)(folder)


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
    told = describe_dataset("coco", coco_folder.parent)
    assert (told.problems, told.notes) == ([], [])


def test_images_with_other_captions_in_annotations_and_split_file_are_problems_or_counted(coco_folder: Path) -> None:
    put_sentences(coco_folder, lambda key, captions: [f"of {key + 1} alone"] if key < 105 else captions)
    told = describe_dataset("coco", coco_folder.parent)
    assert len(told.problems) == 5
    assert "dataset_coco.json: images[6]: 'COCO_val2014_000000000104.jpg' has other captions than " in told.problems[0]
    assert "such as 'of 105 alone': these are two images" in told.problems[0]
    put_sentences(coco_folder, lambda key, captions: [*captions[:2], "edited"] if key < 105 else captions)
    told = describe_dataset("coco", coco_folder.parent)
    assert told.problems == []
    (note,) = told.notes
    assert note.startswith("5 images have captions in dataset_coco.json that the annotations do not have")


@pytest.mark.parametrize(("read", "good"), [(read_json, "{}"), (read_lines, "a"), (read_text, "a")])
def test_a_file_that_takes_too_much_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any], good: str
) -> None:
    path = tmp_path / "large.json"
    path.write_text(good)
    os.truncate(path, LARGEST_FILE + 1)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    with pytest.raises(DataError, match=r"large\.json: has 256 MB; a text file has at most 256"):
        read(path)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tyny", {}, r"no dataset 'tyny' in the data root .*There are: tiny\. Perhaps 'tiny' is meant"),
        ("scenes", {}, r"There are: tiny\. Make scenes with `orchestrator data generate scenes .* --out .*/scenes`"),
        ("./tiny", {"root": "nowhere"}, r"no dataset './tiny' in the data root nowhere\. That folder does not exist"),
        ("tiny", {"features": "box"}, r"features_box.npy: no such features; there are: global, regions\."),
        ("tiny", {"text": True}, "no such features; .*data extract tiny --text tfidf-svd"),
        ("plain", {"features": "regions"}, "there are: global.*data extract plain --features regions`"),
        ("tiny", {"vocabulary": "all"}, r"vocabulary must be one of train, published, got 'all'"),
        ("empty", {}, r"empty: holds no dataset of a known format: COCO captions .*; Karpathy JSON;"),
    ],
    ids=["near", "scenes", "path", "features", "text", "regions", "vocabulary", "no-format"],
)
def test_bad_request(karpathy_folder: KarpathyFolder, name: str, options: dict[str, Any], message: str) -> None:
    (karpathy_folder.root / "empty").mkdir()
    if name == "plain":
        shutil.copytree(karpathy_folder.root / "tiny", karpathy_folder.root / name)
        (karpathy_folder.root / name / "features_regions.npy").unlink()
    root = Path(options.pop("root", karpathy_folder.root))
    with pytest.raises(UserError, match=message):
        load_dataset(name, root, **options)


@pytest.mark.parametrize(
    ("name", "shape"), [("features_global.safetensors", (6, 4)), ("augmented_regions.npy", (6, 2, 3, 4))]
)
def test_a_linked_file_is_read_by_the_name_of_the_link(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    values, blob = np.ones(shape, np.float32), tmp_path / "blob"
    if name.endswith(".npy"):
        with blob.open("wb") as file:
            np.save(file, values)
    else:
        save_file({"features": values}, blob)
    (tmp_path / name).symlink_to(blob)
    assert remembered(tmp_path / name, inspect_features)["shape"] == [*shape]


def test_links_inside_the_data_root_are_fine(karpathy_folder: KarpathyFolder, tmp_path: Path) -> None:
    shared = karpathy_folder.root / "features.npy"
    (karpathy_folder.folder / "features_global.npy").rename(shared)
    (karpathy_folder.folder / "features_global.npy").symlink_to(shared)
    # The dataset's folder itself may be anywhere.
    (tmp_path / "data" / "linked").symlink_to(karpathy_folder.folder)
    assert load_dataset("tiny", karpathy_folder.root).digest
    assert load_dataset("linked", karpathy_folder.root).name == "tiny"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((60, 300), "Rename clip.npy (60 rows) to features_global.npy, one row an image, and vectors.npy (300 rows)"),
        ((300, 60), "Rename vectors.npy (60 rows) to features_global.npy, one row an image, and clip.npy (300 rows)"),
    ],
)
def test_two_arrays_of_other_names_are_named_with_their_names_here(
    karpathy_folder: KarpathyFolder, rows: tuple[int, int], said: str
) -> None:
    """Without captions that are read, and beside them."""
    root = karpathy_folder.root
    (root / "bare").mkdir()
    for path in (root / "tiny").glob("features_*"):
        path.unlink()
    for name in ("bare", "tiny"):
        for file, number in zip(("clip", "vectors"), rows, strict=True):
            np.save(root / name / f"{file}.npy", np.zeros((number, 4)))
        with pytest.raises(DataError) as refused:
            find_source(name, root).feature_files("global")
        assert said in str(refused.value) and str(refused.value).endswith("features_text.npy, one row a caption")


def test_the_names_decide_between_arrays_of_as_many_rows(tmp_path: Path) -> None:
    for file in ("txt_emb", "img_emb"):
        np.save(tmp_path / f"{file}.npy", np.zeros((9, 3, 4) if file == "img_emb" else (9, 4), np.float32))
    with pytest.raises(DataError, match=r"Rename img_emb.npy \(9 rows\) to features_regions.npy.*txt_emb.npy"):
        find_source(str(tmp_path), tmp_path.parent)
    np.save(tmp_path / "third.npy", np.zeros((9, 4)))
    with pytest.raises(DataError) as refused:
        find_source(str(tmp_path), tmp_path.parent)
    assert "Rename" not in str(refused.value)
