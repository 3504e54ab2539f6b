"""`OutputIndex`: has indexes made of what processes have written, by a program beside the server
(`store/search/index_maker.py`).

That program finds by itself what is missing, and ends when nothing is: here is only decided when it is
started. Nothing waits for it, and without it a search reads the logs.
"""

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE

from outlive.core.events import Event, ProcessClosed
from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process_table import ProcessTable
from outlive.policy.redaction import Redactor
from outlive.store.log_mask import noted_patterns
from outlive.store.search.log_index import GROUP_BYTES, LEAST_BYTES, key_of

_MAKER = "outlive.store.search.index_maker"
# After the server's start and after an end: what comes in bursts is indexed together, and no start of a
# server is slower.
_SETTLE_S = 30.0
_LOOK_S = 600.0  # for what has run so long that part of its log is final
_REAPED_S = 5.0  # a killed process is gone at once, unless the machine hangs
# What Python needs to start as it was started; secrets of the server's environment are not among it.
_PASSED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")

_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class OutputIndex:
    """Has what has ended indexed some time later. On the engine's loop only."""

    layout: Layout
    table: ProcessTable
    redactor: Redactor
    events: EventPublisher
    _wanted: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self) -> None:
        """Have indexes made from time to time, for ever. Cancellation: the program beside ends, too."""
        if key_of(self.redactor) != await asyncio.to_thread(self._key_of_maker):
            # with --redact=off or secrets the program would hide more than is shown: searches read the logs
            return
        unsubscribe = self.events.subscribe(self._heard, kinds={ProcessClosed})
        try:
            while True:
                await asyncio.sleep(_SETTLE_S)
                self._wanted.clear()
                await self._make()
                while not self._wanted.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_S):
                            await self._wanted.wait()
                    if self._has_long_logs():
                        break
        finally:
            unsubscribe()

    def _key_of_maker(self) -> bytes:
        return key_of(Redactor(extra=noted_patterns(self.layout)))

    def _heard(self, event: Event) -> None:
        assert isinstance(event, ProcessClosed)
        if max(event.record.stdout_bytes, event.record.stderr_bytes) >= LEAST_BYTES:
            self._wanted.set()

    def _has_long_logs(self) -> bool:
        return any(one.record.stdout_bytes > GROUP_BYTES for one in self.table.live.values())

    async def _make(self) -> None:
        """Run the program to its end."""
        argv = [sys.executable, "-s", "-P", "-m", _MAKER, self.layout.root, key_of(self.redactor).hex()]
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        try:
            # Its stdin is what tells it that the server is there.
            maker = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=environment, start_new_session=True
            )
        except OSError as error:  # no memory, no pids: searches read the logs
            _logger.warning("indexes are not made", extra={"reason": error.strerror})
            return
        try:
            code = await maker.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                maker.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REAPED_S):
                    await maker.wait()
            raise
        if code:
            _logger.warning("making indexes failed", extra={"exit_code": code})
