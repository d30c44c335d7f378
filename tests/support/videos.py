"""Small videos with frames of known colours, written by PyAV."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

CODECS = {".mp4": "libx264", ".mkv": "libx264", ".webm": "libvpx-vp9", ".mov": "mpeg4", ".avi": "mpeg4"}
"""Ending of a video file -> its usual code; H.264, and here MPEG-4 in part, keep frames in another order than shown."""

SIZE = (96, 64)
"""Width and height."""


def write_video(
    path: Path,
    colours: Sequence[tuple[int, int, int]],
    *,
    times: Sequence[int] | None = None,
    codec: str = "",
    muxer: dict[str, str] | None = None,
    size: tuple[int, int] = SIZE,
    sound: bool = False,
) -> Path:
    """Write frames of one colour each, the right half black; ``times`` are those of the frames in 1/25 s."""
    import av

    with av.open(str(path), "w", options=muxer or {}) as container:
        stream = container.add_stream(codec or CODECS[path.suffix], rate=25)
        stream.width, stream.height = size
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        audio = container.add_stream("aac", rate=48_000) if sound else None
        for time, colour in zip(times or range(len(colours)), colours, strict=True):
            pixels = np.zeros((size[1], size[0], 3), np.uint8)
            pixels[:, : size[0] // 2] = colour
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if audio is not None:
            write_sound(container, audio)
    return path


def write_sound(container: "object", stream: "object") -> None:
    """Write a second of silence."""
    import av

    for number in range(47):
        frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48_000, 1024 * number, Fraction(1, 48_000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))
