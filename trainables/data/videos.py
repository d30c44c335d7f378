"""Frames of video files, decoded by PyAV (FFmpeg), which the extra ``video`` installs.

Frames are numbered from 0 in the order in which they are shown, whatever their rate. They are counted by decoding,
because a header may be wrong and some packets are never shown. One thread decodes a file, from its first frame on, so
that each reading gives the same pixels. A rotation that the file asks for is applied.

Videos are not trusted. Only the formats of ``CONTAINERS`` are opened, and nothing but the file itself, since a playlist
could name other files and addresses. The size of a frame and the number of frames are bounded. A file that ends before
the length that it declares is refused.
"""

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from trainables.data.pictures import MOST_PIXELS, check_size, undecodable
from trainables.errors import DataError
from trainables.extras import require

if TYPE_CHECKING:
    import PIL.Image
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

VIDEOS = (".mp4", ".webm", ".mkv", ".mov", ".avi")
"""Endings of the video files that are read."""

CONTAINERS = ("mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi")
"""FFmpeg's names of the formats that are opened, whatever the file's name."""

MOST_FRAMES = 1 << 20
"""Most frames of a video: eleven hours of 25 frames a second."""

COMPLETE = Fraction(9, 10)
"""Least part of the declared length that a file must have: lengths are rounded, and streams end at different times."""


def count_video_frames(path: Path) -> int:
    """Return the number of frames of a video, >= 1, by decoding the whole file.

    Raises:
        DataError: If the file is missing, damaged, cut short, too large, or without a video; the message names it.
        MissingExtraError: If PyAV is not installed.
    """
    return sum(1 for _ in _frames(path))


class _Reading(NamedTuple):
    """A file that is being read: which state of which file, its frames from ``next`` on."""

    file: tuple[Path, int, int]
    frames: "Iterator[VideoFrame]"
    next: int


_readings = threading.local()
"""The reading of each thread, which goes on where the next frame of the same file is asked for."""


def decode_video(path: Path, number: int) -> "PIL.Image.Image":
    """Return the pixels of a frame, by its number from 0, as red, green and blue of 8 bits each.

    Frames that are asked for in ascending order are read in one go.

    Raises:
        DataError, MissingExtraError: As ``count_video_frames``; also if the file has fewer frames.
    """
    try:
        about = path.stat()
    except OSError as error:
        raise undecodable(path, error) from error
    file = path, about.st_size, about.st_mtime_ns
    last: _Reading | None = getattr(_readings, "value", None)
    _readings.value = None
    going = last is not None and last.file == file and last.next <= number
    reading = last if last is not None and going else _Reading(file, _frames(path), 0)
    for place, frame in enumerate(reading.frames, reading.next):
        if place == number:
            _readings.value = reading._replace(next=number + 1)
            return _to_rgb(frame)
    raise DataError(f"{path}: has no frame {number}; it has changed since its frames were counted")


def _frames(path: Path) -> "Iterator[VideoFrame]":
    """Yield the frames of a video in the order in which they are shown."""
    require("video", f"{path.name}, a video,")
    import av

    # FFmpeg checks the size of a frame with the decoder's option, also while it probes the file.
    options = {"max_pixels": str(MOST_PIXELS)}
    rules = {"format_whitelist": ",".join(CONTAINERS), "protocol_whitelist": "file", **options}
    refused = (av.FFmpegError, OSError, ValueError, LookupError, MemoryError)
    number = packets = 0
    try:
        # As a file of the disk, whatever its path looks like.
        with av.open(f"file:{path}", mode="r", options=rules, metadata_errors="replace") as container:
            stream = _video_of(container)
            stream.codec_context.thread_type, stream.codec_context.thread_count = "NONE", 1
            stream.codec_context.options = options
            end = Fraction(0)
            for packet in container.demux():
                if packet.is_corrupt:
                    raise ValueError(f"it is cut short or damaged after frame {number}")
                if packet.pts is not None and packet.time_base is not None:
                    end = max(end, (packet.pts + (packet.duration or 0)) * packet.time_base)
                if packet.stream.index != stream.index:
                    continue
                packets += bool(packet.size)
                for frame in cast("list[VideoFrame]", packet.decode()):
                    check_size(frame.width, frame.height)
                    number += 1
                    if number > MOST_FRAMES:
                        raise ValueError(f"it has more than {MOST_FRAMES:,} frames; cut it into clips")
                    yield frame
            # FFmpeg shortens the length of an AVI file that is cut, but not the number of packets.
            declared = stream.frames if "avi" in container.format.name else 0
            if not number or packets < declared * COMPLETE:
                raise ValueError(f"it is cut short: {packets:,} of {declared:,} frames")
            _check_length(container, end)
    except refused as error:
        if isinstance(error, av.InvalidDataError):
            error = ValueError(f"it is damaged, or no {', '.join(VIDEOS)} file, after frame {number}")
        raise undecodable(path, error, "video") from error


def _video_of(container: "InputContainer") -> "VideoStream":
    """Return the video of a file; the cover of a piece of music is none. ``ValueError`` if there is none to decode."""
    from av.stream import Disposition

    streams = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    if not streams:
        raise ValueError("it has no video in it")
    if streams[0].codec_context is None:
        raise ValueError("its video has a code that FFmpeg here cannot decode")
    check_size(streams[0].codec_context.width, streams[0].codec_context.height)
    return streams[0]


def _check_length(container: "InputContainer", end: Fraction) -> None:
    """Raise ``ValueError`` where packets are missing at the end; ``end`` is that of the last one, in seconds."""
    # In microseconds; live recordings declare none.
    declared = Fraction(container.duration or 0, 1_000_000)
    if end < declared * COMPLETE:
        raise ValueError(f"it is cut short: {float(end):,.2f} of {float(declared):,.2f} seconds")


def _to_rgb(frame: "VideoFrame") -> "PIL.Image.Image":
    """Return the pixels of a frame, turned as the file asks for."""
    import PIL.Image

    # The rotation is in degrees against the clock.
    return PIL.Image.fromarray(np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90)))
