"""What the command line prints: errors with their hint on stderr, JSON in one line, diffs.

Every verb imports this, completion and the MCP relay too: it must stay free of the client.

Progress where a person waits: a bar on stderr if that is a terminal, and nothing anywhere else.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from outlive.core.errors import OutliveError
from outlive.core.hints import hint_for
from outlive.core.redactions import hidden_words

_UNNOTICED_S = 1.0  # what takes no longer needs no bar
_DIFF_COLOURS = {"+": "32", "-": "31", "@": "36"}  # ECMA-48: green, red, cyan


def show(text: str) -> None:
    """Print a line of the answer on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def show_json(document: Mapping[str, object]) -> None:
    """Print exactly one line of JSON on stdout."""
    show(json.dumps(document))


def is_coloured() -> bool:
    """Tell whether stdout is a terminal that wants colours (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Return how many cells a line of stdout has; None where it is no terminal, and nothing has to be cut."""
    if not sys.stdout.isatty():
        return None
    try:
        return (
            os.get_terminal_size(sys.stdout.fileno()).columns or None
        )  # 0: nothing has told the terminal its size
    except OSError:
        return None


def show_diff(diff: str) -> None:
    """Print a unified diff on stdout, in colours where that is a terminal that wants them (no-color.org)."""
    has_colours = is_coloured()
    for line in diff.splitlines():
        colour = _DIFF_COLOURS.get(line[:1]) if has_colours and not line.startswith(("+++", "---")) else None
        show(f"\x1b[{colour}m{line}\x1b[0m" if colour else line)


def say(text: str) -> None:
    """Print a line for people on stderr; a reader that has left stops nothing."""
    # Python has no stderr where it was started without one.
    with contextlib.suppress(BrokenPipeError, AttributeError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def show_error(error: OutliveError, *, word: str = "") -> None:
    """Print what is wrong, and what to do next, on stderr: a line each.

    `word` is what the user has called what it is about; of several that stands before the sentence.
    """
    say(f"outlive: {plain(word)}: {plain(error.message)}" if word else f"outlive: {plain(error.message)}")
    if hint := hint_of(error, word=word):
        say(f"  {hint}")


def hint_of(error: OutliveError, *, verb: str = "", word: str = "") -> str:
    """Return what to do next as it can be copied: `outlive logs web`, not `outlive logs ID`.

    Args:
        error: Of which.
        verb: Whose it is, for the hint that names the verb itself; without one that is said in words.
        word: What the user has called the process; "" leaves `ID`.
    """
    hint = hint_for(error, "cli")
    hint = hint.replace("`outlive VERB --help`", f"`outlive {verb} --help`" if verb else "`--help`")
    return hint.replace(" ID`", f" {plain(word)}`") if word else hint


def plain(text: str, width: int = 2000) -> str:
    """Return a text on one line, cut to a width, without characters that a terminal would obey."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def tell_hidden(count: int, *, by: str | None) -> None:
    """Tell a person on stderr how many secrets are stars in what was shown, and that `by` shows them, if anything does.

    Where stderr is no terminal it says nothing: a program reads it.
    """
    if count and sys.stderr is not None and sys.stderr.isatty():
        shows = "" if by is None else f", {by} shows {'it' if count == 1 else 'them'}"
        say(f"outlive: {hidden_words(count)}{shows}")


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Show how many of `total` are done while the block runs, and for how long it has; what it yields counts one more.

    It is shown at a terminal only, once the block has run for a second, and gone at the end, also after Ctrl-C. Without a total the
    count stands alone.
    """
    if total == 0 or sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    import threading  # noqa: PLC0415 -- start-up time: only a terminal needs these

    bar = _LateBar(text, total)
    timer = threading.Timer(_UNNOTICED_S, bar.begin)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        timer.join()  # it may be about to draw
        bar.end()


class _LateBar:
    """A bar of rich, which is imported and drawn when it begins: a thread does that, and the main thread counts."""

    def __init__(self, text: str, total: int | None) -> None:
        self._text = text
        self._total = total
        self._done = 0
        self._redraw: Callable[[], None] = lambda: None
        self._stop: Callable[[], None] = lambda: None

    def begin(self) -> None:
        from rich.console import Console  # noqa: PLC0415 -- start-up time
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # What is printed meanwhile comes above the bar; by way of the bar's own file, so not where stdout is another one.
        above = sys.stdout.isatty()
        bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=above)
        task = bar.add_task(self._text, total=self._total, completed=self._done)
        bar.start()
        self._redraw = lambda: bar.update(task, completed=self._done)
        self._stop = bar.stop

    def advance(self) -> None:
        self._done += 1
        self._redraw()

    def end(self) -> None:
        self._stop()
