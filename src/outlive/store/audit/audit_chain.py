"""The lines of the audit log and what ties them together: `make_line`, `digest`, `ChainCheck`, and the log's
key, `AuditKey`.

A line is one JSON object: "n" (its number, from 1, without holes), what happened, then "prev": the SHA-256 of
the line before it, without its newline. If a line in the middle is changed, removed or added, the chain
breaks right behind it. The last member is "mac": only a program that has the log's key can make it, so a
forged entry is distinguished from a true one.

The key is beside the log's folder, not in it, and only its user can read it: commands in `workspace`,
`offline` and `sealed` read no file of the state folder. The server writes it, under the log's lock. Reading
and writing the key blocks; everything else here is pure. Files, locks and the newest entry are
`audit_trail`'s.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Self

import orjson

from outlive.core.documents import decode_json
from outlive.core.values import dataclass, field, replace
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.frames import decoded

# What `AuditKey.seal` makes: the MAC is the last member, and covers everything before it.
_SEALED = re.compile(rb'\A(.*),"mac":"([0-9a-f]{64})"}\n?\Z', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditKey:
    """The key of one log.

    Attributes:
        log_id: The log's own id, 32 hexadecimal digits; each MAC covers it.
        key: 32 random bytes.
        first: Number of the first entry that carries a MAC: what the command line wrote before any server ran
            has none.
        has_begun: An entry with a MAC was written: if the log has none, it was removed.
    """

    log_id: str
    key: bytes
    first: int
    has_begun: bool = False

    @property
    def number(self) -> int:
        """The log's id as the registry stores it: its first 60 bits."""
        return int(self.log_id[:15], 16)

    def mac(self, content: bytes) -> str:
        """Return the MAC of a line or note."""
        return hmac.digest(self.key, self.log_id.encode() + content, hashlib.sha256).hex()

    def seal(self, line: bytes) -> bytes:
        """Return a line, which is a JSON object, with its MAC as last member; the newline stays."""
        body = line.removesuffix(b"\n").removesuffix(b"}")
        return body + b',"mac":"' + self.mac(body).encode() + b'"}\n'

    def has_sealed(self, line: bytes) -> bool:
        """Return whether `seal` made this line, with this key."""
        found = _SEALED.match(line)
        return found is not None and hmac.compare_digest(found[2].decode(), self.mac(found[1]))

    @staticmethod
    def is_sealed(line: bytes) -> bool:
        """Return whether a line carries a MAC, right or wrong."""
        return _SEALED.match(line) is not None

    @classmethod
    def make(cls, path: str, *, first: int) -> Self:
        """Make and store the key of a log whose next entry has the number `first`.

        Raises:
            OSError: The disk is full or refuses.
        """
        made = cls(log_id=secrets.token_hex(16), key=secrets.token_bytes(32), first=first)
        _keep(path, made)
        return made

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Return the key that is stored at `path`; None when there is none, or the file holds no key."""
        return decoded(read_small(path), cls._decode)

    @classmethod
    def _decode(cls, raw: bytes) -> Self:
        kept = decode_json(raw)
        log_id, key = str(kept["log_id"]), bytes.fromhex(kept["key"])
        if len(bytes.fromhex(log_id)) != 16 or len(key) != 32:
            raise ValueError("no key")
        return cls(log_id=log_id, key=key, first=int(kept["first"]), has_begun=kept["has_begun"] is True)

    def begin(self, path: str) -> Self:
        """Store that the first entry with a MAC was written; return the key as it is now."""
        begun = replace(self, has_begun=True)
        _keep(path, begun)
        return begun


def _keep(path: str, one: AuditKey) -> None:
    kept = {"log_id": one.log_id, "key": one.key.hex(), "first": one.first, "has_begun": one.has_begun}
    # A log without its key counts as broken. It is written twice in the life of a log.
    write_whole(path, json.dumps(kept).encode() + b"\n", survives="power cut")


# What an entry of the log itself reports, as a sentence for the check.
_GONE = {
    "log_missing": "the log was removed",
    "key_missing": "the log's key was removed",
    "note_forged": "the note of the newest entry was removed or written without the log's key",
}
FIRST = "0" * 64  # "prev" of the very first line, which has no line before it


def digest(line: bytes) -> str:
    """Return the digest by which the next line refers to this one; its newline does not count."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def make_line(entry: Mapping[str, object], *, number: int, prev: str, key: AuditKey | None = None) -> bytes:
    """Return the line of an entry, with its newline; with a MAC where the log has a key."""
    document = {"n": number, **entry, "prev": prev}
    line = _encode(document)
    return line if key is None else key.seal(line)


def _encode(document: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    except (
        TypeError
    ):  # half of a surrogate pair in a command, a number of more than 64 bits: orjson refuses both
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace") + b"\n"


def read_line(line: bytes) -> dict[str, Any] | None:
    """Return an entry with its "n" and "prev"; None for a line that is no entry of an audit log."""
    document = decoded(line, json.loads)
    if not isinstance(document, dict):
        return None
    number, prev = document.get("n"), document.get("prev")
    is_whole = isinstance(number, int) and isinstance(prev, str) and len(prev) == len(FIRST)
    return document if is_whole else None


@dataclass(slots=True)
class ChainCheck:
    """Takes lines, oldest first, and records every break.

    Attributes:
        first: Number of the first line; None before one came.
        last: Number of the newest line.
        head: Its digest.
        count: Lines seen.
        breaks: A sentence for each line that does not fit; at most 100 are kept.
        known: Digests by number to be compared (`watch`), and whether the line with that number had it.
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
        """Compare the digest of the line with that number, when it comes, with this one."""
        self.known[number] = (wanted, False)

    def feed(self, line: bytes) -> dict[str, Any] | None:
        """Take the next line; return its entry, None when it is no line of an audit log."""
        self.count += 1
        entry = read_line(line)
        if entry is None:
            self._note(f"Behind entry {self.last} lies a line that is no entry.")
            # The next entry refers to this line if it was there when that entry was written.
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
        # The first breaks show where to look; a rewritten log has one for each line.
        if len(self.breaks) < 100:
            self.breaks.append(sentence)
