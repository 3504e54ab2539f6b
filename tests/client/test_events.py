"""Events, labels, removal and statistics by the Python client, blocking and for asyncio."""

import anyio
import pytest

from outlive.client import AsyncClient, Client, InvalidState, ProcessNotFound
from tests.support.processes import Gate
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


@pytest.mark.promise("C.events")
async def test_an_asyncio_client_hears_what_happens_from_now_on(asynchronous: AsyncClient) -> None:
    async with asynchronous.events(group="heard", events=["started", "ended"]) as events:
        process = await asynchronous.start("exit 3", group="heard", tags={"a": "b"})
        await asynchronous.start("true", group="unheard")
        first, second = await anext(events), await anext(events)
    assert (first.event, first.process_id) == ("started", process.process_id)
    assert second.info is not None
    assert (second.event, second.info.exit_code, second.info.tags) == ("ended", 3, {"a": "b"})
    assert [event async for event in events] == []


@pytest.mark.promise("C.events")
def test_events_go_on_across_a_killed_server_and_tell_that_some_are_missing(
    own_server: OutliveServer, gate: Gate
) -> None:
    with Client(own_server.state_dir, start_server=False) as client:
        process = client.start(gate.wait)
        with client.events(process_ids=[process.process_id]) as events:
            own_server.restart()
            missed = next(events)
            assert (missed.event, missed.missed, missed.info) == ("missed", 0, None)
            gate.open()
            assert [event.event for event in (next(events), next(events))] == ["ended", "closed"]


@pytest.mark.promise("S0.19.relabel", "S0.19.remove")
async def test_labels_and_removal_by_both_twins(
    asynchronous: AsyncClient, blocking: Client, gate: Gate
) -> None:
    process = await asynchronous.start(gate.wait, tags={"a": "1"})
    assert (await process.relabel({"a": None, "b": "2"}, group="g")).tags == {"b": "2"}
    with pytest.raises(InvalidState, match="still runs"):
        await asynchronous.remove(process.process_id)
    gate.open()
    await process.wait(until="closed")
    twin = await anyio.to_thread.run_sync(blocking.get, process.process_id)
    changed = await anyio.to_thread.run_sync(lambda: twin.relabel({"c": "3"}))
    assert (changed.tags, changed.group) == ({"b": "2", "c": "3"}, "g")
    await anyio.to_thread.run_sync(lambda: blocking.remove(process.process_id))
    with pytest.raises(ProcessNotFound):
        await process.info()


async def test_info_tells_what_the_tree_looks_like_where_that_is_asked_for(
    asynchronous: AsyncClient, gate: Gate
) -> None:
    process = await asynchronous.start(f"sleep 1000 & {gate.wait}", after_exit="kill")
    assert (await process.info()).stats is None
    while (stats := (await process.info(stats=True)).stats) is None or stats.memory_bytes == 0:
        assert stats is not None
        await anyio.sleep(0.01)  # what is executed just now has no memory for a moment
    assert stats.pids[0] == process.pid
    assert stats.waiting is None
    gate.open()
    await process.wait()
