"""The terminals in VS Code that the bridge knows: `TerminalOwners`, with one entry (seat) for each extension,
and `StateFile`.

An entry is kept while its extension is away. The documented protocol has no name for an extension, so it is
recognized by its process when it connects again. Where the process is not known (another machine, a
container), the extension is taken for the only one of its principal and host that is away. A wrong guess
would type a command into another user's window, so in doubt no terminal is given back.

`StateFile` keeps the terminals across restarts of the server. Requests to an extension belong to `host`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from outlive.core.documents import checked_json
from outlive.core.identity import is_process_id
from outlive.core.values import dataclass
from outlive.extensions.bridge.connection import BridgeConnection
from outlive.kernel.files import read_any, write_whole

_MAX_AWAY = 256  # of extensions that are away; beyond it the oldest are forgotten


@dataclass(slots=True, kw_only=True)
class BridgeTerminal:
    """One terminal in VS Code.

    `terminal_id` is the name for callers: the extension's own name (`own_id`), unless that is taken.
    `principal` is its owner. `is_busy`: a command was sent to it and not answered yet.
    """

    terminal_id: str
    own_id: str
    name: str
    principal: str
    is_busy: bool = False


class OwnedTerminals:
    """The terminals of one extension, and its connection while there is one.

    Attributes:
        key: The name by which it is recognized: its process's, else principal and host.
        is_process: Whether the key names a process.
        principal: The extension's principal; an extension of another one never gets its terminals.
        extension: The open connection; None while it is away.
        back: Set while there is one.
        away_at: Since when there is none, in monotonic seconds.
        terminals: Its terminals by the callers' names for them, oldest first.
    """

    __slots__ = ("away_at", "back", "extension", "is_process", "key", "principal", "terminals")

    def __init__(self, key: str, principal: str, *, is_process: bool, now: float) -> None:
        self.key = key
        self.principal = principal
        self.is_process = is_process
        self.extension: BridgeConnection | None = None
        self.back = asyncio.Event()
        self.away_at = now
        self.terminals: dict[str, BridgeTerminal] = {}

    @property
    def is_attended(self) -> bool:
        """Whether its extension is connected, as far as is known."""
        return self.extension is not None and self.extension.is_open

    def gone_s(self) -> float:
        """Return how long it has been away, in seconds."""
        return time.monotonic() - self.away_at


class _KeptTerminal(msgspec.Struct, frozen=True):
    terminal_id: str
    own_id: str
    name: str
    principal: str


class _KeptOwner(msgspec.Struct, frozen=True):
    key: str
    is_process: bool
    principal: str
    terminals: tuple[_KeptTerminal, ...]


class TerminalOwners:
    """All seats, the one that connected last at the end. Used on one event loop."""

    def __init__(
        self, *, trusted_s: float, lives: Callable[[str], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with none.

        Args:
            trusted_s: How long an extension whose process is not known may be away and still get its
                terminals back.
            lives: Returns whether the process of a key still runs.
            clock: Monotonic seconds.
        """
        self._trusted_s = trusted_s
        self._lives = lives
        self._clock = clock
        self._owners: list[OwnedTerminals] = []

    def __iter__(self) -> Iterator[OwnedTerminals]:
        """Return the seats, the one that connected last at the end."""
        return iter(tuple(self._owners))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._owners)

    async def probe(self, key: str, principal: str, *, patience_s: float) -> None:
        """Ping the extensions that are connected under a key.

        One that does not answer counts as away from now on.

        After a broken network an extension connects again long before this side notices that its old
        connection is dead.
        """
        known = [seat.extension for seat in self._owners if (seat.key, seat.principal) == (key, principal)]
        await asyncio.gather(*(one.probe(patience_s) for one in known if one is not None))

    def claim(self, extension: BridgeConnection, key: str, *, is_process: bool) -> OwnedTerminals:
        """Give an extension that has connected its own seat, or a new one."""
        self.prune()
        principal = extension.access.principal
        away = [
            seat
            for seat in self._owners
            if not seat.is_attended and (seat.key, seat.principal) == (key, principal)
        ]
        seat = (
            away[0]
            if len(away) == 1
            else OwnedTerminals(key, principal, is_process=is_process, now=self._clock())
        )
        if seat in self._owners:
            self._owners.remove(seat)
        self._owners.append(seat)
        seat.extension = extension
        seat.back.set()
        return seat

    def leave(self, seat: OwnedTerminals, extension: BridgeConnection) -> None:
        """Record that an extension is gone; a seat without terminals is dropped."""
        # The extension may have connected again and have the seat already.
        if seat.extension is not extension:
            return
        seat.extension = None
        seat.back.clear()
        seat.away_at = self._clock()
        self.prune()

    def prune(self) -> None:
        """Forget terminals that cannot return: those of an ended process, or of an unknown one that was away
        too long.
        """
        now = self._clock()
        self._owners = [
            seat for seat in self._owners if seat.extension is not None or self._may_return(seat, now)
        ]
        away = [seat for seat in self._owners if seat.extension is None]
        for seat in away[: max(0, len(away) - _MAX_AWAY)]:
            self._owners.remove(seat)

    def add(self, seat: OwnedTerminals, own_id: str, name: str, principal: str) -> BridgeTerminal | None:
        """Record a terminal that an extension has opened; None when its name is that of another principal's
        terminal.

        An older terminal of the same principal with this name is gone: the extension must have started anew.
        """
        before = next((one for one in seat.terminals.values() if one.own_id == own_id), None)
        if before is not None:
            if before.principal != principal:
                return None
            del seat.terminals[before.terminal_id]
        taken = {terminal_id for known in self._owners for terminal_id in known.terminals}
        terminal_id, number = own_id, 2
        # Extensions number their terminals by themselves, so names repeat. None may look like a terminal of
        # the engine.
        while terminal_id in taken or is_process_id(terminal_id):
            terminal_id, number = f"{own_id}~{number}", number + 1
        terminal = BridgeTerminal(terminal_id=terminal_id, own_id=own_id, name=name, principal=principal)
        seat.terminals[terminal_id] = terminal
        return terminal

    def find(self, terminal_id: str, principal: str) -> tuple[OwnedTerminals, BridgeTerminal] | None:
        """Return a principal's terminal and its seat."""
        self.prune()
        for seat in self._owners:
            terminal = seat.terminals.get(terminal_id)
            if terminal is not None and terminal.principal == principal:
                return seat, terminal
        return None

    def of(self, principal: str) -> list[BridgeTerminal]:
        """Return a principal's terminals, seat by seat."""
        self.prune()
        return [one for seat in self._owners for one in seat.terminals.values() if one.principal == principal]

    def document(self) -> bytes:
        """Return the state that must survive a restart, as JSON."""
        return msgspec.json.encode(
            [
                _KeptOwner(
                    seat.key,
                    seat.is_process,
                    seat.principal,
                    tuple(
                        msgspec.convert(one, _KeptTerminal, from_attributes=True)
                        for one in seat.terminals.values()
                    ),
                )
                for seat in self._owners
                if seat.terminals
            ]
        )

    def restore(self, document: bytes) -> None:
        """Take seats from an earlier server's document; all of them are away from now on.

        Raises:
            ValueError: It is no such document.
        """
        kept: Sequence[_KeptOwner] = msgspec.json.decode(checked_json(document), type=list[_KeptOwner])
        for one in kept:
            seat = OwnedTerminals(one.key, one.principal, is_process=one.is_process, now=self._clock())
            seat.terminals = {
                known.terminal_id: BridgeTerminal(**msgspec.structs.asdict(known)) for known in one.terminals
            }
            self._owners.append(seat)
        self.prune()

    def _may_return(self, seat: OwnedTerminals, now: float) -> bool:
        if not seat.terminals:
            return False
        return self._lives(seat.key) if seat.is_process else now - seat.away_at <= self._trusted_s


_logger = logging.getLogger(__name__)
_MAX_BYTES = 4 * 1024**2


class StateFile:
    """Reads and replaces one small file; several changes at once are one write. Used on one event loop."""

    def __init__(self, path: str, document: Callable[[], bytes]) -> None:
        """Keep at `path` what `document` returns."""
        self._path = path
        self._document = document
        self._turn = asyncio.Lock()
        self._newest = 0
        self._kept = 0

    async def read(self) -> bytes:
        """Return the content; empty when there is no file, or it cannot be read."""
        return await asyncio.to_thread(self._read)

    async def keep(self) -> None:
        """Return when the present state is in the file, or after a warning when it cannot be written.

        Cancellation: safe; the next change writes it, too.
        """
        self._newest = wanted = self._newest + 1
        async with self._turn:
            if self._kept >= wanted:
                return
            self._kept, content = self._newest, self._document()
            try:
                await asyncio.to_thread(write_whole, self._path, content)
            except OSError as error:
                _logger.warning("the bridge's terminals cannot be kept", extra={"reason": error.strerror})

    def _read(self) -> bytes:
        try:
            return read_any(self._path, most=_MAX_BYTES)
        except OSError:
            return b""
