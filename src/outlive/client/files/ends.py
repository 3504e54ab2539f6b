"""The two ends of a copy, as one contract: `LocalEnd` is this machine, `RemoteEnd` a copy that is open at the
server.

What is asked and answered are the members of `operations.files`. Pieces may be under way many at once: a
method that begins one returns `Pending`, whose `result` waits for it. Here that is done at once, since the
disk is near.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from outlive.client.channel import ClientConnection
from outlive.client.link import ANSWER_S
from outlive.client.runtime import Runtime
from outlive.core.errors import InvalidState
from outlive.core.file_words import FileWord, shown_name
from outlive.files.identity import this_machine
from outlive.files.root import FileRoot, TooEarly

Members = Mapping[str, Any]


class Pending(Protocol):
    """Something that was begun."""

    async def result(self) -> Members:
        """Return the answer's members; the bytes of a piece are `data`. Once.

        Raises:
            OutliveError: Why it was not done.
            ConnectionLost: Whether it was is not known; it may be repeated.
        """


class FileEnd(Protocol):
    """One end, opened. Names are below what was opened, "" for that itself.

    Attributes:
        entry: What was there when it was opened; None where nothing was.
        machine: Whose identities are those of entries and `folders`; empty where that is not known.
        folders: Of a target: the identities of it and of the folders in which it lies.
    """

    entry: Members | None
    machine: str
    folders: Sequence[str]

    async def page(self, name: str, after: str) -> Members:
        """Return some entries of a folder."""

    async def read(self, name: str, offset: int, limit: int) -> Pending:
        """Begin to read a piece."""

    async def digest(self, name: str, offset: int, length: int, key: str) -> Pending:
        """Begin to compute a SHA-256 of a stretch; with a `key`, of the unfinished file."""

    async def write(
        self, name: str, key: str, offset: int, data: bytes, *, cut: bool, seal: Members | None
    ) -> Pending:
        """Begin to write a piece of an unfinished file, which gets its name if there is a `seal`."""

    async def make(self, name: str, kind: str, *, key: str, seal: Members | None, target: str) -> Pending:
        """Begin to make a folder or link, or give what is whole its name, mode and time
        (`operations.files.FileMake`).
        """

    async def drop(self, name: str, key: str) -> None:
        """Remove an unfinished file."""

    async def close(self) -> None:
        """Let go of it; what was written stays."""


class _Done:
    """Something that was done at once."""

    def __init__(self, answer: Members) -> None:
        self._answer = answer

    async def result(self) -> Members:
        return self._answer


class LocalEnd:
    """This machine, as the user that runs this program (see `FileEnd`)."""

    def __init__(self, root: FileRoot, world: Runtime, entry: Members | None) -> None:
        self._root = root
        self._world = world
        self.entry = entry
        self.machine = this_machine()
        self.folders: Sequence[str] = root.folders

    async def page(self, name: str, after: str) -> Members:
        """Return some entries of a folder."""
        return await self._world.aside(lambda: self._root.list(name, after))

    async def read(self, name: str, offset: int, limit: int) -> Pending:
        """Read a piece."""
        found, data = await self._world.aside(lambda: self._root.read(name, offset, limit))
        return _Done({**found, "data": data})

    async def digest(self, name: str, offset: int, length: int, key: str) -> Pending:
        """Compute a SHA-256."""
        return await self._do(lambda: self._root.digest(name, offset, length, key=key))

    async def write(
        self, name: str, key: str, offset: int, data: bytes, *, cut: bool, seal: Members | None
    ) -> Pending:
        """Write a piece."""

        def work() -> Members:
            written = self._root.write(name, key, offset, data, cut=cut)
            if isinstance(written, TooEarly):
                # Pieces are written one after the other here: another program has cut it.
                text = f"What was written of {shown_name(name)} is not there any more."
                raise InvalidState("file_changed", text)
            return written if seal is None else self._root.place(name, key, **seal)

        return await self._do(work)

    async def make(self, name: str, kind: str, *, key: str, seal: Members | None, target: str) -> Pending:
        """Make something."""
        root = self._root

        def work() -> Members:
            if kind == "folder" or seal is None:
                return root.make_folder(name)
            if kind == "link":
                return root.make_link(name, target, mtime_ns=seal["mtime_ns"])
            if kind == "settled":
                return root.settle(name, mode=seal["mode"], mtime_ns=seal["mtime_ns"])
            return root.place(name, key, **seal)

        return await self._do(lambda: {"entry": work()})

    async def drop(self, name: str, key: str) -> None:
        """Remove an unfinished file."""
        await self._world.aside(lambda: self._root.drop(name, key))

    async def close(self) -> None:
        """Let go of it."""
        self._root.close()

    async def _do(self, work: Callable[[], Members]) -> Pending:
        return _Done(await self._world.aside(work))


class _Asked:
    """A request that is under way."""

    def __init__(self, channel: ClientConnection, request_id: int) -> None:
        self._channel = channel
        self._request_id = request_id

    async def result(self) -> Members:
        return await self._channel.answer_to(self._request_id, answer_s=ANSWER_S)


class RemoteEnd:
    """A copy that is open at the server, over one connection (see `FileEnd`)."""

    def __init__(self, channel: ClientConnection, opened: Members) -> None:
        self._channel = channel
        self._copy = opened["copy"]
        self.entry: Members | None = opened["entry"]
        self.machine: str = opened["machine"]
        self.folders: Sequence[str] = opened["folders"]

    @classmethod
    async def open(
        cls, channel: ClientConnection, word: FileWord, *, write: bool, project: str | None
    ) -> "RemoteEnd":
        """Open a file or folder at the server, or on one of its nodes.

        Raises:
            OutliveError: What the server answers: there is none, or the caller may not.
        """
        params = {"place": word.place, "path": word.path, "write": write, "project": project}
        found = await channel.request("file_open", params, answer_s=ANSWER_S)
        return cls(channel, found)

    async def page(self, name: str, after: str) -> Members:
        """Return some entries of a folder."""
        return await (await self._ask("file_list", {"name": name, "after": after})).result()

    async def read(self, name: str, offset: int, limit: int) -> Pending:
        """Ask for a piece."""
        params = {"name": name, "offset": offset, "limit": limit, "encoding": "binary"}
        return await self._ask("file_read", params)

    async def digest(self, name: str, offset: int, length: int, key: str) -> Pending:
        """Ask for a SHA-256."""
        return await self._ask("file_digest", {"name": name, "offset": offset, "length": length, "key": key})

    async def write(
        self, name: str, key: str, offset: int, data: bytes, *, cut: bool, seal: Members | None
    ) -> Pending:
        """Send a piece."""
        params = {"name": name, "key": key, "offset": offset, "cut": cut, "seal": seal}
        return await self._ask("file_write", params, data)

    async def make(self, name: str, kind: str, *, key: str, seal: Members | None, target: str) -> Pending:
        """Have something made."""
        params = {"name": name, "kind": kind, "key": key, "seal": seal, "target": target}
        return await self._ask("file_make", params)

    async def drop(self, name: str, key: str) -> None:
        """Have an unfinished file removed."""
        await (await self._ask("file_drop", {"name": name, "key": key})).result()

    async def close(self) -> None:
        """Close it there."""
        await (await self._ask("file_close", {})).result()

    async def _ask(self, method: str, params: Mapping[str, object], data: bytes = b"") -> Pending:
        return _Asked(self._channel, await self._channel.send(method, {"copy": self._copy, **params}, data))
