"""Going on at a cursor: nothing lost, nothing twice, over disconnects and killed servers, from any byte."""

import hashlib
import random

import anyio
import pytest
import websockets
from anyio import to_thread

from tests.support.server import OutliveServer
from tests.terminal_socket.viewing import PATIENCE_S, Seen, start, viewing, written

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

# Lines of many lengths with colours and characters of several bytes: a cut anywhere would show.
_OUTPUT = """
awk 'BEGIN { for (i = 1; i <= 60000; i++) printf "\\033[3%dm%d grün 日本\\033[0m %s\\n", i % 8, i, substr("abcdefghijklmnopqrstuvwxyz", 1, i % 27) }'
"""  # noqa: E501 -- lines of a table, or of another language


async def _take_until(seen: Seen, size: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while len(seen.output) < size and await seen.take():
            pass


@pytest.mark.promise("T.resume")
@pytest.mark.parametrize("controlled", [True, False], ids=["controlled", "plain"])
async def test_a_viewer_that_counts_goes_on_where_it_was_cut_off(
    server: OutliveServer, *, controlled: bool
) -> None:
    process_id = start(server, _OUTPUT)
    chance = random.Random(7)
    taken = bytearray()
    while True:
        async with viewing(server, process_id, cursor=len(taken), controlled=controlled) as seen:
            await _take_until(seen, chance.randrange(1, 600_000))
            seen.socket.transport.abort()
            is_over = seen.socket.close_code == 1000
        taken += seen.output
        if is_over:
            break
    assert hashlib.sha256(taken).digest() == hashlib.sha256(written(server, process_id)).digest()


@pytest.mark.promise("T.resume")
async def test_any_byte_is_a_place_to_go_on(server: OutliveServer) -> None:
    process_id = start(server, "printf '\\033[31mgr\\303\\274n 日本\\033[0m\\033]0;title\\007'")
    async with viewing(server, process_id, cursor=0) as seen:
        await seen.until_over()
    whole = bytes(seen.output)
    for place in range(len(whole) + 1):
        async with viewing(server, process_id, cursor=place, controlled=False) as rest:
            await rest.until_over()
        assert bytes(rest.output) == whole[place:]


@pytest.mark.promise("T.resume")
@pytest.mark.parametrize("controlled", [True, False], ids=["controlled", "plain"])
async def test_a_killed_server_costs_no_byte(own_server: OutliveServer, *, controlled: bool) -> None:
    """SIGKILL in mid-stream, again and again; the viewer dials again at the number of bytes that it has."""
    command = (
        f"for i in 1 2 3 4 5 6; do {_OUTPUT.strip()}; sleep 0.2; done; read line; echo got $line; exit 5"
    )
    process_id = start(own_server, command)
    taken = bytearray()
    chance = random.Random(3)
    for _ in range(4):
        async with viewing(own_server, process_id, cursor=len(taken), controlled=controlled) as seen:
            await _take_until(seen, chance.randrange(1, 3_000_000))
            await to_thread.run_sync(own_server.kill)
            await seen.until_over()
        taken += seen.output
        await to_thread.run_sync(own_server.start)
    async with viewing(own_server, process_id, cursor=len(taken), controlled=controlled) as seen:
        await seen.socket.send(b"typed\n")
        assert await seen.until_over() == (1000, "exited with 5")
    taken += seen.output
    assert taken.endswith(b"got typed\r\n")
    assert bytes(taken) == written(own_server, process_id)
    assert taken.count(b"\x1b[0m abcdefghijklmnopqrstuvwxyz\r\n") == 6 * (60_000 // 27)


@pytest.mark.promise("T.resume", "T.control")
async def test_every_cursor_that_is_told_is_exact(server: OutliveServer) -> None:
    process_id = start(server, f"{_OUTPUT.strip()}; read line")
    async with viewing(server, process_id, cursor=0) as seen:
        places: list[tuple[int, str]] = []
        with anyio.fail_after(PATIENCE_S):
            while b"60000 gr" not in seen.output:
                told = len(seen.messages)
                await seen.say("where")
                while len(seen.messages) == told:
                    await seen.take()
                places.append((len(seen.output), seen.messages[-1]["cursor"]))
        assert len(places) > 3
        assert [f"{size}.0" for size, _ in places] == [cursor for _, cursor in places]
        await seen.socket.send(b"\n")


async def test_a_cursor_behind_the_end_is_refused(server: OutliveServer) -> None:
    process_id = start(server, "printf 12345")
    async with viewing(server, process_id, cursor=0) as seen:
        await seen.until_over()
    for cursor in ("6", "0.1", "x"):
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with viewing(server, process_id, cursor=cursor):
                pass
        assert refused.value.response.status_code == 422
