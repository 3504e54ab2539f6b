"""Another server as a node of this one: `NodeClient`, with requests in the wire's own words and a feed of its events and output.

Used by the server's `backends.remote`, which writes what comes to files and decides when to try again; nothing is kept here.
"""

import os
from collections.abc import Mapping
from typing import Any, cast

from outlive.client.address import Address
from outlive.client.channel import greet
from outlive.client.feed import AsyncFeed
from outlive.client.link import Link
from outlive.client.messages import read_info, read_page
from outlive.client.options import StartOptions, execute_params
from outlive.client.results import Page, ProcessInfo
from outlive.client.runtime import ConnectionLost, Runtime, Unreachable
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable
from outlive.core.identity import ProcessId

_ANSWER_S = 45.0  # longer than any deadline over there; a start's is 25 s, a write's 30 s
_PAGE_BYTES = 256 * 1024  # the largest page
_PATIENCE_S = (
    3.0  # enough to open a cut connection again; a node that stays away is handled by `backends.remote`
)


class NodeClient:
    """One node; nothing is opened before it is needed. Used from one event loop."""

    def __init__(
        self, url: str, *, token: str, ca_file: str | os.PathLike[str] | None, world: Runtime
    ) -> None:
        """Name the node: its `ws://` or `wss://` address, the token for it ("" for none), the authority of its certificate."""
        self._address = Address(url=url, token=token, ca_file=ca_file, starts_server=False)
        self._world = world
        self._link = Link(self._address, world, patience_s=_PATIENCE_S)

    async def execute(self, words: Mapping[str, object], *, process_id: str) -> Mapping[str, Any]:
        """Start a command under a process id, only once for any number of calls; return the answer of `execute`.

        Args:
            words: `command` or `argv`, and any of `StartOptions`.
            process_id: Its id on this server and on the node.

        Raises:
            OutliveError: What the node answered, or `server_unavailable`.
        """
        options = dict(words)
        line, argv = options.pop("command", None), options.pop("argv", None)
        command = [str(word) for word in argv] if isinstance(argv, list) else str(line)
        started = cast("StartOptions", options)
        params = execute_params(command, started, process_id=ProcessId(process_id))
        return await self._link.request("execute", params, answer_s=_ANSWER_S)

    async def request(
        self, method: str, params: Mapping[str, object], *, is_repeatable: bool = True
    ) -> Mapping[str, Any]:
        """Send a request of docs/jsonrpc.md; see `Link.request`."""
        return await self._link.request(method, params, is_repeatable=is_repeatable, answer_s=_ANSWER_S)

    async def write(self, process_id: str, data: memoryview) -> int:
        """Write the beginning of `data` to a process's input, as large a piece as the node takes, and return its size.

        Raises:
            LimitExceeded: `stdin_full`: the details count the bytes of that piece that were written, and those that wait.
            BackendUnavailable: `server_lost`: whether the piece was written is not known.
        """
        return await self._link.write(process_id, data, answer_s=_ANSWER_S)

    async def get(self, process_id: str, *, stats: bool = False) -> ProcessInfo:
        """Return the node's description of a process.

        Raises:
            ProcessNotFound: The node does not know it, or does not show it to this caller.
        """
        return read_info(await self.request("get", {"process_id": process_id, "stats": stats}))

    async def read(self, process_id: str, cursor: Cursor, *, raw: bool) -> Page:
        """Return recorded output from `cursor` on; `raw` hides no secrets, and needs the scope admin."""
        params: dict[str, object] = {
            "process_id": process_id,
            "cursor": str(cursor),
            "limit": _PAGE_BYTES,
            "encoding": "base64",
            "raw": raw,
        }
        return read_page(await self.request("read", params), cursor)

    async def feed(self) -> AsyncFeed:
        """Open a connection for events and output.

        Raises:
            BackendUnavailable: `server_unavailable`: no server answers there now.
            OutliveError: The node does not let this caller in, or is no outlive server.
        """
        try:
            return AsyncFeed(await greet(await self._address.dial(self._world, {}), self._world))
        except (Unreachable, ConnectionLost) as error:
            text = f"No server answers at {self._address}: {error}."
            raise BackendUnavailable("server_unavailable", text) from error

    async def reset(self) -> None:
        """Give up the connection for requests; the next one opens another."""
        await self._link.drop()

    async def close(self) -> None:
        """Close the connection for requests; a call that still waits raises `server_unavailable`."""
        await self._link.close()
