"""What is left of a finished command in the server: nothing, and without the collector's help (decision
91).
"""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from outlive.core.cursor import BEGINNING
from outlive.engine import Engine, Process
from tests.engine.engines import output_of, run, settled


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Only reference counts free anything."""
    gc.disable()
    yield
    gc.enable()


async def _gone(process: "weakref.ref[Process]") -> None:
    async with asyncio.timeout(5):
        while process() is not None:  # noqa: ASYNC110 - the last callbacks that name it have no event
            await asyncio.sleep(0.005)


async def test_a_command_that_was_followed_is_freed_by_its_last_reference(engine: Engine) -> None:
    process = await run(engine, "echo out; echo err >&2")
    assert await output_of(process) == (b"out\n", b"err\n")
    assert await engine.queries.read(process, BEGINNING)
    await settled(engine, process)
    remembered = weakref.ref(process)
    del process
    await _gone(remembered)
