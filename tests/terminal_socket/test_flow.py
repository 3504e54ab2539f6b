"""Bounds that a viewer asks for: what is sent ahead of its acknowledgements, and how far it may lag.

Viewers that ask for none.
"""

from typing import Any

import pytest
import websockets

from tests.support.server import OutliveServer
from tests.terminal_socket.viewing import Seen, start, viewing, written

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_FLOOD = "awk 'BEGIN { for (i = 1; i <= 200000; i++) printf \"%d grün 日本\\n\", i }'"  # 5 MB


async def _is_held(seen: Seen, size: int) -> bool:
    """Take so many bytes of output; False when there is an end before that."""
    await seen.until(lambda: len(seen.output) == size or "closed" in seen.order)
    return "closed" not in seen.order


@pytest.mark.promise("T.ahead")
async def test_no_more_is_sent_than_is_acknowledged_and_nothing_is_lost(server: OutliveServer) -> None:
    process_id = start(server, _FLOOD)
    ahead = 100_000
    async with viewing(server, process_id, cursor=0, ahead=ahead) as seen:
        acknowledged = 0
        while await _is_held(seen, acknowledged + ahead):
            # The cursor is told behind everything that was sent before: nothing more was.
            await seen.say("where")
            await seen.until_told_anew("cursor")
            assert len(seen.output) == acknowledged + ahead
            await seen.say("ack", bytes=ahead)
            acknowledged += ahead
    assert acknowledged > 3_000_000
    assert bytes(seen.output) == written(server, process_id)


@pytest.mark.promise("T.ahead")
async def test_a_viewer_that_bounds_nothing_acknowledges_nothing(server: OutliveServer) -> None:
    process_id = start(server, _FLOOD)
    for controlled in (True, False):
        # Without control messages nothing could be acknowledged: `ahead` does not count there.
        bounds: dict[str, Any] = {} if controlled else {"ahead": 4096, "lag": 4096}
        async with viewing(server, process_id, cursor=0, controlled=controlled, **bounds) as seen:
            await seen.until_over()
        assert bytes(seen.output) == written(server, process_id)
        assert "skipped" not in seen.order


def _places(seen: Seen) -> tuple[int, int]:
    """Return what was left out, and where the newest skip leads."""
    skips = [one for one in seen.messages if one["type"] == "skipped"]
    return sum(one["bytes"] for one in skips), int(skips[-1]["cursor"].split(".")[0])


@pytest.mark.promise("T.lag")
async def test_a_viewer_that_lags_goes_on_near_the_end_at_a_line(server: OutliveServer) -> None:
    process_id = start(server, f"printf '\\033[?2004h'; {_FLOOD}; read line")
    async with viewing(server, process_id) as watching:
        await watching.until_shown(b"200000 gr")
    async with viewing(server, process_id, cursor=0, lag=1_000_000, readonly=1) as seen:
        await seen.until_shown(b"200000 gr")
        left_out, place = _places(seen)
        log = written(server, process_id)
        assert len(log) - 250_000 <= place < len(log) - 240_000
        assert log[place - 1 : place] == b"\n"
        assert seen.output == log[place:]
        assert left_out == place
        assert "\x1b[?2004h" in [one for one in seen.messages if one["type"] == "skipped"][-1]["modes"]
        # A reconnect at the place that the viewer has come to is exact.
        seen.socket.transport.abort()
    async with viewing(server, process_id, cursor=place + len(seen.output), lag=4096) as again:
        await again.socket.send(b"\n")
        await again.until_over()
    assert log + again.output == written(server, process_id)


@pytest.mark.promise("T.lag", "T.ahead")
async def test_behind_an_interrupt_little_comes_before_the_prompt(server: OutliveServer) -> None:
    """Bytes are counted, not seconds: what has to be drawn before the prompt is seen."""
    process_id = start(server, "PS1='here> ' exec bash --norc --noprofile")
    ahead, lag, hurried = 65_536, 50_000_000, 65_536
    async with (
        viewing(server, process_id, cursor=0, ahead=ahead, lag=lag) as seen,
        viewing(server, process_id, cursor=0) as whole,
    ):
        await seen.until_shown(b"here> ")
        await seen.socket.send(b"yes 0123456789012345678901234567890123456789\n")
        await seen.until(lambda: len(seen.output) == ahead)
        await whole.until(lambda: len(whole.output) > 5_000_000)
        await seen.socket.send(b"\x03")
        await seen.say("lag", bytes=hurried)
        await whole.until(lambda: whole.output.endswith(b"here> "))
        before = len(seen.output)
        await seen.say("ack", bytes=ahead)
        await seen.until(lambda: seen.output.endswith(b"here> "))
    assert len(seen.output) - before <= hurried
    left_out, place = _places(seen)
    assert left_out > 4_000_000
    assert whole.output[place:].endswith(seen.output[-1000:])


@pytest.mark.promise("T.lag")
async def test_bounds_that_make_no_sense_are_refused(server: OutliveServer) -> None:
    process_id = start(server, "read line")
    for bounds in ({"ahead": 100}, {"lag": "far"}, {"lag": -5}, {"ahead": "9" * 19}):
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with viewing(server, process_id, **bounds):
                pass
        assert refused.value.response.status_code == 422
    async with viewing(server, process_id, readonly=1) as seen:
        await seen.say("lag", bytes=10)
        assert (await seen.until_told("notice"))["reason"] == "invalid_request"
        await seen.say("lag", bytes=None)
        await seen.say("ack", bytes=10**12)
        await seen.say("where")
        await seen.until_told("cursor")
        assert seen.order.count("notice") == 1
