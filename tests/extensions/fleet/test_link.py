"""The connection to a node: it ends when it is told to, whatever happens at that moment."""

import asyncio
from typing import cast

import pytest

from outlive.core.errors import BackendUnavailable
from outlive.extensions.fleet.link import NodeLink, Pauses
from outlive.extensions.fleet.node_client import AsyncFeed, NodeClient

pytestmark = pytest.mark.anyio


class _Feed:
    async def close(self) -> None:
        """Do nothing."""


class _Connection:
    async def feed(self) -> _Feed:
        """Return one at once."""
        return _Feed()

    async def reset(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("steps", range(6))
async def test_a_node_that_hangs_up_while_it_is_removed_holds_nothing_up(steps: int) -> None:
    """The error of a task group of Python 3.11 took the place of the cancellation, and the removal waited for
    ever.
    """
    hangs_up, is_followed = asyncio.Event(), asyncio.Event()

    async def hear() -> None:
        await hangs_up.wait()
        raise BackendUnavailable("server_lost", "the node has hung up")

    async def follow(_feed: AsyncFeed) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(hear())
            is_followed.set()
            await asyncio.sleep(3600)

    link = NodeLink("far", cast("NodeClient", _Connection()), pauses=Pauses(longest_s=3600, first_s=3600))
    async with asyncio.timeout(10):
        running = asyncio.create_task(link.run(follow))
        await is_followed.wait()
        hangs_up.set()
        for _ in range(steps):
            await asyncio.sleep(0)
        link.shut()
        running.cancel()
        await asyncio.wait({running})


async def test_a_node_is_looked_for_again_after_a_group_that_failed_while_it_ended() -> None:
    """Such a group leaves its own cancellation counted (Python 3.11): that is nobody's wish to end."""
    follows: list[int] = []
    is_enough = asyncio.Event()

    async def hear() -> None:
        await asyncio.sleep(0)
        raise BackendUnavailable("server_lost", "the node has hung up")

    async def follow(_feed: AsyncFeed) -> None:
        follows.append(1)
        if len(follows) == 3:
            is_enough.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(hear())

    link = NodeLink("far", cast("NodeClient", _Connection()), pauses=Pauses(first_s=0.001, longest_s=0.001))
    async with asyncio.timeout(60):
        running = asyncio.create_task(link.run(follow))
        await is_enough.wait()
        assert link.is_away
        link.shut()
        running.cancel()
        await asyncio.wait({running})
