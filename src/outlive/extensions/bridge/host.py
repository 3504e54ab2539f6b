"""Terminals that VS Code shows: `VsCodeTerminals`, the host with the target "vscode".

There are two kinds of extensions. One that speaks the documented protocol has VS Code's own terminals:
commands are typed into them, and their output does not come here. Our own extension shows terminals of the
engine; every call on these goes to the engine's host. Which terminals there are is remembered by
`terminal_owners`; one connection belongs to `extension`.

A request of unknown effect is reported so, and never sent again. Only a request of which nothing was written
to a socket is sent to the extension that comes back (promise S3.4.once).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from outlive.core.errors import (
    BackendUnavailable,
    InvalidRequest,
    InvalidState,
    LimitExceeded,
    OutliveError,
    ProcessNotFound,
)
from outlive.core.events import AuditEvent, Event, ProcessCompleted
from outlive.core.process import Owner
from outlive.core.terminal import (
    ENGINE,
    VSCODE,
    Executed,
    Form,
    Target,
    TerminalInfo,
    TerminalText,
    default_name,
)
from outlive.engine import Engine
from outlive.engine.terminals import NewTerminal, TerminalHost, Terminals, no_host
from outlive.extensions.bridge import messages
from outlive.extensions.bridge.connection import (
    BridgeConnection,
    Gone,
    NotSent,
    Outcome,
    Silent,
    new_request_id,
)
from outlive.extensions.bridge.messages import (
    Broken,
    Failure,
    Pong,
    RequestKind,
    Success,
    TerminalCreated,
    TerminalWanted,
)
from outlive.extensions.bridge.options import BridgeOptions
from outlive.extensions.bridge.terminal_owners import (
    BridgeTerminal,
    OwnedTerminals,
    StateFile,
    TerminalOwners,
)


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
            await extension.send(messages.show_terminal(new_request_id(), terminal))
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
        await shown.extension.send(messages.terminals(new_request_id(), known))

    async def _open_wanted(self, shown: "_Shown", wanted: TerminalWanted) -> None:
        extension = shown.extension
        by = extension.access.owner("bridge", request_id=wanted.request_id)
        try:
            new = NewTerminal(name=wanted.terminal_name, cwd=wanted.cwd)
            terminal = await self._terminals.host(ENGINE).create(new, by)
        except OutliveError as error:
            self._engine.redaction.finish(error)
            refusal = messages.failed(wanted.request_id, error.message, code=error.code, hint=error.hint)
            await extension.send(refusal)
            return
        shown.ids.add(terminal.terminal_id)
        await extension.send(messages.terminal_created(wanted.request_id, terminal))


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
            closed = messages.terminal_closed(new_request_id(), process_id)
            self.extension.spawn(self.extension.send(closed))
        elif not self.is_greeted and event.record.owner.principal == self.extension.access.principal:
            self.missed.add(process_id)


_logger = logging.getLogger(__name__)

MAX_TERMINALS = 100  # of one principal
# Requests wait for an extension that is gone: three times its own pause before it connects again.
_RETURN_S = 15.0


class VsCodeTerminals:
    """The terminals of all extensions together.

    A `TerminalHost`; offered to `Terminals` while an extension may have any.
    """

    def __init__(
        self,
        engine: Engine,
        terminals: Terminals,
        seats: TerminalOwners,
        memory: StateFile,
        own: OwnExtensions,
        options: BridgeOptions,
    ) -> None:
        self._engine = engine
        self._terminals = terminals
        self._owners = seats
        self._state_file = memory
        self._own = own
        self._options = options
        self._hide = engine.redaction.redactor.mask_text
        self._opening: list[
            str
        ] = []  # names of terminals that are being opened: they count for the limit, too

    @property
    def target(self) -> Target:
        """The name of this host."""
        return VSCODE

    def offer(self) -> None:
        """Offer the terminals while an extension is connected or may come back.

        To be called at every change of that.
        """
        if len(self._owners):
            self._terminals.add(self)
        else:
            self._terminals.remove(self)

    async def terminals(self, by: Owner) -> Sequence[TerminalInfo]:
        """Return a principal's terminals."""
        return [_info(one) for one in self._owners.of(by.principal)]

    async def create(self, wanted: NewTerminal, by: Owner) -> TerminalInfo:
        """Open a terminal in the VS Code that has connected last.

        Raises:
            InvalidRequest: `no_terminal_host`, or an option that VS Code does not have.
            CommandRefused: `profile_too_weak`: commands there run without a sandbox.
            LimitExceeded: `terminal_limit`.
            BackendUnavailable: `extension_away`: nothing was sent; `extension_lost`: it may be open.
            InvalidState: `extension_failed`.
        """
        while True:
            seat, extension = self._newest(by)
            if extension.is_ours:
                return await self._own.open(extension, wanted, by)
            try:
                return await self._create(seat, extension, wanted, by)
            except NotSent:
                if extension.is_open:
                    raise _away("VS Code does not read what is sent to it.") from None
                await extension.ended.wait()  # it was closed meanwhile; another one may be connected

    async def execute(self, terminal_id: str, command: str, by: Owner, *, wait_s: float) -> Executed:
        """Have a command typed; `output` is the extension's answer (promise S3.3).

        Raises:
            OutliveError: As in the contract; `extension_away`: nothing was sent; `extension_lost`: whether it
                ran is not known; `extension_failed`: the extension reports an error.
        """
        found = self._owners.find(terminal_id, by.principal)
        if found is None:
            return await self._engines(terminal_id).execute(terminal_id, command, by, wait_s=wait_s)
        seat, terminal = found
        await self._engine.typed_lines.check_elsewhere(command, by)
        if terminal.is_busy:
            text = f"The terminal {terminal_id!r} has not answered to its last command yet."
            raise InvalidState("terminal_busy", text, hint="Wait for its answer.")
        terminal.is_busy = True
        try:
            with self._audited("execute", terminal_id, by, command=command):
                outcome = await _ask_owner(
                    seat,
                    "execute",
                    lambda request_id: messages.execute(request_id, terminal.own_id, command),
                    self._options,
                )
        except BaseException:
            terminal.is_busy = False
            raise
        outcome.add_done_callback(lambda _: setattr(terminal, "is_busy", False))
        done, _ = await asyncio.wait({outcome}, timeout=wait_s)
        if not done:
            return Executed(terminal_id=terminal_id, output="", is_complete=False)
        if isinstance(answer := outcome.result(), Success):
            output, redacted = self._engine.redaction.redactor.mask_counting(answer.output)
            return Executed(terminal_id=terminal_id, output=output, redacted=redacted)
        raise _failure_of(answer, "the command ran", self._hide)

    async def read(
        self, terminal_id: str, by: Owner, *, form: Form = "clean", cursor: str | None = None, budget: int
    ) -> TerminalText:
        """Return the text of a terminal of the engine; VS Code does not report what its own terminals
        show.
        """
        host = self._readable(terminal_id, by)
        return await host.read(terminal_id, by, form=form, cursor=cursor, budget=budget)

    async def write(self, terminal_id: str, data: bytes, by: Owner) -> None:
        """Type into a terminal of the engine."""
        await self._readable(terminal_id, by).write(terminal_id, data, by)

    async def resize(self, terminal_id: str, rows: int, cols: int, by: Owner) -> None:
        """Set the size of a terminal of the engine."""
        await self._readable(terminal_id, by).resize(terminal_id, rows, cols, by)

    async def close(self, terminal_id: str, by: Owner) -> None:
        """Close a terminal.

        It is forgotten also when the extension reports a failure: most likely it was closed before.

        Raises:
            OutliveError: As in `execute`.
        """
        found = self._owners.find(terminal_id, by.principal)
        if found is None:
            await self._engines(terminal_id).close(terminal_id, by)
            return
        seat, terminal = found
        await self._engine.typed_lines.check_elsewhere(None, by)
        with self._audited("close", terminal_id, by):
            outcome = await _ask_owner(
                seat,
                "close_terminal",
                lambda request_id: messages.close_terminal(request_id, terminal.own_id),
                self._options,
            )
        answer = await outcome
        if isinstance(answer, Success | Failure):
            seat.terminals.pop(terminal_id, None)
            await self._state_file.keep()
        if not isinstance(answer, Success):
            raise _failure_of(answer, "it was closed", self._hide)

    async def _create(
        self, seat: OwnedTerminals, extension: BridgeConnection, wanted: NewTerminal, by: Owner
    ) -> TerminalInfo:
        _check_plain(wanted)
        await self._engine.typed_lines.check_elsewhere(None, by)
        known = [one.name for one in self._owners.of(by.principal)]
        if len(known) + len(self._opening) >= MAX_TERMINALS:
            text = f"There are {len(known)} terminals in VS Code already."
            raise LimitExceeded("terminal_limit", text)
        name = wanted.name or default_name([*known, *self._opening])
        request_id = new_request_id()
        until = asyncio.get_running_loop().time() + self._options.bridge_timeout_s
        message = messages.create_terminal(request_id, name)
        self._opening.append(name)
        try:
            outcome = await (await extension.post("create_terminal", request_id, message, until=until))
        finally:
            self._opening.remove(name)
        if not isinstance(outcome, TerminalCreated):
            raise _failure_of(outcome, "a terminal was opened", self._hide)
        terminal = self._owners.add(seat, outcome.terminal_id, outcome.terminal_name or name, by.principal)
        if terminal is None:
            text = (
                f"The extension calls the new terminal {outcome.terminal_id!r}, as it does another caller's."
            )
            raise _failure_of(Failure(request_id, text), "", self._hide)
        await self._state_file.keep()
        with self._audited("open", terminal.terminal_id, by):
            return _info(terminal)

    def _newest(self, by: Owner) -> tuple[OwnedTerminals, BridgeConnection]:
        """Return the extension that has connected last, of those in which a caller may have terminals."""
        self._owners.prune()
        for seat in reversed(list(self._owners)):
            extension = seat.extension
            if extension is None or not extension.is_open:
                continue
            # Our own extension shows only what its own principal may see.
            is_own = extension.access.principal == by.principal
            if is_own or (extension.serves_all and not extension.is_ours):
                return seat, extension
        raise no_host(VSCODE)

    def _readable(self, terminal_id: str, by: Owner) -> TerminalHost:
        if self._owners.find(terminal_id, by.principal) is not None:
            text = (
                f"The terminal {terminal_id!r} is VS Code's own: what it shows and takes does not "
                "come by here."
            )
            hint = (
                'Run commands in it, use a terminal of the target "engine", or connect the extension outlive.'
            )
            raise InvalidRequest("terminal_not_ours", text, hint=hint)
        return self._engines(terminal_id)

    def _engines(self, terminal_id: str) -> TerminalHost:
        """Return the engine's host, which has the terminals that our own extension shows."""
        try:
            return self._terminals.host(ENGINE)
        except InvalidRequest:
            text = f"There is no terminal {terminal_id[:60]!r}."
            raise ProcessNotFound("terminal_not_found", text) from None

    @contextlib.contextmanager
    def _audited(self, what: str, terminal_id: str, by: Owner, *, command: str = "") -> Iterator[None]:
        """Record in the audit log and the log a request to an extension, and whether it was sent."""
        details = {"terminal": terminal_id, "target": VSCODE}
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("bridge: %s", what, extra={"terminal": terminal_id, "command": self._hide(command)})
        try:
            yield
        except OutliveError as error:
            deed = AuditEvent(
                what=what, by=by, decision="failed", reason=error.code, command=command, details=details
            )
            self._engine.events.publish(deed)
            raise
        self._engine.events.publish(AuditEvent(what=what, by=by, command=command, details=details))


def _info(terminal: BridgeTerminal) -> TerminalInfo:
    return TerminalInfo(
        terminal_id=terminal.terminal_id,
        terminal_name=terminal.name,
        target=VSCODE,
        state="busy" if terminal.is_busy else "unknown",
    )


def _check_plain(wanted: NewTerminal) -> None:
    """Refuse options for which the documented protocol has no member.

    Raises:
        InvalidRequest: `invalid_params`.
    """
    given = {
        "shell": wanted.shell,
        "cwd": wanted.cwd,
        "env": wanted.env,
        "profile": wanted.profile,
        "backend": wanted.backend,
        "image": wanted.image,
        "tags": wanted.tags,
    }
    if names := [name for name, value in given.items() if value]:
        text = f"{', '.join(names)}: VS Code opens its own kind of terminal, and takes a name only."
        hint = 'Ask for the target "engine", or type it in the terminal.'
        raise InvalidRequest("invalid_params", text, hint=hint)


async def _ask_owner(
    seat: OwnedTerminals, kind: RequestKind, make: Callable[[str], bytes], options: BridgeOptions
) -> "asyncio.Future[Outcome]":
    """Send a request to a seat's extension, waiting for one that went away a moment ago.

    Return a future of its outcome.

    Args:
        seat: The seat of the extension.
        kind: The kind of request.
        make: Returns the message for a request id.
        options: The times that everything may take.

    Raises:
        BackendUnavailable: `extension_away`: nothing was sent.
        LimitExceeded: Too many requests wait already.

    Cancellation: safe; what was sent stays sent.
    """
    until = asyncio.get_running_loop().time() + options.bridge_timeout_s
    while True:
        extension = await _present(seat, until)
        request_id = new_request_id()
        try:
            return await extension.post(kind, request_id, make(request_id), until=until)
        except NotSent:
            if extension.is_open:
                raise _away("VS Code does not read what is sent to it.") from None
            await extension.ended.wait()


async def _present(seat: OwnedTerminals, until: float) -> BridgeConnection:
    """Return the seat's extension, waiting a little for one that is away."""
    loop = asyncio.get_running_loop()
    gone_s = 0.0 if seat.extension is not None else seat.gone_s()
    until = min(until, loop.time() + max(0.0, _RETURN_S - gone_s))
    try:
        async with asyncio.timeout_at(until):
            while (extension := seat.extension) is None:
                await seat.back.wait()
    except TimeoutError:
        raise _away("The VS Code of this terminal is not connected.") from None
    return extension


def _away(message: str) -> BackendUnavailable:
    """Return the error of a request that was not sent."""
    return BackendUnavailable("extension_away", message)


def _failure_of(outcome: Outcome, what: str, hide: Callable[[str], str]) -> OutliveError:
    """Return the error for a request that did not succeed.

    Args:
        outcome: Its outcome.
        what: The effect that may or may not have happened, as in "whether {what} is not known".
        hide: Removes secrets from the extension's words.
    """
    match outcome:
        case Failure(error=error):
            said = hide(error) or "nothing about it"
            return InvalidState("extension_failed", f"The extension could not do it; it says: {said}")
        case Broken(reason=reason):
            text = f"The extension's answer makes no sense ({hide(reason)}): whether {what} is not known."
            return BackendUnavailable("extension_lost", text)
        case Gone():
            text = f"The connection to VS Code ended before its answer: whether {what} is not known."
            return BackendUnavailable("extension_lost", text)
        case Silent():
            text = f"VS Code did not answer in time: whether {what} is not known."
            return BackendUnavailable("extension_lost", text)
        case Pong() | TerminalCreated() | Success():
            raise AssertionError("the exchange lets only fitting answers pass, and these are no failures")
