"""The recording of the README: a terminal as a picture, and the picture that ships."""

import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
ANIMATION: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "animation.py"))


@pytest.mark.parametrize(
    ("chunks", "shown"),
    [
        pytest.param(["a\r\nb"], "a\nb", id="lines"),
        pytest.param(["1 of 2\r2"], "2 of 2", id="written over"),
        pytest.param(["old\r\nold\r\x1b[2K\x1b[1A\x1b[2Knew\r\nnew"], "new\nnew", id="a table is drawn again"),
        pytest.param(["\x1b[3", "2mgreen\x1b[0m"], "green", id="a colour in two chunks"),
        pytest.param(["x" * 101], "x" * 100 + "\nx", id="a long line"),
    ],
)
def test_the_screen_shows_what_a_terminal_shows(chunks: list[str], shown: str) -> None:
    screen = ANIMATION["Screen"]()
    for chunk in chunks:
        screen.write(chunk)
    assert screen.text() == shown


def test_a_line_that_stays_is_drawn_once_and_the_last_screen_without_animation() -> None:
    screen, frames = ANIMATION["Screen"](), []
    for at, text in enumerate(("\x1b[32m<first>\x1b[0m\r\n", "1 of 2", "\r2 of 2")):
        screen.write(text)
        frames.append(ANIMATION["Frame"](float(at), screen.shown()))
    picture = ElementTree.fromstring(ANIMATION["svg"](frames))
    lines = picture.findall("{*}g")
    assert ["".join(line.itertext()) for line in lines] == ["<first>", "1 of 2", "2 of 2"]
    assert [line.get("visibility") for line in lines] == [None, "hidden", None]


def test_a_long_wait_is_shortened() -> None:
    frames = [ANIMATION["Frame"](at, ()) for at in (0.0, 1.0, 2.0, 1000.0)]
    moments = [frame.at for frame in ANIMATION["scaled"](frames)]
    assert moments[-1] == pytest.approx(ANIMATION["RUNNING_SECONDS"])
    assert moments[-1] - moments[-2] < moments[-1] / 2


def test_the_picture_of_the_readme_is_small_and_has_no_script() -> None:
    path = ROOT / "docs" / "images" / "search.svg"
    elements = [element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()]
    assert path.stat().st_size < 1_000_000
    assert {"svg", "animate", "text"} <= set(elements) <= {"svg", "animate", "text", "g", "title", "rect"}
    assert "](docs/images/search.svg)" in (ROOT / "README.md").read_text()


def test_the_picture_pauses_where_the_search_is_killed() -> None:
    screen = ANIMATION["Screen"]()
    screen.write("Killed")
    frame = ANIMATION["Frame"]
    frames = [frame(0.0, ()), frame(1.0, screen.shown(), 2.5), frame(1.001, ()), frame(3.0, screen.shown())]
    shown = ANIMATION["scaled"](frames)
    (place,) = [number for number, one in enumerate(shown) if one.pause]
    assert shown[place].lines == screen.shown()
    assert shown[place + 1].at - shown[place].at >= 2.5
