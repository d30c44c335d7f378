"""Record a search that is killed and resumed, as an animated SVG.

    .venv/bin/python docs/animation.py flickr8k-quick --data-root DATA --kill-after 6

It runs ``orchestrator search`` in a pseudo-terminal, kills the driver with SIGKILL when enough trials have finished,
and runs the same command again until it ends. Every line of the picture is output of these two runs. Only the waiting
is shortened. The file has no script, so that a browser animates it inside of ``<img>``.
"""

import argparse
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
COLUMNS, ROWS = 100, 24
CELL_WIDTH, LINE_HEIGHT, BORDER = 8.4, 19, 14
RUNNING_SECONDS, KILLED_SECONDS, HELD_SECONDS = 20.0, 2.5, 8.0
"""How long the picture shows the runs, the killed one, and its last screen."""

LONGEST_WAIT = 1.5
"""Seconds between two changes of the screen that are kept before all times are scaled."""

MOST_FRAMES = 120
COLOURS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 90: "#8b949e"}
PLAIN, BACKGROUND = "#e6edf3", "#0d1117"
CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\r|\n|\x08|([^\x1b\r\n\x08]+)|\x1b")
UNFINISHED = re.compile(r"\x1b(\[[?\d;]*|\][^\x07]*)?$")
"""The end of a chunk of output that may be the beginning of a control sequence."""

Styled = tuple[tuple[str, str], ...]
"""A line: characters, each with its colour."""


@dataclass
class Screen:
    """What a terminal shows: text, colours, and the moves of the cursor that Rich makes."""

    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    colour: str = PLAIN
    rest: str = ""

    def write(self, text: str) -> None:
        """Take a chunk of output, which may end within a control sequence."""
        text = self.rest + text
        end = UNFINISHED.search(text)
        self.rest = text[end.start() :] if end else ""
        for match in CONTROL.finditer(text[: end.start()] if end else text):
            if match[3]:
                self._put(match[3])
            elif match[2]:
                self._control(match[2], [int(number) for number in re.findall(r"\d+", match[1])])
            elif match[0] == "\r":
                self.column = 0
            elif match[0] == "\n":
                self._down()

    def shown(self) -> tuple[Styled, ...]:
        """Return the last lines of the terminal, as many as it has rows."""
        return tuple(tuple(line) for line in self.lines[-ROWS:])

    def text(self) -> str:
        """Return all lines, without colours."""
        return "\n".join("".join(sign for sign, _ in line).rstrip() for line in self.lines)

    def _put(self, text: str) -> None:
        for sign in text:
            if self.column == COLUMNS:
                self._down()
                self.column = 0
            line = self.lines[self.row]
            line.extend([(" ", PLAIN)] * (self.column + 1 - len(line)))
            line[self.column] = (sign, self.colour)
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _control(self, letter: str, numbers: list[int]) -> None:
        if letter == "A":
            self.row = max(0, self.row - (numbers or [1])[0])
        elif letter == "K":
            kept = 0 if numbers == [2] else self.column
            del self.lines[self.row][kept:]
        elif letter == "m":
            for number in numbers or [0]:
                self.colour = COLOURS.get(number, PLAIN if number in (0, 39) else self.colour)


@dataclass(frozen=True)
class Frame:
    """The screen from a moment on, in seconds, and how much longer than it lasted the picture shows it."""

    at: float
    lines: tuple[Styled, ...]
    pause: float = 0.0


class Recording:
    """A terminal with its frames."""

    def __init__(self) -> None:
        self.screen, self.frames = Screen(), [Frame(0.0, ())]
        self._began = time.monotonic()

    def write(self, text: str, pause: float = 0.0) -> None:
        """Show text and keep the screen with its time; the picture pauses there for some seconds."""
        self.screen.write(text)
        if self.screen.shown() != self.frames[-1].lines:
            self.frames.append(Frame(time.monotonic() - self._began, self.screen.shown(), pause))

    def type(self, command: str) -> None:
        """Show a command as if it was typed."""
        self.write(f"\x1b[32m$\x1b[0m {command}\r\n")

    def run(self, command: Sequence[str], folder: Path, kill_after: int | None = None) -> int:
        """Run a command in a pseudo-terminal; kill it when so many trials are shown as finished.

        Returns:
            Its exit status, negative for a signal.
        """
        terminal, its_end = pty.openpty()
        fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"}
        environment.pop("COLUMNS", None)
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True
        ) as program:
            os.close(its_end)
            for text in output_of(terminal):
                self.write(text)
                finished = [int(number) for number in re.findall(r"\b(\d+) of \d+ trials", self.screen.text())]
                if kill_after is not None and max(finished, default=0) >= kill_after:
                    program.send_signal(signal.SIGKILL)
                    break
        os.close(terminal)
        return program.returncode


def output_of(terminal: int) -> Iterator[str]:
    """Yield what a program writes, until it has closed its terminal."""
    pending = b""
    while True:
        try:
            pending += os.read(terminal, 65536)
        except OSError:  # Linux says so when the last process has closed its end.
            return
        text = pending.decode(errors="ignore")
        pending = b"" if text.encode() == pending else pending
        if not pending:
            yield text


def scaled(frames: Sequence[Frame]) -> list[Frame]:
    """Shorten what waits, bring the runs to ``RUNNING_SECONDS``, and leave out frames that would be too short."""
    at, times = 0.0, [0.0]
    for before, frame in pairwise(frames):
        at += min(frame.at - before.at, LONGEST_WAIT)
        times.append(at)
    factor = RUNNING_SECONDS / max(at, 1e-9)
    by_step: dict[int, Frame] = {}
    for moment, frame in zip(times, frames, strict=True):
        step = int(moment * factor / RUNNING_SECONDS * MOST_FRAMES)
        if step in by_step and by_step[step].pause:
            step += 1
        by_step[step] = Frame(step * RUNNING_SECONDS / MOST_FRAMES, frame.lines, frame.pause)
    kept, paused = [], 0.0
    for frame in by_step.values():
        kept.append(Frame(frame.at + paused, frame.lines, frame.pause))
        paused += frame.pause
    return kept


def svg(frames: Sequence[Frame]) -> str:
    """Draw frames as one picture; a line that frames share is drawn once. Without animation, the last is shown."""
    seconds = frames[-1].at + HELD_SECONDS
    visible: dict[tuple[int, Styled], list[bool]] = {}
    for number, frame in enumerate(frames):
        for row, line in enumerate(frame.lines):
            if any(sign != " " for sign, _ in line):
                visible.setdefault((row, line), [False] * len(frames))[number] = True
    width, height = COLUMNS * CELL_WIDTH + 2 * BORDER, ROWS * LINE_HEIGHT + 2 * BORDER
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="14" '
        f'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" fill="{PLAIN}">',
        "<title>A search that is killed and resumed, and its verdict</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    for (row, line), shown in visible.items():
        times = [frame.at / seconds for frame in frames]
        changes = [place for place, state in enumerate(shown) if not place or state != shown[place - 1]]
        values = ";".join("visible" if shown[place] else "hidden" for place in changes)
        moments = ";".join(f"{times[place]:.4f}" for place in changes)
        animation = (
            f'<animate attributeName="visibility" calcMode="discrete" dur="{seconds:.2f}s" repeatCount="indefinite" '
            f'values="{values}" keyTimes="{moments}"/>'
        )
        last = "" if shown[-1] else ' visibility="hidden"'
        baseline = BORDER + row * LINE_HEIGHT + 14
        parts.append(f"<g{last}>{animation}{''.join(texts(line, baseline))}</g>")
    return "\n".join([*parts, "</svg>\n"])


def texts(line: Styled, baseline: int) -> Iterator[str]:
    """Yield the words of a line as elements; each has its width, whatever font the reader has."""
    signs = "".join(sign for sign, _ in line)
    for word in re.finditer(r"\S+(?: \S+)*", signs):
        start = word.start()
        while start < word.end():
            colour = line[start][1]
            end = next((place for place in range(start, word.end()) if line[place][1] != colour), word.end())
            fill = "" if colour == PLAIN else f' fill="{colour}"'
            place = (
                f'x="{BORDER + start * CELL_WIDTH:.1f}" y="{baseline}" textLength="{(end - start) * CELL_WIDTH:.1f}"'
            )
            yield f'<text {place}{fill} xml:space="preserve">{escape(signs[start:end])}</text>'
            start = end


def main(arguments: Sequence[str]) -> None:
    """Record and write; the runs stay in the folder of ``--output``, for a report of the same search."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiment")
    parser.add_argument("--data-root", type=Path, default=Path("data"), help="folder with the dataset")
    parser.add_argument("--output", type=Path, help="new folder for the runs; a temporary one if left out")
    parser.add_argument("--kill-after", type=int, default=6, metavar="TRIALS", help="finished trials before SIGKILL")
    parser.add_argument("--svg", type=Path, default=ROOT / "docs" / "images" / "search.svg")
    options = parser.parse_args(arguments)
    folder = (options.output or Path(tempfile.mkdtemp(prefix="animation-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    program = str(Path(sys.executable).parent / "orchestrator")
    # As in an activated environment: otherwise the commands that a search prints begin with a path of this machine.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["ORCHESTRATOR_DATA_ROOT"] = str(options.data_root.absolute())
    recording = Recording()
    for kill_after in (options.kill_after, None):
        recording.type(f"orchestrator search {options.experiment}")
        code = recording.run([program, "search", options.experiment], folder, kill_after)
        if code != (0 if kill_after is None else -signal.SIGKILL):
            sys.exit(f"the search ended with {code}:\n{recording.screen.text()}")
        if kill_after is not None:
            recording.write("\r\n\x1b[31mKilled (kill -9)\x1b[0m\r\n", KILLED_SECONDS)
    options.svg.write_text(svg(scaled(recording.frames)))
    print(f"{options.svg}: {options.svg.stat().st_size:,} bytes; the runs: {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
