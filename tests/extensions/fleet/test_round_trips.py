"""What crosses the line for a start on a node: one request, and nothing waits for the answer of another
start.
"""

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest

from outlive.client import AsyncClient, Client
from tests.extensions.fleet.pairs import PATIENCE_S, Pair, output_of, wait_until
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_STARTS = 24  # more than this machine starts at once by itself, eight for each of two processors


def _requests(server: OutliveServer) -> dict[str, int]:
    """Return how often a server was asked for each method of JSON-RPC."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    found = re.findall(r'outlive_request_seconds_count\{door="jsonrpc",what="(\w+)"\} (\d+)', text)
    return {method: int(count) for method, count in found}


def _more(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    changed = {method: count - before.get(method, 0) for method, count in after.items()}
    return {method: count for method, count in changed.items() if count and method != "nodes"}  # heartbeats


@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.trip")
def test_a_start_is_one_request_and_brings_its_output(own_pair: Pair) -> None:
    """Whether it ends at once, or writes later: it is never asked for."""
    with own_pair.client() as client:
        client.start("true", backend="far").wait(PATIENCE_S)
        before = _requests(own_pair.far)
        short = [client.start(f"echo {number}", backend="far") for number in range(5)]
        late = client.start("echo begun; read x; echo $x >&2; exit 3", backend="far", stdin="pipe")
        wait_until(lambda: late.info().cursor.stdout == 6)
        late.write(b"later\n")
        assert late.wait(PATIENCE_S).exit_code == 3
        assert [one.wait(PATIENCE_S).exit_code for one in short] == [0] * 5
        assert output_of(late) == (b"begun\n", b"later\n")
        assert [output_of(one)[0] for one in short] == [b"%d\n" % number for number in range(5)]
        assert _more(before, _requests(own_pair.far)) == {"execute": 6, "write": 1}


@pytest.mark.promise("S4.12.nodes.trip", "S4.12.nodes.once")
async def test_starts_do_not_wait_for_the_answers_of_others(own_pair: Pair, tmp_path: Path) -> None:
    """Nothing comes back from the node, and all of them run.

    When the line is whole again each has its output, once.
    """
    async with AsyncClient(own_pair.near.state_dir, start_server=False) as client:
        await (await client.start("true", backend="far")).wait(PATIENCE_S)
        own_pair.proxy.hold()
        try:
            starts = [
                asyncio.create_task(client.start(f"echo {n}; echo x >> {tmp_path}/mark{n}", backend="far"))
                for n in range(_STARTS)
            ]
            await asyncio.to_thread(wait_until, lambda: len(list(tmp_path.glob("mark*"))) == _STARTS)
            assert not any(one.done() and one.exception() is None for one in starts)
        finally:
            own_pair.proxy.heal()
        # On a machine that is busy the node may have been away for a moment: then the starts are said to be
        # open.
        await asyncio.gather(*starts, return_exceptions=True)
    await asyncio.to_thread(_all_ended_once, own_pair, tmp_path)


def _all_ended_once(pair: Pair, folder: Path) -> None:
    with Client(pair.near.state_dir, start_server=False) as client:
        wait_until(lambda: not client.list(active=True))
        found = [client.get(one.process_id) for one in client.list() if "mark" in one.command]
        outputs = sorted(int(output_of(one)[0]) for one in found)
    assert outputs == list(range(_STARTS))
    assert [path.read_text() for path in folder.glob("mark*")] == ["x\n"] * _STARTS
