import hashlib
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run_command as main
from trainables.data.scenes import generate, grammar
from trainables.data.scenes.descriptor import describe_picture
from trainables.data.scenes.generate import generate_scenes, split_of
from trainables.data.scenes.grammar import NOUNS, RELATION_PHRASES, write_captions
from trainables.data.scenes.render import render_pixels
from trainables.data.scenes.scene import draw_scene, relation
from trainables.dataset_description import describe_dataset
from trainables.errors import ConfigError, DataError

SCENES = [draw_scene(0, index) for index in range(400)]


def digest_of(folder: Path) -> str:
    """Hash the names and bytes of all files of a folder."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return whole.hexdigest()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("root") / "scenes"
    with pytest.MonkeyPatch.context() as patched:
        # On one core the pictures are rendered in this process.
        patched.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
        assert generate_scenes(target, images=300, seed=3)
    return target


def test_pixels_and_captions_are_the_same_on_every_machine() -> None:
    pixels, captions = hashlib.sha256(), hashlib.sha256()
    for index, scene in enumerate(SCENES):
        captions.update("\n".join(write_captions(scene, 0, index)).encode())
        if index < 24:
            pixels.update(render_pixels(scene, 0, index).tobytes())
    assert pixels.hexdigest()[:16] == "d874a817c53672e7"
    assert captions.hexdigest()[:16] == "276e72cc343c1bcf"
    assert hashlib.sha256(repr(SCENES).encode()).hexdigest()[:16] == "2a99409896ed04b0"


def test_folder_is_the_same_on_every_machine(tmp_path: Path) -> None:
    """JPEG files and features too, which depend on the locked Pillow's encoder and decoder."""
    generate_scenes(tmp_path / "scenes", images=20, seed=0)
    assert digest_of(tmp_path / "scenes")[:16] == "d2286850abdeb8bb"


@pytest.mark.proof
def test_work_on_all_cores_changes_nothing(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    generate_scenes(tmp_path / "scenes", images=300, seed=3)
    assert digest_of(tmp_path / "scenes") == digest_of(made)


def test_goes_through_the_coco_loader_without_a_problem(made: Path) -> None:
    told = describe_dataset("scenes", made.parent, decode_images=True)
    assert told.format.startswith("COCO captions")
    # Two scenes of 150 may look alike: the ceiling of their captions is a note.
    assert told.problems == []
    assert all("captions are those of several images" in note for note in told.notes), told.notes
    assert [split["images"] for split in told.splits.values()] == [240, 30, 30]
    assert all(split["captions_per_image"] == (5, 5) for split in told.splits.values())
    assert all(split["image_files"] == split["images"] for split in told.splits.values())


def test_boxes_are_those_of_the_regions(made: Path) -> None:
    """What lies outside a box does not change the values of its region; what lies inside changes them."""
    boxes = np.load(made / "boxes.npy")
    assert boxes.shape == (300, 16, 4) and (boxes == boxes[0]).all()
    assert describe_dataset("scenes", made.parent).inputs["boxes"]["shape"] == [300, 16, 4]
    pixels = render_pixels(SCENES[0], 0, 0)
    height, width = pixels.shape[:2]
    plain = describe_picture(pixels)[1]
    for region in (0, 3, 5, 12, 15):
        x1, y1, x2, y2 = (boxes[0, region] * [width, height, width, height]).round().astype(int)
        inside = np.zeros((height, width), bool)
        inside[y1:y2, x1:x2] = True
        # A gradient looks one pixel further.
        near = np.zeros_like(inside)
        near[max(0, y1 - 1) : y2 + 1, max(0, x1 - 1) : x2 + 1] = True
        for kept, is_equal in ((near, True), (~inside, False)):
            changed = describe_picture(np.where(kept[..., None], pixels, 255 - pixels))[1]
            assert (changed[region] == plain[region]).all() == is_equal


@pytest.mark.parametrize("graph", ["published", "paper"])
def test_gsmn_trains_on_scenes(graph: str, tmp_path: Path) -> None:
    generate_scenes(tmp_path / "scenes", images=20)
    training = {"epochs": 2, "batch_size": 8, "embedding_size": 16, "word_size": 8, "learning_rate": 0.003}
    settings = {"dataset": "scenes", "model": "gsmn", "loss": "triplet_sh", "model_parameters.graph": graph}
    settings |= {f"training.{key}": value for key, value in training.items()}
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    assert main(["train", *options, "--data-root", str(tmp_path), "--output", str(tmp_path / "runs")]) == 0


def test_scenes_of_an_earlier_version_get_their_boxes(tmp_path: Path) -> None:
    generate_scenes(tmp_path / "scenes", images=10)
    before = digest_of(tmp_path / "scenes")
    (tmp_path / "scenes" / "boxes.npy").unlink()
    assert not generate_scenes(tmp_path / "scenes", images=10)
    assert digest_of(tmp_path / "scenes") == before


@pytest.mark.parametrize("images", [10, 11, 19, 300, 2000])
def test_every_image_has_its_split(images: int) -> None:
    counts = Counter(split_of(index, images) for index in range(images))
    assert counts == {"train": images - 2 * (images // 10), "val": images // 10, "test": images // 10}


def test_again_is_nothing_to_do(made: Path) -> None:
    before = digest_of(made)
    assert not generate_scenes(made, images=300, seed=3)
    assert digest_of(made) == before


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"images": 301, "seed": 3}, DataError, "holds scenes made with .*'images': 300, 'seed': 3.*remove it"),
        ({"images": 300, "seed": 4}, DataError, "is there already"),
        ({"images": 9}, ConfigError, "images must be from 10 to 1000000, got 9"),
        ({"seed": -1}, ConfigError, "seed must be a whole number of at least 0, got -1"),
    ],
    ids=["more", "other-seed", "too-few", "seed"],
)
def test_refused(made: Path, arguments: dict[str, int], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        generate_scenes(made, **arguments)


def test_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "scenes").mkdir()
    (tmp_path / "scenes" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="is there already and holds something else"):
        generate_scenes(tmp_path / "scenes", images=10)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match=r"file/scenes: cannot be written: .*--out"):
        generate_scenes(tmp_path / "file" / "scenes", images=10)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["file", "thesis.txt"]


def test_lost_pictures_are_noticed(tmp_path: Path) -> None:
    generate_scenes(tmp_path / "scenes", images=10)
    (tmp_path / "scenes" / "images" / "scene_000004.jpg").unlink()
    with pytest.raises(DataError, match="some of the 10 pictures are gone"):
        generate_scenes(tmp_path / "scenes", images=10)


def test_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(generate, "_karpathy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        generate_scenes(tmp_path / "scenes", images=10)
    assert list(tmp_path.iterdir()) == []


def mentions(text: str, words: dict[str, tuple[str, ...]], value: str) -> bool:
    return any(word in text for word in words[value])


def test_the_first_caption_is_true_and_leaves_nothing_out() -> None:
    opposite = {"left": "right", "right": "left", "above": "below", "below": "above", "front": "behind"}
    opposite |= {"behind": "front"}
    for index, scene in enumerate(SCENES):
        caption = write_captions(scene, 0, index)[0].lower()
        spoken = [thing for thing in scene.things if mentions(caption, dict(NOUNS), thing.shape)]
        assert len(spoken) >= min(2, len(scene.things))
        if len(scene.things) != 2:
            continue
        for thing in scene.things:
            assert mentions(caption, dict(grammar.COLOUR_WORDS), thing.colour)
            assert mentions(caption, dict(grammar.SIZE_WORDS), thing.size)
        # Whichever thing is named first stands to the other as the caption says.
        how = {name for name, phrases in RELATION_PHRASES.items() if any(f" is {p} a" in caption for p in phrases)}
        first = relation(scene, 0, 1)
        assert how & {first, opposite[first]}
        position = [min(caption.find(n) for n in NOUNS[thing.shape] if n in caption) for thing in scene.things]
        named_first = 0 if position[0] < position[1] else 1
        assert relation(scene, named_first, 1 - named_first) in how
