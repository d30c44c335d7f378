import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import run_command

pytestmark = pytest.mark.usefixtures("own_folders")


def call(*arguments: str) -> int:
    return run_command(["data", *arguments])


@pytest.fixture
def scenes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert call("generate", "scenes", "--images", "40") == 0
    capsys.readouterr()
    return tmp_path / "data" / "scenes"


def test_generate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "here")
    assert call("generate", "scenes", "--images", "12", "--seed", "5", "--out", out) == 0
    assert "12 pictures with five captions each, seed 5" in capsys.readouterr().out
    assert call("generate", "scenes", "--images", "12", "--seed", "5", "--out", out) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert call("generate", "scenes", "--images", "12", "--seed", "5", "--out", out, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"folder": out, "images": 12, "seed": 5, "written": False}


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
def test_refusal_is_one_line(
    scenes: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert call(*arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
    assert len(told.err.splitlines()) == 1


def test_describe(scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("describe", "scenes") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:5] == ["train", "32", "160", "5", "32"]
    assert lines[1].endswith("chance rsum")
    assert not any(line.startswith("features: none") for line in lines)
    assert any(line.startswith("features regions: features_regions.npy (40, 16, 92) float16") for line in lines)
    assert lines[-1] == "no problems found"
    for path in (*scenes.glob("features_*"), scenes / "images" / "scene_000001.jpg"):
        path.unlink()
    assert call("describe", "scenes") == 2
    lines = capsys.readouterr().out.splitlines()
    assert "features: none; `orchestrator data extract scenes` makes them from the pictures" in lines
    assert lines[-1] == "1 problem"


def test_describe_by_path_as_json(scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("describe", str(scenes), "--json", "--decode-images") == 0
    told = json.loads(capsys.readouterr().out)
    val = told["splits"]["val"]
    known = {"chance_rsum": 429.01, "images": 4, "captions": 20, "captions_per_image": [5, 5], "image_files": 4}
    assert val.keys() == known.keys() | {"caption_lengths", "tokens_per_image", "unknown_tokens"}
    assert val | known == val
    assert len(told["digest"]["global"]) == 64
    assert told["problems"] == []


def test_describe_names_every_problem(scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert call("describe", "scenes", "--decode-images") == 2
    lines = capsys.readouterr().out.splitlines()
    # Twelve captions, the two images that lost all of theirs, a feature row and a truncated picture.
    assert lines[-1] == "16 problems"
    (repeated,) = [line for line in lines if "empty caption" in line]
    assert repeated.endswith("(and 11 more like it)")
    assert sum("image without captions" in line for line in lines) == 2
    assert any("features_global.npy: 1 rows hold NaN or infinity: row 7 (scene_000007.jpg)" in line for line in lines)
    assert any("scene_000039.jpg: cannot be decoded" in line for line in lines)
    assert call("describe", "scenes", "--json") == 2
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 15


@pytest.mark.proof
def test_describing_and_refusing_need_neither_torch_nor_ray(scenes: Path) -> None:
    script = (
        "import sys\n"
        "from orchestrator.cli import main\n"
        "try:\n"
        "    main(['data', 'describe', sys.argv[1]])\n"
        "except SystemExit as end:\n"
        "    print(end.code, [m for m in ('torch', 'ray', 'mlflow', 'optuna', 'pandas', 'nltk') if m in sys.modules])\n"
    )
    for name, expected in (("scenes", "0 []"), ("nothing", "2 []")):
        result = subprocess.run([sys.executable, "-c", script, name], capture_output=True, text=True, check=True)
        assert result.stdout.splitlines()[-1] == expected
