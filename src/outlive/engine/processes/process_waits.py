"""Waiting for something to become true of a process."""

import asyncio
from collections.abc import Callable

from outlive.engine.processes.process import Process


async def until(process: Process, claim: Callable[[Process], bool]) -> None:
    """Return when `claim` holds for a process; it is asked whenever something about the process has changed.

    Waits without a deadline of its own: put it under `asyncio.timeout`. Cancellation: safe.
    """
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set)
    try:
        while not claim(process):
            woken.clear()
            await woken.wait()
    finally:
        unsubscribe()
