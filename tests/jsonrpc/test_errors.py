"""Bad input: every row of the table, each with its number, a stable reason and a hint.

The connection goes on.
"""

import json
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.support.raw import close_code, masked_header, open_raw_websocket, read_frame
from tests.support.rpc import Message, RpcClient
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


async def _answer(client: RpcClient, frame: str | bytes) -> Any:  # noqa: ANN401 -- an object or a batch
    """Send a frame; return the next message that is no notification (a batch answer as a list)."""
    await client.send_raw(frame)
    message = await client.until(lambda message: "method" not in message)
    return message.get("batch", message)


def _refused(answer: Message, code: int) -> None:
    assert answer["jsonrpc"] == "2.0"
    assert answer["error"]["code"] == code
    assert isinstance(answer["error"]["message"], str)
    assert answer["error"]["message"]
    assert answer["error"]["data"]["reason"]
    assert answer["error"]["data"]["hint"]


@pytest.mark.promise("S0.11", "S0.11.hint", "S0.bad.json")
@pytest.mark.parametrize(
    ("frame", "request_id"),
    [
        ("", None),
        ("{", None),
        ("nonsense", None),
        ('{"jsonrpc": "2.0", "id": 1,', 1),
        ("[1,", None),
        ("\ufeff{}x", None),
    ],
)
async def test_malformed_json_is_a_parse_error(client: RpcClient, frame: str, request_id: int | None) -> None:
    """S0.11: -32700 with the id that stands in the bytes, else null; the connection goes on."""
    answer = await _answer(client, frame)
    _refused(answer, -32700)
    assert answer["id"] == request_id
    await client.barrier()


@pytest.mark.promise("S0.11", "S0.11.hint", "S0.bad.request", "S0.bad.batch-empty")
@pytest.mark.parametrize(
    "frame",
    [
        "42",
        '"text"',
        "null",
        "true",
        "{}",
        '{"jsonrpc":"2.0","id":1}',
        '{"jsonrpc":"2.0","id":1,"method":5}',
        "[]",
    ],
)
async def test_what_is_no_request_is_an_invalid_request(client: RpcClient, frame: str) -> None:
    """S0.11: -32600; an empty batch too."""
    answer = await _answer(client, frame)
    _refused(answer, -32600)
    await client.barrier()


@pytest.mark.promise("S0.bad.batch", "S0.11")
async def test_a_batch_gets_one_array_of_responses(client: RpcClient) -> None:
    """JSON-RPC 2.0, section 6: one array, an error for each bad element, nothing for notifications."""
    batch = [
        {"jsonrpc": "2.0", "id": "a", "method": "list"},
        {"jsonrpc": "2.0", "method": "list"},
        {"jsonrpc": "2.0", "id": 7, "method": "no_such_method"},
        1,
    ]
    answers = await _answer(client, json.dumps(batch))
    assert isinstance(answers, list)
    by_id = {answer["id"]: answer for answer in answers}
    assert set(by_id) == {"a", 7, None}
    assert "result" in by_id["a"]
    _refused(by_id[7], -32601)
    _refused(by_id[None], -32600)


@pytest.mark.promise("S0.bad.batch", "S0.4")
async def test_execute_in_a_batch_answers_before_it_streams(client: RpcClient) -> None:
    """S0.4 holds for a batch: its response comes before process.started."""
    before = len(client.messages)
    request = {"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"command": "echo batched"}}
    (answer,) = await _answer(client, json.dumps([request]))
    await client.completed(answer["result"]["process_id"])
    kinds = [message.get("method", "batch") for message in client.messages[before:]]
    assert kinds == ["batch", "process.started", "process.output", "process.completed"]


@pytest.mark.promise("S0.bad.batch")
async def test_a_batch_of_notifications_gets_no_answer(client: RpcClient) -> None:
    """JSON-RPC 2.0, section 6: nothing at all, not even an empty array."""
    before = len(client.messages)
    notification = {"jsonrpc": "2.0", "method": "list"}
    await client.send_raw(json.dumps([notification, notification]))
    await client.send_raw(json.dumps(notification))
    await client.barrier()
    assert len(client.messages) - before == 1


@pytest.mark.promise("S0.11")
@pytest.mark.parametrize("request_id", [1, "one", "1", 2**53, -5, ""])
async def test_an_id_comes_back_with_its_type(client: RpcClient, request_id: object) -> None:
    """JSON-RPC 2.0, section 5: the response carries the id of its request."""
    await client.send("list", request_id=request_id)
    answer = await client.until(lambda message: "method" not in message)
    assert answer["id"] == request_id
    assert type(answer["id"]) is type(request_id)


@pytest.mark.promise("S0.11", "S0.11.hint")
async def test_an_unknown_method_is_told(client: RpcClient) -> None:
    """S0.11: -32601."""
    failure = await client.failure("levitate")
    assert failure.code == -32601
    assert failure.reason == "method_not_found"
    assert failure.hint


_BAD_EXECUTES: list[Message] = [
    {},
    {"command": ""},
    {"command": "   "},
    {"command": "echo \0 nul"},
    {"command": 5},
    {"command": None},
    {"command": ["echo", "x"]},
    {"command": "echo x", "argv": ["echo", "x"]},
    {"argv": []},
    {"argv": "echo x"},
    {"argv": ["echo", 1]},
    {"argv": ["echo", "nul\0"]},
    {"argv": [""]},
    {"command": "pwd", "cwd": 5},
    {"command": "pwd", "cwd": "/tmp\0"},
    {"command": "true", "env": ["A=1"]},
    {"command": "true", "env": {"A": 1}},
    {"command": "true", "env": {"A=B": "x"}},
    {"command": "true", "env": {"A": "nul\0"}},
    {"command": "true", "timeout": "soon"},
    {"command": "true", "timeout": -1},
    {"command": "true", "grace": "long"},
    {"command": "true", "pty": "yes"},
    {"command": "true", "stdin": "file"},
    {"command": "true", "output": "morse"},
    {"command": "true", "max_line_bytes": "many"},
    {"command": "true", "max_line_bytes": -1},
    {"command": "true", "pty": True, "rows": "tall"},
]


@pytest.mark.promise("S0.bad.command", "S0.11", "S0.11.hint")
@pytest.mark.parametrize("params", _BAD_EXECUTES, ids=json.dumps)
async def test_execute_with_impossible_parameters_is_invalid(client: RpcClient, params: Message) -> None:
    """Bad input: empty command, NUL, wrong type, command and argv together: -32602, nothing starts."""
    before = len(client.messages)
    failure = await client.failure("execute", **params)
    assert failure.code == -32602
    assert failure.reason
    assert failure.hint
    await client.barrier()
    assert not any("method" in message for message in client.messages[before:])


@pytest.mark.promise("S0.bad.command")
async def test_params_that_are_no_object_are_invalid(client: RpcClient) -> None:
    """S0.11: parameters go by name."""
    answer = await _answer(client, '{"jsonrpc":"2.0","id":1,"method":"execute","params":["echo x"]}')
    _refused(answer, -32602)


@pytest.mark.promise("S0.bad.binary")
async def test_a_binary_frame_is_an_invalid_request(client: RpcClient) -> None:
    """Bad input: binary frame where text is due: -32600, and the connection goes on."""
    answer = await _answer(client, b'{"jsonrpc":"2.0","id":1,"method":"list"}')
    _refused(answer, -32600)
    assert answer["id"] == 1
    await client.barrier()


@pytest.mark.promise("S0.bad.oversize")
async def test_a_frame_over_the_limit_closes_with_1009(server: OutliveServer) -> None:
    """Bad input: close 1009 as soon as the header announces too much; the server goes on."""

    def announce_a_gigabyte() -> int:
        peer, _ = open_raw_websocket(server.port)
        with peer:
            read_frame(peer)  # connected
            peer.sendall(masked_header(0x1, 1 << 30))
            return close_code(peer)

    with anyio.fail_after(20):
        assert await to_thread.run_sync(announce_a_gigabyte) == 1009


@pytest.mark.promise("S0.1")
async def test_a_request_in_fragments_is_one_request(client: RpcClient) -> None:
    """RFC 6455, 5.4: a message may come in several frames."""
    text = json.dumps({"jsonrpc": "2.0", "id": "f", "method": "execute", "params": {"command": "echo whole"}})
    await client.socket.send([text[:10], text[10:50], text[50:]])
    answer = await client.response("f")
    assert (await client.finish(answer["result"])).stdout == "whole\n"


@pytest.mark.promise("S0.11", "S0.11.hint")
@pytest.mark.parametrize(
    "method", ["attach", "get", "read", "write", "close_stdin", "resize", "signal", "wait"]
)
async def test_an_unknown_process_is_told_by_every_method(client: RpcClient, method: str) -> None:
    """S0.11: -32003 for a process id that nobody has."""
    extra: dict[str, Message] = {
        "write": {"data": "x"},
        "resize": {"rows": 2, "cols": 2},
        "signal": {"signal": 15},
    }
    unknown = "01arz3ndektsv4rrffq69g5fav"
    failure = await client.failure(method, process_id=unknown, **extra.get(method, {}))
    assert failure.code == -32003
    assert failure.reason
    assert failure.hint


@pytest.mark.promise("S0.11", "S0.19.attach")
@pytest.mark.parametrize("cursor", ["x", "-1", "1.2.3", "1e3", 5, "99999999999999999999.0"])
async def test_a_cursor_that_is_none_is_invalid(client: RpcClient, cursor: object) -> None:
    """S0.11: -32602 for something that is no position."""
    run = await client.run("echo x")
    failure = await client.failure("attach", process_id=run.process_id, cursor=cursor)
    assert failure.code == -32602
