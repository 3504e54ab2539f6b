"""Clients that do not read, or are suddenly gone: no process waits, no memory grows, no byte is lost."""

import hashlib
import json
import socket
from io import BufferedReader

import anyio
import pytest
from anyio import to_thread

from tests.support.processes import Gate, memory_peak_bytes
from tests.support.raw import masked_header, open_raw_websocket, read_frame
from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_MIB = 1 << 20
_LINE = "z" * 999 + "\n"
_LINES = 60_000  # 60 MB: far more than both socket buffers hold
_PIECE = 10_000_000
_FLOOD = 150 * _PIECE


def _stalled_client(server: OutliveServer, **params: object) -> tuple[socket.socket, str]:
    """Start a command on a connection with a small receive buffer and read only up to the response."""
    peer, _ = open_raw_websocket(server.port, receive_buffer=64 * 1024)
    read_frame(peer)  # connected
    request = {"jsonrpc": "2.0", "id": 1, "method": "execute", "params": params}
    payload = json.dumps(request).encode()
    peer.sendall(masked_header(0x1, len(payload)) + payload)
    _, answer = read_frame(peer)
    return peer, str(json.loads(answer)["result"]["process_id"])


def _drain(peer: socket.socket) -> tuple[bytes, int, int]:
    """Read everything up to process.completed; return the digest of the data, its size and the exit code."""
    digest = hashlib.sha256()
    size = 0
    buffered = peer.makefile("rb")
    while True:
        message = json.loads(_next_text(peer, buffered))
        if message["method"] == "process.output":
            digest.update(message["params"]["data"].encode())
            size += len(message["params"]["data"])
        elif message["method"] == "process.completed":
            return digest.digest(), size, message["params"]["exit_code"]


def _next_text(peer: socket.socket, buffered: BufferedReader) -> bytes:
    """Return the payload of the next text frame; ping frames in between are answered."""
    read = buffered.read
    while True:
        first, second = read(2)
        length = second & 0x7F
        if length >= 126:
            length = int.from_bytes(read(2 if length == 126 else 8), "big")
        payload = read(length)
        if first & 0x0F == 0x1:
            return payload
        if first & 0x0F == 0x9:
            peer.sendall(masked_header(0xA, len(payload)) + payload)


@pytest.mark.promise("S0.16.process", "S0.16.memory", "S0.16.kept", "S0.bad.slow-client")
@pytest.mark.parametrize("output", ["lines", "chunk"])
async def test_a_client_that_stops_reading_stops_nobody_else(
    server: OutliveServer, client: RpcClient, output: str
) -> None:
    """S0.16: the process finishes, the server's memory does not grow, then the client gets every byte."""
    await client.run("true")
    before = memory_peak_bytes(server.pid)
    command = f"yes {_LINE.strip()} | head -n {_LINES}; exit 3"
    peer, process_id = await to_thread.run_sync(
        lambda: _stalled_client(server, command=command, output=output, detach=True)
    )
    with peer:
        with anyio.fail_after(30):
            ended = await client.request("wait", process_id=process_id, wait_s=25)
        assert ended["exit_code"] == 3
        assert (await client.run("echo quick")).stdout == "quick\n"
        assert memory_peak_bytes(server.pid) - before < 24 * _MIB
        with anyio.fail_after(60):
            digest, size, exit_code = await to_thread.run_sync(_drain, peer)
    assert size == _LINES * len(_LINE)
    assert digest == hashlib.sha256(_LINE.encode() * _LINES).digest()
    assert exit_code == 3


@pytest.mark.promise("S0.14.resume", "S0.bad.vanished-client")
async def test_a_client_that_vanishes_in_a_flood_finds_everything_again(server: OutliveServer) -> None:
    """Bad input: a client that vanishes: the process goes on, the session continues byte for byte."""
    expected = "".join(f"{number}\n" for number in range(1, 100_001))
    async with connect(server.url) as client:
        result = await client.execute("seq 1 100000; exit 2", output="chunk")
        await client.until(lambda message: message.get("method") == "process.output")
        client.vanish()
    process_id = result["process_id"]
    cursor = client.cursor(process_id)
    # Where the end was handed to the socket already, nobody remembers that chunks were asked for.
    async with connect(server.url, session_id=client.session_id, cursor=cursor, output="chunk") as again:
        assert (await again.completed(process_id))["exit_code"] == 2
    told = [m for c in (client, again) for m in c.messages if m.get("method") == "process.output"]
    assert "".join(message["params"]["data"] for message in told) == expected


@pytest.mark.promise("S0.16.memory", "S0.bad.vanished-client")
async def test_many_vanishing_clients_leave_the_server_well(server: OutliveServer, client: RpcClient) -> None:
    """Bad input: twenty clients break off at once in the middle of their output.

    Nothing is printed but a log.
    """

    async def break_off() -> None:
        async with connect(server.url) as victim:
            result = await victim.execute("yes | head -n 200000")
            await victim.output(result["process_id"], "y")
            victim.vanish()

    async with anyio.create_task_group() as crowd:
        for _ in range(20):
            crowd.start_soon(break_off)
    assert (await client.run("echo unharmed")).stdout == "unharmed\n"


@pytest.mark.promise("S0.16")
async def test_a_loud_process_does_not_starve_a_quiet_one(
    server: OutliveServer, client: RpcClient, gate: Gate
) -> None:
    """S0.16: bounded work per turn: twenty commands finish while another connection's flood is still
    going.
    """
    # All that the flood has written until the gate opens is read to its end, 1.5 GB on a machine that others
    # use as well.
    async with connect(server.url, patience_s=120) as loud:
        # Until the gate is open, and bounded: what was written before the cancel is delivered all the same.
        flood = await loud.execute(
            f"n=0; until [ -e {gate.path} ] && [ $n -ge 30 ] || [ $n = {_FLOOD // _PIECE} ];"
            f" do yes | head -c {_PIECE}; n=$((n+1)); done; sleep 1000",
            output="chunk",
        )
        written = server.state_dir / "processes" / flood["process_id"] / "out"
        await loud.output(flood["process_id"], "y")
        async with anyio.create_task_group() as reading:

            async def read_on() -> None:
                await loud.completed(flood["process_id"])

            reading.start_soon(read_on)
            for number in range(20):
                assert (await client.run(f"echo {number}")).stdout == f"{number}\n"
                # A turn without bounds ends where the log does: these five would have waited for that.
                if number == 4:
                    assert written.stat().st_size < _FLOOD, "five commands during the flood's writing"
                    gate.open()
            told = [m for m in loud.messages if m.get("method") == "process.output"]
            assert sum(len(message["params"]["data"]) for message in told) < 30 * _PIECE, "it still goes on"
            await loud.send("control", {"type": "CANCEL"})
        assert loud.messages[-1].get("method") == "process.completed"
