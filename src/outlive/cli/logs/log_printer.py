"""How `outlive logs` prints: as the process wrote it (`RawPrinter`), or a line of JSON for each piece (`JsonPrinter`)."""

import codecs
import json
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from outlive.cli.output import say
from outlive.core.redactions import redacted_member
from outlive.store.log_search import LogLine

_NAMES = ("stdout", "stderr")


class Printer(Protocol):
    """Takes what is to be shown; whoever reads slowly is waited for."""

    def data(self, stream: int, data: bytes, end: int, *, redacted: int = 0) -> None:
        """Show bytes of a stream (0 stdout, 1 stderr) that end at offset `end`; so many secrets are stars in them."""

    def gap(self, stream: int, start: int, end: int) -> None:
        """Tell that these bytes are not kept any more."""

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show lines that match."""


class RawPrinter:
    """Bytes as they are: stdout to stdout, stderr to stderr; gaps are told on stderr."""

    def data(self, stream: int, data: bytes, end: int, *, redacted: int = 0) -> None:  # noqa: ARG002 -- the protocol's
        """Show bytes."""
        _write((sys.stdout, sys.stderr)[stream].fileno(), data)

    def gap(self, stream: int, start: int, end: int) -> None:  # noqa: ARG002 -- the protocol's
        """Tell how many are missing."""
        say(f"outlive: {end - start} bytes of output are not kept any more")

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show lines, those around them included; neighbours of one stream in one write."""
        pieces: list[bytes] = []
        for place, line in enumerate(lines):
            if line.before or line.after:
                pieces.append(b"--\n")
            pieces += [one + b"\n" for one in (*line.before, line.data, *line.after)]
            if place + 1 == len(lines) or lines[place + 1].stream != line.stream:
                self.data(line.stream, b"".join(pieces), line.end)
                pieces.clear()


class JsonPrinter:
    """Objects with the members of /v1: {type, data, end}, {type, gap, from, to, end}, or a match. Text is UTF-8."""

    def __init__(self) -> None:
        """Begin."""
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = (decoder("replace"), decoder("replace"))

    def data(self, stream: int, data: bytes, end: int, *, redacted: int = 0) -> None:
        """Show text; a character that is cut here comes with the next piece."""
        text = self._decoders[stream].decode(data)
        if text:
            _write_json({"type": _NAMES[stream], "data": text, "end": end} | redacted_member(redacted))

    def gap(self, stream: int, start: int, end: int) -> None:
        """Tell what is missing."""
        _write_json({"type": _NAMES[stream], "gap": True, "from": start, "to": end, "end": end})

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show lines, each with where it lies."""
        for line in lines:
            _write_json(
                {
                    "type": _NAMES[line.stream],
                    "offset": line.offset,
                    "end": line.end,
                    "line": _text(line.data),
                    "before": [*map(_text, line.before)],
                    "after": [*map(_text, line.after)],
                }
                | redacted_member(line.redacted)
            )


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _write_json(document: dict[str, object]) -> None:
    _write(sys.stdout.fileno(), json.dumps(document).encode() + b"\n")


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
