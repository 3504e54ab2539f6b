"""When output is sent: at once, never to a client that does not read, never past a hold, and fairly."""

import asyncio
import gc
import weakref
from pathlib import Path

import anyio
import pytest

from tests.frontends.jsonrpc.following import Tasks, TestOutbox, WrittenProcess, follower

pytestmark = pytest.mark.anyio


async def _rest() -> None:
    """Let every task do what it can now."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_kick_writes_at_once_and_needs_no_task(tmp_path: Path) -> None:
    """S0.16: the usual latency is one read and one write."""
    written, outbox = WrittenProcess(tmp_path), TestOutbox()
    async with asyncio.TaskGroup() as group:
        tasks = Tasks(group)
        follower(written, outbox, tasks).begin()
        written.write(b"one\ntwo\n")
        assert outbox.text == "one\ntwo\n"
        assert len(outbox.writes) == 1
        written.write(b"three")
        written.end(3)
        assert outbox.methods == ["output", "output", "output", "completed"]
        assert tasks.started == 0


@pytest.mark.thorough
async def test_a_client_that_does_not_read_costs_one_waiting_task(tmp_path: Path) -> None:
    """S0.16: nothing is written or queued meanwhile, and nothing is lost."""
    written, outbox = WrittenProcess(tmp_path), TestOutbox(room=1)
    async with asyncio.TaskGroup() as group:
        tasks = Tasks(group)
        follower(written, outbox, tasks).begin()
        for number in range(200):
            written.write(f"line {number}\n".encode() * 20)
            await _rest()
        assert tasks.started == 1
        assert len(outbox.writes) == 1
        written.end()
        await _rest()
        assert "completed" not in outbox.methods
        while "completed" not in outbox.methods:
            outbox.writable.set()
            await _rest()
        assert outbox.text == "".join(f"line {number}\n" * 20 for number in range(200))
        assert tasks.started == 1
        assert max(outbox.writes) < 30_000  # bounded turns: 1000 bytes of output each


async def test_a_loud_process_takes_turns_with_others(tmp_path: Path) -> None:
    """S0.16: between two turns of one, every other gets one."""
    for name in ("loud", "quiet"):
        (tmp_path / name).mkdir()
    loud, quiet = WrittenProcess(tmp_path / "loud"), WrittenProcess(tmp_path / "quiet")
    loud_box, quiet_box = TestOutbox(), TestOutbox()
    async with asyncio.TaskGroup() as group:
        tasks = Tasks(group)
        loud.write(b"x" * 99 + b"\n" + b"y\n" * 50_000)
        follower(loud, loud_box, tasks).begin()
        follower(quiet, quiet_box, tasks).begin()
        await asyncio.sleep(0)
        turns_before = len(loud_box.writes)
        quiet.write(b"now\n")
        assert quiet_box.text == "now\n"
        assert len(loud_box.writes) == turns_before < 20
        loud.end()


async def test_without_a_synchronous_write_everything_goes_through_send(tmp_path: Path) -> None:
    """Servers without the extension: the same messages in the same order."""
    written, outbox = WrittenProcess(tmp_path), TestOutbox(has_write=False)
    async with asyncio.TaskGroup() as group:
        follower(written, outbox, Tasks(group)).begin()
        for number in range(30):
            written.write(f"{number}\n".encode())
            await asyncio.sleep(0)
        written.end()
        await _rest()
    assert outbox.text == "".join(f"{number}\n" for number in range(30))
    assert outbox.methods[-1] == "completed"


async def test_nothing_is_sent_while_held(tmp_path: Path) -> None:
    """S0.4: the answer to a control comes before what it causes."""
    written, outbox = WrittenProcess(tmp_path), TestOutbox()
    async with asyncio.TaskGroup() as group:
        following = follower(written, outbox, Tasks(group))
        following.begin()
        following.hold()
        following.hold()
        written.write(b"bye\n")
        written.end()
        following.release()
        assert outbox.sent == b""
        following.release()
        assert outbox.methods == ["output", "completed"]


async def test_a_hold_stops_draining_too(tmp_path: Path) -> None:
    """S0.4: also in the middle of a long output."""
    written, outbox = WrittenProcess(tmp_path), TestOutbox()
    async with asyncio.TaskGroup() as group:
        following = follower(written, outbox, Tasks(group))
        following.begin()
        written.write(b"line\n" * 5000)
        following.hold()
        count = len(outbox.writes)
        await _rest()
        assert len(outbox.writes) == count
        following.release()
        written.end()
        await outbox.until("completed")
    assert outbox.text == "line\n" * 5000


async def test_a_closed_follower_says_nothing_more(tmp_path: Path) -> None:
    """S0.14: it belongs to a connection that is gone."""
    written, outbox = WrittenProcess(tmp_path), TestOutbox()
    async with asyncio.TaskGroup() as group:
        following = follower(written, outbox, Tasks(group))
        following.begin()
        following.close()
        following.close()
        written.write(b"x\n")
        written.end()
    assert outbox.sent == b""


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_closed_outbox_ends_the_follower(tmp_path: Path, is_waiting: bool) -> None:
    """The client is gone: no task is left."""
    written, outbox = WrittenProcess(tmp_path), TestOutbox(room=1)
    async with asyncio.TaskGroup() as group:
        follower(written, outbox, Tasks(group)).begin()
        if is_waiting:
            written.write(b"line\n" * 1000)
            await _rest()
        outbox.is_closed = True
        outbox.writable.set()
        written.write(b"x\n")
        written.end()
    assert "completed" not in outbox.methods


async def test_an_idle_partial_line_is_shown_to_who_can_answer_it(tmp_path: Path) -> None:
    """S0.6: a prompt, after it has rested; the rest of its line follows."""
    written, outbox = WrittenProcess(tmp_path, stdin="pipe"), TestOutbox()
    async with asyncio.TaskGroup() as group:
        follower(written, outbox, Tasks(group)).begin()
        written.write(b"name? ")
        assert outbox.sent == b""
        await outbox.until("output")
        written.write(b"bob\n")
        written.end()
    first, second = (message["params"] for message in outbox.messages[:2])
    assert (first["data"], first["partial"], first["end"]) == ("name? ", True, 6)
    assert (second["data"], second["end"]) == ("bob\n", 10)
    assert "partial" not in second


async def test_a_line_that_never_rests_is_shown_now_and_then(tmp_path: Path) -> None:
    """S0.6: a progress bar that is redrawn without a newline."""
    written, outbox = WrittenProcess(tmp_path, stdin="pipe"), TestOutbox()
    async with asyncio.TaskGroup() as group:
        follower(written, outbox, Tasks(group)).begin()
        with anyio.fail_after(10):
            while not outbox.sent:
                written.write(b"\r50 %")
                await asyncio.sleep(0.03)
        written.end()
    assert outbox.messages[0]["params"]["partial"] is True


async def test_a_partial_line_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    """S0.16: the prompt is not lost."""
    written, outbox = WrittenProcess(tmp_path, stdin="pipe"), TestOutbox()
    async with asyncio.TaskGroup() as group:
        follower(written, outbox, Tasks(group)).begin()
        written.write(b"name? ")
        outbox.writable.clear()
        await asyncio.sleep(0.2)
        assert outbox.sent == b""
        outbox.writable.set()
        await outbox.until("output")
        written.end()


@pytest.mark.parametrize("how", ["kick", "drain", "idle"])
async def test_a_follower_that_breaks_down_takes_the_connection_along(tmp_path: Path, how: str) -> None:
    """A stream that silently stops is the worst failure: the client must see the connection end."""
    written, outbox = WrittenProcess(tmp_path, stdin="pipe"), TestOutbox(has_write=how != "drain")
    failed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        follower(written, outbox, Tasks(group), fail=failed.set).begin()
        if how == "idle":
            written.write(b"partial")
        outbox.failure = ValueError("broken")
        if how != "idle":
            written.write(b"x\n")
        with anyio.fail_after(5):
            await failed.wait()
        outbox.failure = None
        written.end()
    assert outbox.sent == b""


async def test_who_has_followed_to_the_end_is_freed_by_the_last_reference(tmp_path: Path) -> None:
    """The collector would need tens of milliseconds for thousands of them (decision 91)."""
    gc.disable()
    try:
        written, outbox = WrittenProcess(tmp_path), TestOutbox()
        process = weakref.ref(written.process)
        async with asyncio.TaskGroup() as group:
            following = follower(written, outbox, Tasks(group))
            following.begin()
            written.write(b"out\n")
            written.end()
            assert "completed" in outbox.methods
        written.process.close_logs()  # as the engine does
        del following, written
        await _rest()
        assert process() is None
    finally:
        gc.enable()
