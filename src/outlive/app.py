"""The composition root: builds engine, doors and observers from settings. The only file that knows all of them."""

import asyncio
import contextlib
import os
import time
from types import TracebackType

from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp

from outlive import __version__
from outlive.config import Settings
from outlive.core.layout import Layout
from outlive.frontends.boundary import ErrorBoundary
from outlive.frontends.front_page import front_routes, unknown_path
from outlive.frontends.guard import Guard

__all__ = ["Application"]


class Application:
    """One server's parts, wired; `async with` opens them in order and closes them in reverse.

    Leaving it stops no process: the keeper has them.
    """

    def __init__(self, settings: Settings, layout: Layout) -> None:
        self._started = time.monotonic()
        routes: list[BaseRoute] = []
        routes += front_routes(self._describe, self._health)
        router = Router(routes, default=unknown_path(routes))
        self.asgi: ASGIApp = Guard(ErrorBoundary(router), own_uid=os.getuid())

    async def __aenter__(self) -> "Application":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def living(self) -> int:
        return 0

    async def stop_processes(self) -> None: ...

    def _describe(self) -> dict[str, object]:
        return {"name": "outlive", "version": __version__}

    def _health(self) -> dict[str, object]:
        return {"status": "ok", "version": __version__}
