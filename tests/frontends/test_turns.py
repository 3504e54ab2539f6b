"""Whose request is looked at next when many come at once."""

import asyncio

from outlive.server.limiters import FairQueue


async def test_a_quiet_principal_does_not_wait_behind_a_loud_one() -> None:
    turns, order = FairQueue(), list[str]()

    async def ask(name: str) -> None:
        await turns.wait(name)
        order.append(name)

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(ask("loud"))
        tasks.create_task(ask("quiet"))
    assert order.index("quiet") < 10
    assert len(order) == 101


async def test_others_have_their_turn_while_many_wait() -> None:
    turns, served, turns_of_others = FairQueue(), 0, 0

    async def ask() -> None:
        nonlocal served
        await turns.wait("loud")
        served += 1

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(ask())
        while served < 100:
            await asyncio.sleep(0)
            turns_of_others += 1
    assert turns_of_others >= 30


async def test_one_who_gives_up_keeps_nobody_waiting() -> None:
    turns = FairQueue()
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(turns.wait("somebody")) for _ in range(20)]
        await asyncio.sleep(0)
        for task in waiting[5:15]:
            task.cancel()
    assert sum(task.cancelled() for task in waiting) >= 1
    await asyncio.wait_for(turns.wait("next"), 5)
