"""Frames of video files: all, in the order in which they are shown, and one line about each file that is refused."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support.videos import CODECS, write_sound, write_video
from trainables import extras
from trainables.data import pictures, videos
from trainables.data.clip_files import Frame, decode_frame, find_frames, spaced_frames
from trainables.data.videos import count_video_frames, decode_video
from trainables.errors import DataError
from trainables.extras import MissingExtraError

av = pytest.importorskip("av", reason="the extra video is not installed")

COLOURS = [(8 * n, 255 - 8 * n, 60 + (n * 37) % 120) for n in range(30)]
"""Frame -> its colour; neighbours differ by more than the code loses."""


def colour(image) -> np.ndarray:
    """Mean colour of the left half, away from the edge."""
    return np.asarray(image, dtype=float)[8:-8, 8 : image.width // 2 - 8].mean((0, 1))


def numbers(path: Path, asked: Sequence[int]) -> list[int]:
    """Number of the frame whose known colour is the nearest, of each frame that is read."""
    read = [colour(decode_video(path, number)) for number in asked]
    return [int(np.abs(np.array(COLOURS) - one).sum(1).argmin()) for one in read]


@pytest.mark.parametrize("suffix", CODECS)
def test_each_frame_is_read_in_the_order_in_which_it_is_shown(tmp_path: Path, suffix: str) -> None:
    path = write_video(tmp_path / f"a{suffix}", COLOURS)
    assert count_video_frames(path) == len(COLOURS)
    assert numbers(path, range(len(COLOURS))) == list(range(len(COLOURS)))
    assert numbers(path, [20, 3, 3, 29, 0]) == [20, 3, 3, 29, 0], "in any order"
    assert spaced_frames([path], 4) == [Frame(path, number) for number in (0, 10, 19, 29)]
    assert decode_frame(Frame(path, 7)).tobytes() == decode_video(path, 7).tobytes()
    with pytest.raises(DataError, match=r"has no frame 30"):
        decode_video(path, 30)


def test_frames_of_uneven_times_count_once_each(tmp_path: Path) -> None:
    times = [n + 40 * (n > 9) + 3 * (n > 20) for n in range(len(COLOURS))]
    path = write_video(tmp_path / "a.mkv", COLOURS, times=times)
    assert count_video_frames(path) == len(COLOURS)
    assert numbers(path, [0, 9, 10, 21, 29]) == [0, 9, 10, 21, 29]


def test_frames_that_are_never_shown_are_not_counted(tmp_path: Path) -> None:
    """VP8 keeps pictures that only others refer to, as packets of their own."""
    path = write_video(tmp_path / "a.webm", COLOURS, codec="libvpx")
    assert count_video_frames(path) == len(COLOURS)
    assert numbers(path, range(len(COLOURS))) == list(range(len(COLOURS)))


def test_a_video_is_turned_as_its_file_asks_for(tmp_path: Path) -> None:
    """A matrix (0, 1, -1, 0) turns the picture to the right [ISO/IEC 14496-12]: its left half is then above."""
    path = write_video(tmp_path / "a.mp4", COLOURS[:5])
    unit = bytes.fromhex("00010000 00000000 00000000 00000000 00010000 00000000 00000000 00000000 40000000")
    turned = bytes.fromhex("00000000 00010000 00000000 ffff0000 00000000 00000000 00000000 00000000 40000000")
    content = path.read_bytes()
    head = content.index(b"tkhd")
    place = content.index(unit, head)
    path.write_bytes(content[:place] + turned + content[place + len(turned) :])
    image = decode_video(path, 2)
    assert image.size == (64, 96)
    shown = np.asarray(image, dtype=float)
    np.testing.assert_allclose(shown[8:40, 8:-8].mean((0, 1)), COLOURS[2], atol=12)
    assert shown[56:-8].max() < 40


def test_threads_and_readings_do_not_change_a_pixel(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = write_video(tmp_path / "a.mp4", COLOURS)
    alone = [decode_video(path, number).tobytes() for number in range(len(COLOURS))]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda n: decode_video(path, n).tobytes(), range(len(COLOURS)))) == alone
    write_video(path, COLOURS[::-1])
    assert numbers(path, [29]) == [0], "a file that has changed is read anew"


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as error:
        count_video_frames(path)
    assert str(error.value).startswith(f"{path}: cannot be decoded: ") and "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.85])
@pytest.mark.parametrize("suffix", CODECS)
def test_a_file_that_is_cut_short_is_refused(tmp_path: Path, suffix: str, part: float) -> None:
    muxer = {"movflags": "faststart"} if suffix in (".mp4", ".mov") else None
    noise = np.random.default_rng(0).integers(0, 255, (50, 3)).tolist()
    path = write_video(tmp_path / f"a{suffix}", [tuple(each) for each in noise], muxer=muxer)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    assert "fetch the video again" in refusal(path)


def test_files_without_a_video_are_refused(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        write_sound(container, container.add_stream("aac", rate=48_000))
    assert "it has no video in it" in refusal(tmp_path / "sound.mp4")
    (tmp_path / "text.mp4").write_text("no video at all\n" * 100)
    assert "damaged, or no .mp4" in refusal(tmp_path / "text.mp4")
    (tmp_path / "empty.webm").touch()
    assert refusal(tmp_path / "empty.webm")
    assert "No such file" in refusal(tmp_path / "none.mkv")
    assert count_video_frames(write_video(tmp_path / "both.mp4", COLOURS, sound=True)) == len(COLOURS)


def test_a_list_of_other_files_is_not_followed(tmp_path: Path) -> None:
    inner = write_video(tmp_path / "inner.mp4", COLOURS)
    (tmp_path / "a.mp4").write_text(f"ffconcat version 1.0\nfile '{inner.name}'\n")
    (tmp_path / "b.mp4").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{inner.name}\n#EXT-X-ENDLIST\n")
    assert refusal(tmp_path / "a.mp4") and refusal(tmp_path / "b.mp4")


def write_liars(folder: Path) -> tuple[Path, Path]:
    """Write a video of frames that declare 65,500 x 65,500 pixels, and one that declares years."""
    large = write_video(folder / "a.avi", COLOURS[:5], codec="mjpeg")
    content, place = bytearray(large.read_bytes()), -1
    # Height and width in the header of each frame.
    while (place := content.find(b"\xff\xc0\x00\x11\x08", place + 1)) >= 0:
        content[place + 5 : place + 9] = (65_500).to_bytes(2, "big") * 2
    large.write_bytes(content)
    long = write_video(folder / "b.mkv", COLOURS[:5])
    content = bytearray(long.read_bytes())
    # The element 44 89, the duration of a segment, as a number of 8 bytes.
    place = content.index(b"\x44\x89\x88")
    content[place + 3 : place + 11] = bytes.fromhex("42e0000000000000")
    long.write_bytes(content)
    return large, long


def test_sizes_and_lengths_that_a_file_declares_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, long = write_liars(tmp_path)
    assert "is damaged" in refusal(large)
    assert "it is cut short: 0.20 of" in refusal(long)
    monkeypatch.setattr(videos, "MOST_FRAMES", 4)
    video = write_video(tmp_path / "c.mp4", COLOURS[:5])
    assert "more than 4 frames; cut it" in refusal(video)
    monkeypatch.setattr(pictures, "MOST_PIXELS", 96 * 64 - 1)
    assert "96 x 64 pixels are more than" in refusal(video)


@pytest.mark.proof
def test_sizes_and_lengths_that_a_file_declares_take_no_memory(tmp_path: Path) -> None:
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom trainables.data.videos import count_video_frames\n"
        "from trainables.errors import DataError\nimport av\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sys.argv[1:]:\n    try: count_video_frames(Path(path))\n"
        "    except DataError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    command = [sys.executable, "-c", code, *write_liars(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    *refusals, grown = ended.stdout.splitlines()
    assert len(refusals) == 2 and not ended.stderr
    assert int(grown) * (1 if sys.platform == "darwin" else 1024) < 64 << 20


def test_without_the_extra_one_line_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clips").mkdir()
    write_video(tmp_path / "clips" / "a.mp4", COLOURS[:3])
    assert find_frames(tmp_path, ["a", "b"], [tmp_path], 2)[0].keys() == {"a"}
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "av")
    with pytest.raises(MissingExtraError) as error:
        find_frames(tmp_path, ["a"], [tmp_path], 2)
    said = "a.mp4, a video, needs av, which is not installed: pip install 'icr-orchestrator[video]'"
    assert str(error.value) == said and error.value.exit_code == 2
