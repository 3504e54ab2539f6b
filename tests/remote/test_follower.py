"""The follower of a node at moments that real servers give seldom: what is asked of it while its connection ends."""

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

from outlive.backends.remote.contract import NodeConnection, NodeListener
from outlive.backends.remote.follower import NodeFollower
from outlive.backends.remote.link import NodeLink, Pauses
from outlive.backends.remote.process import NodeProcesses, RemoteProcess
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.layout import Layout
from outlive.core.spec import Spec
from outlive.keeper.common.kernel import punch_hole
from outlive.protocols.keeper import encode_spec

pytestmark = pytest.mark.anyio


_NODE = cast("NodeConnection", object())  # it is asked nothing


class _Feed:
    """A feed that is lost while a process is being attached; another start is answered at that moment."""

    is_raw = True

    def __init__(self) -> None:
        self.follower: NodeFollower
        self.started: RemoteProcess
        self._is_attaching = asyncio.Event()

    async def listen(self) -> None:
        """Every event is received."""

    async def attach(self, process_id: str, cursor: Cursor) -> None:  # noqa: ARG002 -- as the feed has it
        self._is_attaching.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.follower.attach(self.started)

    async def beat(self, *, answer_s: float) -> None:
        raise AssertionError(answer_s)

    async def hear(self, listener: NodeListener) -> bool:  # noqa: ARG002 -- as the feed has it
        await self._is_attaching.wait()
        raise BackendUnavailable("server_lost", "The connection was cut.")

    async def close(self) -> None:
        """Nothing is open."""


async def _never(process: RemoteProcess) -> None:
    raise AssertionError(process.process_id)


async def test_a_start_that_is_answered_while_the_connection_ends_ends_nothing_else(tmp_path: Path) -> None:
    """The task of the start would fail, and with it everything that is done for the node."""
    processes = NodeProcesses(Layout(str(tmp_path)), "far", punch=punch_hole)
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    known: list[RemoteProcess] = []
    for now_ns in range(2):
        process_id: ProcessId = new_process_id(now_ns, os.urandom(RANDOM_BYTES))
        known.append(await processes.add(process_id, spec, b""))
        known[-1].acknowledge(1, 1)
    feed = _Feed()
    feed.started = known[1]
    del processes.by_id[known[1].process_id]
    link = NodeLink("far", _NODE, pauses=Pauses())
    feed.follower = NodeFollower(_NODE, link, processes, begin=_never)
    with pytest.raises(ExceptionGroup) as ended:
        await feed.follower.follow(feed)
    assert ended.group_contains(BackendUnavailable)
    assert not ended.group_contains(RuntimeError)
    for process in known:
        process.files.close()
