"""One server that this machine has joined: `Gateway`, dialled for ever, over which it runs commands here.

One connection lies ready there. Once the gateway takes it, it is served as an accepted one is, and the next
is dialled. A new credential is on disk before it is acknowledged, so that a crash in between leaves one that
counts (decision 211).
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from outlive.core.errors import BackendUnavailable, OutliveError, ProtocolViolation
from outlive.core.values import replace
from outlive.extensions.fleet.gateway_files import GatewayEntry, GatewayFiles, SessionDoor
from outlive.extensions.fleet.joined.dialled import Spare, accepted, dial
from outlive.extensions.fleet.joined.messages import Here, Kept, Probe, Renewed, ServeNow, Welcome
from outlive.extensions.fleet.operations import GatewayView
from outlive.policy.access import Access, Scope

_logger = logging.getLogger(__name__)

_WELCOME_S = (
    15.0  # the gateway may first look for 3 s whether another machine is this node, and writes a file
)
# As a gateway looks for the nodes that it dials (`extensions.fleet.link.Pauses`).
_FIRST_S, _LONGEST_S, _REFUSED_S = 0.1, 15.0, 30.0
# a session that ends within it was of no use: a gateway that ends each costs a dial and a new credential,
# again and again
_SHORT_S = 1.0


async def let_in(spare: Spare, entry: GatewayEntry, files: GatewayFiles) -> GatewayEntry:
    """Return what is kept of a gateway from now on, once it has let this machine in over a connection that
    was just opened.

    Raises:
        OSError: The first credential cannot be kept; a later one that cannot is given back.
        OutliveError: Why this machine is not let in.
    """
    message = await spare.hear(patience_s=_WELCOME_S)
    if not isinstance(message, Welcome):
        raise ProtocolViolation("invalid_request", "The gateway does not say that it lets this machine in.")
    return await _keep(spare, message.credential, replace(entry, node=message.node), files)


async def _keep(spare: Spare, credential: str, entry: GatewayEntry, files: GatewayFiles) -> GatewayEntry:
    """Put a new credential on disk, then acknowledge it.

    Where the disk is full the old one goes on counting.
    """
    kept = replace(entry, credential=credential or entry.credential)
    if credential:
        writing = asyncio.ensure_future(asyncio.to_thread(files.put, kept))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})  # to its end: the file may be removed next
            raise
        except OSError as error:
            if not entry.credential:
                raise
            _logger.warning("a gateway's credential cannot be kept: %s: %s", entry.name, error.strerror)
            kept = entry
    is_done = kept.credential == credential or not credential
    await spare.say(Kept(labels=dict(entry.labels), done=is_done))
    return kept


class Gateway:
    """Keeps one joined server connected.

    Attributes:
        entry: What is kept of it.
    """

    def __init__(
        self,
        entry: GatewayEntry,
        files: GatewayFiles,
        *,
        door: SessionDoor,
        instance: str,
        max_message_bytes: int,
        spare: Spare | None = None,
    ) -> None:
        self._spare = spare
        self.entry = entry
        self._files = files
        self._door = door
        self._instance = instance
        self._max_message_bytes = max_message_bytes
        self._since = datetime.now(UTC)
        self._reason: str | None = None if spare is not None else "It is being dialled."
        self._pause_s = _FIRST_S
        self._short_s = 0.0  # the pause for sessions that end at once; 0: the last one did not

    def view(self) -> GatewayView:
        """Return what is shown of it."""
        return GatewayView(
            name=self.entry.name,
            address=self.entry.url,
            node=self.entry.node,
            state="connected" if self._reason is None else "away",
            since=self._since,
            reason=self._reason,
        )

    async def run(self) -> None:
        """Dial, serve, and dial again, until cancelled."""
        spare, self._spare = self._spare, None
        async with asyncio.TaskGroup() as sessions:
            while True:
                try:
                    if spare is None:
                        await asyncio.sleep(self._short_s * _jitter())
                        spare = await self._dial()
                    self._is_there()
                    query = await self._taken(spare)
                    sessions.create_task(self._serve(spare, query), name=f"gateway {self.entry.name}")
                    spare = None
                except OutliveError as error:
                    self._is_away(error)
                    await asyncio.sleep(self._pause(error))
                finally:
                    if spare is not None:
                        spare.close()
                        spare = None

    async def _dial(self) -> Spare:
        spare = await dial(
            self.entry.url,
            self.entry.credential,
            ca=self.entry.ca,
            instance=self._instance,
            max_message_bytes=self._max_message_bytes,
        )
        try:
            self.entry = await let_in(spare, self.entry, self._files)
        except BaseException:
            spare.close()
            raise
        return spare

    async def _taken(self, spare: Spare) -> Mapping[str, str]:
        """Return with which query the gateway wants a session over the connection that lies ready."""
        while True:
            message = await spare.hear()
            match message:
                case ServeNow():
                    return message.query
                case Probe():
                    await spare.say(Here())
                case Renewed():
                    self.entry = await _keep(spare, message.credential, self.entry, self._files)
                case _:
                    raise ProtocolViolation("invalid_request", "What the gateway says makes no sense here.")

    async def _serve(self, spare: Spare, query: Mapping[str, str]) -> None:
        """Serve a session. Outermost loop of the task."""
        # As a token of the scope run would be: the gateway sees what it has started, and nothing else.
        access = Access(
            principal=f"gateway:{self.entry.name}", scope=Scope.RUN, address=f"dialled {self.entry.url}"
        )
        begun = time.monotonic()
        try:
            await self._door.converse(accepted(spare.connection, query), access)
        except Exception:
            _logger.exception("serving a gateway failed", extra={"gateway": self.entry.name})
        finally:
            spare.close()
            is_short = time.monotonic() - begun < _SHORT_S
            self._short_s = min(max(_FIRST_S, self._short_s * 2), _LONGEST_S) if is_short else 0.0

    def _is_there(self) -> None:
        if self._reason is not None:
            _logger.info("the gateway is there: %s", self.entry.name)
            self._reason, self._since = None, datetime.now(UTC)
        self._pause_s = _FIRST_S

    def _is_away(self, error: OutliveError) -> None:
        if self._reason is None:
            self._since = datetime.now(UTC)
        if self._reason != error.message:
            _logger.warning("the gateway is away: %s: %s", self.entry.name, error.message)
        self._reason = error.message

    def _pause(self, error: OutliveError) -> float:
        # "node_busy": a machine that was cut off, and whose connections of before are not known to be dead
        # yet.
        if not isinstance(error, BackendUnavailable) and error.code != "node_busy":
            return _REFUSED_S * _jitter()
        pause, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_S)
        return pause * _jitter()


def _jitter() -> float:
    return random.uniform(0.5, 1.0)  # noqa: S311 - no secret: a hundred nodes do not come back in step
