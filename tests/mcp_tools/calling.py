"""Calling tools in tests: who asks, and answers with their shape checked."""

import asyncio
import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

from outlive.engine import Engine, Process, ProcessFilter
from outlive.frontends.mcp.tools import Caller, Outcome, Progress, Toolbox
from outlive.policy.access import Access, Scope

# Promise S1.2, in the document's order.
KEYS = (
    "id command success stdout stderr return_code error completed start_time duration timeout shell cwd".split()  # noqa: E501, SIM905 -- cut nowhere better: a table, or another program's text
)


def a_caller(*, has_tasks: bool = False, scope: Scope = Scope.RUN, **fields: str) -> Caller:
    """Return a principal that nobody else is: tests share a keeper."""
    access = Access(principal=fields.pop("principal", uuid.uuid4().hex), scope=scope)
    connection_id, request_id = fields.pop("connection_id", "s1"), fields.pop("request_id", "7")
    assert not fields
    return Caller(access=access, connection_id=connection_id, request_id=request_id, has_tasks=has_tasks)


async def ask(
    toolbox: Toolbox,
    name: str,
    caller: Caller,
    /,
    *,
    progress: Progress | None = None,
    **arguments: Any,  # noqa: ANN401 -- whatever a client may send
) -> dict[str, Any]:
    """Call a tool that answers with structured content; its text must be the same as JSON."""
    outcome = await answer(toolbox, name, caller, arguments, progress=progress)
    assert outcome.structured is not None, outcome.text
    assert json.loads(outcome.text) == outcome.structured
    assert outcome.is_error == ("success" in outcome.structured and "id" not in outcome.structured)
    return dict(outcome.structured)


async def answer(
    toolbox: Toolbox,
    name: str,
    caller: Caller,
    arguments: Mapping[str, object],
    *,
    progress: Progress | None = None,
) -> Outcome:
    """Call a tool with a deadline."""
    async with asyncio.timeout(30):
        return await toolbox.call(name, arguments, caller, progress=progress)


async def say(toolbox: Toolbox, name: str, caller: Caller, /, **arguments: object) -> str:
    """Call a lean tool that succeeds, and return its text."""
    outcome = await answer(toolbox, name, caller, arguments)
    assert not outcome.is_error, outcome.text
    assert outcome.structured is None
    return outcome.text


def short_id(text: str) -> str:
    """Return the short id in the header of a lean answer."""
    found = re.match(r"\[(p[1-9][0-9]*) ", text)
    assert found is not None, text
    return found[1]


async def newest_process(engine: Engine, caller: Caller) -> Process:
    """Return what the caller has started last."""
    (record,) = await engine.queries.list(ProcessFilter(principal=caller.principal), limit=1)
    return await engine.queries.find(record.process_id)


async def live_process(engine: Engine, caller: Caller) -> Process:
    """Wait until the caller's only live process runs."""
    async with asyncio.timeout(10):
        while True:
            for process in engine.queries.live():
                if process.record.owner.principal == caller.principal and process.status.is_acknowledged:
                    return process
            await asyncio.sleep(0.005)


async def seen(process: Process, text: str) -> None:
    """Wait until a process has written `text` to stdout."""
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set)
    try:
        async with asyncio.timeout(10):
            while text.encode() not in process.log.pread(0, 65536, 0):
                woken.clear()
                await woken.wait()
    finally:
        unsubscribe()


async def refuses(toolbox: Toolbox, name: str, arguments: Mapping[str, object], *, named: str) -> None:
    """Check that a tool refuses arguments, names what is wrong and says what to do."""
    outcome = await answer(toolbox, name, a_caller(), arguments)
    assert outcome.is_error
    assert named in outcome.text
    assert "Hint: " in outcome.text
