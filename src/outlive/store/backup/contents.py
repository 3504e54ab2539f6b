"""What of a state folder a backup holds (`KEPT`) and what not (`LEFT_OUT`), and the archive's own two documents. Pure.

An archive is a tar (POSIX.1-2001, pax) in gzip. Its first member is `HEADER`, which says that it is one, and its last one
`MANIFEST`, which names every file between them with size and SHA-256: an archive without its end is no backup. Between them are
regular files only, each owned by uid 0 in the archive, and the restoring user's once it is restored. A log with holes is a sparse
file as GNU tar writes it (format 1.0), so that tar(1) reads an archive, too.

Names come from a program that may be an attacker: `checked_path` lets pass what this version itself would write, and nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from outlive.core.identity import is_process_id

VERSION = 1
HEADER, MANIFEST = "outlive-backup.json", "outlive-manifest.json"
_KIND = "outlive-backup"
_MAX_DEPTH = 5  # nodes/NAME/live/ID is the deepest name that any part of outlive makes
_MAX_NAME = 255  # bytes of a name on Linux (NAME_MAX)

PROCESSES, REGISTRY, AUDIT, IDENTITY, LIVE = "processes", "registry.db", "audit", "identity", "live"
KEYS = frozenset({"audit.key", "mcp.key", "mcp.ended", "tokens.json"})
# Names directly in the state folder. The journal `live` comes first: a process that ends meanwhile has its end in its own folder.
KEPT: tuple[str, ...] = (
    LIVE,
    IDENTITY,
    "audit.key",
    AUDIT,
    "waiting",
    "notices",
    "services",
    "nodes",
    "retention-clock",
    "tokens.json",
    "mcp.key",
    "mcp.ended",
    "bridge.json",
    "redact.extra",
    "operator.json",
    PROCESSES,
    REGISTRY,
)
# The rest, with the reason; a test compares both with `Layout`.
LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "*.sock": "a socket leads to a process of this machine",
        "*.lock": "a lock is held by a process of this machine",
        "supervisor.pid": "it is a lock, too",
        "prepared": "empty folders, made anew",
        "reserve": "room for records on a full disk, made anew",
        "gateways": "a restored machine joins anew: two with the same credential would take each other's place",
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


# The same for a process's folder. One that an archive brought could deny what the log has.
LEFT_OUT_OF_PROCESS: Mapping[str, str] = MappingProxyType({"index": "it is made anew from the log"})


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

    def view(self) -> dict[str, object]:
        """Return it as JSON."""
        holes = {} if self.data is None else {"data": [list(one) for one in self.data]}
        return {"name": self.name, "size": self.size, "sha256": self.sha256, **holes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a backup holds: `running` of its `processes` lived when it was made; `created` is ISO 8601 in UTC."""

    created: str
    outlive: str
    processes: int
    running: int
    output_bytes: int
    files: tuple[StoredFile, ...] = ()
    has_keys: bool = True

    @classmethod
    def parse(cls, header: Mapping[str, object], manifest: bytes) -> Self:
        """Read the manifest of an archive whose header has been checked.

        Raises:
            BadArchive: It is no manifest.
        """
        try:
            read = json.loads(manifest)
            files = tuple(_file(one) for one in read["files"])
            return cls(
                created=str(header["created"]),
                outlive=str(header["outlive"]),
                processes=int(read["processes"]),
                running=int(read["running"]),
                output_bytes=int(read["output_bytes"]),
                files=files,
                has_keys=read["has_keys"] is True,
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise BadArchive("its manifest cannot be read") from error

    def encode(self) -> bytes:
        """Return the manifest."""
        numbers = {"processes": self.processes, "running": self.running, "output_bytes": self.output_bytes}
        files = [one.view() for one in self.files]
        return json.dumps({**numbers, "has_keys": self.has_keys, "files": files}).encode()


def _file(one: Mapping[str, object]) -> StoredFile:
    size, data = one["size"], one.get("data")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError("a size is a number")
    pairs = None if not isinstance(data, list) else tuple((int(begin), int(length)) for begin, length in data)
    return StoredFile(name=str(one["name"]), size=size, sha256=str(one["sha256"]), data=pairs)


def encode_header(*, outlive: str, created: str) -> bytes:
    """Return the first member."""
    return json.dumps({"kind": _KIND, "version": VERSION, "outlive": outlive, "created": created}).encode()


def decode_header(raw: bytes) -> Mapping[str, object]:
    """Return what the first member says.

    Raises:
        BadArchive: It is none, or of a later format.
    """
    try:
        header = json.loads(raw)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("kind") != _KIND:
        raise BadArchive("it does not begin as one")
    version = header.get("version")
    if version != VERSION:
        raise BadArchive(f"its format is version {version!r}, and this outlive reads version {VERSION}")
    if not all(isinstance(header.get(name), str) for name in ("outlive", "created")):
        raise BadArchive("its header cannot be read")
    return header


def checked_path(name: str) -> Sequence[str]:
    """Return the parts of a path below the state folder.

    Raises:
        BadArchive: No backup holds a file of that name.
    """
    parts = name.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise BadArchive(f"{name[:80]!r} would lie outside of the state folder, or has two names")
    is_plain = name.isprintable() and all(
        len(part.encode("utf-8", "surrogateescape")) <= _MAX_NAME for part in parts
    )
    if not is_plain or len(parts) > _MAX_DEPTH or parts[0] not in KEPT:
        raise BadArchive(f"{name[:80]!r} is no file of a state folder")
    if parts[0] == PROCESSES and (len(parts) < 3 or not is_process_id(parts[1])):
        raise BadArchive(f"{name[:80]!r} is in no process's folder")
    if parts[0] == PROCESSES and parts[2] in LEFT_OUT_OF_PROCESS:
        raise BadArchive(f"{name[:80]!r} is made anew, and in no archive")
    return parts


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
