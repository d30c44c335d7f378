import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import CommandLine
from tests.support.own_files import PICTURES, write_pictures

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def scenes(tmp_path: Path, cli: CommandLine) -> Path:
    cli.shows("data", "generate", "scenes", "--images", 40)
    return tmp_path / "data" / "scenes"


def test_generate(tmp_path: Path, cli: CommandLine) -> None:
    out = str(tmp_path / "here")
    arguments = ("data", "generate", "scenes", "--images", 12, "--seed", 5, "--out", out)
    assert "12 pictures with five captions each, seed 5" in cli.shows(*arguments)
    assert "nothing to do" in cli.shows(*arguments)
    assert cli.json(*arguments) == {"folder": out, "images": 12, "seed": 5, "written": False}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generate", "dreams"), "error: nothing generates 'dreams'; datasets that can be generated: scenes"),
        (("generate", "scenes", "--images", "3"), "error: images must be from 10 to"),
        (("generate", "scenes", "--images", "20"), "is there already and holds scenes made with"),
        (("describe", "scens"), "Perhaps 'scenes' is meant"),
        (("describe", "scenes", "--vocabulary", "all"), "error: --vocabulary must be train or published, got 'all'"),
        (("describe", "scenes", "--data-root", "nowhere"), "Make scenes with `orchestrator data generate scenes"),
    ],
    ids=["generator", "too-few", "other-arguments", "unknown", "vocabulary", "no-root"],
)
def test_refusal_is_one_line(scenes: Path, cli: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = cli.run("data", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_describe(scenes: Path, cli: CommandLine) -> None:
    lines = cli.shows("data", "describe", "scenes").splitlines()
    assert lines[2].split()[:5] == ["train", "32", "160", "5", "32"]
    assert lines[1].endswith("chance rsum")
    assert not any(line.startswith("features: none") for line in lines)
    assert any(line.startswith("features regions: features_regions.npy (40, 16, 92) float16") for line in lines)
    assert lines[-1] == "no problems found"
    for path in (*scenes.glob("features_*"), scenes / "images" / "scene_000001.jpg"):
        path.unlink()
    code, out, _ = cli.run("data", "describe", "scenes")
    lines = out.splitlines()
    assert code == 2
    assert "features: none; `orchestrator data extract scenes` makes them from the pictures" in lines
    assert lines[-1] == "1 problem"


def test_describe_by_path_as_json(scenes: Path, cli: CommandLine) -> None:
    told = cli.json("data", "describe", scenes, "--decode-images")
    val = told["splits"]["val"]
    known = {"chance_rsum": 429.01, "images": 4, "captions": 20, "captions_per_image": [5, 5], "image_files": 4}
    assert val.keys() == known.keys() | {"caption_lengths", "tokens_per_image", "unknown_tokens"}
    assert val | known == val
    assert len(told["digest"]["global"]) == 64
    assert told["problems"] == []


def test_describe_names_every_problem(scenes: Path, cli: CommandLine) -> None:
    path = scenes / "features_global.npy"
    features = np.load(path)
    features[7] = np.nan
    np.save(path, features)
    annotations = scenes / "annotations" / "captions_scenes.json"
    content = json.loads(annotations.read_text())
    for annotation in content["annotations"][:12]:
        annotation["caption"] = ""
    annotations.write_text(json.dumps(content))
    picture = scenes / "images" / "scene_000039.jpg"
    picture.write_bytes(picture.read_bytes()[:900])
    code, out, _ = cli.run("data", "describe", "scenes", "--decode-images")
    lines = out.splitlines()
    assert code == 2
    # Twelve captions, the two images that lost all of theirs, a feature row and a truncated picture.
    assert lines[-1] == "16 problems"
    (repeated,) = [line for line in lines if "empty caption" in line]
    assert repeated.endswith("(and 11 more like it)")
    assert sum("image without captions" in line for line in lines) == 2
    assert any("features_global.npy: 1 rows hold NaN or infinity: row 7 (scene_000007.jpg)" in line for line in lines)
    assert any("scene_000039.jpg: cannot be decoded" in line for line in lines)
    code, out, _ = cli.run("data", "describe", "scenes", "--json")
    assert (code, len(json.loads(out)["problems"])) == (2, 15)


def test_an_import_shows_what_it_takes_and_leads_to_the_first_search(tmp_path: Path, cli: CommandLine) -> None:
    from tests.support import own_files

    own_files.kaggle8k(tmp_path / "kaggle")
    target = tmp_path / "data" / "mine"
    arguments = ["data", "import", str(tmp_path / "kaggle"), "--out", str(target)]
    code, out, err = cli.run(*arguments)
    assert (code, out, target.exists()) == (2, "", False)
    assert "captions.txt is a table with the columns image, caption and names no splits; draw them with: " in err
    assert err.partition("draw them with: ")[2].split()[1:] == [*arguments, "--split", "80/10/10", "--seed", "0"]
    arguments += ["--split", "80/10/10"]
    assert cli.shows(*arguments, "--dry-run").splitlines()[1].split() == ["image", "the", "picture"]
    assert not target.exists()
    made = cli.json(*arguments)
    assert (made["images"], made["written"]) == (30, True)
    assert "no problems found" in cli.shows("data", "describe", "mine")
    code, _, err = cli.run(*arguments)
    assert code == 2 and err == f"error: --out {target}: is there already; remove it, or choose another name\n"


def pairs_of(folder: Path) -> Path:
    """Return a table of captions with pictures beside it, and no splits."""
    lines = [f'photo{number:03d}.jpg,"A dog, number {number}"' for number in range(PICTURES)]
    write_pictures(folder / "pictures")
    (folder / "t.csv").write_text("\n".join(["image,caption", *lines]) + "\n")
    return folder / "t.csv"


def test_import_shows_first_then_writes_once(tmp_path: Path, cli: CommandLine) -> None:
    source = ("data", "import", pairs_of(tmp_path), tmp_path / "pictures", "--out", tmp_path / "deep" / "own")
    drawn = (*source, "--split", "8/1/1")
    assert "number 3" not in cli.shows(*drawn, "--dry-run")
    assert not (tmp_path / "deep").exists()
    assert f"{PICTURES} pictures, {PICTURES} captions" in cli.shows(*drawn)
    code, _, err = cli.run(*drawn)
    assert (code, len(err.splitlines())) == (2, 1) and "is there already" in err
    described = cli.shows("data", "describe", "own", "--data-root", tmp_path / "deep")
    assert described.splitlines()[-1] == "no problems found"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--caption", "captoin", "--split", "8/1/1"), "--caption captoin: t.csv has the columns image, caption"),
        (("--split", "80/10"), "--split must be three shares above 0 of train, val and test, such as 80/10/10"),
        (("--caption", "caption"), " --caption caption --out deep/own --split 80/10/10 --seed 0"),
    ],
    ids=["column", "shares", "no splits"],
)
def test_a_refused_import_makes_nothing(
    tmp_path: Path, cli: CommandLine, options: tuple[str, ...], message: str
) -> None:
    code, out, err = cli.run("data", "import", pairs_of(tmp_path), *options, "--out", "deep/own")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    assert not Path("deep").exists()
