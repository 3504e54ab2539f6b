"""How many starts of one principal are on their way at a time."""

import asyncio
import os

from hypothesis import given
from hypothesis import strategies as st

from outlive.engine.processes.groups import StartSlots


@given(
    st.lists(
        st.tuples(st.sampled_from(["ann", "bob"]), st.sampled_from(["ask", "give", "give up"])), max_size=60
    )
)
def test_there_are_never_more_than_the_places_and_none_is_lost(steps: list[tuple[str, str]]) -> None:
    async def walk() -> None:
        places = StartSlots(2)
        doors = {name: places.of(name) for name in ("ann", "bob")}
        asked: dict[str, list[asyncio.Task[bool]]] = {"ann": [], "bob": []}
        for name, step in steps:
            tasks = asked[name]
            inside = [one for one in tasks if one.done()]
            outside = [one for one in tasks if not one.done()]
            if step == "ask":
                tasks.append(asyncio.create_task(places.of(name).acquire()))
            elif step == "give" and inside:
                tasks.remove(inside[0])
                places.of(name).release()
            elif step == "give up" and outside:
                outside[0].cancel()
                await asyncio.wait(outside[:1])
                tasks.remove(outside[0])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for held in asked.values():
                inside_now = sum(one.done() for one in held)
                assert inside_now == min(2, len(held))
            assert all(places.of(one) is door for one, door in doors.items())
        for held in asked.values():
            for task in held:
                task.cancel()

    asyncio.run(walk())


async def test_who_is_cancelled_in_the_moment_of_his_turn_passes_it_on() -> None:
    door = StartSlots(1).of("ann")
    await door.acquire()
    second, third = (asyncio.create_task(door.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    door.release()
    second.cancel()  # its turn was there, but it had not run yet
    async with asyncio.timeout(5):
        await third
    assert second.cancelled()


async def test_each_core_has_eight() -> None:
    """More only wait for a core, and let everybody else wait (decision 91)."""
    cores = max(2, len(os.sched_getaffinity(0)))
    door = StartSlots().of("ann")
    for _ in range(8 * cores):
        assert not door.locked()
        await door.acquire()
    assert door.locked()


async def test_a_name_is_known_while_somebody_is_in_and_no_longer() -> None:
    places = StartSlots(1)
    async with places.of("ann"):
        assert places.of("ann").locked()
    assert not places.of("ann").locked()
    assert len(places._semaphores) == 0  # else it grows with every principal
