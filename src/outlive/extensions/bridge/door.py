"""The bridge's endpoint: extensions that connect at `/`, and those that the server connects to (promises S3.1
and S3.9).

Owns accepting an extension and giving it the terminals that it had before. One connection belongs to
`extension`, calls on terminals to `host`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from types import MappingProxyType
from typing import Self

from starlette.routing import BaseRoute, Match, WebSocketRoute
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.extensions.bridge.connection import AcceptedTransport, BridgeConnection, BridgeTransport
from outlive.extensions.bridge.host import OwnExtensions, VsCodeTerminals
from outlive.extensions.bridge.options import BridgeOptions
from outlive.extensions.bridge.terminal_owners import StateFile, TerminalOwners
from outlive.extensions.server_part import Built, Given, ServerPart
from outlive.policy.access import Access
from outlive.policy.access import Scope as AccessScope
from outlive.server.access.guard import access_of
from outlive.server.access.peers import PEER, Peer, still_lives

_logger = logging.getLogger(__name__)

PATH = "/"  # promise S3.1
OWN_HEADER = "outlive-extension"  # "1": it is our own (decision 100)
# An extension that connects again may still have an old connection, which looks alive. An old one that lives
# answers a ping within this.
_PROBE_S = 3.0
_TRY_AGAIN_LATER = 1013  # IANA, WebSocket Close Code Number Registry


# How long an extension whose process is not known may be away and still get its terminals back.
_TRUSTED_S = 60.0
MAX_EXTENSIONS = 64


class BridgeDoor(ServerPart):
    """Serves extensions: those that connect at one TCP port or the Unix socket, and those it connects to."""

    endpoints = MappingProxyType({"bridge": PATH})
    token_paths = frozenset({PATH})

    def __init__(self, given: Given) -> None:
        """Take the server; read and open nothing."""
        super().__init__(given)
        self._options = given.settings.of(BridgeOptions)
        self._port = given.ports.get("bridge")
        self._own_access = Access(principal=f"uid:{os.getuid()}", scope=AccessScope.RUN)
        self._owners = TerminalOwners(trusted_s=_TRUSTED_S, lives=still_lives)
        self._state_file = StateFile(given.layout.bridge, self._owners.document)
        self._open: set[BridgeConnection] = set()
        self._stack = contextlib.AsyncExitStack()
        self.socket_hint = "VS Code's extensions dial another port, which --bridge-port opens."
        if self._port is not None:
            self.socket_hint = f"VS Code's extensions dial port {self._port}."

    def join(self, built: Built) -> None:
        """Take the engine, and the terminals among which those in VS Code are offered."""
        self._peers = built.peers
        self._take = built.take
        self._own = OwnExtensions(built.engine, built.terminals)
        self._host = VsCodeTerminals(
            built.engine, built.terminals, self._owners, self._state_file, self._own, self._options
        )

    async def __aenter__(self) -> Self:
        """Read the terminals of an earlier server, and begin to connect to the operator's addresses."""
        try:
            self._owners.restore(await self._state_file.read() or b"[]")
        except ValueError:
            _logger.warning("the file of the bridge's terminals cannot be read; they are forgotten")
        self._host.offer()
        if self._options.bridge_dial:
            await self._dial()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close the connections that this server has opened."""
        await self._stack.aclose()

    async def _dial(self) -> None:
        from outlive.extensions.bridge.dialler import Dialler  # noqa: PLC0415 -- start-up time, see there

        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        for address in self._options.bridge_dial:
            dialler = Dialler(
                address, self._serve_dialled, max_message_bytes=self.given.settings.max_message_bytes
            )
            self._stack.callback(group.create_task(dialler.run(), name="bridge dial").cancel)

    def routes(self) -> list[BaseRoute]:
        """Return the endpoint."""
        return [_AtPort(PATH, self._serve, port=self._port)]

    def health(self) -> dict[str, object]:
        """Return how many extensions are connected."""
        return {"extensions": len(self._open)}

    async def _serve(self, websocket: WebSocket) -> None:
        access = access_of(websocket.scope)
        process = await self._peers.identity(websocket.scope["state"][PEER])
        host = websocket.client.host if websocket.client else "unix"
        key = process or f"{access.principal} {host}"
        if len(self._open) < MAX_EXTENSIONS:
            await self._owners.probe(key, access.principal, patience_s=_PROBE_S)
        try:
            # No `await` from here until the terminals are claimed: no other extension gets them.
            await websocket.accept()
        except WebSocketDisconnect:
            return  # gone before it was accepted
        transport = AcceptedTransport(websocket)
        if len(self._open) >= MAX_EXTENSIONS:
            await transport.close(_TRY_AGAIN_LATER, "too many extensions")
            return
        # A token of the scope bridge serves VS Code's terminals only: it opens no terminals of the engine.
        is_ours = websocket.headers.get(OWN_HEADER) == "1" and access.scope >= AccessScope.RUN
        await self._attend(
            transport,
            access,
            key=key,
            is_process=bool(process),
            is_ours=is_ours,
            serves_all=access.scope is AccessScope.BRIDGE,  # the operator makes such a token for this purpose
        )

    async def _serve_dialled(self, transport: BridgeTransport, address: str, *, is_ours: bool) -> None:
        await self._attend(
            transport,
            self._own_access,
            key=f"dial {address}",
            is_process=False,
            is_ours=is_ours,
            serves_all=True,
        )

    async def _attend(
        self,
        transport: BridgeTransport,
        access: Access,
        *,
        key: str,
        is_process: bool,
        is_ours: bool,
        serves_all: bool,
    ) -> None:
        """Serve one extension until it is gone; its terminals are kept for its return."""
        extension = BridgeConnection(
            transport, access, self._options, is_ours=is_ours, serves_all=serves_all, take=self._take
        )
        self._open.add(extension)
        seat = self._owners.claim(extension, key, is_process=is_process)
        self._host.offer()
        caller = {"principal": access.principal, "address": access.address}
        _logger.info("an extension has connected", extra={**caller, "terminals": len(seat.terminals)})
        try:
            with self._own.following(extension) if is_ours else contextlib.nullcontext():
                await extension.run()
        finally:
            self._open.discard(extension)
            self._owners.leave(seat, extension)
            self._host.offer()
            _logger.info("an extension is gone", extra=caller)


class _AtPort(WebSocketRoute):
    """A path of one port only: at other ports a client means another frontend, and must not become an
    extension.
    """

    def __init__(self, path: str, endpoint: Callable[..., object], *, port: int | None) -> None:
        """Serve `path` on one TCP port and the Unix socket."""
        super().__init__(path, endpoint, name="bridge")
        self._port = port

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether it answers."""
        peer: Peer = scope["state"][PEER]
        if not peer.is_unix and (peer.local is None or peer.local[1] != self._port):
            return Match.NONE, {}
        return super().matches(scope)
