"""Requests to an extension, and errors for their outcomes: a request of unknown effect is reported so, never sent again.

Only a request of which nothing was written to a socket is sent to the extension that comes back (promise S3.4.once). One
connection belongs to `extension`.
"""

import asyncio
import secrets
from collections.abc import Callable

from outlive.core.errors import BackendUnavailable, InvalidState, OutliveError
from outlive.frontends.bridge.extension import Extension, Gone, NotSent, Outcome, Silent
from outlive.frontends.bridge.terminal_owners import OwnedTerminals
from outlive.frontends.bridge.transport import BridgeSettings
from outlive.protocols.bridge.answers import Broken, Failure, Pong, Success, TerminalCreated
from outlive.protocols.bridge.requests import Asking


def new_request_id() -> str:
    """Return a new id that is never used again; terminals get such names, too (promise S3.5)."""
    return f"req-{secrets.token_hex(12)}"


async def ask_seat(
    seat: OwnedTerminals, asking: Asking, make: Callable[[str], bytes], settings: BridgeSettings
) -> "asyncio.Future[Outcome]":
    """Send a request to a seat's extension, waiting for one that went away a moment ago; return a future of its outcome.

    Args:
        seat: The seat of the extension.
        asking: The kind of request.
        make: Returns the message for a request id.
        settings: The times that everything may take.

    Raises:
        BackendUnavailable: `extension_away`: nothing was sent.
        LimitExceeded: Too many requests wait already.

    Cancellation: safe; what was sent stays sent.
    """
    until = asyncio.get_running_loop().time() + settings.timeout_s
    while True:
        extension = await _present(seat, until, settings)
        request_id = new_request_id()
        try:
            return await extension.post(asking, request_id, make(request_id), until=until)
        except NotSent:
            if extension.is_open:
                raise away("VS Code does not read what is sent to it.") from None
            await extension.ended.wait()


async def _present(seat: OwnedTerminals, until: float, settings: BridgeSettings) -> Extension:
    """Return the seat's extension, waiting a little for one that is away."""
    loop = asyncio.get_running_loop()
    gone_s = 0.0 if seat.extension is not None else seat.gone_s()
    until = min(until, loop.time() + max(0.0, settings.return_s - gone_s))
    try:
        async with asyncio.timeout_at(until):
            while (extension := seat.extension) is None:
                await seat.back.wait()
    except TimeoutError:
        raise away("The VS Code of this terminal is not connected.") from None
    return extension


def away(message: str) -> BackendUnavailable:
    """Return the error of a request that was not sent."""
    return BackendUnavailable("extension_away", message)


def failure_of(outcome: Outcome, what: str, hide: Callable[[str], str]) -> OutliveError:
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
