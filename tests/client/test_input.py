"""Input through the client: byte for byte, whatever its size, over every wire."""

import hashlib
import os

import pytest

from outlive.client import AsyncClient, AsyncProcess, Client, InvalidState, Output
from tests.support.processes import Gate
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_PIECE = 1024 * 1024  # of an input in one frame
# Around the lengths of frames (RFC 6455, 5.2), what is copied, what the server writes itself, a pipe, a
# piece.
_SIZES = [0, 1, 125, 126, 4096, 16_383, 16_384, 65_535, 65_536, 65_537, _PIECE - 1, _PIECE, _PIECE + 1]
_PARTS = [os.urandom(size) for size in [*_SIZES, 3 * _PIECE + 5]]
_DIGEST = hashlib.sha256(b"".join(_PARTS)).hexdigest().encode()


async def _printed(process: AsyncProcess) -> bytes:
    return b"".join([item.data async for item in process.follow() if isinstance(item, Output)])


@pytest.mark.parametrize("is_tcp", [False, True])
async def test_every_size_of_input_arrives_whole(server: OutliveServer, *, is_tcp: bool) -> None:
    """By asyncio: masked frames, over the Unix socket and over TCP."""
    client = AsyncClient(url=server.url) if is_tcp else AsyncClient(server.state_dir, start_server=False)
    async with client:
        process = await client.start("sha256sum", stdin="pipe")
        for part in _PARTS:
            await process.write(part)
        await process.close_stdin()
        assert (await _printed(process)).split()[0] == _DIGEST


@pytest.mark.parametrize("is_tcp", [False, True])
def test_every_size_of_input_arrives_whole_without_an_event_loop(
    server: OutliveServer, *, is_tcp: bool
) -> None:
    """By the blocking client: frames of its own over the Unix socket, masked ones over TCP."""
    with Client(url=server.url) if is_tcp else Client(server.state_dir, start_server=False) as client:
        process = client.start("sha256sum", stdin="pipe")
        for part in _PARTS:
            process.write(part)
        process.close_stdin()
        out = b"".join(item.data for item in process.follow() if isinstance(item, Output))
        assert out.split()[0] == _DIGEST


async def test_a_slow_reader_gets_all_of_it(asynchronous: AsyncClient, gate: Gate) -> None:
    """It begins late, and takes little at a time."""
    process = await asynchronous.start(
        f"{gate.wait}; while data=$(head -c 60000 | sha256sum) && "
        f"[ \"$data\" != '{hashlib.sha256(b'').hexdigest()}  -' ]; do echo $data; sleep 0.01; done",
        stdin="pipe",
    )
    data = os.urandom(60_000 * 40)
    gate.open()
    await process.write(data)
    await process.close_stdin()
    digests = [line.split()[0].decode() for line in (await _printed(process)).splitlines()]
    assert digests == [
        hashlib.sha256(data[at : at + 60_000]).hexdigest() for at in range(0, len(data), 60_000)
    ]


async def test_a_process_that_ends_in_the_middle_takes_what_it_wants(asynchronous: AsyncClient) -> None:
    """What is left is refused, not lost in silence."""
    process = await asynchronous.start("head -c 200000 | sha256sum", stdin="pipe")
    data = os.urandom(40 * _PIECE)
    with pytest.raises(InvalidState) as refused:
        await process.write(data)
    assert refused.value.code in {"stdin_closed", "process_ended"}
    assert (await _printed(process)).split()[0].decode() == hashlib.sha256(data[:200_000]).hexdigest()
