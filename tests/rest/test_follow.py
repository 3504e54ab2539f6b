"""Following a process: events in order, once each, from any place, over both transports, through every
end.
"""

import json

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.rest.rest_caller import Event, Query, RestCaller, events_of
from tests.support.processes import Gate, Marker
from tests.support.server import OutliveServer


def _path(process: dict[str, str]) -> str:
    return f"/v1/processes/{process['process_id']}/follow"


def _text(events: list[Event], stream: str = "stdout") -> str:
    return "".join(event.data["data"] for event in events if event.data.get("type") == stream)


def _read(rest: RestCaller, process: dict[str, str], **options: Query) -> list[Event]:
    with rest.stream(_path(process), **options) as response:
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        return list(events_of(response))


@pytest.mark.promise("R.follow")
def test_output_comes_live_and_the_end_is_told_once(rest: RestCaller, gate: Gate) -> None:
    process = rest.start(f"echo one; echo err >&2; {gate.wait}; printf two; exit 3")
    with rest.stream(_path(process)) as response:
        stream = events_of(response)
        first = [next(stream), next(stream)]
        gate.open()
        events = [*first, *stream]
    assert [event.name for event in events] == ["output"] * 3 + ["completed", "closed"]
    assert (_text(events), _text(events, "stderr")) == ("one\ntwo", "err\n")
    assert events[2].place == "7.4"
    assert (events[3].place, events[4].place) == ("7.4;completed", "7.4;closed")
    assert (events[3].data["exit_code"], events[3].data["status"]) == (3, "failed")
    assert events[4].data == {"process_id": process["process_id"]}


@pytest.mark.promise("R.follow")
def test_following_goes_on_at_the_last_event(rest: RestCaller) -> None:
    process = rest.run("echo one; echo two >&2; echo three")
    rest.wait(process["process_id"], until="closed")  # nothing of it changes any more
    whole = _read(rest, process)
    for number, event in enumerate(whole[:-1]):
        rest_of_it = _read(rest, process, headers={"Last-Event-ID": event.place})
        assert rest_of_it == whole[number + 1 :]
        if event.name == "output":
            assert _read(rest, process, cursor=event.place) == rest_of_it
    rest.call("GET", _path(process), headers={"Last-Event-ID": whole[-1].place}, expect=204)


def test_what_descendants_write_later_is_not_followed_but_their_end_is(rest: RestCaller, gate: Gate) -> None:
    process = rest.start(f"({gate.wait}; echo late) & echo main")
    with rest.stream(_path(process)) as response:
        stream = events_of(response)
        events = [next(stream), next(stream)]
        assert [event.name for event in events] == ["output", "completed"]
        gate.open()
        assert [event.name for event in stream] == ["closed"]
    assert rest.raw(process["process_id"]) == b"main\nlate\n"


def test_a_cut_character_waits_for_its_rest(rest: RestCaller, gate: Gate) -> None:
    process = rest.start(rf"printf 'a\303'; {gate.wait}; printf '\251b\303'")
    with rest.stream(_path(process)) as response:
        stream = events_of(response)
        assert next(stream).data == {"type": "stdout", "data": "a", "end": 1}
        gate.open()
        events = list(stream)
    assert _text(events) == "éb\ufffd"


def test_bytes_can_be_had_as_base64(rest: RestCaller) -> None:
    process = rest.run(r"printf '\377\000'")
    (event,) = [one for one in _read(rest, process, encoding="base64") if one.name == "output"]
    assert event.data["data"] == "/wA="


def test_released_output_is_told_as_a_gap(rest: RestCaller) -> None:
    process = rest.run("seq 1000000", output_limit=100_000)
    events = _read(rest, process)
    (gap,) = [event for event in events if event.name == "gap"]
    assert set(gap.data) == {"type", "from", "to", "end"}
    assert gap.place == f"{gap.data['to']}.0"
    place = 0
    for event in events:
        if event.name == "output":
            place += len(event.data["data"])
            assert event.data["end"] == place
        elif event.name == "gap":
            assert event.data["from"] == place
            place = event.data["to"]


@pytest.mark.thorough
@pytest.mark.promise("R.follow")
def test_following_survives_a_killed_server_without_losing_or_repeating_a_line(
    own_server: OutliveServer,
) -> None:
    rest = RestCaller(own_server.rest_url)
    process = rest.start("for i in $(seq 400); do echo $i; sleep 0.005; done")
    text, place, kills = "", "0", 0
    is_over = False
    while not is_over:
        with rest.stream(_path(process), headers={"Last-Event-ID": place}) as response:
            try:
                for event in events_of(response):
                    text += event.data.get("data", "")
                    place = event.place
                    is_over = event.name == "closed"
                    if kills < 2 and len(text) > (kills + 1) * 300:
                        kills += 1
                        own_server.restart()
            except ConnectionError:
                continue
    assert kills == 2
    assert text == "".join(f"{n}\n" for n in range(1, 401))


def test_a_follower_that_does_not_read_slows_nobody(rest: RestCaller) -> None:
    process = rest.start("seq 3000000")
    with rest.stream(_path(process)) as response:
        assert rest.wait(process["process_id"])["exit_code"] == 0
        text = "".join(event.data.get("data", "") for event in events_of(response))
    assert len(text) == sum(len(f"{n}\n") for n in range(1, 3_000_001))


def test_the_head_of_a_silent_stream_comes_at_once(rest: RestCaller, marker: Marker) -> None:
    process = rest.start(marker.sleep)
    with rest.stream(_path(process)) as response:
        assert response.readline() == b": \n"
    rest.call("DELETE", f"/v1/processes/{process['process_id']}", force="true")


@pytest.mark.parametrize("place", ["x", "1.0;", "1.0;done", "99.0"])
def test_a_place_that_cannot_be_is_refused(rest: RestCaller, place: str) -> None:
    process = rest.run("echo hello")
    refused = rest.refused("GET", _path(process), status=422, headers={"Last-Event-ID": place})
    assert refused["slug"] == "invalid_cursor"


@pytest.mark.promise("R.follow")
async def test_a_websocket_carries_the_same_messages(rest: RestCaller) -> None:
    process = rest.run("echo one; echo err >&2; exit 2")
    rest.wait(process["process_id"], until="closed")  # nothing of it changes any more
    wanted = [{"event": one.name, "id": one.place, **one.data} for one in _read(rest, process)]
    url = rest.url.replace("http", "ws") + _path(process)
    with anyio.fail_after(20):
        async with connect(url) as socket:
            assert [json.loads(message) async for message in socket] == wanted
            assert socket.close_code == 1000
        async with connect(f"{url}?cursor={wanted[0]['id']}") as socket:
            assert [json.loads(message) async for message in socket] == wanted[1:]
        async with connect(f"{url}?cursor={wanted[2]['id']}") as socket:
            assert [json.loads(message) async for message in socket] == wanted[3:]


async def test_a_websocket_carries_the_bytes_themselves(rest: RestCaller) -> None:
    process = rest.start("head -c 300000 /dev/urandom")
    url = rest.url.replace("http", "ws") + _path(process) + "?output=binary"
    data = b""
    with anyio.fail_after(20):
        async with connect(url, max_size=None) as socket:
            async for message in socket:
                if isinstance(message, bytes):
                    head, _, raw = message.partition(b"\n")
                    data += raw
                    event = json.loads(head)
                    assert (event["event"], event["type"], event["end"]) == ("output", "stdout", len(data))
                    assert event["id"] == f"{len(data)}.0"
                else:
                    assert json.loads(message)["event"] in {"completed", "closed"}
    assert data == rest.raw(process["process_id"])


async def test_a_websocket_is_refused_with_a_problem(rest: RestCaller) -> None:
    process = rest.run("true")
    base = rest.url.replace("http", "ws")
    for path, status, slug in (
        (f"/v1/processes/{'0' * 26}/follow", 404, "process_not_found"),
        (f"{_path(process)}?cursor=x", 422, "invalid_cursor"),
        (f"{_path(process)}?output=lines", 422, "invalid_params"),
    ):
        with anyio.fail_after(20), pytest.raises(InvalidStatus) as refused:
            async with connect(base + path):
                pass
        response = refused.value.response
        assert (response.status_code, json.loads(response.body)["slug"]) == (status, slug)


async def test_a_client_that_leaves_its_websocket_ends_nothing(rest: RestCaller, gate: Gate) -> None:
    process = rest.start(f"echo ready; {gate.wait}; echo done")
    with anyio.fail_after(20):
        async with connect(rest.url.replace("http", "ws") + _path(process)) as socket:
            assert json.loads(await socket.recv())["data"] == "ready\n"
    gate.open()
    assert rest.wait(process["process_id"])["exit_code"] == 0
