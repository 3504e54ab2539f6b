"""What is known of disk and folder is looked at when it is asked for."""

import asyncio
import math
import threading

import pytest

from outlive.engine import Engine, health
from outlive.store.registry import Registry


async def test_a_disk_that_answers_no_look_keeps_no_caller_waiting(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As statvfs(2) of a dead NFS does: what was found last is told, and the next second's callers are not
    kept at all.
    """
    begun, goes_on = threading.Event(), threading.Event()

    def stand_still(_root: str) -> tuple[None, None]:
        begun.set()
        goes_on.wait(30)
        return None, None

    try:
        monkeypatch.setattr(health, "look_at_space", stand_still)
        monkeypatch.setattr(health, "_LOOK_S", 0.01)
        await asyncio.sleep(0.02)
        async with asyncio.timeout(10):
            assert await engine.disk.view() == {}
        assert begun.is_set()
        monkeypatch.setattr(health, "_LOOK_S", 60)
        async with asyncio.timeout(10):
            assert await engine.disk.view() == {}
    finally:
        goes_on.set()


async def test_while_the_registry_says_that_the_disk_is_silent_no_look_is_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look would find nothing out then, so a list answers from memory immediately."""
    monkeypatch.setattr(Registry, "is_silent", property(lambda _: True))
    engine.disk._looked_at = -math.inf
    monkeypatch.setattr(health, "_LOOK_S", 60)
    async with asyncio.timeout(10):
        assert await engine.disk.view() == {"degraded": "disk_silent"}
