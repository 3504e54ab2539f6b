"""The methods `events`, `relabel` and `remove`: what happens is told, labels change, what has ended is
forgotten.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.processes import Gate
from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer


async def _heard(client: RpcClient, process_id: str, last: str) -> list[dict[str, Any]]:
    """Return the events about a process up to one of that name."""
    heard = []
    while True:
        params = await client.notification("event")
        if params["process_id"] == process_id:
            heard.append(params)
            if params["event"] == last:
                return heard


@pytest.mark.promise("S0.19.events")
async def test_events_tell_the_life_of_a_process_in_its_order(
    server: OutliveServer, client: RpcClient, gate: Gate
) -> None:
    async with connect(server.url) as watcher:
        assert await watcher.request("events") == {"status": "following"}
        process_id = (await client.execute(gate.wait, detach=True, tags={"job": "e"}))["process_id"]
        for verb in ("PAUSE", "PAUSE", "RESUME", "RESUME"):
            await client.request("control", type=verb, process_id=process_id)
        gate.open()
        await client.completed(process_id)
        await client.request("wait", process_id=process_id, until="closed")
        await client.request("remove", process_id=process_id)
        heard = await _heard(watcher, process_id, "removed")
    assert [one["event"] for one in heard] == ["started", "paused", "resumed", "ended", "closed", "removed"]
    states = [one["process"]["state"] for one in heard]
    assert states == ["running", "paused", "running", "exited", "exited", "exited"]
    assert all(one["process"]["tags"] == {"job": "e"} and one["missed"] == 0 for one in heard)
    assert [one["at"] for one in heard] == sorted(one["at"] for one in heard)


@pytest.mark.promise("S0.19.events")
async def test_a_start_is_told_before_the_end_however_short_it_is(
    server: OutliveServer, client: RpcClient
) -> None:
    async with connect(server.url) as watcher:
        await watcher.request("events", tags={"short": "yes"}, events=["started", "ended"])
        runs = [
            (await client.execute("true", detach=True, concurrent=True, tags={"short": "yes"}))["process_id"]
            for _ in range(50)
        ]
        told = [await watcher.notification("event") for _ in range(100)]
    assert {one["process_id"] for one in told} == set(runs)
    for process_id in runs:
        assert [one["event"] for one in told if one["process_id"] == process_id] == ["started", "ended"]


@pytest.mark.promise("S0.19.events")
async def test_who_wants_no_repetition_is_told_once_that_a_process_has_ended_and_is_closed(
    server: OutliveServer, client: RpcClient
) -> None:
    async with connect(server.url) as watcher:
        await watcher.request("events", tags={"d": "1"}, events=["ended", "closed"], distinct=True)
        runs = [
            (await client.execute(line, detach=True, concurrent=True, tags={"d": "1"}))["process_id"]
            for line in ("true", "sleep 0.2 &", "true")
        ]
        told = [await watcher.notification("event") for _ in range(4)]
    of = [[one["event"] for one in told if one["process_id"] == process_id] for process_id in runs]
    assert of == [["ended"], ["ended", "closed"], ["ended"]]
    assert all(one["process"]["streams"] == "closed" for one in told if one["process_id"] != runs[1])


_FILTERS: list[Callable[[str], dict[str, Any]]] = [
    lambda process_id: {"process_ids": [process_id]},
    lambda _: {"group": "wanted"},
    lambda _: {"tags": {"w": "1"}},
]


@pytest.mark.promise("S0.19.events")
@pytest.mark.parametrize("filtered", _FILTERS)
async def test_only_what_was_asked_for_is_told(
    server: OutliveServer, client: RpcClient, gate: Gate, filtered: Callable[[str], dict[str, Any]]
) -> None:
    wanted = await client.execute(gate.wait, detach=True, concurrent=True, group="wanted", tags={"w": "1"})
    async with connect(server.url) as watcher:
        await watcher.request("events", **filtered(wanted["process_id"]), states=["exited"])
        await client.run("true", detach=True, tags={"w": "2"}, group="other")
        await client.failure("execute", argv=["/no/such/program"])
        gate.open()
        first = await watcher.notification("event")
        assert (first["event"], first["process_id"]) == ("ended", wanted["process_id"])
        assert await watcher.request("events", follow=False) == {"status": "silent"}
        await client.run("true", detach=True, group="wanted", tags={"w": "1"})
        await watcher.barrier()
        about = [one["params"] for one in watcher.messages if one.get("method") == "event"]
    assert {one["process_id"] for one in about} == {wanted["process_id"]}


@pytest.mark.promise("S0.19.events")
async def test_other_labels_are_told_of_what_runs_and_of_what_has_ended(
    server: OutliveServer, client: RpcClient, gate: Gate
) -> None:
    process_id = (await client.execute(gate.wait, detach=True, tags={"was": "1"}))["process_id"]
    async with connect(server.url) as watcher:
        await watcher.request("events", tags={"is": "2"}, events=["relabeled"])
        await client.request("relabel", process_id=process_id, tags={"was": None, "is": "2"}, name="told-of")
        told = await watcher.notification("event")
        assert (told["event"], told["process"]["tags"], told["process"]["name"]) == (
            "relabeled",
            {"is": "2"},
            "told-of",
        )
        gate.open()
        await client.completed(process_id)
        await client.request("relabel", process_id=process_id, group="later")
        told = await watcher.notification("event")
        assert (told["event"], told["process"]["group"]) == ("relabeled", "later")


@pytest.mark.promise("S0.19.events")
async def test_a_private_process_is_no_event_for_others(server: OutliveServer, client: RpcClient) -> None:
    async with connect(server.url) as watcher:
        await watcher.request("events", events=["started", "rejected"])
        await client.run("true")
        await client.failure("execute", argv=["/no/such/program"])
        told = await watcher.notification("event")
        assert (told["event"], told["reason"], told["process"]) == ("rejected", "not_found", None)
        public = await client.run("true", detach=True)
        assert (await watcher.notification("event"))["process_id"] == public.process_id


@pytest.mark.promise("S0.19.events")
async def test_a_client_that_does_not_read_is_told_how_many_events_it_has_missed(
    server: OutliveServer, client: RpcClient, gate: Gate
) -> None:
    """Each event carries the command: of 100 KB, so that the buffers between are full after some dozens."""
    long = await client.execute(f"{gate.wait} # {'x' * 90_000}", detach=True)
    async with connect(server.url) as watcher:
        await watcher.request("events", process_ids=[long["process_id"]], events=["paused", "resumed"])
        for _ in range(150):
            for verb in ("PAUSE", "RESUME"):
                await client.request("control", type=verb, process_id=long["process_id"])
        told = 0
        while (event := await watcher.notification("event"))["event"] != "missed":
            assert event["event"] == ("paused", "resumed")[told % 2]
            told += 1
        assert event["process"] is None
        assert (told + event["missed"], told > 0, event["missed"] > 0) == (300, True, True)
        await client.request("control", type="PAUSE", process_id=long["process_id"])
        assert (await watcher.notification("event"))["event"] == "paused"
    await client.request("control", type="CANCEL", grace=0, process_id=long["process_id"])
    await client.completed(long["process_id"])


@pytest.mark.promise("S0.19.relabel")
async def test_labels_change_one_by_one_and_for_good(client: RpcClient) -> None:
    run = await client.run("true", tags={"a": "1", "b": "2"}, group="old")
    changed = await client.request("relabel", process_id=run.process_id, tags={"a": None, "c": "3"})
    assert (changed["tags"], changed["group"]) == ({"b": "2", "c": "3"}, "old")
    assert (await client.request("relabel", process_id=run.process_id, group=None))["group"] is None
    told = await client.request("get", process_id=run.process_id)
    assert (told["tags"], told["group"]) == ({"b": "2", "c": "3"}, None)
    assert (await client.request("relabel", process_id=run.process_id, name="web"))["name"] == "web"
    assert (await client.failure("relabel", process_id=run.process_id, name="p7")).reason == "name_invalid"
    assert "name" not in await client.request("relabel", process_id=run.process_id, name=None)
    for tags in ({"": "x"}, {"n": "v" * 1025}, {f"n{number}": "v" for number in range(65)}):
        failure = await client.failure("relabel", process_id=run.process_id, tags=tags)
        assert (failure.code, failure.reason) == (-32602, "invalid_params")


@pytest.mark.promise("S0.19.remove")
async def test_what_runs_is_removed_only_by_force(client: RpcClient, gate: Gate) -> None:
    process_id = (await client.execute(gate.wait))["process_id"]
    refused = await client.failure("remove", process_id=process_id)
    assert refused.reason == "process_running"
    answer = await client.request("remove", process_id=process_id, force=True)
    assert answer == {"process_id": process_id, "removed": True}
    assert (await client.failure("get", process_id=process_id)).reason == "process_not_found"
