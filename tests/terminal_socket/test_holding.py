"""One viewer of a terminal types and the others look, among those that take part.

The others are not asked.
"""

import pytest

from tests.support.server import OutliveServer, run_outlive
from tests.terminal_socket.viewing import Seen, start, viewing

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_SHELL = "stty -echo; echo ready; while read line; do echo got-$line; stty size; done"


async def _until_holder(seen: Seen, holder: str, viewers: int) -> None:
    wanted = {"type": "holder", "holder": holder, "viewers": viewers}
    await seen.until(lambda: [one for one in seen.messages if one["type"] == "holder"][-1:] == [wanted])


async def _until_noticed(seen: Seen, about: str) -> None:
    wanted = ("not_holder", about)
    await seen.until(lambda: wanted in [(one.get("reason"), one.get("about")) for one in seen.messages])


@pytest.mark.promise("T.hold")
async def test_one_viewer_holds_a_terminal_until_another_takes_over_or_it_hands_back(
    server: OutliveServer,
) -> None:
    process_id = start(server, _SHELL)
    async with (
        viewing(server, process_id, hold="free", rows=30, cols=90) as first,
        viewing(server, process_id, hold="free", rows=10, cols=20) as second,
    ):
        await _until_holder(first, "you", 2)
        await _until_holder(second, "other", 2)
        hello = await second.until_told("hello")
        assert (hello["rows"], hello["cols"]) == (30, 90), "the size is the holder's"
        await second.socket.send(b"second\n")
        await _until_noticed(second, "input")
        await second.say("resize", rows=5, cols=5)
        await _until_noticed(second, "resize")
        await second.say("signal", name="KILL")
        await _until_noticed(second, "signal")
        await second.say("hold")
        await _until_noticed(second, "hold")
        await first.socket.send(b"first\n")
        await second.until_shown(b"got-first\r\n30 90")
        await second.say("hold", over=True)
        await _until_holder(first, "other", 2)
        await _until_holder(second, "you", 2)
        await second.say("resize", rows=12, cols=40)
        await first.until(lambda: {"type": "resized", "rows": 12, "cols": 40} in first.messages)
        await first.socket.send(b"late\n")
        await _until_noticed(first, "input")
        await second.say("release")
        await _until_holder(first, "none", 2)
        await first.say("hold")
        await _until_holder(second, "other", 2)
        await first.socket.send(b"again\n")
        await second.until_shown(b"got-again\r\n12 40")
        assert b"got-late" not in second.output
        assert b"got-second" not in second.output


@pytest.mark.promise("T.hold")
async def test_a_holder_that_goes_away_lets_go_and_a_killed_server_forgets(own_server: OutliveServer) -> None:
    process_id = start(own_server, _SHELL)
    async with viewing(own_server, process_id, hold="watch") as second:
        async with viewing(own_server, process_id, hold="over") as first:
            await _until_holder(second, "other", 2)
            await _until_holder(first, "you", 2)
        await _until_holder(second, "none", 1)
        await second.say("hold")
        await _until_holder(second, "you", 1)
        own_server.kill()
        await second.until_over()
    own_server.start()
    async with viewing(own_server, process_id, hold="watch") as third:
        await _until_holder(third, "none", 1)


@pytest.mark.promise("T.hold.others")
async def test_viewers_that_know_nothing_of_it_type_and_resize_as_ever(server: OutliveServer) -> None:
    process_id = start(server, _SHELL)
    async with (
        viewing(server, process_id, hold="free", rows=30, cols=90) as holder,
        viewing(server, process_id, rows=11, cols=33) as known,
        viewing(server, process_id, controlled=False) as plain,
    ):
        resized = await holder.until_told("resized")
        assert resized["rows"] in {30, 11}
        await known.socket.send(b"known\n")
        await holder.until_shown(b"got-known\r\n11 33")
        await plain.socket.send(b"plain\n")
        await holder.until_shown(b"got-plain")
        await known.say("hold")
        notice = await known.until_told("notice")
        assert notice["reason"] == "not_holder"
        await known.until_shown(b"got-plain")
        assert {one["type"] for one in known.messages} <= {"hello", "notice", "cursor"}
        await _until_holder(holder, "you", 1)


@pytest.mark.promise("T.hold")
async def test_a_looker_takes_nothing_over(server: OutliveServer) -> None:
    process_id = start(server, _SHELL)
    made = run_outlive("token", "create", "--scope", "read", "--as-user", state_dir=server.state_dir)
    token = made.stdout.strip()
    async with (
        viewing(server, process_id, hold="free") as holder,
        viewing(server, process_id, hold="over", token=token) as looker,
    ):
        await _until_holder(looker, "other", 2)
        await looker.say("hold", over=True)
        notice = await looker.until_told("notice")
        assert notice["reason"] == "scope_missing"
        await _until_holder(holder, "you", 2)
