"""Lines longer than max_line_bytes: first part, full length, and the whole line can be read back."""

import hashlib
import sys

import pytest
from anyio import to_thread

from tests.support.fixtures import ServerFactory
from tests.support.processes import memory_peak_bytes
from tests.support.reading import read_back
from tests.support.rpc import Message, RpcClient, Run, connect, outputs
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_MIB = 1 << 20


async def _run_bytes(client: RpcClient, data: bytes, **params: object) -> Run:
    program = f"import sys; sys.stdout.buffer.write({data!r})"
    return await client.run(argv=[sys.executable, "-c", program], **params)


def _only(run: Run) -> Message:
    (params,) = outputs(run.messages, run.process_id)
    return params


@pytest.mark.promise("S0.7", "S0.7.setting")
async def test_a_line_of_exactly_the_limit_passes_whole(client: RpcClient) -> None:
    """S0.7: 8192 bytes by default, the newline not counted."""
    run = await client.run("head -c 8192 /dev/zero | tr '\\0' x; echo")
    assert _only(run).items() >= {"data": "x" * 8192 + "\n", "truncated": False, "end": 8193}.items()


@pytest.mark.promise("S0.7")
async def test_a_longer_line_is_cut_marked_and_told_in_full_length(client: RpcClient) -> None:
    r"""S0.7: first part + "...\n", truncated:true, `length`; the next line is whole again."""
    run = await client.run("head -c 8193 /dev/zero | tr '\\0' x; echo; echo next")
    long, following = outputs(run.messages, run.process_id)
    assert (
        long.items() >= {"data": "x" * 8192 + "...\n", "truncated": True, "length": 8193, "end": 8194}.items()
    )
    assert following.items() >= {"data": "next\n", "truncated": False, "end": 8199}.items()


@pytest.mark.promise("S0.7")
async def test_a_long_last_line_without_newline_is_cut_too(client: RpcClient) -> None:
    """S0.7: a stream's end is a line's end."""
    run = await client.run("head -c 10000 /dev/zero | tr '\\0' y")
    assert _only(run).items() >= {"data": "y" * 8192 + "...\n", "truncated": True, "length": 10000}.items()
    assert _only(run)["end"] == 10000


@pytest.mark.promise("S0.7.character")
@pytest.mark.parametrize("limit", [9, 10, 11])
async def test_the_cut_is_at_a_characters_end(client: RpcClient, limit: int) -> None:
    """S0.7: a character that does not fit is left out whole, never damaged."""
    run = await _run_bytes(client, "€€€€€€\n".encode(), max_line_bytes=limit)
    assert _only(run).items() >= {"data": "€€€...\n", "truncated": True, "length": 18, "end": 19}.items()


@pytest.mark.promise("S0.7.setting")
async def test_the_limit_is_one_of_the_call(client: RpcClient) -> None:
    """S0.7: per call, smaller and larger than the default."""
    small = await client.run("echo 1234567890", max_line_bytes=4)
    assert _only(small)["data"] == "1234...\n"
    large = await client.run("head -c 20000 /dev/zero | tr '\\0' z; echo", max_line_bytes=20000)
    assert _only(large)["truncated"] is False


@pytest.mark.promise("S0.7.setting")
async def test_the_servers_default_limit_is_a_setting(serve: ServerFactory) -> None:
    """S0.7: env MAX_BUFFER_SIZE."""
    server = await to_thread.run_sync(lambda: serve(MAX_BUFFER_SIZE=10))
    async with connect(server.url) as client:
        run = await client.run("echo 0123456789; echo 0123456789a")
        assert run.lines == ["0123456789\n", "0123456789...\n"]


@pytest.mark.promise("S0.7.whole", "S0.19.read")
async def test_the_whole_of_a_cut_line_can_be_read_back(client: RpcClient) -> None:
    """S0.7: the log holds every byte."""
    run = await client.run("head -c 100000 /dev/zero | tr '\\0' w; echo; echo tail")
    assert run.lines[1] == "tail\n"
    assert await read_back(client, run.process_id) == b"w" * 100_000 + b"\ntail\n"


@pytest.mark.promise("S0.7.chunk")
@pytest.mark.parametrize("output", ["chunk", "binary"])
async def test_chunk_and_binary_never_cut(client: RpcClient, output: str) -> None:
    """S0.7: only lines are truncated."""
    run = await client.run("head -c 100000 /dev/zero | tr '\\0' v; echo", output=output)
    pieces = outputs(run.messages, run.process_id)
    joined = b"".join(p["data"] if isinstance(p["data"], bytes) else p["data"].encode() for p in pieces)
    assert joined == b"v" * 100_000 + b"\n"
    assert not any(params.get("truncated") for params in pieces)


@pytest.mark.thorough
@pytest.mark.promise("S0.7", "S0.7.memory", "S0.bad.endless-line")
async def test_a_hundred_megabytes_without_newline_cost_no_memory(
    server: OutliveServer, client: RpcClient
) -> None:
    """S0.7: only the first part is held in memory; the line is sent at its end with its length."""
    before = memory_peak_bytes(server.pid)
    run = await client.run("head -c 100000000 /dev/zero | tr '\\0' q; echo; echo after")
    long, following = outputs(run.messages, run.process_id)
    assert long["data"] == "q" * 8192 + "...\n"
    assert (long["truncated"], long["length"], long["end"]) == (True, 100_000_000, 100_000_001)
    assert following["data"] == "after\n"
    assert memory_peak_bytes(server.pid) - before < 32 * _MIB
    digest, size = hashlib.sha256(), 0
    before_attach = len(client.messages)
    await client.request("attach", process_id=run.process_id, cursor="0", output="chunk")
    await client.completed(run.process_id)
    for params in outputs(client.messages[before_attach:], run.process_id):
        digest.update(params["data"].encode())
        size += len(params["data"])
    assert size == 100_000_007
    assert digest.digest() == hashlib.sha256(b"q" * 100_000_000 + b"\nafter\n").digest()


@pytest.mark.promise("W.cursor", "S0.19.attach")
async def test_continuing_inside_a_long_line_loses_nothing(client: RpcClient) -> None:
    """S0.20: attach from a cursor in the middle of the log gives exactly the rest, in chunk mode byte for
    byte.
    """
    run = await client.run("seq 1 3000")
    whole = "".join(f"{number}\n" for number in range(1, 3001))
    assert hashlib.sha256(run.stdout.encode()).digest() == hashlib.sha256(whole.encode()).digest()
    seen = len(client.messages)
    await client.request("attach", process_id=run.process_id, cursor="5000.0", output="chunk")
    await client.completed(run.process_id)
    again = outputs(client.messages[seen:], run.process_id)
    assert "".join(params["data"] for params in again) == whole[5000:]
