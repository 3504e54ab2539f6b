"""The two ends of a copy, as one contract: `LocalEnd` is this machine, `RemoteEnd` something open at the
server.

What is asked and answered are the methods and members of `operations.files`. They may be under way many at
once: `begin` returns `Pending`, which waits for the answer. Here that is done at once, since the disk is
near.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from outlive.client.channel import ClientConnection
from outlive.client.files.words import FileWord
from outlive.client.link import ANSWER_S
from outlive.client.runtime import Runtime
from outlive.core.values import dataclass
from outlive.files.root import FileRoot

Members = Mapping[str, Any]


# Returns the answer to something that was begun, once; the bytes of a piece are its member `data`. Raises an
# OutliveError that says why it was not done, or ConnectionLost: whether it was is not known, and it may be
# repeated.
Pending = Callable[[], Awaitable[Members]]


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

    async def begin(self, method: str, data: bytes = b"", /, **members: object) -> Pending:
        """Ask for something; the bytes of a piece go along."""

    async def close(self) -> None:
        """Let go of it; what was written stays."""


async def ask(end: FileEnd, method: str, data: bytes = b"", /, **members: object) -> Members:
    """Return an end's answer (see `Pending`)."""
    answer = await end.begin(method, data, **members)
    return await answer()


@dataclass(slots=True, kw_only=True)
class LocalEnd:
    """This machine, as the user that runs this program (see `FileEnd`)."""

    root: FileRoot
    world: Runtime
    entry: Members | None
    machine: str
    folders: Sequence[str]

    async def begin(self, method: str, data: bytes = b"", /, **members: object) -> Pending:
        """Do it."""
        found = await self.world.aside(lambda: self.root.ask(method, data, **members))

        async def answer() -> Members:
            return found

        return answer

    async def close(self) -> None:
        """Let go of it."""
        self.root.close()


@dataclass(slots=True, kw_only=True)
class RemoteEnd:
    """What is open at the server, or on one of its nodes, over one connection (see `FileEnd`)."""

    channel: ClientConnection
    copy: str
    entry: Members | None
    machine: str
    folders: Sequence[str]

    @classmethod
    async def open(
        cls, channel: ClientConnection, word: FileWord, *, write: bool, project: str | None
    ) -> "RemoteEnd":
        """Open a file or folder.

        Raises:
            OutliveError: What the server answers: there is none, or the caller may not.
        """
        params = {"place": word.place, "path": word.path, "write": write, "project": project}
        found = await channel.request("file_open", params, answer_s=ANSWER_S)
        return cls(channel=channel, **{name: found[name] for name in ("copy", "entry", "machine", "folders")})

    async def begin(self, method: str, data: bytes = b"", /, **members: object) -> Pending:
        """Ask for it."""
        params = {"copy": self.copy, **members}
        if method == "file_read":
            params["encoding"] = "binary"
        request_id = await self.channel.send(method, params, data)
        return partial(self.channel.answer_to, request_id, answer_s=ANSWER_S)

    async def close(self) -> None:
        """Close it there."""
        await ask(self, "file_close")
