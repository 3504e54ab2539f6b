"""The audit log's lines and what ties them together: `make_line`, `digest`, `ChainCheck`. No I/O.

A line is one JSON object: "n" (its number, from 1, without holes), what happened, then "prev": the SHA-256 of the
line before it, without its newline. Changing, removing or adding a line in the middle breaks the chain right behind it. Last
comes "mac" (`audit_key`), which takes the log's key to make.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from outlive.store.audit_key import AuditKey

_GONE = {
    "log_missing": "the log was removed",
    "key_missing": "the log's key was removed",
    "note_forged": "the note of the newest entry was removed or written without the log's key",
}
FIRST = "0" * 64  # what the very first line has for the line before it


def digest(line: bytes) -> str:
    """Return what the next line says of this one; its newline does not count."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def make_line(entry: Mapping[str, object], *, number: int, prev: str, key: AuditKey | None = None) -> bytes:
    """Return the line of an entry, with its newline; with a MAC where the log has a key."""
    document = {"n": number, **entry, "prev": prev}
    line = _encode(document)
    return line if key is None else key.seal(line)


def _encode(document: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # half of a surrogate pair in a command, a number of more than 64 bits
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace") + b"\n"


def read_line(line: bytes) -> dict[str, Any] | None:
    """Return an entry with its "n" and "prev"; None for what is no line of an audit log."""
    try:
        document = json.loads(line)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    number, prev = document.get("n"), document.get("prev")
    is_whole = isinstance(number, int) and isinstance(prev, str) and len(prev) == len(FIRST)
    return document if is_whole else None


@dataclass(slots=True)
class ChainCheck:
    """Follows lines, oldest first, and notes every break.

    Attributes:
        first: Number of the first line; None before one came.
        last: Number of the newest line.
        head: Its digest.
        count: Lines seen.
        breaks: A sentence for each place that does not fit; at most 100 are kept.
        known: Digests by number that are looked for (`watch`), and whether they were met.
        key: Makes the MACs of the entries from `key.first` on; None: they are not checked.
        sealed: Lines that carry a MAC, right or wrong.
    """

    first: int | None = None
    last: int = 0
    head: str = FIRST
    count: int = 0
    breaks: list[str] = field(default_factory=list)
    known: dict[int, tuple[str, bool]] = field(default_factory=dict)
    key: AuditKey | None = None
    sealed: int = 0

    def watch(self, number: int, wanted: str) -> None:
        """Look whether the line of that number has this digest."""
        self.known[number] = (wanted, False)

    def feed(self, line: bytes) -> dict[str, Any] | None:
        """Take the next line; return its entry, None when it is no line of an audit log."""
        self.count += 1
        entry = read_line(line)
        if entry is None:
            self._note(f"Behind entry {self.last} lies a line that is no entry.")
            self.head = digest(line)
            return None
        number, prev = int(entry["n"]), str(entry["prev"])
        if self.first is None:
            self.first = number
            if number == 1 and prev != FIRST:
                self._note("Entry 1 names a line before it.")
        elif number != self.last + 1:
            self._note(f"Entry {number} follows entry {self.last}.")
        elif prev != self.head:
            self._note(f"Entry {self.last} was changed, or entry {number} was: they do not fit together.")
        self.sealed += AuditKey.is_sealed(line)
        if self.key is not None and number >= self.key.first and not self.key.has_sealed(line):
            self._note(f"Entry {number} was not written with the log's key: its MAC is missing or wrong.")
        if entry.get("what") == "audit" and entry.get("reason") in _GONE:
            self._note(f"Entry {number} tells that {_GONE[entry['reason']]} before it.")
        self.last, self.head = number, digest(line)
        if number in self.known:
            wanted = self.known[number][0]
            self.known[number] = (wanted, wanted == self.head)
        return entry

    def _note(self, sentence: str) -> None:
        if len(self.breaks) < 100:  # the first ones tell where to look
            self.breaks.append(sentence)
