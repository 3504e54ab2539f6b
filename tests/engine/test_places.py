"""How many starts of one principal are on their way at a time."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from outlive.engine.places import Places


@given(
    st.lists(
        st.tuples(st.sampled_from(["ann", "bob"]), st.sampled_from(["ask", "give", "give up"])), max_size=60
    )
)
def test_there_are_never_more_than_the_places_and_none_is_lost(steps: list[tuple[str, str]]) -> None:
    async def walk() -> None:
        places = Places(2)
        asked: dict[str, list[asyncio.Task[None]]] = {"ann": [], "bob": []}
        for name, step in steps:
            tasks = asked[name]
            inside = [one for one in tasks if one.done()]
            outside = [one for one in tasks if not one.done()]
            if step == "ask":
                tasks.append(asyncio.create_task(places.take(name)))
            elif step == "give" and inside:
                tasks.remove(inside[0])
                places.give(name)
            elif step == "give up" and outside:
                outside[0].cancel()
                await asyncio.wait(outside[:1])
                tasks.remove(outside[0])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for held in asked.values():
                inside_now = sum(one.done() for one in held)
                assert inside_now == min(2, len(held))
        for held in asked.values():
            for task in held:
                task.cancel()

    asyncio.run(walk())


async def test_who_is_cancelled_in_the_moment_of_his_turn_passes_it_on() -> None:
    places = Places(1)
    await places.take("ann")
    second, third = (asyncio.create_task(places.take("ann")) for _ in range(2))
    await asyncio.sleep(0)
    places.give("ann")
    second.cancel()  # its turn was there, but it had not run yet
    async with asyncio.timeout(5):
        await third
    assert second.cancelled()
