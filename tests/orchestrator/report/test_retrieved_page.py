"""The page of ``retrieve --html``: pictures where they are at hand, captions beside them, and text that stays text."""

from pathlib import Path

import pytest

from orchestrator.report.retrieved_page import AnswersPage, find_pictures, found_answers, write_answers
from tests.trainables.scenes_folder import write_scenes
from trainables.serving.retriever import Match

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenes(tmp_path_factory.mktemp("data"), images=10)


def test_pictures_are_those_of_the_dataset(root: Path) -> None:
    picture, missing = find_pictures("scenes", root)
    assert missing == ""
    assert picture("scene_000001.jpg").startswith("data:image/jpeg;base64,")
    # What a packed model names a file cannot lead out of the data root.
    (root.parent / "secret.jpg").write_bytes((next(root.rglob("scene_000001.jpg"))).read_bytes())
    assert picture("../../secret.jpg") == picture("no such file.jpg") == ""


def test_a_dataset_that_is_not_at_hand_is_said_to_be_missing(tmp_path: Path) -> None:
    picture, missing = find_pictures("scenes", tmp_path)
    assert picture("scene_000001.jpg") == ""
    assert missing.startswith("The page has no pictures: ")


def test_the_page_has_every_answer_with_picture_captions_and_score(root: Path, tmp_path: Path) -> None:
    picture, _ = find_pictures("scenes", root)
    answers = [Match("1", "scene_000001.jpg", "", 0.51234), Match("2", "", "", 0.25)]
    found = found_answers(answers, {"1": ["a red box", f"{EVIL}\x1b[2J"], "2": ["a dog"]}, picture)
    assert [(one.name, one.score) for one in found] == [("1 · scene_000001.jpg", "0.512"), ("2", "0.250")]
    assert [bool(one.image) for one in found] == [True, False]
    path = tmp_path / "answers.html"
    write_answers(AnswersPage("icr-scenes version 1", EVIL, "", ["a note"], found), path)
    text = path.read_text(encoding="utf-8")
    assert text.count("data:image/jpeg;base64,") == 1
    assert "<script" not in text and "\x1b" not in text
    for said in ("a red box", "0.512", "a note", "icr-scenes version 1", "&lt;script&gt;alert(1)&lt;/script&gt;"):
        assert said in text


def test_every_caption_runs_in_the_direction_of_its_letters(root: Path, tmp_path: Path) -> None:
    picture, _ = find_pictures("scenes", root)
    found = found_answers([Match("1", "", "", 0.5)], {"1": ["كلبان يركضان على العشب"]}, picture)
    path = tmp_path / "answers.html"
    write_answers(AnswersPage("icr-scenes version 1", "كلب", "", [], found), path)
    text = path.read_text(encoding="utf-8")
    assert '<h1 dir="auto">كلب</h1>' in text
    assert '<p class="item-text" dir="auto">كلبان يركضان على العشب</p>' in text


def test_of_captions_the_caption_itself_is_shown(root: Path) -> None:
    picture, _ = find_pictures("scenes", root)
    (found,) = found_answers([Match("1", "scene_000001.jpg", "a red box", 0.5)], {}, picture)
    assert found.captions == ["a red box"]
