"""The output of processes as MCP resources: `OutputResources`, one `outlive://process/ID/output` for each
process of the caller; and which clients are notified of new output: `OutputSubscriber`, one client's
resources, and `OutputSubscribers`, all sessions' subscribers.

What is listed and read is what the tools show, read from the log when a client asks. Nothing is queued: what
is kept of a resource is how much output there was when its client was last notified. A notification that may
not have arrived is sent again on the next stream. Nothing of it outlives the server: a client whose stream
was cut subscribes again. How a notification is written is the caller's (`endpoint`, `methods`).
"""

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import orjson

from outlive.core.errors import LimitExceeded, ProcessNotFound
from outlive.core.values import dataclass
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Caller, shown_bytes
from outlive.frontends.mcp.tools.documents import output_text
from outlive.frontends.mcp.tools.runner import is_visible
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.policy.access import Scope
from outlive.protocols.mcp.results import status_word
from outlive.server.shown_output import shown_output

MIME_TYPE = "text/plain"
URI_TEMPLATE = "outlive://process/{process_id}/output"
_URI = re.compile(r"outlive://process/([A-Za-z0-9_-]{1,64})/output", re.ASCII)
_MAX_LISTED = 100  # the newest: a person picks from them, and a program has the template for all others
_MAX_NAME = 80  # characters of a command: one line of a host's list


class OutputResources:
    """The resources of one engine. Every method raises AccessDenied for a caller that may not read."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._queries = toolbox.engine.queries
        self._settings = toolbox.settings

    async def list(self, caller: Caller) -> Sequence[Mapping[str, str]]:
        """Return the newest processes of the caller that its connection may see, newest first, as MCP
        Resource objects.

        Cancellation: safe.
        """
        caller.access.require(Scope.READ)
        wanted = ProcessFilter(principal=caller.principal)
        records = await self._queries.list(wanted, limit=_MAX_LISTED)
        return [
            {
                "uri": URI_TEMPLATE.format(process_id=record.process_id),
                "name": " ".join(record.command.split())[:_MAX_NAME] or record.process_id,
                "description": f"Output of a process, {status_word(record)}",
                "mimeType": MIME_TYPE,
            }
            for record in records
            if record.is_detached or record.owner.connection_id == caller.connection_id
        ]

    async def read(self, uri: str, caller: Caller) -> str:
        """Return both streams as the process tools show them.

        Raises:
            ProcessNotFound: The caller has no such process.
            StoreCorrupt: The disk does not give its output.

        Cancellation: safe; nothing is consumed.
        """
        process = await self.find(uri, caller)
        return output_text(await shown_output(process, limit_bytes=shown_bytes(self._settings, caller)))

    async def find(self, uri: str, caller: Caller) -> Process:
        """Return the process whose output an address names.

        Raises:
            ProcessNotFound: It names none, or one that the caller does not have; the two look the same.
        """
        caller.access.require(Scope.READ)
        match = _URI.fullmatch(uri)
        if match is not None:
            process = await self._queries.find(match[1])
            if is_visible(process, caller):
                return process
        raise ProcessNotFound("process_not_found", "There is no such resource.")


# A client reads a resource anew at each notification; one a second is what a person can follow.
_COALESCE_S = 1.0
MAX_RESOURCES = 64  # of one subscriber: more than any host shows at once, and looked through at each wake
# That have subscribed and hold no stream; those with a stream are as many as connections.
_MAX_SESSIONS = 1000


def updated_message(uri: str) -> bytes:
    """Return the notification that a resource has changed, as JSON (MCP revision 2025-11-25, "Resources")."""
    message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
    return orjson.dumps(message)


_Extent = tuple[int, int, bool]  # bytes of stdout, of stderr, and whether that is all


@dataclass(slots=True, eq=False)
class _WatchedOutput:
    """One resource of a subscriber; `told` is what its client was last notified of, None where that is not
    known.
    """

    process: Process
    told: _Extent | None
    unsubscribe: Callable[[], None]


def _extent(process: Process) -> _Extent:
    now = process.status
    if now.complete_stdout_bytes is not None and now.complete_stderr_bytes is not None:
        return now.complete_stdout_bytes, now.complete_stderr_bytes, process.status.is_complete
    return now.stdout_bytes, now.stderr_bytes, process.status.is_complete


class OutputSubscriber:
    """The resources that one client wants to be notified of. Only the event loop uses it.

    Attributes:
        is_followed: A stream carries its notifications now.
    """

    def __init__(self) -> None:
        self.is_followed = False
        self._watches: dict[str, _WatchedOutput] = {}
        self._woken = asyncio.Event()
        self._closed = asyncio.Event()
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        """Return how many resources it has."""
        return len(self._watches)

    def add(self, uri: str, process: Process) -> None:
        """Notify the client of what comes from now on; a resource that it has already stays as it is.

        Raises:
            LimitExceeded: It has too many.
        """
        if uri in self._watches:
            return
        if len(self._watches) >= MAX_RESOURCES:
            text = f"A session is notified of {MAX_RESOURCES} resources at the most."
            raise LimitExceeded("process_limit", text, hint="Unsubscribe from others first.")
        unsubscribe = process.subscribers.add(self._woken.set)
        self._watches[uri] = _WatchedOutput(process, _extent(process), unsubscribe)

    def remove(self, uri: str) -> None:
        """Notify the client of a resource no more; of one that it does not have, nothing changes."""
        watch = self._watches.pop(uri, None)
        if watch is not None:
            watch.unsubscribe()

    def close(self) -> None:
        """Let go of all resources, and end `follow`."""
        for uri in list(self._watches):
            self.remove(uri)
        self._closed.set()
        self._woken.set()

    async def follow(self, notify: Callable[[str], Awaitable[None]]) -> None:
        """Call `notify` with the address of each resource that has changed, at most once a second, until
        `close`.

        Of several callers only the first one is served: a message goes out on one stream ("Transports",
        multiple connections).

        Cancellation: safe; what was notified through this stream counts as not notified.
        """
        async with self._turn:
            self.is_followed = True
            try:
                while not self._closed.is_set():
                    self._woken.clear()
                    await self._notify_of_changes(notify)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_COALESCE_S):
                            await self._closed.wait()
                    await self._woken.wait()
            finally:
                self.is_followed = False
                for watch in self._watches.values():
                    watch.told = None  # the last bytes of a stream that was cut arrive nowhere

    async def _notify_of_changes(self, notify: Callable[[str], Awaitable[None]]) -> None:
        for uri, watch in list(self._watches.items()):
            extent = _extent(watch.process)
            # It may be removed while an earlier one is sent.
            if extent != watch.told and uri in self._watches:
                watch.told = extent
                await notify(uri)


class OutputSubscribers:
    """The subscribers of this server. Only the event loop uses it."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str | None], OutputSubscriber] = OrderedDict()
        self._streams: set[OutputSubscriber] = set()

    def of(self, caller: Caller) -> OutputSubscriber:
        """Return the subscriber of the caller's MCP session, made now if it has none."""
        key = (caller.principal, caller.connection_id)
        found = self._sessions.setdefault(key, OutputSubscriber())
        self._sessions.move_to_end(key)
        if len(self._sessions) > _MAX_SESSIONS:
            idle = next((one for one, held in self._sessions.items() if not held.is_followed), key)
            if idle != key:
                self._sessions.pop(idle).close()
        return found

    def release(self, caller: Caller) -> None:
        """Forget the subscriber of a session that has no resources: its stream has ended."""
        key = (caller.principal, caller.connection_id)
        found = self._sessions.get(key)
        if found is not None and not (found or found.is_followed):
            del self._sessions[key]

    def end(self, caller: Caller) -> None:
        """Let go of a session that its client has ended."""
        found = self._sessions.pop((caller.principal, caller.connection_id), None)
        if found is not None:
            found.close()

    @contextlib.contextmanager
    def stream(self) -> Iterator[OutputSubscriber]:
        """Hold a subscriber for one stream, without a session (MCP revision 2026-07-28, "Subscriptions")."""
        subscriber = OutputSubscriber()
        self._streams.add(subscriber)
        try:
            yield subscriber
        finally:
            self._streams.discard(subscriber)
            subscriber.close()

    def hang_up(self) -> None:
        """End every stream without a session: the server stops, and says so on each of them."""
        for subscriber in list(self._streams):
            subscriber.close()
