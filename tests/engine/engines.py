"""Engines for tests: real ones on a state folder with a real keeper."""

import asyncio
import os
from pathlib import Path
from typing import Self

from outlive.backends.contract import Backend
from outlive.backends.local import LocalBackend
from outlive.core.command import Command
from outlive.core.cursor import BEGINNING
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.discovery.keeper import ensure_keeper
from outlive.discovery.server_lock import ServerLock
from outlive.engine import Engine, EngineSettings, OutputChunk, Process, follow
from outlive.kernel.locks import holder_of
from outlive.kernel.sockets import connect_unix
from outlive.placement.contract import Placement
from tests.support.processes import end

ME = Owner(principal="me", connection_id="c1")


class _KnowingEngine(Engine):
    """One that is open once everything is known, so that a test may ask `live` at once.

    It holds the folder's lock as a server does: without it a guardian that sees services wanted starts a
    server beside it.
    """

    async def __aenter__(self) -> Self:
        self._lock = _taken(Layout(self.settings.state_dir))
        try:
            await super().__aenter__()
            async with asyncio.timeout(30):
                await self.reconciliation.over()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        try:
            await super().__aexit__(*exception)
        finally:
            self._lock.__exit__(None, None, None)


def _taken(layout: Layout) -> ServerLock:
    """Take the folder's lock; a server that was started since the last engine closed is ended: by a guardian,
    or by a command that called outlive.
    """
    while True:
        try:
            return ServerLock(layout).__enter__()
        except ConfigInvalid:
            pid = holder_of(layout.server_lock)
            if not pid or pid == os.getpid():
                raise
            end(pid)


def an_engine(
    state_dir: Path,
    *,
    backend: Backend | None = None,
    placement: Placement | None = None,
    **settings: object,
) -> Engine:
    """Describe an engine, on the real keeper unless told otherwise; `async with` opens it."""
    chosen: dict[str, object] = {"environment": dict(os.environ), "cwd": "/", **settings}
    local = LocalBackend(str(state_dir), connect_unix=connect_unix, ensure_keeper=ensure_keeper)
    return _KnowingEngine(
        EngineSettings(state_dir=str(state_dir), **chosen),  # type: ignore[arg-type] # settings by name
        backend=backend or local,
        placement=placement,
    )


async def run(engine: Engine, line: str, *, owner: Owner = ME, **options: object) -> Process:
    """Run a command to its completion."""
    process = await engine.starts.start(Command(line=line, **options), owner=owner)  # type: ignore[arg-type] # options by name
    async with asyncio.timeout(15):
        await engine.queries.wait(process)
    return process


async def output_of(process: Process) -> tuple[bytes, bytes]:
    """Follow a process to its completion; return stdout and stderr, secrets included."""
    streams = [b"", b""]
    async with asyncio.timeout(15):
        async for chunks in follow(process, BEGINNING):
            for chunk in chunks:
                streams[chunk.stream] += process.raw_log.pread(chunk.stream, len(chunk.data), chunk.offset)
    return streams[0], streams[1]


async def settled(engine: Engine, process: Process) -> None:
    """Wait until the engine has let go of a finished process: its last state is committed."""
    async with asyncio.timeout(10):
        while any(process is one for one in engine.queries.live()):  # noqa: ASYNC110 - letting go has no event
            await asyncio.sleep(0.005)


def merged(chunks: list[OutputChunk]) -> bytes:
    """Return the bytes of chunks in order, whatever their stream."""
    return b"".join(chunk.data for chunk in chunks)
