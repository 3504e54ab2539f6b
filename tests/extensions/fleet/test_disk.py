"""Work on a node's files that is done together, and dropped where the server has ended meanwhile."""

import asyncio

from outlive.extensions.fleet.process import DiskWorker


async def test_what_is_noted_while_the_server_ends_is_left_to_the_next_one() -> None:
    """The note's turn comes once the threads are gone: nothing may be raised into the loop then."""
    loop = asyncio.get_running_loop()
    raised: list[object] = []
    loop.set_exception_handler(lambda _loop, context: raised.append(context))
    worker, done = DiskWorker(), []
    await worker.run(lambda: done.append("asked"))
    worker.note(lambda: done.append("noted"))
    await loop.shutdown_default_executor()
    over = loop.create_future()
    loop.call_later(0.06, over.set_result, None)  # behind the note's turn, 0.05 s
    await over
    assert done == ["asked"]
    assert raised == []
