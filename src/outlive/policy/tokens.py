"""Access tokens: what is stored of one (`Token`, with a hash), and how a token that a caller shows is recognised. Pure.

The file is `store.token_file`'s; what a scope allows is decided in `access`.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from outlive.core.errors import StoreCorrupt
from outlive.policy.access import Scope

PREFIX = "olv_"  # by which people and secret scanners recognise a token
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret: `digest` is the secret's SHA-256, in hex. `expires_at` None: never.

    A plain hash is enough: 256 random bits leave nothing to guess. `acts_as_user`: a caller that shows it is the user whose
    state folder this is, and sees that user's processes. `process_id`: the token is valid in that process only, and acts for
    `acts_for`, the principal of that process; such a token is in no file.
    """

    name: str
    scope: Scope
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    acts_as_user: bool = False
    process_id: str | None = None
    acts_for: str | None = None

    def principal(self, own_uid: int) -> str:
        """Return the principal of a caller that shows it to the server of that user."""
        if self.acts_for is not None:
            return self.acts_for
        return f"uid:{own_uid}" if self.acts_as_user else f"token:{self.name}"

    def is_over(self, now: datetime) -> bool:
        """Return whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


def digest_of(secret: str) -> str:
    """Return what is stored of a token's secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def find_token(tokens: Sequence[Token], secret: str, *, now: datetime) -> Token | None:
    """Return the token with that secret, unless it has expired. The time that this takes does not show which one it is."""
    wanted = digest_of(secret)
    found = [token for token in tokens if hmac.compare_digest(token.digest, wanted)]
    return next((token for token in found if not token.is_over(now)), None)


def encode_tokens(tokens: Sequence[Token]) -> bytes:
    """Return the content of the tokens' file."""
    rows: list[dict[str, str | bool | None]] = [
        {
            "name": token.name,
            "scope": token.scope.name.lower(),
            "sha256": token.digest,
            "created_at": token.created_at.isoformat(),
            "expires_at": None if token.expires_at is None else token.expires_at.isoformat(),
            **({"as_user": True} if token.acts_as_user else {}),
        }
        for token in tokens
    ]
    return json.dumps({"tokens": rows}, indent=1).encode() + b"\n"


def decode_tokens(content: bytes) -> tuple[Token, ...]:
    """Read the file's content; an empty file holds no token.

    Raises:
        StoreCorrupt: The content is anything else.
    """
    if not content:
        return ()
    try:
        document = json.loads(content)
        return tuple(_token(row) for row in document["tokens"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"The file of the tokens cannot be read: {error}."
        raise StoreCorrupt(
            "store_corrupt",
            text,
            hint="Remove tokens.json from the state folder, and create the tokens anew.",
        ) from None


def _token(row: dict[str, Any]) -> Token:
    expires: str | None = row["expires_at"]
    return Token(
        name=row["name"],
        scope=Scope[row["scope"].upper()],
        digest=row["sha256"],
        created_at=_time(row["created_at"]),
        expires_at=None if expires is None else _time(expires),
        acts_as_user=row.get("as_user") is True,
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
