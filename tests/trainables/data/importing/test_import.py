"""Sources as real tools write them: what is taken as what, splits, features, and refusals with their places."""

import gzip
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from orchestrator.extraction.import_dataset import read_plan, write_dataset, zero_shot_of
from tests.support import own_files
from tests.support.own_files import EACH, NAMES, OUR_SIZES, PICTURES, ROWS, SPLITS, WITH_SPLITS, WITHOUT_SPLITS
from trainables.data.dataset import Dataset, load_dataset
from trainables.data.importing.dataset_plan import DatasetPlan
from trainables.data.importing.material import NamedColumns
from trainables.data.importing.splits import draw_splits, join_groups, parse_rule
from trainables.data.source import find_source
from trainables.errors import ConfigError, DataError

RULE = parse_rule("80/10/10", 0)
NAMED = [*zip(NAMES, SPLITS, strict=True)]


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def planned(sources: list[Path], *features: Path, rule: Any = None, **columns: str) -> DatasetPlan:
    return read_plan(sources, features, NamedColumns(**columns), rule, "draw them")


def imported(tmp_path: Path, sources: list[Path], *features: Path, rule: Any = None, kind: Any = None) -> Dataset:
    plan = planned(sources, *features, rule=rule)
    write_dataset(plan, tmp_path / "data" / "own", [*sources, *features], rule)
    return load_dataset("own", tmp_path / "data", features=kind, text=kind is not None)


def captions_by_name(data: Dataset) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for split in data.splits.values():
        for owner, caption in zip(split.image_of_caption.tolist(), split.captions, strict=True):
            found.setdefault(Path(split.filenames[owner]).name, []).append(caption)
    return found


@pytest.mark.parametrize("name", WITH_SPLITS)
def test_a_source_with_splits_of_its_own(tmp_path: Path, name: str) -> None:
    data = imported(tmp_path, WITH_SPLITS[name](tmp_path / "source"))
    assert {split: len(part.image_ids) for split, part in data.splits.items()} == OUR_SIZES
    captions = captions_by_name(data)
    assert [captions[name] for name in NAMES] == [
        [own_files.caption(number, which) for which in range(EACH)] for number in range(PICTURES)
    ]
    val = [Path(name).name for name in data.splits["val"].filenames]
    assert val == [name for name, split in zip(NAMES, SPLITS, strict=True) if split == "validation"]


@pytest.mark.parametrize("name", WITHOUT_SPLITS)
def test_a_source_without_splits_needs_a_rule_and_says_so(tmp_path: Path, name: str) -> None:
    sources = WITHOUT_SPLITS[name](tmp_path / "source")
    with pytest.raises(DataError, match="names no splits; draw them"):
        planned(sources)
    data = imported(tmp_path, sources, rule=RULE)
    assert {split: len(part.image_ids) for split, part in data.splits.items()} == {"train": 24, "val": 3, "test": 3}
    assert len(captions_by_name(data)) == PICTURES
    # Its pictures are in the dataset.
    assert load_dataset("own", tmp_path / "data", features="pixels").splits["test"].files is not None
    record = json.loads((tmp_path / "data" / "own" / "dataset_own.json").read_text())["imported"]
    assert record["splits"].startswith("drawn, 80/10/10, seed 0, over 30 groups (pictures by their bytes)")
    assert record["seed"] == 0 and record["sources"][0]["name"] == sources[0].name


def test_text_tables_as_programs_write_them(tmp_path: Path) -> None:
    """Pandas' column of row numbers has no name, and its lists of NumPy no commas; a caption may have several lines."""
    rows = [f"{n},{name},\"['a dog {n}' 'a\u2028cat {n}']\",{split}" for n, (name, split) in enumerate(NAMED)]
    (tmp_path / "pandas.csv").write_text("\n".join([",image,captions,split", *rows]) + "\n")
    assert planned([tmp_path / "pandas.csv"]).images[3].captions == ("a dog 3", "a\u2028cat 3")
    rows = [f'{name},"a dog,\n\n""barks""\nat {n}",{split}' for n, (name, split) in enumerate(NAMED)]
    (tmp_path / "lines.csv").write_text("\n".join(["image,caption,split", *rows]) + "\n")
    assert planned([tmp_path / "lines.csv"]).images[3].captions == ('a dog,\n\n"barks"\nat 3',)
    lines = [json.dumps({"image": n, "caption": "a\u2028dog", "split": s}, ensure_ascii=False) for n, s in NAMED]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines) + "\n")
    assert planned([tmp_path / "lines.jsonl"]).images[3].captions == ("a\u2028dog",)


def test_shards_with_suffixes_in_capitals(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        for number in range(10):
            for suffix, content in (("JPG", own_files.picture_bytes(number)), ("txt", b"a dog")):
                (tmp_path / "part").write_bytes(content)
                archive.add(tmp_path / "part", f"../{number}.{suffix}")
    data = imported(tmp_path, [tmp_path / "all.tar"], rule=RULE, kind=None)
    (first,) = (tmp_path / "data" / "own" / "images").glob("0.jpg")
    assert first.read_bytes() == own_files.picture_bytes(0)
    assert sum(len(split.image_ids) for split in data.splits.values()) == 10


def test_drawn_splits_take_the_place_of_those_that_contradict_each_other(tmp_path: Path) -> None:
    lines = [f"{name},a dog {part},{part}" for name in NAMES for part in ("train", "test")]
    (tmp_path / "t.csv").write_text("\n".join(["image,caption,split", *lines]) + "\n")
    assert "in place of the column split" in planned([tmp_path / "t.csv"], rule=RULE).splits


def test_coco_with_its_files_of_boxes(tmp_path: Path) -> None:
    (source,) = own_files.coco(tmp_path / "source")
    boxes = {"images": [{"id": 0, "file_name": NAMES[0]}], "annotations": [{"id": 0, "image_id": 0, "bbox": [0]}]}
    (source / "annotations" / "instances_all.json").write_text(json.dumps(boxes))
    plan = planned([source], rule=RULE)
    assert len(plan.images) == PICTURES
    assert any(taken.what == "instances_all.json" and "left out" in taken.meaning for taken in plan.taken)


def test_a_picture_of_the_user_is_never_written_to(tmp_path: Path) -> None:
    """Names outside the dataset become names in it, and the pictures there are links to those of the user."""
    source = own_files.write_pictures(tmp_path / "source")
    names = [f"{'../' * number}{NAMES[0]}" for number in range(4)] + NAMES[1:]
    plan = planned([*table("image,caption\n" + "".join(f"{name},a dog\n" for name in names))(tmp_path)], rule=RULE)
    pictures = [source / Path(name).name for name in names]
    write_dataset(DatasetPlan(plan.images, pictures, {}, plan.splits, plan.taken), tmp_path / "data" / "own", [], RULE)
    assert len({image.filename for image in plan.images}) == len(names)
    assert (source / NAMES[0]).read_bytes() == own_files.picture_bytes(0)


def test_what_describing_prepared_is_found_again(tmp_path: Path) -> None:
    imported(tmp_path, own_files.json_lines(tmp_path / "source"))
    prepared = [path.name for path in (tmp_path / "cache").rglob("*-v*") if path.is_dir()]
    assert prepared and all(name.startswith("own-") for name in prepared)
    assert len(prepared) == 1


def test_what_another_import_wrote_meanwhile_stays(tmp_path: Path) -> None:
    sources = own_files.json_lines(tmp_path / "source")
    write_dataset(planned(sources), tmp_path / "own", sources, None)
    (tmp_path / "own" / "mine").write_text("of the user")
    with pytest.raises(DataError, match="own: cannot be written: Directory not empty"):
        write_dataset(planned(sources), tmp_path / "own", sources, None)
    assert (tmp_path / "own" / "mine").exists() and not list(tmp_path.glob(".own*"))


def test_the_splits_are_in_the_digest(tmp_path: Path) -> None:
    digests = set()
    for seed in (0, 1):
        sources = own_files.kaggle8k(tmp_path / f"source{seed}")
        digests.add(imported(tmp_path / str(seed), sources, rule=parse_rule("80/10/10", seed)).digest)
    assert len(digests) == 2


def test_copies_of_a_picture_are_in_one_split(tmp_path: Path) -> None:
    (source,) = own_files.kaggle8k(tmp_path / "source")
    for number in range(1, 10):
        (source / "Images" / NAMES[number]).write_bytes((source / "Images" / NAMES[0]).read_bytes())
    plan = planned([source], rule=RULE)
    assert len({image.split for image in plan.images[:10]}) == 1
    assert "over 21 groups" in plan.splits


def test_groups_that_a_column_names_are_in_one_split(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    lines = [f"{name},{text},scene {number // 8}" for number, (name, text) in enumerate(map(_quoted, ROWS))]
    table.write_text("\n".join(["image,caption,scene", *lines]) + "\n")
    plan = planned([table], rule=RULE, group="scene")
    by_scene: dict[int, set[str]] = {}
    for number, image in enumerate(plan.images):
        by_scene.setdefault(number * EACH // 8, set()).add(image.split)
    assert all(len(splits) == 1 for splits in by_scene.values())


def _quoted(row: tuple[str, str]) -> tuple[str, str]:
    return row[0], f'"{row[1]}"'


def test_splits_do_not_depend_on_the_order_of_the_pictures() -> None:
    names = [f"{n}.jpg" for n in range(50)]
    first = dict(zip(names, draw_splits(range(50), names, RULE), strict=True))
    second = dict(zip(names[::-1], draw_splits(range(50), names[::-1], RULE), strict=True))
    assert first == second
    assert join_groups([["a"], ["b"], ["c", "b"], ["a", "c"]]) == [0, 0, 0, 0]


def save_npz(folder: Path, images: np.ndarray, captions: np.ndarray) -> list[Path]:
    np.savez(folder / "clip.npz", image_features=images, text_features=captions, image_ids=NAMES)
    return [folder / "clip.npz"]


def save_two(folder: Path, images: np.ndarray, captions: np.ndarray) -> list[Path]:
    np.save(folder / "clip_images.npy", images.astype(np.float64))
    np.save(folder / "clip_texts.npy", captions)
    return [folder / "clip_images.npy", folder / "clip_texts.npy"]


def save_unnamed(folder: Path, images: np.ndarray, captions: np.ndarray) -> list[Path]:
    np.save(folder / "a.npy", images)
    np.save(folder / "b.npy", captions)
    return [folder / "a.npy", folder / "b.npy"]


def save_pt(folder: Path, images: np.ndarray, captions: np.ndarray) -> list[Path]:
    content = {
        "image_features": torch.from_numpy(images).half(),
        "text_features": torch.from_numpy(captions).bfloat16(),
    }
    torch.save(content, folder / "clip.pt")
    return [folder / "clip.pt"]


def save_by_name(folder: Path, images: np.ndarray, captions: np.ndarray) -> list[Path]:
    order = np.random.default_rng(0).permutation(PICTURES)
    torch.save({NAMES[n]: torch.from_numpy(images[n]) for n in order}, folder / "img.pt")
    np.save(folder / "texts.npy", captions)
    return [folder / "img.pt", folder / "texts.npy"]


def save_safetensors(folder: Path, images: np.ndarray, captions: np.ndarray) -> list[Path]:
    from safetensors.numpy import save_file

    save_file({"image_embeds": images, "text_embeds": captions}, folder / "clip.safetensors")
    return [folder / "clip.safetensors"]


def save_h5(folder: Path, images: np.ndarray, captions: np.ndarray) -> list[Path]:
    import h5py

    with h5py.File(folder / "clip.h5", "w") as file:
        file["visual/features"] = images[::-1]
        file["text/features"] = captions
        file["image_ids"] = [name.encode() for name in NAMES[::-1]]
    return [folder / "clip.h5"]


SAVERS: list[Callable[[Path, np.ndarray, np.ndarray], list[Path]]] = [
    save_npz,
    save_two,
    save_unnamed,
    save_pt,
    save_by_name,
    save_safetensors,
    save_h5,
]


@pytest.mark.parametrize("save", SAVERS)
def test_features_come_into_the_order_of_the_dataset(tmp_path: Path, save: Any) -> None:
    images, captions = own_files.features()
    # The captions of the source are not beside each other: first all first captions, then all second ones.
    order = [number * EACH + which for which in range(EACH) for number in range(PICTURES)]
    lines = [f'{ROWS[row][0]},"{ROWS[row][1]}",{SPLITS[row // EACH]}' for row in order]
    (tmp_path / "table.csv").write_text("\n".join(["image,caption,split", *lines]) + "\n")
    files = save(tmp_path, images, captions[order])
    plan = planned([tmp_path / "table.csv"], *files)
    shot = zero_shot_of(plan)
    assert shot["zero_shot"] == 600 and shot["chance"] < 450
    data = imported(tmp_path, [tmp_path / "table.csv"], *files, kind="global")
    for split in data.splits.values():
        for index, name in enumerate(split.filenames):
            assert np.allclose(split.features[split.image_rows[index]], images[NAMES.index(name)], atol=0.02)
        assert split.caption_features is not None and split.caption_rows is not None
        for index, text in enumerate(split.captions):
            wanted = captions[[caption for _, caption in ROWS].index(text)]
            assert np.allclose(split.caption_features[split.caption_rows[index]], wanted, atol=0.02)


def test_rows_in_another_order_show_before_anything_is_written(tmp_path: Path) -> None:
    images, captions = own_files.features()
    # Its first rows are those of the files that come first: val, then test, then train.
    files = save_two(tmp_path, images[::-1], captions)
    shot = zero_shot_of(planned(own_files.json_lines(tmp_path / "source"), *files))
    assert shot["zero_shot"] < 1.5 * shot["chance"]


def test_rows_are_not_of_a_picture_whose_name_ends_alike(tmp_path: Path) -> None:
    names = [f"{'ab'[number % 2]}/{number // 2}" for number in range(PICTURES)]
    np.savez(tmp_path / "clip.npz", image_features=own_files.features()[0], image_ids=names)
    text = "".join(f"{name}.jpg,a dog,{split}\n" for name, split in zip(names, SPLITS, strict=True))
    with pytest.raises(DataError, match="has no row of the picture 'a/0.jpg'"):
        planned(table(f"image,caption,split\n{text}")(tmp_path), tmp_path / "clip.npz")


def table(text: str) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (folder / "t.csv").write_text(text)
        return [folder / "t.csv"]

    return write


def with_features(rows: np.ndarray, name: str = "image.npy") -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        np.save(folder / name, rows)
        return [*own_files.json_lines(folder / "source"), folder / name]

    return write


def damaged_shard(folder: Path) -> list[Path]:
    own_files.shards(folder / "source")
    own_files.damage_shard(folder / "source" / "train-000000.tar")
    return [folder / "source"]


def compressed_shard(folder: Path) -> list[Path]:
    """Pictures would be read from the places that they have in the unpacked file."""
    own_files.shards(folder / "source")
    shard = folder / "source" / "train-000000.tar"
    shard.write_bytes(gzip.compress(shard.read_bytes()))
    return [folder / "source"]


def two_folders(text: str, *names: str) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        for number, name in enumerate(names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(own_files.picture_bytes(number))
        (folder / "t.csv").write_text(text)
        return [folder / "t.csv", *dict.fromkeys((folder / name).parent for name in names)]

    return write


def empty_text(folder: Path) -> list[Path]:
    own_files.texts_beside(folder / "source")
    (folder / "source" / "photo003.txt").write_text("\n")
    return [folder / "source"]


def without_a_picture(folder: Path) -> list[Path]:
    (source,) = own_files.kaggle8k(folder / "source")
    (source / "Images" / NAMES[3]).unlink()
    return [source]


def saved(name: str, content: Any) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (folder / name).write_bytes(content)
        return [folder / name]

    return write


BAD: dict[str, tuple[Callable[[Path], list[Path]], str]] = {
    "missing": (lambda folder: [folder / "nothing.csv"], "nothing.csv: no such file or folder"),
    "empty": (table(""), "t.csv: is empty"),
    "no table": (table("a\nb\n"), "t.csv: line 1: no table: no separator"),
    "a comma in a caption": (table("image,caption\na.jpg,a dog, a cat\n" + "c.jpg,x y\n" * 30), "3 columns"),
    "no captions": (table("image,height\na.jpg,3\n"), "which holds the caption? Name it with --caption"),
    "empty caption": (table("image,caption,split\na.jpg,,train\n"), "t.csv: line 2: empty caption"),
    "unknown split": (table("image,caption,split\na.jpg,a dog,most\n"), "line 2: the split 'most' is none of train"),
    "two splits": (table("image,caption,split\na.jpg,x y,train\na.jpg,y z,test\n"), "'a.jpg' is of 'test' here and"),
    "no test": (table("image,caption,split\na.jpg,x y,train\nb.jpg,y z,val\n"), "of train, val and none of test"),
    "not UTF-8": (saved("t.csv", b"image,caption\na.jpg,\xff\xff\n"), "t.csv: line 2: not UTF-8 text"),
    "broken JSON": (saved("t.json", b'[{"image": "a.jpg",'), "t.json: line 1, column"),
    "no records": (saved("t.json", b"[3]"), "t.json: [0]: must be an object, with a value for each column, got 3"),
    "broken parquet": (saved("t.parquet", b"PAR1 no"), "t.parquet: cannot be read as a table"),
    "broken shard": (damaged_shard, "train-000000.tar: cannot be read as a shard of webdataset"),
    "no picture": (without_a_picture, "captions.txt: line 8: no picture 'photo003.jpg' in the sources"),
    "two pictures of a name": (
        two_folders("image,caption\n1.jpg,x y\n", "a/1.jpg", "b/1.jpg"),
        "b/1.jpg: name pictures",
    ),
    "one picture of two names": (
        two_folders("image,caption\na/1.jpg,x y\nb/1.jpg,y z\n", "a/1.jpg"),
        "'b/1.jpg' and 'a/1.jpg' would both be",
    ),
    "no caption": (
        saved("t.json", b'[{"image": "a.jpg", "captions": []}]'),
        "captions must have a caption, got an empty",
    ),
    "no text": (empty_text, "photo003.txt: empty caption"),
    "a name of no Unicode": (
        saved("t.json", b'[{"image": "a\\ud800.jpg", "caption": "x y"}]'),
        "the picture's name 'a\\ud800.jpg' is no Unicode text",
    ),
    "a long number": (saved("t.json", b"[" + b"9" * 5000 + b"]"), "t.json: broken JSON: "),
    "a long number in a line": (saved("t.jsonl", b"9" * 5000), "t.jsonl: line 1: broken JSON: "),
    "compressed shard": (compressed_shard, "; a compressed one must be unpacked"),
    "nothing": (saved("notes.md", b"hello"), "notes.md: is nothing that is known"),
    "rows": (with_features(np.ones((7, 3), np.float32)), "image.npy: 7 rows, where the sources name 30"),
    "rows of no side": (
        with_features(np.ones((7, 3), np.float32), "a.npy"),
        "a.npy: 7 rows, where the sources name 30",
    ),
    "NaN": (with_features(np.full((30, 3), np.nan, np.float32)), "image.npy: row 0 holds NaN or infinity, of 30 such"),
    "whole numbers": (with_features(np.ones((30, 3), np.int64)), "holds no matrix of float numbers"),
    "pickle": (with_features(np.array([{}], dtype=object)), "cannot be read without running code of the file"),
}


@pytest.mark.parametrize(("write", "message"), BAD.values(), ids=BAD)
def test_a_bad_source_is_named_with_its_place(tmp_path: Path, write: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        planned(write(tmp_path))
    assert any(message in problem for problem in caught.value.problems), caught.value.problems


def test_a_folder_that_can_be_imported_says_what_it_is_and_how(tmp_path: Path) -> None:
    own_files.kaggle8k(tmp_path / "own")
    with pytest.raises(DataError, match="captions.txt is a table with the columns image, caption and names no splits"):
        find_source("own", tmp_path)
    with pytest.raises(DataError, match=r"`orchestrator data import \S+own --out NEW` makes a dataset of it"):
        find_source("own", tmp_path)


def test_columns_that_a_person_names_and_shares_that_are_none() -> None:
    for wrong in ("80/20", "80/10/0", "a/b/c", ""):
        with pytest.raises(ConfigError, match="must be three shares above 0"):
            parse_rule(wrong, 0)


def test_nothing_is_left_of_a_dataset_with_problems(tmp_path: Path) -> None:
    plan = planned(own_files.json_lines(tmp_path / "source"))
    broken = [plan.images[0]._replace(captions=("",)), *plan.images[1:]]
    with pytest.raises(DataError, match="own/dataset_own.json: .*empty caption"):
        write_dataset(
            DatasetPlan(broken, plan.pictures, {}, plan.splits, plan.taken), tmp_path / "data" / "own", [], None
        )
    assert list((tmp_path / "data").iterdir()) == []
