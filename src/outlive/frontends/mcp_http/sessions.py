"""MCP sessions that outlive the server: `McpSessions`, signed ids instead of a table of live ones.

An id carries what the handshake settled and a signature by a key of the state folder. Any server on that folder
accepts it, for ever, unless the client has ended the session (DELETE): such ids are kept in a file.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import re
from dataclasses import dataclass

from outlive.core.layout import Layout

__all__ = ["McpSession", "McpSessions"]

_KEY_BYTES = 32
_TAG_BYTES = 18  # 144 bits: nobody guesses it, and it is 24 characters of base64 without padding
# <16 random bytes as hex>.<revision>.<signature>: visible ASCII, as the MCP revisions ask of a session id.
_ID = re.compile(r"([0-9a-f]{32})\.([0-9]{4}-[0-9]{2}-[0-9]{2})\.([A-Za-z0-9_-]{24})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSession:
    """One MCP session. `session_id` is what the client sends and keeps to itself; `name` is how we call it.

    `revision`: the protocol revision that was negotiated.
    """

    session_id: str
    name: str
    revision: str

    @property
    def connection_id(self) -> str:
        """How records name it (`Owner.connection_id`)."""
        return f"mcp-{self.name}"


class McpSessions:
    """Makes, checks and ends session ids. Open it before use; safe to use from the event loop."""

    def __init__(self, layout: Layout) -> None:
        """Take the state folder; nothing is read yet."""
        self._key_path = layout.mcp_key
        self._ended_path = layout.mcp_ended
        self._key = b""
        self._ended: set[str] = set()
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Read the key (made at the first time, mode 0600) and the ended sessions."""
        self._key = await asyncio.to_thread(_load_key, self._key_path)
        self._ended = await asyncio.to_thread(_load_names, self._ended_path)

    def begin(self, principal: str, revision: str) -> McpSession:
        """Return a new session of `principal`."""
        name = os.urandom(16).hex()
        tag = self._sign(name, revision, principal)
        return McpSession(session_id=f"{name}.{revision}.{tag}", name=name, revision=revision)

    def find(self, principal: str, session_id: str) -> McpSession | None:
        """Return the session of an id; None when it was not made here for `principal`, or has been ended."""
        match = _ID.fullmatch(session_id)
        if match is None or match[1] in self._ended:
            return None
        if not hmac.compare_digest(match[3], self._sign(match[1], match[2], principal)):
            return None
        return McpSession(session_id=session_id, name=match[1], revision=match[2])

    async def end(self, session: McpSession) -> None:
        """Refuse this session's id from now on, also after a restart.

        Cancellation: the session is ended for this server; the next one may not know.
        """
        self._ended.add(session.name)
        async with self._lock:
            await asyncio.to_thread(_append, self._ended_path, session.name)

    def _sign(self, name: str, revision: str, principal: str) -> str:
        text = f"{name}.{revision}.{principal}".encode()
        tag = hmac.digest(self._key, text, hashlib.sha256)[:_TAG_BYTES]
        return base64.urlsafe_b64encode(tag).decode()


def _load_key(path: str) -> bytes:
    """Return the key in the file, made now if there is none; a torn one is replaced (its sessions are then gone)."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        key = file.read()
        if len(key) == _KEY_BYTES:
            return key
    key = os.urandom(_KEY_BYTES)
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
    return key


def _load_names(path: str) -> set[str]:
    with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii", errors="replace") as file:
        return set(file.read().split())
    return set()


def _append(path: str, name: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # A line of its own on both sides: a torn write before it spoils no other name.
        os.write(fd, f"\n{name}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
