"""An answer waits for what descendants write just after the end, and for nothing else that they do."""

import asyncio

import pytest

from outlive.engine import Engine, Process, queries
from tests.engine.engines import run

_PATIENCE_S = 60


def _written(process: Process) -> bytes:
    return process.raw_log.pread(0, process.log.size(0), 0)


async def test_the_last_program_of_a_pipeline_is_waited_for(engine: Engine) -> None:
    process = await run(engine, "exec > >(sleep 0.01; cat); echo just after the end; exit 1")
    await engine.queries.settle(process)
    assert _written(process) == b"just after the end\n"


async def test_what_computes_may_still_write(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is silent for longer than anything that sleeps is waited for."""
    monkeypatch.setattr(queries, "_SETTLES_S", _PATIENCE_S)
    line = "(n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done; echo computed; exec sleep 600) & echo begun"
    process = await run(engine, line)
    await engine.queries.settle(process)
    assert _written(process) == b"begun\ncomputed\n"
    await engine.controls.cancel(process, grace_s=0.5)


async def test_a_server_in_the_background_is_not_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_SETTLES_S", 3600)
    process = await run(engine, "sleep 600 & echo started")
    async with asyncio.timeout(_PATIENCE_S):
        await engine.queries.settle(process)
    assert not process.status.is_closed
    await engine.controls.cancel(process, grace_s=0.5)


async def test_what_computes_for_long_is_left_to_itself(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_SETTLES_S", 0.5)
    process = await run(engine, "(while :; do :; done) & echo started")
    async with asyncio.timeout(_PATIENCE_S):
        await engine.queries.settle(process)
    assert not process.status.is_closed
    await engine.controls.cancel(process, grace_s=0.5)
