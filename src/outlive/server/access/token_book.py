"""The tokens as a running server knows them: `TokenBook`, never older than the file.

A token that is revoked, or expires, is refused from that moment on, and the connections opened with it end within a second. This
module never writes the file: `store.token_file` does. What a token allows is decided by `authenticator`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from outlive.core.errors import StoreCorrupt
from outlive.policy.tokens import Token, digest_of, find_token
from outlive.store.token_file import TokenFile

_logger = logging.getLogger(__name__)
_LOOK_S = 0.25  # four fstat calls a second, only while a connection with a token is open
_Mark = tuple[
    int, int, int
]  # inode, time of change in ns, size: what tells one content of the file from another


class TokenBook:
    """Finds tokens, and ends connections whose token no longer counts. `async with` keeps it up to date; for one event loop."""

    def __init__(
        self,
        file: TokenFile,
        granted: Callable[[str], Token | None] = lambda _digest: None,
        *,
        known: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take the file; nothing is read yet.

        Args:
            file: The tokens that the operator has made.
            granted: Finds the token of a running command by its hash.
            known: Returns once it is known which commands run; before that `granted` may miss one.
        """
        self._granted = granted
        self._known = known
        self._file = file
        self._fd = -1
        self._mark: _Mark = (0, 0, 0)
        self._tokens: tuple[Token, ...] = ()
        self._uses: dict[object, tuple[Token, Callable[[], None]]] = {}
        self._is_used = asyncio.Event()
        self._reading = asyncio.Lock()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Read the file, and begin to watch the tokens in use."""
        await self._read()
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._stack.callback(group.create_task(self._watch(), name="tokens").cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        await self._stack.aclose()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def find(self, secret: str) -> Token | None:
        """Return the token of this secret; None when it is unknown, revoked or expired, or its command has ended.

        Cancellation: safe.
        """
        await self._refresh()
        if (token := find_token(self._tokens, secret, now=_now())) is not None:
            return token
        if self._known is not None:
            await self._known()
        return self._granted(digest_of(secret))

    @contextlib.contextmanager
    def using(self, token: Token, hang_up: Callable[[], None]) -> Iterator[None]:
        """Call `hang_up` if the token is revoked, or expires, while the block runs."""
        key = object()
        self._uses[key] = (token, hang_up)
        self._is_used.set()
        try:
            yield
        finally:
            self._uses.pop(key, None)

    async def _watch(self) -> None:
        """Cut the connections of tokens that no longer count, four times a second while any token is in use."""
        while True:
            await self._is_used.wait()
            await asyncio.sleep(_LOOK_S)
            await self._refresh()
            now = _now()
            valid = {token.digest for token in self._tokens if not token.is_over(now)}
            for key, (token, hang_up) in list(self._uses.items()):
                if token.digest not in valid and self._granted(token.digest) is None:
                    self._uses.pop(key, None)
                    hang_up()
            if not self._uses:
                self._is_used.clear()

    async def _refresh(self) -> None:
        """Read the file again if it was replaced or edited."""
        if self._is_stale():
            async with self._reading:
                if self._is_stale():  # else another caller has read it while this one waited
                    await self._read()

    def _is_stale(self) -> bool:
        if self._fd < 0:
            return True
        # The open descriptor shows a replacement without a look at the path: the old file has no link left.
        found = os.fstat(self._fd)
        return found.st_nlink == 0 or (found.st_ino, found.st_mtime_ns, found.st_size) != self._mark

    async def _read(self) -> None:
        try:
            self._tokens, fd, self._mark = await asyncio.to_thread(self._load)
        except (OSError, StoreCorrupt) as error:
            # Fail closed: while the file cannot be read, no token of it counts.
            _logger.error("the file of the tokens cannot be read: %s", error)  # noqa: TRY400 -- the sentence says it all
            self._tokens = ()
            return
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd

    def _load(self) -> tuple[tuple[Token, ...], int, _Mark]:
        fd = self._file.ensure()
        try:
            # Before the content is read: a file that replaces this one meanwhile is then noticed by its mark.
            found = os.fstat(fd)
            return self._file.read(), fd, (found.st_ino, found.st_mtime_ns, found.st_size)
        except BaseException:
            os.close(fd)
            raise


def _now() -> datetime:
    return datetime.now(UTC)
