"""Record a program in a terminal and draw what it showed, line by line as it came, as one SVG that moves by
CSS.

    python -m scripts.recording                   # examples/survive.py, into docs/images/survive.svg
    python -m scripts.recording --into FILE

The program runs for real, in a pseudo-terminal; pyte, which draws the terminals of the product, says what is
in it. The picture loads nothing and runs no script, so a page may show it as an image. A reader who wants no
motion sees the last state. It is as tall as what the program printed: programs that draw over the whole
screen are not for it.
"""

import argparse
import os
import pty
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pyte

ROOT = Path(__file__).resolve().parents[1]
SHOWN = ("python", "examples/survive.py")
INTO = ROOT / "docs" / "images" / "survive.svg"
SENTENCE = (
    "A server is killed by SIGKILL in the middle of a command; it is started again, and no line is missing."
)

COLUMNS = 80  # the usual width of a terminal
MOST_ROWS = 40  # more does not fit on a screen beside a text
PATIENCE_S = 60.0
LONGEST_GAP_S = 1.2  # a pause of the machine that records is cut to this
TYPED_S = 0.8  # how long the command stands there before its first output
REST_S = 5.0  # how long the last state stays before the recording begins again
CELL, LINE_HEIGHT, MARGIN, BAR = 8.4, 20, 18, 34  # pixels; 8.4 is a cell of a monospaced font of 14
# A terminal is dark on a light page and on a dark one. Each colour has a contrast of 7 to the ground, at
# least (WCAG 1.4.6).
GROUND = "#14171c"
COLOURS = {"default": "#d7dce2", "red": "#ff9a92", "green": "#8fd98f", "cyan": "#7fd0e8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the terminal: when it appeared, and its pieces as (colour, text)."""

    at_s: float
    pieces: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """What stands there."""
        return "".join(text for _, text in self.pieces)


def record(words: list[str], *, environment: dict[str, str]) -> list[tuple[float, bytes]]:
    """Run a program in a terminal of its own.

    Return what came from it, with the seconds since its start (blocks).

    Raises:
        CalledProcessError: It failed; what it showed is in `output`.
    """
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (MOST_ROWS, COLUMNS))
    pieces: list[tuple[float, bytes]] = []
    begin = time.monotonic()
    with subprocess.Popen(
        words, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as program:
        os.close(theirs)
        try:
            # Linux answers EIO, not end-of-file, when the last writer has closed a terminal (tty_ioctl(4)).
            while piece := os.read(ours, 65536):
                pieces.append((time.monotonic() - begin, piece))
        except OSError:
            pass
        finally:
            os.close(ours)
        code = program.wait(PATIENCE_S)
    if code != 0:
        raise subprocess.CalledProcessError(code, words, b"".join(piece for _, piece in pieces))
    return pieces


def lines_of(recording: list[tuple[float, bytes]]) -> list[Line]:
    """Return the lines that the terminal shows at the end, each with the time at which it first showed
    something.
    """
    screen = pyte.Screen(COLUMNS, MOST_ROWS)
    stream = pyte.ByteStream(screen)
    since: dict[int, float] = {}
    clock = before = 0.0
    for at_s, piece in recording:
        clock += min(at_s - before, LONGEST_GAP_S)
        before = at_s
        stream.feed(piece)
        for row, text in enumerate(screen.display):
            if text.strip():
                since.setdefault(row, clock)
    return [Line(at_s=since[row], pieces=tuple(_pieces(screen.buffer[row]))) for row in sorted(since)]


def _pieces(cells: Any) -> list[tuple[str, str]]:
    """Return a row of pyte's cells as runs of one colour, without what is empty at its end."""
    runs: list[tuple[str, str]] = []
    for column in range(COLUMNS):
        colour, text = cells[column].fg, cells[column].data
        if runs and runs[-1][0] == colour:
            runs[-1] = (colour, runs[-1][1] + text)
        else:
            runs.append((colour, text))
    while runs and not runs[-1][1].strip():
        runs.pop()
    return [*runs[:-1], (runs[-1][0], runs[-1][1].rstrip())]


def draw(lines: list[Line], *, command: str) -> str:
    """Return the recording as SVG: `command` as it is typed, then the lines, each at its time.

    Then all begins again.
    """
    shown = [
        Line(at_s=0.0, pieces=(("green", "$ "), ("default", command))),
        *(Line(at_s=line.at_s - lines[0].at_s + TYPED_S, pieces=line.pieces) for line in lines),
    ]
    whole_s = round(shown[-1].at_s + REST_S, 1)
    width = round(max(len(line.text) for line in shown) * CELL + 2 * MARGIN)
    height = BAR + len(shown) * LINE_HEIGHT + MARGIN
    moments = [round(100 * line.at_s / whole_s, 1) for line in shown]
    # What no animation moves is visible: a viewer without CSS, or a reader without motion, sees the end.
    frames = [
        f"@keyframes r{row}{{0%{{opacity:0}}{at}%{{opacity:1}}}}" for row, at in enumerate(moments) if at
    ]
    timing = [f".r{row}{{animation-name:r{row}}}" for row, at in enumerate(moments) if at]
    fills = [f".{name}{{fill:{value}}}" for name, value in COLOURS.items()]
    rows = [
        f'<text class="r{row}" x="{MARGIN}" y="{BAR + (row + 1) * LINE_HEIGHT - 4}">{_spans(line)}</text>'
        for row, line in enumerate(shown)
    ]
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" '
                f'role="img" aria-label={quoteattr(SENTENCE)}>'
            ),
            f"<title>{escape(SENTENCE)}</title>",
            "<style>",
            (
                "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans "
                "Mono',monospace;white-space:pre;"
                f"animation-duration:{whole_s}s;animation-iteration-count:infinite;animation-timing-function:step-end}}"
            ),
            *fills,
            *frames,
            *timing,
            "@media(prefers-reduced-motion:reduce){text{animation:none!important}}",
            "</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
            (
                '<g fill="#4b5563"><circle cx="20" cy="18" r="5"/><circle cx="38" cy="18" r="5"/>'
                '<circle cx="56" cy="18" r="5"/></g>'
            ),
            *rows,
            "</svg>\n",
        ]
    )


def _spans(line: Line) -> str:
    # `textLength` holds the columns, whichever of the fonts a machine has.
    return "".join(
        f'<tspan class="{colour if colour in COLOURS else "default"}" textLength="{len(text) * CELL:.1f}">'
        f"{escape(text)}</tspan>"
        for colour, text in line.pieces
    )


def recorded() -> str:
    """Return the picture of a run that takes place now."""
    words = [sys.executable, *SHOWN[1:]]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    lines = lines_of(record(words, environment=environment | {"TERM": "xterm-256color"}))
    return draw(lines, command=" ".join(SHOWN))


def main() -> None:
    """Record, and write the picture."""
    parser = argparse.ArgumentParser(description="Record examples/survive.py as an SVG that moves.")
    parser.add_argument("--into", type=Path, default=INTO, help="the file (%(default)s)")
    into: Path = parser.parse_args().into
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(recorded(), encoding="utf-8")


if __name__ == "__main__":
    main()
