"""The key of an audit log: `AuditKey`, whose MACs tell an entry of the log's own writers from a forged one.

It lies beside the log's folder, not in it, and only its user can read it: commands in `workspace`, `offline` and `sealed` read
no file of the state folder. The file is written by the server under the log's lock. Blocking.
"""

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from dataclasses import dataclass, replace
from typing import Self

_SEALED = re.compile(rb'\A(.*),"mac":"([0-9a-f]{64})"}\n?\Z', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditKey:
    """The key of one log.

    Attributes:
        log_id: The log's own id, 32 hexadecimal digits; each MAC covers it.
        key: 32 random bytes.
        first: Number of the first entry that carries a MAC: those before were written by versions without.
        has_begun: Such an entry was written: a log without one is gone.
    """

    log_id: str
    key: bytes
    first: int
    has_begun: bool = False

    @property
    def number(self) -> int:
        """The log's id as the registry keeps it: its first 60 bits."""
        return int(self.log_id[:15], 16)

    def mac(self, content: bytes) -> str:
        """Return the MAC of a line or note."""
        return hmac.digest(self.key, self.log_id.encode() + content, hashlib.sha256).hex()

    def seal(self, line: bytes) -> bytes:
        """Return a line that is a JSON object, with its MAC as last member; the newline stays."""
        body = line.removesuffix(b"\n").removesuffix(b"}")
        return body + b',"mac":"' + self.mac(body).encode() + b'"}\n'

    def has_sealed(self, line: bytes) -> bool:
        """Tell whether `seal` made this line, with this key."""
        found = _SEALED.match(line)
        return found is not None and hmac.compare_digest(found[2].decode(), self.mac(found[1]))

    @staticmethod
    def is_sealed(line: bytes) -> bool:
        """Tell whether a line carries a MAC, right or wrong."""
        return _SEALED.match(line) is not None

    @classmethod
    def make(cls, path: str, *, first: int) -> Self:
        """Make the key of a log whose next entry has the number `first`, and keep it.

        Raises:
            OSError: The disk is full or refuses.
        """
        made = cls(log_id=secrets.token_hex(16), key=secrets.token_bytes(32), first=first)
        _keep(path, made)
        return made

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Return the key that is kept at `path`; None when there is none, or no key."""
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError), open(path, "rb") as file:
            kept = json.loads(file.read())
            log_id, key = str(kept["log_id"]), bytes.fromhex(kept["key"])
            if len(bytes.fromhex(log_id)) == 16 and len(key) == 32:
                return cls(
                    log_id=log_id, key=key, first=int(kept["first"]), has_begun=kept["has_begun"] is True
                )
        return None

    def begin(self, path: str) -> Self:
        """Keep that the first entry with a MAC was written; return the key as it is now."""
        begun = replace(self, has_begun=True)
        _keep(path, begun)
        return begun


def _keep(path: str, one: AuditKey) -> None:
    kept = {"log_id": one.log_id, "key": one.key.hex(), "first": one.first, "has_begun": one.has_begun}
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(json.dumps(kept).encode() + b"\n")
        file.flush()
        # Without its key a log is a broken one: once in a log's life the disk is waited for.
        os.fsync(fd)
    os.rename(f"{path}.new", path)
