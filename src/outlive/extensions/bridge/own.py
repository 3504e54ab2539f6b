"""Our own extensions, which understand more than the documented protocol: they show terminals of the engine
(decision 100).

Output and input of these terminals go over /ws/terminal/{id}, another frontend. Here the extensions are only
notified which terminals exist, and which have ended.
"""

import contextlib
from collections.abc import Iterator

from outlive.core.errors import OutliveError
from outlive.core.events import Event, ProcessCompleted
from outlive.core.process import Owner
from outlive.core.terminal import ENGINE, TerminalInfo
from outlive.engine import Engine
from outlive.engine.terminals import NewTerminal, Terminals
from outlive.extensions.bridge import requests
from outlive.extensions.bridge.answers import TerminalWanted
from outlive.extensions.bridge.connection import BridgeConnection, new_request_id


class OwnExtensions:
    """Follows the engine's terminals for every extension of ours that is connected."""

    def __init__(self, engine: Engine, terminals: Terminals) -> None:
        self._engine = engine
        self._terminals = terminals
        self._shown: dict[BridgeConnection, _Shown] = {}

    @contextlib.contextmanager
    def following(self, extension: BridgeConnection) -> Iterator[None]:
        """Notify an extension of its principal's terminals while the block runs."""
        shown = self._shown[extension] = _Shown(extension)
        forget = self._engine.events.subscribe(shown.note, kinds=(ProcessCompleted,))
        extension.greet = lambda: self._greet(shown)
        extension.wanted = lambda wanted: self._open_wanted(shown, wanted)
        try:
            yield
        finally:
            forget()
            del self._shown[extension]

    async def open(self, extension: BridgeConnection, wanted: NewTerminal, by: Owner) -> TerminalInfo:
        """Open a terminal of the engine for a caller and have the extension show it.

        Raises:
            OutliveError: As in `TerminalHost.create` of the engine's host.
        """
        terminal = await self._terminals.host(ENGINE).create(wanted, by)
        shown = self._shown.get(extension)
        if shown is not None:
            shown.ids.add(terminal.terminal_id)
            await extension.send(requests.show_terminal(new_request_id(), terminal))
        return terminal

    async def _greet(self, shown: "_Shown") -> None:
        """Send a new extension the list of its terminals (decision 100)."""
        by = shown.extension.access.owner("bridge")
        known: list[TerminalInfo] = []
        with contextlib.suppress(OutliveError):  # a server whose engine has no terminals: the list is empty
            known = list(await self._terminals.host(ENGINE).terminals(by))
        # Terminals that ended while the list was made: their end was not sent, so they must not be in it.
        known = [one for one in known if one.terminal_id not in shown.missed]
        shown.missed.clear()
        shown.is_greeted = True
        shown.ids.update(one.terminal_id for one in known)
        await shown.extension.send(requests.terminals(new_request_id(), known))

    async def _open_wanted(self, shown: "_Shown", wanted: TerminalWanted) -> None:
        extension = shown.extension
        by = extension.access.owner("bridge", request_id=wanted.request_id)
        try:
            new = NewTerminal(name=wanted.terminal_name, cwd=wanted.cwd)
            terminal = await self._terminals.host(ENGINE).create(new, by)
        except OutliveError as error:
            self._engine.redaction.finish(error)
            refusal = requests.failed(wanted.request_id, error.message, code=error.code, hint=error.hint)
            await extension.send(refusal)
            return
        shown.ids.add(terminal.terminal_id)
        await extension.send(requests.terminal_created(wanted.request_id, terminal))


class _Shown:
    """The state that one extension was notified of.

    Attributes:
        ids: The terminals that it knows.
        missed: Processes of its principal that ended while the first list was made.
        is_greeted: Whether that list is made.
    """

    __slots__ = ("extension", "ids", "is_greeted", "missed")

    def __init__(self, extension: BridgeConnection) -> None:
        self.extension = extension
        self.ids: set[str] = set()
        self.missed: set[str] = set()
        self.is_greeted = False

    def note(self, event: Event) -> None:
        """Notify the extension that a terminal has ended."""
        if not isinstance(event, ProcessCompleted):
            return
        process_id = event.record.process_id
        if process_id in self.ids:
            self.ids.discard(process_id)
            closed = requests.terminal_closed(new_request_id(), process_id)
            self.extension.spawn(self.extension.send(closed))
        elif not self.is_greeted and event.record.owner.principal == self.extension.access.principal:
            self.missed.add(process_id)
