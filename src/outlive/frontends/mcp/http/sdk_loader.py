"""The SDK's arrival: `SdkLoading` imports it in a thread, at the first request that needs it, once."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

from outlive.frontends.mcp.http.calls import Ask
from outlive.frontends.mcp.http.requests import Message
from outlive.frontends.mcp.tools.calls import Caller

# Adds handlers to the SDK's server (`mcp.server.lowlevel.Server`) after ours; the product itself passes none.
Extend = Callable[[Any], None]

_MODULE = "outlive.frontends.mcp.http.sdk"


class SdkServer(Protocol):
    """What the endpoint uses of `sdk.Sdk`, without importing it."""

    async def serve_modern(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request of 2026-07-28."""

    async def exchange(
        self,
        message: Message,
        caller: Caller,
        *,
        revision: str,
        notify: Callable[[bytes], Awaitable[None]] | None,
        ask: Ask | None = None,
    ) -> dict[str, Any]:
        """Serve one request of a handshake revision and return its JSON-RPC response."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Be ready for `serve_modern` while the block runs."""
        ...


class SdkLoading:
    """Loads the SDK and keeps it running. `close` it in the end."""

    def __init__(self, build: Callable[[Any], SdkServer]) -> None:
        """Make the server by `build(module)` once the module is there."""
        self._build = build
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[SdkServer] | None = None

    async def get(self) -> SdkServer:
        """Return the running SDK; the first caller sets off the import, all wait for it.

        Cancellation: safe; the import goes on for the next one.
        """
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._ready), name="mcp sdk")
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Stop it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, ready: "asyncio.Future[SdkServer]") -> None:
        try:
            sdk = self._build(await asyncio.to_thread(importlib.import_module, _MODULE))
            async with sdk.running():
                ready.set_result(sdk)
                await asyncio.Event().wait()
        except Exception as error:
            if ready.done():
                raise
            self._ready = None  # the next request tries again
            ready.set_exception(error)
