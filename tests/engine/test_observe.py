"""What a live tree looks like: processor time, memory, pids, ports, and whether it waits for input or a
secret.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable

import pytest

from outlive.core.command import Command
from outlive.core.process import NOTHING, Observation
from outlive.engine import Engine, Process
from outlive.kernel import socket_tables
from tests.engine.engines import ME, an_engine, run
from tests.keeper.house import House
from tests.support.processes import is_alive

_PATIENCE_S = 60


async def _seen(engine: Engine, process: Process, wanted: Callable[[Observation], bool]) -> Observation:
    """Look until what is seen is what is wanted."""
    async with asyncio.timeout(_PATIENCE_S):
        while not wanted(seen := await engine.queries.observe(process)):  # noqa: ASYNC110 - what /proc shows has no event
            await asyncio.sleep(0.02)
    return seen


@pytest.mark.thorough
async def test_a_tree_is_summed_daemons_included(engine: Engine) -> None:
    daemon = "(setsid sleep 1000 &) ; (sleep 1000 &)"
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    process = await engine.starts.start(Command(line=f"{daemon}; {busy}; sleep 1000; true"), owner=ME)
    seen = await _seen(engine, process, lambda seen: len(seen.pids) >= 4 and seen.cpu_s > 0.05)
    assert process.record.pid in seen.pids
    assert len(seen.pids) == 4
    assert all(map(is_alive, seen.pids))
    assert seen.threads == 4
    assert seen.memory_bytes > 1 << 20
    assert (seen.ports, seen.waiting) == ((), "no")
    await engine.controls.cancel(process, grace_s=1.0)
    await engine.queries.wait(process, until="closed")
    assert await engine.queries.observe(process) == NOTHING


async def test_listening_ports_of_the_whole_tree_are_seen(engine: Engine) -> None:
    program = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); time.sleep(1000)"
    process = await engine.starts.start(Command(line=f'{sys.executable} -c "{program}" & wait'), owner=ME)
    seen = await _seen(engine, process, lambda seen: bool(seen.ports))
    with socket.create_connection(("127.0.0.1", seen.ports[0]), timeout=5):
        pass
    assert len(seen.ports) == 1
    await engine.controls.cancel(process, grace_s=1.0)
    await engine.queries.wait(process)


async def test_a_read_of_the_input_and_one_of_a_secret_are_told_apart(engine: Engine) -> None:
    reader = await engine.starts.start(Command(line="read answer; sleep 1000", stdin="pipe"), owner=ME)
    prompt = await engine.starts.start(Command(line="read answer; sleep 1000", stdio="pty"), owner=ME)
    secret = await engine.starts.start(
        Command(line="stty -echo; read secret; sleep 1000", stdio="pty"), owner=ME
    )
    busy = await engine.starts.start(Command(line="sleep 1000", stdin="pipe"), owner=ME)
    await _seen(engine, reader, lambda seen: seen.waiting == "input")
    await _seen(engine, prompt, lambda seen: seen.waiting == "input")
    await _seen(engine, secret, lambda seen: seen.waiting == "password")
    assert (await engine.queries.observe(busy)).waiting == "no"
    await engine.controls.write(reader, b"yes\n")
    await _seen(engine, reader, lambda seen: seen.waiting == "no")
    for process in (reader, prompt, secret, busy):
        await engine.controls.cancel(process, grace_s=0.5)
        await engine.queries.wait(process)


async def test_what_has_ended_shows_nothing_and_what_left_a_daemon_shows_that(engine: Engine) -> None:
    assert await engine.queries.observe(await run(engine, "exit 3")) == NOTHING
    left = await run(engine, "(setsid sleep 1000 >/dev/null 2>&1 </dev/null &); sleep 0.1")
    seen = await engine.queries.observe(left)
    assert len(seen.pids) == 1
    assert left.record.pid not in seen.pids
    await engine.controls.cancel(left, grace_s=0.5)
    async with asyncio.timeout(_PATIENCE_S):
        while left.record.descendants:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


async def test_a_command_whose_shim_died_is_seen_all_the_same(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        process = await engine.starts.start(Command(line="sleep 1000 & sleep 1000"), owner=ME)
        await _seen(engine, process, lambda seen: len(seen.pids) >= 2)
        before = await engine.queries.observe(process)
        record = own_house.pid_record(process.process_id)
        assert record is not None
        shim = record.shim_pid
        os.kill(shim, signal.SIGKILL)
        async with asyncio.timeout(_PATIENCE_S):
            while is_alive(shim):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.02)
        seen = await engine.queries.observe(process)
        assert set(seen.pids) == set(before.pids)
        await engine.controls.cancel(process, grace_s=0.5)
        await engine.queries.wait(process)


async def test_many_are_looked_at_at_once_in_the_order_that_was_asked_for(engine: Engine) -> None:
    program = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); time.sleep(1000)"
    serving = await engine.starts.start(Command(line=f'{sys.executable} -c "{program}"'), owner=ME)
    other = await engine.starts.start(Command(line="sleep 1000 & wait"), owner=ME)
    over = await run(engine, "true")
    await _seen(engine, serving, lambda seen: bool(seen.ports))
    first, second, third = await engine.queries.usage([other, over, serving])
    assert (len(first.pids), first.ports) == (2, ())
    assert second == NOTHING
    assert len(third.ports) == 1
    assert third.memory_bytes > first.memory_bytes > 0
    # Where the kernel refuses to be asked, its files say the same.
    assert await asyncio.to_thread(lambda: set(socket_tables._listed_ports(os.getpid()).values())) >= set(
        third.ports
    )
