"""What of a state folder a backup holds (`KEPT`) and what not (`LEFT_OUT`), and the archive's own two
documents. Pure.

An archive is a tar (POSIX.1-2001, pax) in gzip. Its first member is `HEADER`, which says that it is one, and
its last one `MANIFEST`, which has the number of the files between them and one SHA-256 of all their names,
sizes and contents: an archive without its end is no backup, and of a file nothing is kept in memory but its
place (decision 224). Between them are regular files only, each owned by uid 0 in the archive, and the
restoring user's once it is restored. A log with holes is a sparse file as GNU tar writes it (format 1.0), so
that tar(1) reads an archive, too.

Names come from a program that may be an attacker: a table of patterns (`KEPT`) lets pass what this version
itself would write, and nothing else. The writer leaves out what is not in it.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self

from outlive import FORMAT
from outlive.core.documents import BadDocument, decode_object
from outlive.core.identity import PROCESS_ID_PATTERN
from outlive.core.layout import STREAM_FILES, Layout
from outlive.core.values import dataclass, field

HEADER, MANIFEST = "outlive-backup.json", "outlive-manifest.json"
_KIND = "outlive-backup"
MAX_PIECES = 20_000  # of a file with holes: their map, some 30 bytes each, comes before its data
MAX_SMALL = 64 << 20  # of a file that its reader takes into memory: a script has 16 MiB at most
MAX_DOCUMENT = 4096  # bytes of the header, and of the manifest: each has a handful of members

PROCESSES, REGISTRY, AUDIT, IDENTITY, LIVE = "processes", "registry.db", "audit", "identity", "live"
KEYS = frozenset({"audit.key", "mcp.key", "mcp.ended", "tokens.json"})
_ID = PROCESS_ID_PATTERN
_COPIED = f"({re.escape(Layout.ASIDE)})?"
# A process's folder. Its socket is made anew, and `index` from the log: one that an archive brought could
# deny what the log has.
_OF_PROCESS = (
    "spec|script|pid|init|exit|task|labels|masks|sizes|stop|paused|unbound|done|closed|workspace|filter|codes"
    "|(unfiltered/)?(out|err|idx|gaps|masks)"
)
# Names directly in the state folder, each with a pattern of what lies below it (None: it is a file), in the
# order in which an archive has them. The journal `live` comes first: a process that ends meanwhile has its
# end in its own folder.
KEPT: Mapping[str, str | None] = MappingProxyType(
    {
        LIVE: None,
        IDENTITY: None,
        "audit.key": None,
        AUDIT: r"head|[0-9]{12,}\.jsonl",
        "waiting": rf"{_ID}{_COPIED}|limits\.json|order\.json|removed-ids|spent-ids",
        "notices": _ID,
        "services": rf"[0-9a-f]{{32}}\.json{_COPIED}",
        "nodes": rf"[a-z0-9][a-z0-9_.-]{{0,62}}/(node|live/{_ID})",
        "retention-clock": None,
        "tokens.json": None,
        "mcp.key": None,
        "mcp.ended": None,
        "bridge.json": None,
        "redact.extra": None,
        "operator.json": None,
        PROCESSES: f"{_ID}/({_OF_PROCESS})",
        REGISTRY: None,
    }
)
# What grows: output and its order, the journal, the audit log, the registry. No reader takes it whole.
_is_large = re.compile(
    rf"{LIVE}|{AUDIT}/.*|{REGISTRY}|{PROCESSES}/{_ID}/(unfiltered/)?(out|err|idx)"
).fullmatch
_is_kept = re.compile(
    "|".join(re.escape(name) + (f"/({below})" if below else "") for name, below in KEPT.items())
).fullmatch
_ORDER = {name: place for place, name in enumerate(KEPT)}
# The rest, with the reason; a test compares both with `Layout`.
LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "*.sock": "a socket leads to a process of this machine",
        "*.lock": "a lock is held by a process of this machine",
        "supervisor.pid": "it is a lock, too",
        "prepared": "empty folders, made anew",
        "programs": "copies of the installation's program, made anew",
        "reserve": "room for records on a full disk, made anew",
        "gateways": (
            "a restored machine joins anew: two with the same credential would take each other's place"
        ),
        "containers": "they live in this machine's Docker",
        "notes": "ends that the guardian has seen; the supervisor takes them over at once",
        "disk.low": "it is about this machine's disk",
        "ui": "files that open the page of the server that runs, each for a minute",
        "spans": "this machine's server sends them: a copy would send them once more",
        "server.json": "addresses of the server that runs",
        "server.stopped": "it counts in one boot of this machine",
        "server.wanted": "services that are restored are not started by themselves",
        "service.json": "the unit of this machine that owns the folder",
        "keeper.log": "a log for people",
        "server.log": "a log for people",
        "restore.incomplete": "it exists while a restore is under way",
    }
)


class BadArchive(Exception):
    """The bytes are no backup of outlive, or not a whole one; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file in the archive.

    Attributes:
        name: Its path below the state folder.
        size: Bytes that it has once it is restored, holes included.
        sha256: Of the bytes in the archive.
        data: Offsets and lengths of what is not a hole; None for a file without holes.
    """

    name: str
    size: int
    sha256: str
    data: tuple[tuple[int, int], ...] | None = None

    @property
    def stored_bytes(self) -> int:
        """Its size without holes."""
        return self.size if self.data is None else sum(length for _, length in self.data)

    def line(self) -> bytes:
        """Return what the digest of an archive's files is made of."""
        return json.dumps([self.name, self.size, self.sha256, self.data]).encode() + b"\n"


@dataclass(slots=True)
class FileList:
    """The files of one archive, counted one after the other: nothing is kept of each.

    Every archive has them in one order, so that the place of the last one tells whether a name comes twice:
    as in `KEPT`, sorted within, and of a process all that its folder has.
    """

    count: int = 0
    processes: int = 0
    output_bytes: int = 0
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    _last: tuple[int, tuple[str, ...]] = (-1, ())
    _seen: set[str] = field(default_factory=set)  # names in the folder of the last process

    def check(self, name: str) -> Sequence[str]:
        """Return the parts of the next file's path below the state folder.

        Raises:
            BadArchive: No backup holds a file of that name, or not here.
        """
        parts = tuple(checked_path(name))
        is_process = parts[0] == PROCESSES
        place = _ORDER[parts[0]], parts[1:2] if is_process else parts[1:]
        if place < self._last or (place == self._last and not is_process):
            raise BadArchive(f"{name[:80]!r} is in it twice, or at another place than in a backup")
        if place != self._last:
            self._seen.clear()
            self.processes += is_process
        if name in self._seen:
            raise BadArchive(f"{name[:80]!r} is in it twice")
        self._last = place
        self._seen.add(name)
        return parts

    def add(self, file: StoredFile) -> None:
        """Count a file, whose name has been checked."""
        self.count += 1
        if file.name.startswith(f"{PROCESSES}/") and file.name.split("/", 2)[-1] in STREAM_FILES:
            self.output_bytes += file.stored_bytes
        self._digest.update(file.line())

    @property
    def sha256(self) -> str:
        """The digest of all files: their names, sizes and contents."""
        return self._digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a backup holds: `running` of its `processes` lived when it was made; `created` is ISO 8601 in
    UTC, `files` how many there are and `sha256` the digest of all.
    """

    created: str
    outlive: str
    running: int
    files: int
    processes: int
    output_bytes: int
    sha256: str
    has_keys: bool = True

    @classmethod
    def parse(cls, header: Mapping[str, str], manifest: bytes, files: FileList) -> Self:
        """Read the manifest of an archive whose header has been checked and whose files were counted.

        Raises:
            BadArchive: It is no manifest, or one of other files.
        """
        try:
            read = decode_object(manifest, max_bytes=MAX_DOCUMENT)
            running, count, sha256 = read["running"], read["files"], read["sha256"]
        except (BadDocument, LookupError) as error:
            raise BadArchive("its manifest cannot be read") from error
        if (count, sha256) != (files.count, files.sha256):
            raise BadArchive("its files are not those of its manifest")
        if not isinstance(running, int) or not 0 <= running <= files.processes:
            raise BadArchive("its manifest cannot be read")
        return cls.of(files, header, running=running, has_keys=read.get("has_keys") is True)

    @classmethod
    def of(cls, files: FileList, header: Mapping[str, str], *, running: int, has_keys: bool) -> Self:
        """Return the contents of an archive whose files were counted."""
        return cls(
            created=header["created"],
            outlive=header["outlive"],
            running=running,
            files=files.count,
            processes=files.processes,
            output_bytes=files.output_bytes,
            sha256=files.sha256,
            has_keys=has_keys,
        )

    def encode(self) -> bytes:
        """Return the manifest."""
        numbers = {"running": self.running, "has_keys": self.has_keys, "files": self.files}
        return json.dumps({**numbers, "sha256": self.sha256}).encode()


def encode_header(*, outlive: str, created: str) -> bytes:
    """Return the first member."""
    return json.dumps({"kind": _KIND, "format": FORMAT, "outlive": outlive, "created": created}).encode()


def decode_header(raw: bytes) -> Mapping[str, str]:
    """Return what the first member says: `created` and `outlive`.

    Raises:
        BadArchive: It is none, or of another format.
    """
    try:
        header = decode_object(raw, max_bytes=MAX_DOCUMENT)
    except BadDocument:
        header = {}
    if header.get("kind") != _KIND:
        raise BadArchive("it does not begin as one")
    if header.get("format") != FORMAT:
        made = f"it is of format {header.get('format')!r}, made by outlive {str(header.get('outlive'))[:40]}"
        raise BadArchive(f"{made}, and this outlive reads format {FORMAT}")
    known = {name: header.get(name) for name in ("outlive", "created")}
    if not all(isinstance(text, str) and text.isprintable() for text in known.values()):
        raise BadArchive("its header cannot be read")
    return {name: str(text) for name, text in known.items()}


def is_kept(name: str) -> bool:
    """Tell whether an archive has a file of that path below the state folder."""
    return _is_kept(name) is not None


def is_large(name: str) -> bool:
    """Tell whether a file may have any size, and holes: all others are read whole, and small."""
    return _is_large(name) is not None


def checked_path(name: str) -> Sequence[str]:
    """Return the parts of a path below the state folder.

    Raises:
        BadArchive: No backup holds a file of that name.
    """
    if _is_kept(name) is None:
        raise BadArchive(f"{name[:80]!r} is no file of a backup")
    return name.split("/")


def clipped_gaps(raw: bytes, sizes: Sequence[int]) -> bytes:
    """Return the released ranges of stdout and stderr (`gaps`) as far as the copied logs go.

    A log that was copied up to some size is released further on meanwhile; behind its end nothing is missing.
    """
    words = raw.split()
    if len(words) != 4 or not all(word.isdigit() for word in words):
        return raw
    numbers = [int(word) for word in words]
    for stream, size in enumerate(sizes):
        begin, end = numbers[2 * stream : 2 * stream + 2]
        numbers[2 * stream : 2 * stream + 2] = (begin, min(end, size)) if begin < size else (0, 0)
    return "{} {} {} {}\n".format(*numbers).encode()
