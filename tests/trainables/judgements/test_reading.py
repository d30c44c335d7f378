"""Judgements beside a dataset: which pairs fit, what is asked for and retrieved in, and what is refused."""

from pathlib import Path

import pytest

from tests.trainables.judgements.folders import CROWD, EXPERTS, write_coco, write_flickr
from trainables.data.dataset import load_dataset
from trainables.dataset_description import Description, describe_dataset
from trainables.errors import DataError
from trainables.judgements import JudgedQueries, Judgements
from trainables.judgements.files import load_judgements

pytestmark = pytest.mark.usefixtures("own_folders")

MANY_DIGITS = "9" * 5000


def loaded(root: Path) -> dict[str, list[Judgements]]:
    data = load_dataset("small", root, features=None)
    return load_judgements("small", root, data.splits)


def described(root: Path) -> Description:
    return describe_dataset("small", root)


def pairs(direction: JudgedQueries, which: str) -> set[tuple[int, int]]:
    """Return pairs as indices in the split."""
    rows, columns = getattr(direction, which)
    return set(zip(direction.queries[rows].tolist(), direction.gallery[columns].tolist(), strict=True))


def test_flickr8k_pairs_fit_by_the_experts_median_else_by_the_crowds_majority(tmp_path: Path) -> None:
    write_flickr(tmp_path)
    judgements = loaded(tmp_path)
    assert set(judgements) == {"test"}
    (judged,) = judgements["test"]
    # Image a to d are 0 to 3, their judged captions 1, 3, 5, 7.
    own = {(0, 1), (1, 3), (2, 5), (3, 7)}
    fitting = {(0, 3), (2, 1)}
    assert judged.i2t.queries.tolist() == [0, 1, 2, 3]
    assert judged.i2t.gallery.tolist() == judged.t2i.queries.tolist() == [1, 3, 5, 7]
    assert judged.t2i.owners.tolist() == [0, 1, 2, 3]
    assert pairs(judged.i2t, "annotated") == own
    assert pairs(judged.i2t, "positives") == own | fitting
    assert pairs(judged.t2i, "positives") == {(caption, image) for image, caption in own | fitting}
    assert pairs(judged.i2t, "judged") == own | fitting | {(0, 5), (1, 1), (3, 1), (3, 3)}
    assert (judged.refused, judged.outside) == (1, 1)
    counts = judged.counts()
    assert (counts["judged_pairs"], counts["judged_share"], counts["positives_per_image"]) == (10, 0.625, 1.5)


def test_without_files_nothing_is_judged_and_nothing_is_said(tmp_path: Path) -> None:
    folder = write_flickr(tmp_path)
    for file in (folder / "judgements").iterdir():
        file.unlink()
    assert loaded(tmp_path) == {}
    told = described(tmp_path)
    assert (told.judgements, told.notes, told.problems) == ({}, [], [])


@pytest.mark.parametrize(
    ("experts", "crowd", "line"),
    [
        (["a.jpg\tb.jpg#1\t3\t5\t1"], CROWD, "ExpertAnnotations.txt: line 1"),
        ([EXPERTS[0], "a.jpg\tb.jpg\t3\t3\t3"], CROWD, "ExpertAnnotations.txt: line 2"),
        (EXPERTS, ["a.jpg\tb.jpg#1\t1\t3"], "CrowdFlowerAnnotations.txt: line 1"),
        (EXPERTS, ["a.jpg\tb.jpg#1\t1\t3\t-1"], "CrowdFlowerAnnotations.txt: line 1"),
        ([f"a.jpg\tb.jpg#{MANY_DIGITS}\t3"], CROWD, "ExpertAnnotations.txt: line 1"),
        (EXPERTS, [f"a.jpg\tb.jpg#1\t1\t{MANY_DIGITS}\t1"], "CrowdFlowerAnnotations.txt: line 1"),
    ],
)
def test_a_damaged_line_is_named_and_described(tmp_path: Path, experts: list[str], crowd: list[str], line: str) -> None:
    write_flickr(tmp_path, experts=experts, crowd=crowd)
    with pytest.raises(DataError, match=line):
        loaded(tmp_path)
    assert any(line in problem for problem in described(tmp_path).problems)


def test_judgements_of_other_pictures_are_noted_and_count_nothing(tmp_path: Path) -> None:
    write_flickr(tmp_path, experts=["x.jpg\ty.jpg#2\t4\t4\t4"], crowd=[])
    assert loaded(tmp_path) == {}
    assert any("no judged pair" in note for note in described(tmp_path).notes)


def test_coco_judgements_are_matched_by_ids_and_retrieve_in_the_whole_split(tmp_path: Path) -> None:
    # Images 2 to 5 are the test split; their captions are 20, 21, 30, 31 ...
    write_coco(tmp_path, {"2": [20, 21, 31], "4": [40, 99]}, {"31": [3, 2], "20": [2], "77": [2]})
    (judged,) = loaded(tmp_path)["test"]
    assert judged.name == "eccv"
    assert judged.i2t.queries.tolist() == [0, 2]
    assert judged.i2t.gallery.tolist() == list(range(8))
    assert pairs(judged.i2t, "positives") == {(0, 0), (0, 1), (0, 3), (2, 4)}
    assert pairs(judged.i2t, "annotated") == {(0, 0), (0, 1), (2, 4), (2, 5)}
    assert judged.t2i.queries.tolist() == [0, 3]
    assert judged.t2i.owners.tolist() == [0, 1]
    assert pairs(judged.t2i, "positives") == {(0, 0), (3, 1), (3, 0)}
    assert judged.i2t.judged is None
    assert judged.outside == 2


def test_half_of_a_pair_of_files_is_refused_with_the_name_of_the_other(tmp_path: Path) -> None:
    folder = write_coco(tmp_path, {"2": [20]}, {"20": [2]})
    (folder / "eccv_caption_to_image.json").unlink()
    with pytest.raises(DataError, match="needs eccv_caption_to_image.json beside it"):
        loaded(tmp_path)


def test_captions_without_ids_cannot_be_matched(tmp_path: Path) -> None:
    folder = write_flickr(tmp_path)
    for name in ("eccv_image_to_caption.json", "eccv_caption_to_image.json"):
        (folder / name).write_text('{"2": [2]}')
    with pytest.raises(DataError, match="the captions of the dataset beside it have none"):
        loaded(tmp_path)


def test_a_link_out_of_the_data_root_is_refused(tmp_path: Path) -> None:
    folder = write_flickr(tmp_path / "root")
    file = folder / "judgements" / "ExpertAnnotations.txt"
    outside = tmp_path / "elsewhere.txt"
    file.rename(outside)
    file.symlink_to(outside)
    with pytest.raises(DataError, match="leaves the data root"):
        loaded(tmp_path / "root")


def test_judgements_have_one_digest_wherever_they_lie_and_another_where_they_differ(tmp_path: Path) -> None:
    folder = write_flickr(tmp_path)
    (before,) = loaded(tmp_path)["test"]
    for file in (folder / "judgements").iterdir():
        file.rename(folder / file.name)
    (moved,) = loaded(tmp_path)["test"]
    assert moved.digest == before.digest
    (folder / "ExpertAnnotations.txt").write_text(EXPERTS[0] + "\n")
    (changed,) = loaded(tmp_path)["test"]
    assert changed.digest != before.digest
