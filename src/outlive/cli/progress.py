"""A bar that says how far a verb is while a person waits: on stderr if that is a terminal, and nothing
anywhere else.

A thread draws it, so that the time goes on while the main thread waits. Lines that are printed meanwhile come
above it.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from outlive.cli.columns import cells, shortened
from outlive.cli.output import Line, Painted, Piece, draw, has_escapes, is_screen, is_watched, wants_colours

_UNNOTICED_S = 1.0  # what takes no longer needs no bar
_REDRAWN_S = 0.1  # the most that a count is behind
_SIZE = 40  # cells, where the terminal has as many
_DONE, _ALL_DONE, _LEFT = "38;5;197", "38;5;70", "38;5;237"  # of 256 colours: pink, green, grey


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Show how many of `total` are done while the block runs, and for how long it has.

    The yielded function counts one more.

    The bar is shown once the block has run for a second, and gone at the end, also after Ctrl-C. Without a
    total the count stands alone.
    """
    if total == 0 or not is_watched() or not has_escapes():
        yield lambda: None
        return
    bar = _ProgressBar(text, total, sys.stderr)
    with contextlib.ExitStack() as streams:
        streams.enter_context(contextlib.redirect_stderr(bar.above(sys.stderr)))
        # Nothing of the bar may reach a stdout that is no terminal, and nothing has to come above it.
        if is_screen():
            streams.enter_context(contextlib.redirect_stdout(bar.above(sys.stdout)))
        thread = threading.Thread(target=bar.draw_until_over, daemon=True)
        thread.start()
        try:
            yield bar.advance
        finally:
            bar.is_over.set()
            thread.join()  # it may be about to draw
            bar.erase()


class _ProgressBar:
    """The line of the terminal that the bar is on, and what it says."""

    def __init__(self, text: str, total: int | None, stderr: TextIO) -> None:
        self._text = text
        self._total = total
        self._done = 0
        self._begun = time.monotonic()
        self._stderr = stderr
        self.is_over = threading.Event()
        # Guards the terminal's newest line: `_shown` is what of it is ours; `_is_taken`: a line of another
        # one has not ended.
        self._lock = threading.RLock()
        self._shown: Line = ""
        self._is_taken = False

    def advance(self) -> None:
        """Count one more."""
        self._done += 1

    def above(self, stream: TextIO) -> TextIO:
        """Return a stream of the same terminal; the bar is drawn again below what is written to it."""
        return cast("TextIO", _StreamAbove(stream, self))

    def write_above(self, stream: TextIO, text: str) -> int:
        with self._lock:
            self.erase()
            written = stream.write(text)
            stream.flush()
            self._is_taken = bool(text) and not text.endswith("\n")
        return written

    def draw_until_over(self) -> None:
        """Draw the bar from the first second on, whenever what it says has changed."""
        wait_s = _UNNOTICED_S
        while not self.is_over.wait(wait_s):
            wait_s = _REDRAWN_S
            # A terminal that is gone (EIO) is the main thread's to notice.
            with self._lock, contextlib.suppress(OSError, ValueError):
                line = self._line()
                if line != self._shown and not self._is_taken:
                    draw(line, self._stderr)
                    self._shown = line

    def erase(self) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            if self._shown:
                self._shown = ""
                draw("", self._stderr)

    def _line(self) -> Line:
        return bar_line(
            self._text,
            self._done,
            self._total,
            seconds=int(time.monotonic() - self._begun),
            width=os.get_terminal_size(self._stderr.fileno()).columns or 80,
            has_colours=wants_colours(self._stderr),
            is_ascii=not self._stderr.encoding.lower().startswith("utf"),
        )


class _StreamAbove:
    """Stands for stdout or stderr while there may be a bar below what is written."""

    def __init__(self, stream: TextIO, bar: _ProgressBar) -> None:
        self._stream = stream
        self._bar = bar

    def write(self, text: str) -> int:
        return self._bar.write_above(self._stream, text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def bar_line(
    text: str,
    done: int,
    total: int | None,
    *,
    seconds: int,
    width: int,
    has_colours: bool,
    is_ascii: bool = False,
) -> Line:
    """Return the line: text, bar, count and time.

    It leaves the terminal's last cell free, so that no terminal wraps. Pure.
    """
    clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    count = f"{done}" if total is None else f"{done:{len(str(total))}}/{total}"
    size = min(_SIZE, width - 1 - cells(f"{text}  {count} {clock}"))
    if size <= 0:
        return shortened(f"{text} {count} {clock}", width - 1)
    bar: tuple[Piece, ...] = (f"{text} ",)
    if total is not None:
        full, half = ("-", " ") if is_ascii else ("━", "╸")
        halves = int(2 * size * min(done / total, 1))
        begin = full * (halves // 2) + half * (halves % 2)
        # Without colours the rest is blank: it would look as if it were done.
        rest = (full if has_colours else " ") * (size - len(begin))
        bar += (Painted(begin, _ALL_DONE if done >= total else _DONE), Painted(rest, _LEFT), " ")
    return (*bar, Painted(count, "32"), " ", Painted(clock, "33"))
