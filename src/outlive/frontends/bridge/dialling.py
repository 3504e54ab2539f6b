"""Extensions that listen themselves: `Dialler` connects to one address of the operator's, again and again (promise S3.9)."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, InvalidURI

from outlive.frontends.bridge.line import DialledLine, Line
from outlive.frontends.bridge.settings import BridgeSettings

__all__ = ["Dialler", "Serve"]

_logger = logging.getLogger(__name__)
_OPEN_S = 10.0
_OWN_HEADER = "Outlive-Extension"  # of the answer to the handshake


class Serve(Protocol):
    """Serves an open connection until it is over."""

    def __call__(self, line: Line, address: str, *, is_ours: bool) -> Awaitable[None]:
        """Serve it."""
        ...


class _Straight(connect):
    """The library's client, which never goes anywhere but where it was told: redirections are failures."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow nothing."""
        return exc


class Dialler:
    """Keeps one address connected."""

    def __init__(self, address: str, settings: BridgeSettings, *, serve: Serve) -> None:
        """Take the address, a ws:// or wss:// one, and who serves what answers there."""
        self._address = address
        self._settings = settings
        self._serve = serve
        parts = urlsplit(address)
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"  # the query may have a token in it

    async def run(self) -> None:
        """Connect, serve, and connect again some seconds after the end. Outermost loop of the task."""
        is_told = False
        while True:
            try:
                async with _Straight(
                    self._address,
                    proxy=None,
                    compression=None,
                    open_timeout=_OPEN_S,
                    ping_interval=None,  # the bridge's own ping asks more
                    max_size=self._settings.max_message_bytes,
                ) as socket:
                    is_told = False
                    headers = None if socket.response is None else socket.response.headers
                    is_ours = headers is not None and headers.get(_OWN_HEADER) == "1"
                    await self._serve(DialledLine(socket), self._shown, is_ours=is_ours)
            except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ValueError) as error:
                # Once for each time that it is not there: it may be closed for days.
                level = logging.DEBUG if is_told else logging.WARNING
                extra = {"address": self._shown, "reason": type(error).__name__}
                _logger.log(level, "an extension that is to be dialled does not answer", extra=extra)
                is_told = True
            except Exception:
                _logger.exception("serving an extension failed", extra={"address": self._shown})
            await asyncio.sleep(self._settings.redial_s)
