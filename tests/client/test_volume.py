"""Much output and a consumer that rests: the process ends, memory stays bounded, every byte comes."""

import hashlib
import json
import subprocess
import sys

import pytest

from outlive.client import AsyncClient, Client, Gap, Output
from tests.docs.pages import ROOT
from tests.support.processes import Gate
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_MIB = 1 << 20
_LINE = b"z" * 999 + b"\n"
# Four frames of 256 KiB that wait, the one in hand, their copies while they are put together, the allocator's
# slack.
_GROWTH = 24 * _MIB


def _follow_elsewhere(server: OutliveServer, twin: str, lines: int) -> None:
    """Let a process write, have it followed by a program that rests until it has ended, and judge."""
    with Client(server.state_dir, start_server=False) as client:
        process = client.start(f"yes {_LINE.decode().strip()} | head -n {lines}")
        words = [
            sys.executable,
            "-m",
            "tests.client.follower",
            twin,
            str(server.state_dir),
            process.process_id,
        ]
        said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
        assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    digest = hashlib.sha256()
    for _ in range(lines):
        digest.update(_LINE)
    assert (found["size"], found["digest"]) == (lines * len(_LINE), digest.hexdigest())
    assert found["grown"] < _GROWTH, f"{found['grown'] / _MIB:.1f} MiB"


@pytest.mark.thorough
@pytest.mark.promise("C.follow.bounded")
@pytest.mark.parametrize("twin", ["asyncio", "blocking"])
def test_a_consumer_that_rests_holds_nobody_up_and_keeps_nothing_in_memory(
    server: OutliveServer, twin: str
) -> None:
    _follow_elsewhere(server, twin, 100_000)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.promise("C.follow.bounded")
@pytest.mark.parametrize("twin", ["asyncio", "blocking"])
def test_a_gigabyte_is_followed_in_bounded_memory(own_server: OutliveServer, twin: str) -> None:
    _follow_elsewhere(own_server, twin, 1_000_000)


@pytest.mark.promise("C.follow.bounded")
async def test_requests_of_a_private_process_are_answered_while_its_consumer_rests(
    asynchronous: AsyncClient, gate: Gate
) -> None:
    """They share one connection: what comes before the answers is kept up to a bound, then asked for
    again.
    """
    process = await asynchronous.start(f"yes | head -c 40000000; {gate.wait}", detach=False, stdin="pipe")
    follow = process.follow()
    size = len(_data(await anext(follow)))
    while (await process.info()).cursor.stdout < 40_000_000:
        await process.signal("CONT")
    for _ in range(50):
        await process.signal("CONT")
    gate.open()
    async for item in follow:
        size += len(_data(item))
    assert size == 40_000_000
    assert follow.completion is not None
    assert follow.completion.exit_code == 0


async def test_what_the_log_no_longer_holds_is_told_as_a_gap(asynchronous: AsyncClient) -> None:
    process = await asynchronous.start("seq 1 1000000; echo e >&2", output_limit=200_000)
    await process.wait()
    size = 0
    gaps = []
    async for item in process.follow():
        if item.stream == "stderr":
            assert _data(item) == b"e\n"
        elif isinstance(item, Gap):
            assert item.start == size
            size = item.end
            gaps.append(item)
        else:
            size += len(item.data)
        assert item.cursor.stdout == size
    assert size == 6_888_896
    assert gaps
    page = await process.read(gaps[0].cursor)
    assert page.items
    around = await process.read(f"{gaps[0].start - 1}.0", limit_bytes=10)
    assert any(isinstance(item, Gap) for item in [*around.items, *(await process.read(around.cursor)).items])


def _data(item: Output | Gap) -> bytes:
    assert isinstance(item, Output)
    return item.data
