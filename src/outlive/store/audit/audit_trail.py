"""The audit log on disk: `AuditTrail`, files that only grow, one after the other, and a note of their newest
entry.

Several programs may append (the server, and the command line where it makes tokens); a lock of its own lets
one batch be written at a time. Blocking: not for the event loop. Files are named by the number of their first
entry; when there are more than the setting allows, the oldest are removed.

The note `head` holds number and digest of the newest entry, its file and that file's size, and the number of
the oldest entry. It shows that lines are missing at an end, which a chain alone cannot. What a line looks
like is defined in `audit_chain`.

Reading pages of entries, the newest first, and when no server ran, checks nothing: files are read whole, and
searched as bytes; entries are parsed that an answer needs. Of the usual eight files of 16 MiB that is a tenth
of a second at most.
"""

import contextlib
import fcntl
import hmac
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from outlive.core.documents import decode_json
from outlive.core.values import dataclass, field, replace
from outlive.kernel.files import open_place, set_aside
from outlive.protocols.frames import decoded
from outlive.store.audit.audit_chain import FIRST, AuditKey, ChainCheck, digest, make_line, read_line

_SUFFIX = ".jsonl"
# The note is padded, so that it is always replaced in place by one write of the same length.
_HEAD_BYTES = 512
_DIGITS = 12  # of the number in a file's name, so that names sort by number
_READ_BYTES = 1024 * 1024  # from the end of a file: a torn line is looked for within so much


@dataclass(frozen=True, slots=True)
class _Head:
    """Where the log ends: the newest entry, the file that holds it and that file's size.

    And the oldest entry kept.
    """

    n: int = 0
    hash: str = FIRST
    file: str = ""
    size: int = 0
    first: int = 1
    mac: str = ""

    def noted(self, key: AuditKey | None) -> bytes:
        """Return the note's content, always `_HEAD_BYTES` long; with a MAC where the log has a key."""
        document = self._content()
        if key is not None:
            document["mac"] = key.mac(json.dumps(document).encode())
        return json.dumps(document).encode().ljust(_HEAD_BYTES - 1) + b"\n"

    def is_of(self, key: AuditKey) -> bool:
        """Return whether the note was written with this key."""
        return hmac.compare_digest(self.mac, key.mac(json.dumps(self._content()).encode()))

    def _content(self) -> dict[str, object]:
        return {"n": self.n, "hash": self.hash, "file": self.file, "size": self.size, "first": self.first}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What a check has found: `breaks` prove a change, `notes` do not.

    `first`, `last`, `head`: number of the oldest entry, number and digest of the newest one.
    """

    entries: int
    first: int
    last: int
    head: str
    files: int
    breaks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was found that proves a change."""
        return not self.breaks


class AuditTrail:
    """The audit log of one state folder. Not for several threads at once."""

    def __init__(
        self,
        folder: str,
        *,
        key_file: str,
        makes_key: bool = True,
        max_bytes: int = 16 * 1024 * 1024,
        max_files: int = 8,
    ) -> None:
        """Write into `folder`, which is made at the first append; nothing is opened yet.

        Args:
            folder: The folder of the log's files.
            key_file: The file of the log's key; without it MACs are not checked.
            makes_key: Make a missing key. Only the server does.
            max_bytes: Begin a new file from this size on.
            max_files: Keep so many files.
        """
        self._folder = folder
        self._key_file = key_file
        self._makes_key = makes_key
        self._max_bytes = max_bytes
        self._max_files = max(1, max_files)

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Append entries; when this returns the kernel has them, so a kill of this process loses none.

        Raises:
            OSError: The disk is full or refuses; then no entry was written.
        """
        with contextlib.suppress(FileExistsError):  # never makedirs: the state folder may have been moved
            os.mkdir(self._folder, mode=0o700)
        with self._locked(fcntl.LOCK_EX), self._open_head() as head_fd:
            key = AuditKey.read(self._key_file)
            noted = _read_head(head_fd)
            head, surprise = self._settle(noted, key)
            if key is not None and key.has_begun and not head.n:
                key, surprise = None, _surprise("log_missing", 0)  # what is written now is another log
            elif key is not None and key.has_begun and (noted is None or not noted.is_of(key)):
                surprise = _surprise("note_forged", 0)  # or removed: what it recorded is lost for good
            elif key is None and noted is not None and noted.mac:
                surprise = _surprise("key_missing", 0)
            if key is None and self._makes_key:
                key = AuditKey.make(self._key_file, first=head.n + 1)
            # What was found is recorded as an entry of its own, before anything new.
            todo = [surprise, *entries] if surprise else list(entries)
            while todo:
                head, todo = self._write_some(head, todo, head_fd, key)
            if key is not None and not key.has_begun:
                key.begin(self._key_file)

    def log_number(self) -> int:
        """Return the number by which the registry knows this log; 0 before it has a key."""
        key = AuditKey.read(self._key_file)
        return 0 if key is None else key.number

    def sync(self) -> None:
        """Have the newest file and the note reach the disk (fdatasync(2))."""
        names = _files(self._folder)
        for name in [*names[-1:], "head"]:
            with contextlib.suppress(FileNotFoundError), self._open(name, os.O_RDONLY) as fd:
                os.fdatasync(fd)

    def lines(self) -> Iterator[bytes]:
        """Yield all complete lines, oldest first."""
        for name in _files(self._folder):
            yield from _whole_lines(f"{self._folder}/{name}")

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield all entries, oldest first."""
        for line in self.lines():
            entry = read_line(line)
            if entry is not None:
                yield entry

    def verify(self, *, known: tuple[int, str] | None = None, registered: int = 0) -> AuditReport:
        """Read everything and check whether it fits together.

        Args:
            known: Number and digest of an entry that were noted earlier, elsewhere.
            registered: The `log_number` that the registry has stored; 0: none.
        """
        check = ChainCheck(key=AuditKey.read(self._key_file))
        breaks = _judge_log(check.key, registered)
        if not os.path.isdir(self._folder):
            return _nothing(check.key, breaks, registered)
        # A shared lock: no writer may append between the reading of the note and of the lines.
        with self._locked(fcntl.LOCK_SH):
            head = self._noted_head()
            for number, wanted in [(head.n, head.hash)] if head else []:
                check.watch(number, wanted)
            if known is not None and (head is None or known[0] != head.n):
                check.watch(*known)
            files = _files(self._folder)
            for line in self.lines():
                check.feed(line)
            torn = _torn_bytes(f"{self._folder}/{files[-1]}") if files else 0
        if not check.count and (head is None or not head.n):
            return _nothing(check.key, breaks, registered)
        notes = [f"The last line is torn ({torn} bytes): a crash; it was never acknowledged."] if torn else []
        if check.key is None and check.sealed:
            notes.append("MACs were not checked: the log's key is not here.")
        breaks += [*check.breaks, *_judge_ends(check, head, notes)]
        if known is not None and not _was_met(check, head, known):
            breaks.append(f"Entry {known[0]} is not the one that was noted.")
        return AuditReport(
            entries=check.count,
            first=check.first or 1,
            last=check.last,
            head=check.head,
            files=len(files),
            breaks=breaks,
            notes=notes,
        )

    def _settle(self, head: _Head | None, key: AuditKey | None) -> tuple[_Head, dict[str, object] | None]:
        """Return where to go on, and an entry about changes that were not noted; None when there are none."""
        files = _files(self._folder)
        if head is None:
            return self._found_head(files)
        size = _size(f"{self._folder}/{head.file}") if head.file else 0
        following = _name_of(head.n + 1)
        if size == head.size and head.file != following and files[-1:] == [following]:
            # A writer was killed right after it had made a new file.
            head = replace(head, file=following, size=0)
            size = _size(f"{self._folder}/{following}")
        is_newest = files[-1:] == ([head.file] if head.file else [])
        if size == head.size and is_newest:
            return head, None
        if size < head.size or not is_newest:
            # Go on after the noted entry: the missing entries stay missing, and every check reports them.
            newest = files[-1] if files else ""
            head = _Head(n=head.n, hash=head.hash, file=newest, size=_size(f"{self._folder}/{newest}"))
            return head, _surprise("entries_missing", 0)
        return self._adopt(head, f"{self._folder}/{head.file}", size, key)

    def _adopt(
        self, head: _Head, path: str, size: int, key: AuditKey | None
    ) -> tuple[_Head, dict[str, object] | None]:
        """Take over what a writer has appended without noting it: it was killed in between."""
        with open(path, "rb") as file:
            file.seek(head.size)
            rest = file.read(size - head.size)
        whole = rest[: rest.rfind(b"\n") + 1]
        # Only entries that continue the chain with the right MAC can be that writer's.
        for line in whole.splitlines(keepends=True):
            entry = read_line(line)
            is_next = entry is not None and entry["n"] == head.n + 1 and entry["prev"] == head.hash
            if not is_next or (key is not None and not key.has_sealed(line)):
                return replace(head, size=size), _surprise("foreign_lines", 0)
            head = replace(head, n=head.n + 1, hash=digest(line), size=head.size + len(line))
        torn = len(rest) - len(whole)
        if not torn:
            return head, None
        os.truncate(path, head.size)
        return head, _surprise("torn_line", torn)

    def _found_head(self, files: Sequence[str]) -> tuple[_Head, dict[str, object] | None]:
        """Return where the files themselves end: for a new log, or for one whose note is gone."""
        if not files:
            return _Head(), None
        check = ChainCheck()
        for line in self.lines():
            check.feed(line)
        path = f"{self._folder}/{files[-1]}"
        torn = _torn_bytes(path)
        if torn:
            os.truncate(path, _size(path) - torn)
        head = _Head(check.last, check.head, files[-1], _size(path), check.first or 1)
        return head, _surprise("note_missing", torn)

    def _write_some(
        self, head: _Head, entries: list[Mapping[str, object]], head_fd: int, key: AuditKey | None
    ) -> tuple[_Head, list[Mapping[str, object]]]:
        """Write as many entries as fit into the file, at least one.

        Return where the log ends and the remaining entries.
        """
        if not head.file or head.size >= self._max_bytes:
            head = _Head(head.n, head.hash, _name_of(head.n + 1), 0, head.first)
        lines: list[bytes] = []
        number, prev, size = head.n, head.hash, head.size
        for entry in entries:
            if size >= self._max_bytes:
                break
            number += 1
            line = make_line(entry, number=number, prev=prev, key=key)
            prev, size = digest(line), size + len(line)
            lines.append(line)
        with self._open(head.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
            try:
                _write_all(fd, b"".join(lines))
                # A part of a batch must not stay: the caller takes the whole batch for not written.
            except OSError:
                os.ftruncate(fd, head.size)
                raise
        files = _files(self._folder)
        is_full = len(files) > self._max_files
        first = int(files[-self._max_files].removesuffix(_SUFFIX)) if is_full else head.first
        head = _Head(number, prev, head.file, size, first)
        os.pwrite(head_fd, head.noted(key), 0)
        # Only now: if a file vanished before the note says so, the check would report that it was removed.
        for name in files[: -self._max_files] if is_full else ():
            os.unlink(f"{self._folder}/{name}")
        return head, entries[len(lines) :]

    def _noted_head(self) -> _Head | None:
        try:
            with self._open("head", os.O_RDONLY) as fd:
                return _read_head(fd)
        except FileNotFoundError:
            return None

    def _open_head(self) -> contextlib.AbstractContextManager[int]:
        """Open the note. A link in its place, or in that of the newest file, would lead what is written into
        another file.
        """
        for name in (*_files(self._folder)[-1:], "head"):
            set_aside(f"{self._folder}/{name}")
        return self._open("head", os.O_RDWR | os.O_CREAT)

    @contextlib.contextmanager
    def _open(self, name: str, flags: int) -> Iterator[int]:
        path = f"{self._folder}/{name}"
        fd = open_place(path, flags) if flags & os.O_CREAT else os.open(path, flags | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with self._open("lock", os.O_RDWR | os.O_CREAT) as fd:
            fcntl.flock(fd, how)
            yield


def _judge_log(key: AuditKey | None, registered: int) -> list[str]:
    """Compare the key, which identifies the log, with what the registry has stored."""
    if not registered:
        return []
    if key is None:
        return ["The log's key is gone: the registry knows of it."]
    return [] if key.number == registered else ["The log was begun anew: the registry knows another one."]


def _nothing(key: AuditKey | None, breaks: list[str], registered: int) -> AuditReport:
    """Return the report about a log without any entry."""
    if registered or (key is not None and key.has_begun):
        breaks = [*breaks, "The audit log is gone: every entry was removed."]
    notes = [] if breaks else ["There is no audit log."]
    return AuditReport(entries=0, first=1, last=0, head=FIRST, files=0, breaks=breaks, notes=notes)


def _judge_ends(check: ChainCheck, head: _Head | None, notes: list[str]) -> list[str]:
    """Compare the lines with the note; what a crash can explain is added to `notes`."""
    if head is None:
        return ["The note of the newest entry is missing."] if check.count else []
    # Without the key's MAC the note could be anyone's, and so could the end that it names.
    breaks = []
    if check.key is not None and check.key.has_begun and not head.is_of(check.key):
        breaks.append("The note of the newest entry was not written with the log's key.")
    if check.last < head.n:
        breaks.append(f"Entries {check.last + 1} to {head.n} are missing at the end.")
    elif not check.known[head.n][1] and head.n:
        breaks.append(f"Entry {head.n} is not the one that was noted.")
    if check.last > head.n:
        notes.append(f"Entries {head.n + 1} to {check.last} were not noted: their writer was killed.")
    if (check.first or 1) > head.first:
        breaks.append(f"Entries {head.first} to {(check.first or 1) - 1} are missing at the beginning.")
    return breaks


def _was_met(check: ChainCheck, head: _Head | None, known: tuple[int, str]) -> bool:
    if head is not None and known[0] == head.n:
        return known[1] == head.hash and check.known[head.n][1]
    return check.known[known[0]][1]


def _name_of(first: int) -> str:
    return f"{first:0{_DIGITS}}{_SUFFIX}"


def _surprise(what: str, torn: int) -> dict[str, object]:
    entry: dict[str, object] = {"what": "audit", "reason": what}
    return entry | ({"torn_bytes": torn} if torn else {})


def _read_head(fd: int) -> _Head | None:
    return decoded(os.pread(fd, _HEAD_BYTES, 0), _decode_head)


def _decode_head(raw: bytes) -> _Head:
    document = decode_json(raw)
    return _Head(
        n=int(document["n"]),
        hash=str(document["hash"]),
        file=str(document["file"]),
        size=int(document["size"]),
        first=int(document["first"]),
        mac=str(document.get("mac", "")),
    )


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _whole_lines(path: str) -> Iterator[bytes]:
    try:
        file = open(path, "rb")  # noqa: SIM115 -- closed below, and a file may be removed by then
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _torn_bytes(path: str) -> int:
    """Return the number of bytes behind the last newline."""
    with open(path, "rb") as file:
        file.seek(max(0, _size(path) - _READ_BYTES))
        rest = file.read()
    return len(rest) - (rest.rfind(b"\n") + 1)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


_STARTED = b'"what":"server_started"'
_STOPPED = b'"what":"server_stopped"'
_AT = b'"at":"'
_BY_COMMAND_LINE = b'"door":"cli"'  # written while no server may run
_SIGN_BYTES = 1 << 18  # 50 lines, also where commands are long
_AWAY_LINES = 50  # of the command line's, which are skipped for the server's last sign


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """No server ran from one moment to another; `is_exact`: it had said that it ends."""

    since: datetime
    until: datetime
    is_exact: bool


def read_page(
    folder: str,
    *,
    process_id: str | None = None,
    since: str = "",
    until: str = "~",
    before: int | None = None,
    limit: int,
) -> list[dict[str, Any]]:
    """Return at most `limit` entries, newest first.

    Args:
        folder: Where the log's files lie; without one there are no entries.
        process_id: Only about this process.
        since: The first moment, in the form of `at`: such texts sort by time. All but "" and "~" are moments.
        until: The first moment that is too late.
        before: Only entries with a smaller number.
        limit: How many.
    """
    # No text of a caller's holds the mark: a quote in it would be escaped.
    mark = b"" if process_id is None else f'"process_id":"{process_id}"'.encode()
    found: list[dict[str, Any]] = []
    for name in reversed(_files(folder)):
        if before is not None and int(name.removesuffix(_SUFFIX)) >= before:
            continue
        data = _content(folder, name)
        if _moment_of(data[: data.find(b"\n")]) >= until:
            continue
        for line in _lines_backwards(data, mark):
            entry = read_line(line)
            if entry is None or (before is not None and entry["n"] >= before):
                continue
            at = str(entry.get("at", ""))
            if at >= until:
                continue
            if at < since:
                return found
            found.append({key: value for key, value in entry.items() if key not in {"prev", "mac"}})
            if len(found) == limit:
                return found
    return found


def read_outages(folder: str, *, since: datetime, until: datetime) -> list[Away]:
    """Return when no server ran in a span of time, oldest first, as far as the log remembers."""
    found: list[Away] = []
    before = b""  # the end of the file before
    for name in _files(folder):
        data = before + _content(folder, name)
        place = data.find(_STARTED, len(before))
        while place >= 0:
            begin = data.rfind(b"\n", 0, place) + 1
            away = _outage(data, begin, place)
            if away is not None and away.until >= since and away.since < until:
                found.append(away)
            place = data.find(_STARTED, place + 1)
        before = _tail(data)
    return found


def _tail(data: bytes) -> bytes:
    """Return the last lines: as much as is looked through for the server's last sign."""
    begin = max(0, len(data) - _SIGN_BYTES)
    return data[data.find(b"\n", begin) + 1 :] if begin else data


def _outage(data: bytes, begin: int, place: int) -> Away | None:
    """Return the time before the entry that begins at `begin`; None where nothing lies before it."""
    end = data.find(b"\n", place)
    last = b""
    for line in _lines_backwards(data[max(0, begin - _SIGN_BYTES) : begin], b"", most=_AWAY_LINES):
        if _BY_COMMAND_LINE not in line:
            last = line
            break
    since, until = _moment_of(last), _moment_of(data[begin : end if end >= 0 else len(data)])
    if not since or not until:
        return None
    with contextlib.suppress(ValueError):
        return Away(
            since=datetime.fromisoformat(since),
            until=datetime.fromisoformat(until),
            is_exact=_STOPPED in last,
        )
    return None


def _moment_of(line: bytes) -> str:
    """Return an entry's `at`, "" where there is none."""
    place = line.find(_AT)
    return line[place + len(_AT) : line.find(b'"', place + len(_AT))].decode() if place >= 0 else ""


def _lines_backwards(data: bytes, mark: bytes, *, most: int | None = None) -> Iterator[bytes]:
    """Yield whole lines, the last first.

    With a mark those alone that hold it, found without looking at the others.
    """
    end = data.rfind(b"\n") + 1  # what lies behind is torn, or being written
    count = 0
    while end > 0 and count != most:
        if mark:
            place = data.rfind(mark, 0, end)
            if place < 0:
                return
            end = data.find(b"\n", place) + 1
        begin = data.rfind(b"\n", 0, end - 1) + 1
        yield data[begin:end]
        end = begin
        count += 1


def _files(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(_SUFFIX) and name[: -len(_SUFFIX)].isdecimal())


def _content(folder: str, name: str) -> bytes:
    try:
        with open(f"{folder}/{name}", "rb") as file:
            return file.read()
    except FileNotFoundError:  # the oldest may go meanwhile
        return b""
