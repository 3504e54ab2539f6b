"""What a command may do with the server that runs it: `Grant`."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A token that counts in one process while that runs; `digest` is the SHA-256 of its secret, in hex.

    `scope` is a scope's name in lower case. `expires_at`: it counts no longer than that (None: to the end of the process).
    """

    scope: str
    digest: str
    expires_at: datetime | None = None
