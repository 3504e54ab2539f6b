"""The file of a state folder's access tokens: `TokenFile`. A token's secret is shown once and never stored.

A program that creates or revokes a token writes the whole file, under a lock; no server has to run. The
server reads it, and adds the tokens of pages that it lets in. What a token allows is decided in
`policy.access`.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime

from outlive.core.errors import InvalidRequest, ProcessNotFound
from outlive.core.layout import Layout
from outlive.kernel.files import read_any, write_whole
from outlive.policy.access import NAME, PREFIX, Scope, Token, decode_tokens, digest_of, encode_tokens

_SECRET_BYTES = 32  # 256 bits: cannot be guessed
_PRIVATE = 0o600
_PAGE = "page"  # page-1, page-2: tokens of pages that `outlive ui` has opened


class TokenFile:
    """The tokens on disk. Every method reads the file anew."""

    def __init__(self, layout: Layout) -> None:
        self.path = layout.tokens
        self._lock = layout.tokens_lock

    def read(self) -> tuple[Token, ...]:
        """Return all tokens, oldest first, expired ones included.

        Raises:
            StoreCorrupt: The file is damaged.
        """
        try:
            return decode_tokens(read_any(self.path))
        except FileNotFoundError:
            return ()

    def create(
        self,
        name: str | None,
        scope: Scope,
        *,
        now: datetime,
        expires_at: datetime | None = None,
        acts_as_user: bool = False,
        acts_for: str | None = None,
        stem: str = "token",
    ) -> tuple[Token, str]:
        """Add a token and return it with its secret, which cannot be shown again.

        Without a name it gets the first free one of token-1, token-2 and so on, or of another `stem`.

        Raises:
            InvalidRequest: The name is taken or cannot be one.
            StoreCorrupt: The file is damaged.
        """
        if name is not None and not NAME.fullmatch(name):
            text = (
                "A token's name has up to 64 letters, digits, dots, dashes and underscores, not "
                f"{name[:64]!r}."
            )
            raise InvalidRequest("invalid_params", text, hint="Choose another name.")
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        made: list[Token] = []

        def add(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            taken = {token.name for token in tokens}
            if name in taken:
                # A new token of the same name would see the processes of the old one.
                text = f"There is a token {name!r} already."
                raise InvalidRequest(
                    "invalid_params", text, hint=f"Revoke it: `outlive token revoke {name}`."
                )
            chosen = name or next(
                one for n in range(1, len(taken) + 2) if (one := f"{stem}-{n}") not in taken
            )
            made.append(
                Token(
                    name=chosen,
                    scope=scope,
                    digest=digest_of(secret),
                    created_at=now,
                    expires_at=expires_at,
                    acts_as_user=acts_as_user,
                    acts_for=acts_for,
                )
            )
            return (*tokens, *made)

        self._change(add)
        return made[0], secret

    def create_for_page(self, scope: Scope, *, now: datetime, expires_at: datetime) -> tuple[Token, str]:
        """Add the token of a page that acts as the user, and forget those of earlier pages that have expired.

        Such a token has no processes of its own, so a later one may have its name.

        Raises:
            StoreCorrupt: The file is damaged.
        """
        self._change(
            lambda tokens: tuple(
                one
                for one in tokens
                if not (one.acts_as_user and one.name.startswith(f"{_PAGE}-") and one.is_over(now))
            )
        )
        return self.create(None, scope, now=now, expires_at=expires_at, acts_as_user=True, stem=_PAGE)

    def revoke(self, name: str) -> Token:
        """Remove a token; a running server ends the connections that were opened with it.

        Raises:
            ProcessNotFound: `token_not_found`.
            StoreCorrupt: The file is damaged.
        """
        found: list[Token] = []

        def drop(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            found.extend(token for token in tokens if token.name == name)
            if not found:
                raise ProcessNotFound("token_not_found", f"There is no token {name[:64]!r}.")
            return tuple(token for token in tokens if token.name != name)

        self._change(drop)
        return found[0]

    def ensure(self) -> int:
        """Return a descriptor of the file, which is made if it is missing.

        A symbolic link in its place is refused.
        """
        flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self.path, flags, _PRIVATE)

    def _change(self, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        with self._locked():
            # After a power cut a revoked token must stay revoked.
            write_whole(self.path, encode_tokens(change(self.read())), survives="power cut")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)
