"""Many viewers, stopped viewers, floods: nobody waits for anybody, and nothing fills the server's memory."""

import hashlib
import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from tests.attacks.attacking import Requests, create_token
from tests.support.processes import memory_peak_bytes
from tests.support.raw import open_raw_websocket, read_frame
from tests.support.server import OutliveServer
from tests.terminal_socket.viewing import PATIENCE_S, Seen, start, viewing, written

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_MIB = 1 << 20
_LINE = "z" * 99


def _stopped_viewer(server: OutliveServer, process_id: str) -> socket.socket:
    """Return a viewer that reads nothing behind the handshake."""
    peer, head = open_raw_websocket(
        server.port, path=f"/ws/terminal/{process_id}?cursor=0", receive_buffer=64 * 1024
    )
    assert b" 101 " in head
    return peer


def _complete(server: OutliveServer, process_id: str) -> dict[str, object]:
    requests = Requests(server)
    requests("GET", f"/v1/processes/{process_id}/wait?until=complete&timeout=60")
    view: dict[str, object] = requests("GET", f"/v1/processes/{process_id}").body
    return view


@pytest.mark.promise("T.slow")
async def test_a_hundred_megabytes_into_a_stopped_viewer_cost_no_memory(own_server: OutliveServer) -> None:
    """The shell goes on to its end while the viewer stands still, and the viewer gets every byte
    afterwards.
    """
    warm = start(own_server, "seq 1 100000")
    async with viewing(own_server, warm, cursor=0) as seen:
        await seen.until_over()
    process_id = start(own_server, f"read line; yes {_LINE} | head -c 100000000; exit 9")
    peer = await to_thread.run_sync(_stopped_viewer, own_server, process_id)
    before = memory_peak_bytes(own_server.pid)
    with peer:
        async with viewing(own_server, process_id, controlled=False) as beside:
            await beside.socket.send(b"\n")
            with anyio.fail_after(60):
                assert await beside.until_over() == (1000, "exited with 9")
        view = await to_thread.run_sync(_complete, own_server, process_id)
        assert view["exit_code"] == 9
        assert memory_peak_bytes(own_server.pid) - before < 8 * _MIB
        with anyio.fail_after(60):
            digest, size = await to_thread.run_sync(_drained, peer)
    log = written(own_server, process_id)
    assert size == len(log) > 100_000_000
    assert digest == hashlib.sha256(log).digest()


def _drained(peer: socket.socket) -> tuple[bytes, int]:
    """Read everything up to the close frame; return the digest and the size of the output."""
    digest, size = hashlib.sha256(), 0
    while True:
        opcode, payload = read_frame(peer)
        if opcode == 0x2:
            digest.update(payload)
            size += len(payload)
        elif opcode == 0x8:
            assert int.from_bytes(payload[:2], "big") == 1000
            return digest.digest(), size


@pytest.mark.promise("T.viewers", "T.slow")
async def test_fifty_viewers_see_the_same_bytes_while_one_is_stopped(server: OutliveServer) -> None:
    process_id = start(server, "read line; for i in $(seq 40); do seq 1 5000; sleep 0.02; done; exit 1")
    digests: list[tuple[bytes, int]] = []
    ready, all_ready = 0, anyio.Event()

    async def view() -> None:
        nonlocal ready
        async with viewing(server, process_id, cursor=0, controlled=ready % 2 == 0) as seen:
            ready += 1
            if ready == 50:
                all_ready.set()
            assert await seen.until_over() == (1000, "exited with 1")
            digests.append((hashlib.sha256(seen.output).digest(), len(seen.output)))

    peer = await to_thread.run_sync(_stopped_viewer, server, process_id)
    with peer:
        async with anyio.create_task_group() as crowd:
            for _ in range(50):
                crowd.start_soon(view)
            await all_ready.wait()
            async with viewing(server, process_id) as typing:
                await typing.socket.send(b"\n")
        log = written(server, process_id)
        assert set(digests) == {(hashlib.sha256(log).digest(), len(log))}
        assert await to_thread.run_sync(_drained, peer) == (hashlib.sha256(log).digest(), len(log))


@pytest.mark.promise("T.input", "T.slow")
async def test_a_flood_of_input_waits_for_the_process_and_arrives_whole(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    """Input comes faster than it is read: the client waits, and the server's memory does not grow."""
    size = 4_000_000
    pattern = b"".join(b"%07d " % number for number in range(size // 8))
    go = tmp_path / "go"
    command = (
        f"stty raw -echo; printf ready; until [ -e {go} ]; do sleep 0.05; done; head -c {size} | sha256sum"
    )
    process_id = start(own_server, command)
    async with viewing(own_server, process_id, controlled=False, send_buffer=32 * 1024) as seen:
        await seen.until_shown(b"ready")
        before = memory_peak_bytes(own_server.pid)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while sent < size:
                piece = pattern[sent : sent + 16384]
                await seen.socket.send(piece)
                sent += len(piece)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            await _until_still(lambda: sent)
            assert sent < size, "it took input that nobody reads"
            go.touch()
            await seen.until_over()
        assert memory_peak_bytes(own_server.pid) - before < 8 * _MIB
    assert seen.output == b"ready" + hashlib.sha256(pattern).hexdigest().encode() + b"  -\n"


async def _until_still(count: Callable[[], int]) -> None:
    """Return once a number has not changed for a while."""
    last = -1
    with anyio.fail_after(PATIENCE_S):
        while (now := count()) != last:
            last = now
            await anyio.sleep(0.5)


async def test_a_server_that_stops_does_not_wait_for_input_that_nobody_reads(
    own_server: OutliveServer,
) -> None:
    process_id = start(own_server, "stty raw -echo; printf ready; sleep 1000")
    async with viewing(own_server, process_id, controlled=False, send_buffer=32 * 1024) as seen:
        await seen.until_shown(b"ready")
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await seen.socket.send(bytes(16384))
                sent += 16384

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            await _until_still(lambda: sent)
            tasks.cancel_scope.cancel()
        assert await to_thread.run_sync(own_server.stop) == 0
        assert (await seen.until_over())[0] == 1012
    assert "Traceback" not in own_server.stderr


@pytest.mark.promise("T.input")
async def test_the_input_of_many_viewers_is_not_mixed_within_a_message(server: OutliveServer) -> None:
    """Each message is written whole, whoever else types."""
    process_id = start(
        server, "stty raw -echo; printf ready; head -c 20000 | tr -d '\\n' | fold -w 10 | sort | uniq -c"
    )
    async with (
        viewing(server, process_id, controlled=False) as first,
        viewing(server, process_id, controlled=False) as second,
    ):

        async def type_in(seen: Seen, letter: bytes) -> None:
            for _ in range(1000):
                await seen.socket.send(letter * 10)

        await first.until_shown(b"ready")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(type_in, first, b"a")
            tasks.start_soon(type_in, second, b"b")
        await first.until_over()
    assert first.output.split() == [b"ready", b"1000", b"a" * 10, b"1000", b"b" * 10]


async def test_there_is_a_bound_to_viewers_and_others_are_not_kept_out(own_server: OutliveServer) -> None:
    process_id = start(own_server, "read line")
    other = create_token(own_server, "run")
    theirs = start(own_server, "echo theirs", token=other)

    def crowd() -> list[socket.socket]:
        return [_stopped_viewer(own_server, process_id) for _ in range(256)]

    peers = await to_thread.run_sync(crowd)
    try:
        peer, head = await to_thread.run_sync(
            lambda: open_raw_websocket(own_server.port, path=f"/ws/terminal/{process_id}")
        )
        peer.close()
        assert b" 503 " in head
        async with viewing(own_server, theirs, token=other) as seen:
            await seen.until_over()
        assert b"theirs" in seen.output
    finally:
        for peer in peers:
            peer.close()
    with anyio.fail_after(PATIENCE_S):
        while True:
            peer, head = await to_thread.run_sync(
                lambda: open_raw_websocket(own_server.port, path=f"/ws/terminal/{process_id}")
            )
            peer.close()
            if b" 101 " in head:
                return
            await anyio.sleep(0.05)
