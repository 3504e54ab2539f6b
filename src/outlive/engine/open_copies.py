"""`OpenCopies`: the files and folders that callers have opened to read or to write them, how many, and for
how long.

What an `OpenCopy` is asked is done elsewhere (`engine.files`); what may be asked about it is said here.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from outlive.core.errors import InvalidRequest, LimitExceeded, OutliveError
from outlive.core.events import AuditEvent
from outlive.core.file_words import DIGEST_BYTES, is_compared_stretch
from outlive.core.process import Owner
from outlive.core.values import dataclass, field
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.files.root import FileRoot
from outlive.operations.files import FileAsked, FileDigest, FileDrop, FileMake, FileRead, FileWrite

Members = Mapping[str, Any]

_RESTED_S = 600.0  # a caller that has asked nothing for so long is gone
# Of one principal; each holds a descriptor. One more closes the one that has rested longest: its caller opens
# it again, if it still lives.
_MOST_OPEN = 64
_MOST_OPEN_OF_ALL = 256  # descriptors of this server, which has a thousand where its limit was not raised


@dataclass(slots=True, kw_only=True, eq=False)
class OpenCopy:
    """One open copy: here it has a root, on a node the name that the node has given it.

    Lists and callers' bounds were judged for one direction (`writes`), and may refuse the other: each copy
    goes in its own only.
    """

    by: Owner
    details: Mapping[str, str | int | bool]
    writes: bool
    node: str = ""
    there: str = ""
    path: str = ""  # where it really lies, absolute
    root: FileRoot | None = None
    used_at: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def check_asked(self, asked: FileAsked) -> None:
        """Let pass what goes in this copy's direction.

        What lies in a folder that is written is shown, without its content: a caller that copies into it has
        to know what is there.

        Raises:
            InvalidRequest: It goes in the other one.
        """
        if self.writes and isinstance(asked, FileRead):
            text = "This copy was opened to be written: nothing is read in it."
            raise InvalidRequest("invalid_params", text, hint="Open another one: file_open without `write`.")
        if not self.writes and isinstance(asked, FileWrite | FileMake | FileDrop):
            text = "This copy was opened to be read: nothing is written in it."
            raise InvalidRequest("invalid_params", text, hint="Open another one: file_open with `write`.")

    def check_answered(self, asked: FileAsked, found: Members) -> None:
        """Let a digest pass of what is written that tells whether a file is the same, and nothing about its
        bytes one by one.

        An unfinished file (`key`) is digested by any stretch: only a caller that knows its source's size, and
        its time to the nanosecond, has its name.

        Raises:
            InvalidRequest: A stretch of the file would be read by it.
        """
        if not self.writes or not isinstance(asked, FileDigest) or asked.key:
            return
        if not is_compared_stretch(asked.offset, found["length"], found["size"]):
            text = f"Of a file that is to be written, all is digested, or stretches of {DIGEST_BYTES} bytes."
            hint = "Begin at a multiple of that, or end with the file. To read it: file_open without `write`."
            raise InvalidRequest("invalid_params", text, hint=hint)


class OpenCopies:
    """Each open copy by its name. On the engine's loop only."""

    def __init__(self, events: EventPublisher) -> None:
        """Have none; `events` records what is opened and closed."""
        self._events = events
        self._open: dict[str, OpenCopy] = {}
        self._opening: Counter[str] = Counter()  # by principal: places that are taken, before there is a copy
        self._rest: asyncio.TimerHandle | None = (
            None  # fires when the one that rests longest has rested too long
        )

    @contextmanager
    def room_for(self, principal: str) -> Iterator[None]:
        """Keep a place for one that is being opened while the block runs.

        What has rested longest is closed for it.

        Raises:
            LimitExceeded: `copy_limit`: nothing is open that could be closed; all places are taken by what is
            being opened.
        """
        self._make_room(principal)
        self._opening[principal] += 1
        try:
            yield
        finally:
            self._opening[principal] -= 1
            if not self._opening[principal]:
                del self._opening[principal]

    def add(self, opened: OpenCopy) -> str:
        """Take one that was opened.

        Return its name, which is as good as a key: what one caller has opened is used by no other.
        """
        name = secrets.token_hex(16)
        opened.used_at = time.monotonic()
        self._open[name] = opened
        self.publish("copy", opened.by, opened.details)
        self._wait()
        return name

    def get(self, name: str) -> OpenCopy | None:
        """Return one by its name."""
        return self._open.get(name)

    def close(self, name: str) -> None:
        """Close one that is open; on its node it is closed by what has it there."""
        opened = self._open.pop(name)
        if opened.root is not None:
            # What its threads still do has descriptors of its own, and what they begin fails with an error
            # (`FileRoot.close`).
            opened.root.close()
        counts = {"bytes_read": opened.read_bytes, "bytes_written": opened.written_bytes}
        self.publish("copied", opened.by, {**opened.details, **counts})

    def close_all(self) -> None:
        """Close everything, and wait for nothing more."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        for name in list(self._open):
            self.close(name)

    def publish(
        self, what: str, by: Owner, details: Mapping[str, str | int | bool], error: OutliveError | None = None
    ) -> None:
        """Have the audit log record what was opened or closed, or with an `error` why it was not."""
        if error is None:
            self._events.publish(AuditEvent(what=what, by=by, details=details))
            return
        decision: Any = "denied" if error.code == "path_refused" else "failed"
        self._events.publish(
            AuditEvent(what=what, by=by, decision=decision, reason=error.code, details=details)
        )

    def _wait(self) -> None:
        """Wait until the one that rests longest has rested too long.

        It holds a descriptor, which keeps a file system mounted.
        """
        if self._rest is None and self._open:
            oldest = min(one.used_at for one in self._open.values())
            left_s = max(0.0, oldest + _RESTED_S - time.monotonic())
            self._rest = asyncio.get_running_loop().call_later(left_s, self._close_rested)

    def _close_rested(self) -> None:
        self._rest = None
        latest = time.monotonic() - _RESTED_S
        for name in [name for name, one in self._open.items() if one.used_at <= latest]:
            self.close(name)
        self._wait()

    def _make_room(self, principal: str) -> None:
        opened = Counter(one.by.principal for one in self._open.values())
        taken = self._opening + opened
        if taken[principal] >= _MOST_OPEN:
            whose = principal
        elif taken.total() >= _MOST_OPEN_OF_ALL:
            whose = max(opened, key=lambda one: opened[one], default=principal)  # of the one that has most
        else:
            return
        own = [name for name, one in self._open.items() if one.by.principal == whose]
        if not own:
            raise LimitExceeded("copy_limit", "As many copies are being opened as may be open.")
        self.close(min(own, key=lambda name: self._open[name].used_at))
