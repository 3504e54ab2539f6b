"""The file that keeps the bridge's terminals across restarts of the server: `StateFile`."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

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
        """Return what was kept; empty when nothing was, or it cannot be read."""
        return await asyncio.to_thread(self._read)

    async def keep(self) -> None:
        """Return when everything that is known now is in the file; where it cannot be written, after a warning.

        Cancellation: safe; what is not written then is with the next change.
        """
        self._newest = wanted = self._newest + 1
        async with self._turn:
            if self._kept >= wanted:
                return
            self._kept, content = self._newest, self._document()
            try:
                await asyncio.to_thread(self._write, content)
            except OSError as error:
                _logger.warning("the bridge's terminals cannot be kept", extra={"reason": error.strerror})

    def _read(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                return file.read(_MAX_BYTES)
        except OSError:
            return b""

    def _write(self, content: bytes) -> None:
        new = f"{self._path}.new"
        with contextlib.suppress(FileNotFoundError):  # of one that was killed
            os.unlink(new)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
        os.rename(new, self._path)
