"""MCP sessions that outlive the server: `McpSessions`, signed ids instead of a table of live ones. Where
hosts work: `Projects`, what relays have sent of their hosts, in memory only (promise S4.13.project).

A session's id carries what the handshake settled and a signature by a key of the state folder. Any server on
that folder accepts it, unless the client has ended the session (DELETE): such names are kept in a file. So
that it cannot grow for ever, the older half of many is forgotten, and every session that began no later than
they is over with them.

A relay sends its host's folder, environment and tool set once, and gets a name for them, which it shows with
every request. The name is a keyed digest of the content: another server, which knows nothing of it, refuses
the name, and the relay sends the content again. Nothing of it is written down: an environment holds secrets.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable

import msgspec

from outlive.core.documents import checked_json
from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.engine.processes.session_ends import (
    ISSUED_DIGITS,
    append_ended,
    connection_of,
    issued_at,
    read_ended,
    rewrite_ended,
)
from outlive.frontends.mcp.tools.calls import Project, Recent
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.mcp.hosts import client_slug

_KEY_BYTES = 32
_TAG_BYTES = 18  # 144 bits: no client guesses it, and it is 24 characters of base64 without padding
# 2 MB of names. At fifty ended sessions a day the first ones are forgotten after three and a half years.
_MAX_ENDED = 65536
# <seconds, 12 random bytes as hex>.<revision>.<signature>[.<client>]: visible ASCII, as the MCP revisions ask
# of a session id.
_ID = re.compile(
    r"([0-9a-f]{32})\.([0-9]{4}-[0-9]{2}-[0-9]{2})\.([A-Za-z0-9_-]{24})(?:\.([a-z0-9_-]{1,40}))?", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSession:
    """One MCP session. `session_id` is what the client sends and keeps to itself; `name` is how we call it.

    `revision`: the protocol revision that was negotiated. `client`: the name of the client's program as far
    as an id can hold it, empty for none.
    """

    session_id: str
    name: str
    revision: str
    client: str = ""

    @property
    def connection_id(self) -> str:
        """How records name it (`Owner.connection_id`)."""
        return connection_of(self.name)

    @property
    def header(self) -> tuple[bytes, bytes]:
        """How HTTP answers name it."""
        return b"mcp-session-id", self.session_id.encode()


class McpSessions:
    """Makes, checks and ends session ids. Open it before use; safe to use from the event loop."""

    def __init__(
        self, layout: Layout, *, max_ended: int = _MAX_ENDED, clock: Callable[[], float] = time.time
    ) -> None:
        """Take the state folder; nothing is read yet.

        At most `max_ended` names of ended sessions are kept.
        """
        self._clock = clock
        self._key_path = layout.mcp_key
        self._ended_path = layout.mcp_ended
        self._max_ended = max_ended
        self._key = b""
        self._ended: set[str] = set()
        self._floor = -1  # sessions of this second and of those before it are over
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Read the key (made at the first time, mode 0600) and the ended sessions."""
        self._key = await asyncio.to_thread(_load_key, self._key_path)
        self._ended, self._floor = await asyncio.to_thread(read_ended, self._ended_path)
        await self._prune()

    def begin(self, principal: str, revision: str, client: str = "") -> McpSession:
        """Return a new session of `principal`; `client` is the name that its program gives itself."""
        issued = max(int(self._clock()), self._floor + 1)  # also where the clock was set back
        name = f"{issued:0{ISSUED_DIGITS}x}{os.urandom(12).hex()}"
        client = client_slug(client)
        tag = self._sign(name, revision, principal, client)
        ending = f".{client}" if client else ""
        return McpSession(
            session_id=f"{name}.{revision}.{tag}{ending}", name=name, revision=revision, client=client
        )

    def find(self, principal: str, session_id: str) -> McpSession | None:
        """Return the session of an id; None when it was not made here for `principal`, or has been ended."""
        match = _ID.fullmatch(session_id)
        if match is None or match[1] in self._ended or issued_at(match[1]) <= self._floor:
            return None
        client = match[4] or ""
        if not hmac.compare_digest(match[3], self._sign(match[1], match[2], principal, client)):
            return None
        return McpSession(session_id=session_id, name=match[1], revision=match[2], client=client)

    async def end(self, session: McpSession) -> None:
        """Refuse this session's id from now on, also after a restart.

        Cancellation: the session is ended for this server; the next one may not know.
        """
        self._ended.add(session.name)
        async with self._lock:
            await asyncio.to_thread(append_ended, self._ended_path, session.name)
            await self._prune()

    async def _prune(self) -> None:
        """Forget the older half of the ended sessions when they are too many, in memory first."""
        if len(self._ended) <= self._max_ended:
            return
        names = sorted(self._ended)  # oldest first: a name begins with its second
        self._floor = max(self._floor, issued_at(names[len(names) // 2]))
        self._ended = {name for name in names if issued_at(name) > self._floor}
        await asyncio.to_thread(rewrite_ended, self._ended_path, self._ended, self._floor)

    def _sign(self, name: str, revision: str, principal: str, client: str) -> str:
        # A NUL is in no principal: the texts of two sessions are never the same.
        text = "\0".join([f"{name}.{revision}.{principal}", *filter(None, [client])]).encode()
        tag = hmac.digest(self._key, text, hashlib.sha256)[:_TAG_BYTES]
        return base64.urlsafe_b64encode(tag).decode()


def _load_key(path: str) -> bytes:
    """Return the key in the file, made now if there is none.

    A torn one is replaced (its sessions are then gone).
    """
    if len(key := read_small(path)) == _KEY_BYTES:
        return key
    key = os.urandom(_KEY_BYTES)
    with contextlib.suppress(OSError):  # a disk that takes nothing: the sessions end with this server
        write_whole(path, key, survives="power cut")
    return key


# A host has one project for each of its windows. The oldest is forgotten first, and sent again when it is
# needed.
_MAX_OF_PRINCIPAL = 128


class Projects:
    """The projects of each principal by their names. Only the event loop uses it."""

    def __init__(self) -> None:
        self._key = os.urandom(32)  # a name must not confirm a guess of what an environment holds
        self._known: dict[str, Recent[str, Project]] = {}

    def add(self, body: bytes, principal: str) -> str:
        """Take what a relay has sent, and return its name.

        Raises:
            ValueError: The body is no `Project`.
        """
        project = msgspec.json.decode(checked_json(body), type=Project)
        # Per principal: a name that another principal has learned finds nothing, and fills no room but its
        # own.
        known = self._known.setdefault(principal, Recent(_MAX_OF_PRINCIPAL))
        # Of the whole body: the same host sends the same bytes, and gets the name that it has, after a
        # reconnect too.
        name = hmac.digest(self._key, body, hashlib.sha256).hex()
        known.note(name, project)
        return name

    def find(self, name: str, principal: str) -> Project | None:
        """Return the project of a name; None for one that this server was not told of.

        None as well for one that was forgotten: the relay sends it again, and no host notices.
        """
        known = self._known.get(principal, Recent[str, Project](0))
        if (project := known.get(name)) is not None:
            known.move_to_end(name)  # in use: others are forgotten before it
        return project
