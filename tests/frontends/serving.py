"""An application of the test's own, served in this process on real sockets by the product's HTTP service."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ASGIScope

from outlive.core.layout import Layout
from outlive.policy.access import Access, Scope
from outlive.server.access.authenticator import Authenticator, TokenBook
from outlive.server.access.guard import ACCESS
from outlive.server.access.peers import Living, Peers
from outlive.server.http.http_server import serving
from outlive.server.http.listeners import Listeners
from outlive.store.token_file import TokenFile


@dataclass(frozen=True, slots=True)
class Served:
    """Where the application answers."""

    port: int
    unix_path: str


def admitted(app: ASGIApp, access: Access | None = None) -> ASGIApp:
    """Return `app` behind somebody who lets everybody in as `access`, where the guard would stand."""
    known = access or Access(principal="me", scope=Scope.RUN)

    async def serve(scope: ASGIScope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {**scope.get("state", {}), ACCESS: known}}, receive, send)

    return serve


def entry(folder: Path, living: Living = lambda: (), *, api_key: str = "") -> Authenticator:
    """Return what lets our own uid in, for the keeper of `folder`."""
    layout = Layout(str(folder))
    peers = Peers(layout, own_uid=os.getuid(), living=living)
    return Authenticator(peers, TokenBook(TokenFile(layout)), own_uid=os.getuid(), api_key=api_key)


@contextlib.asynccontextmanager
async def served(app: ASGIApp, folder: Path, *, max_message_bytes: int = 1 << 20) -> AsyncIterator[Served]:
    """Serve `app` on a free TCP port and a Unix socket while the block runs."""
    unix_path = str(folder / "server.sock")
    listeners = Listeners()
    try:
        # The product opens its sockets before there is an event loop.
        await asyncio.to_thread(listeners.add_unix, unix_path)
        await asyncio.to_thread(listeners.add_port, "test", "127.0.0.1", 0)
        async with serving(app, listeners.sockets, max_message_bytes=max_message_bytes):
            yield Served(listeners.ports["test"], unix_path)
    finally:
        await asyncio.to_thread(listeners.__exit__)
