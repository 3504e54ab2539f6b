"""Lines of several services on one terminal: each with its service's name before it, in a colour of its own:
`ServicePrinter`.

Pure but for the writing.
"""

import os
import threading
from collections.abc import Collection, Iterable, Sequence

from outlive.cli.output import Painted, Piece, deliver_lines, plain, say

# ECMA-48: cyan, yellow, green, magenta, blue, then their bright twins. Red stays for errors.
_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_MAX_LINE = 64 * 1024  # what has no newline by then is shown as a line


class ServicePrinter:
    """Takes output in pieces and prints whole lines; used by several threads.

    Attributes:
        has_printed: Whether any line was printed.
        is_cut: Whether a part of what was to be printed is not there (any more).
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        streams: Collection[str] = ("stdout", "stderr"),
        text: str | None = None,
        ignore_case: bool = False,
    ) -> None:
        """Make room for these names.

        Args:
            names: Of all services.
            streams: Whose output is printed.
            text: Only lines that contain it.
            ignore_case: Its ASCII letters stand for both cases.
        """
        self.has_printed = self.is_cut = False
        self._streams = streams
        found = None if text is None else os.fsencode(text)
        self._text = found.lower() if found is not None and ignore_case else found  # of bytes: ASCII alone
        self._ignore_case = ignore_case
        names = [*names]
        self._width = max((len(plain(name)) for name in names), default=0)
        self._colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}
        self._begun: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def feed(self, name: str, stream: str, data: bytes) -> None:
        """Print the lines that are complete with these bytes of one stream of a service."""
        if stream not in self._streams:
            return
        with self._lock:
            lines = (self._begun.pop((name, stream), b"") + data).split(b"\n")
            rest = lines.pop()
            if len(rest) > _MAX_LINE:
                lines.append(rest)
            elif rest:
                self._begun[name, stream] = rest
            if lines:
                self._write(name, lines)

    def finish(self, name: str) -> None:
        """Print what has no newline yet: nothing follows."""
        with self._lock:
            for key in [one for one in self._begun if one[0] == name]:
                self._write(name, [self._begun.pop(key)])

    def gap(self, name: str, stream: str, size: int) -> None:
        """Say that so many bytes of one stream of a service are not kept any more."""
        if stream in self._streams:
            self.lack(name, f"{size} bytes of output are not kept any more")

    def lack(self, name: str, text: str) -> None:
        """Say which part of a service's output is not there."""
        self.is_cut = True
        self.say(name, text)

    def say(self, name: str, text: str) -> None:
        """Print a line about a service on stderr, where no program takes it for output."""
        with self._lock:
            say([*self._prefix(name), f"* {text}"])

    def _write(self, name: str, lines: Iterable[bytes]) -> None:
        lines = [line.rstrip(b"\r") for line in lines]
        if self._text is not None:
            lines = [line for line in lines if self._text in (line.lower() if self._ignore_case else line)]
            if not lines:
                return
        self.has_printed = True
        deliver_lines(self._prefix(name), lines)

    def _prefix(self, name: str) -> Sequence[Piece]:
        words = f"{plain(name).ljust(self._width)} |"
        colour = self._colours.get(name)
        return (words if colour is None else Painted(words, colour), " ")
