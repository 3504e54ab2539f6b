"""`RayDriver`: the way to Ray, which leases places: by a driver that is a process of its own.

A driver of Ray blocks while Ray's control server is away, and its process exits after a minute of that. This
process does neither: it starts `driver`, passes orders on, and starts another one when it ends.
What is decided is in `leased`.
"""

import asyncio
import contextlib
import logging
import os
import random
import socket
import sys
from importlib.util import find_spec

from outlive.core.errors import ConfigInvalid
from outlive.extensions.ray.leased import LeasedPlacement
from outlive.extensions.ray.leases import LeaseOrder, decode_message, line
from outlive.placement.contract import FoundNode

_logger = logging.getLogger(__name__)

# A driver needs two seconds of processor time to begin; one that ends at once is not started more often than
# that.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
# A driver reports each second. While Ray's control server is away it does not, and exits by itself after 60
# s.
_SILENCE_S = 90.0
_MAX_REPORT_BYTES = 64 * 1024 * 1024  # a hundred thousand leases


def check_ray() -> None:
    """Return where Ray is installed.

    Raises:
        ConfigInvalid: It is not.
    """
    if find_spec("ray") is None:
        raise ConfigInvalid(
            "config_invalid",
            "Places are to be leased by Ray (--placement ray), which is not installed.",
            hint="pip install 'outlive[ray]', or --placement static.",
        )


class RayDriver:
    """Starts drivers of Ray and passes on what is said (see `LeaseDriver`). On one event loop."""

    def __init__(self, *, address: str, owner: str, log_file: str) -> None:
        self._address = address
        self._owner = owner
        self._log_file = log_file
        self._writer: asyncio.StreamWriter | None = None
        self._has_reported = False
        self._found: asyncio.Queue[FoundNode] = asyncio.Queue()  # as many as there are nodes

    async def found(self) -> FoundNode:
        """Wait for a node that has said where its server is."""
        return await self._found.get()

    def send(self, order: LeaseOrder) -> None:
        """Send an order to the driver that runs now.

        It is lost where that has died, which `run` may be about to notice.
        """
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(line(order))

    async def run(self, placement: LeasedPlacement) -> None:
        """Have a driver run, another one when it ends, until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            self._has_reported = False
            try:
                code = await self._drive(placement)
                _logger.warning("the driver of Ray has ended: code %s, see %s", code, self._log_file)
            except (OSError, ValueError, TimeoutError) as error:
                _logger.warning("the driver of Ray does not work: %s", error)
            if self._has_reported:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _drive(self, placement: LeasedPlacement) -> int | None:
        """Run one driver to its end and return its exit code.

        Raises OSError, TimeoutError, and ValueError for what it says.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_MAX_REPORT_BYTES)
            try:
                process = await self._start(theirs.fileno())
            except OSError:
                writer.close()
                raise
        try:
            self._writer = writer
            placement.orders.repeat()
            await self._listen(reader, placement)
        finally:
            self._writer = None
            placement.nodes.lose()
            writer.close()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            code = await process.wait()
        return code

    async def _start(self, descriptor: int) -> asyncio.subprocess.Process:
        log = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # A session of its own: Ctrl-C at the server's terminal is for the server, whose end is its end.
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "outlive.extensions.ray.driver", "--socket", str(descriptor)),
                *("--address", self._address, "--owner", self._owner),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(descriptor,),
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def _listen(self, reader: asyncio.StreamReader, placement: LeasedPlacement) -> None:
        while True:
            async with asyncio.timeout(_SILENCE_S):
                raw = await reader.readline()
            if not raw.endswith(b"\n"):  # the end, perhaps within a line
                return
            message = decode_message(raw)
            if message.answer is not None:
                placement.answered(message.answer)
            if message.found is not None:
                self._found.put_nowait(message.found)
            if message.report is not None:
                if not self._has_reported:
                    _logger.info("Ray leases places on %s nodes", len(message.report.nodes))
                self._has_reported = True
                placement.reported(message.report)
