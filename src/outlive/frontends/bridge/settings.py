"""What the bridge must be told: `BridgeSettings`."""

from dataclasses import dataclass
from typing import Self

from outlive.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """Times are seconds, sizes bytes.

    `ping_s` lies between two pings, `timeout_s` is what an answer may take, `redial_s` lies between two attempts to dial
    one of `dial`. An extension that is gone is waited for `return_s`, three times what it waits before it dials again;
    one whose process cannot be told gets its terminals back within `trusted_s`.
    """

    ping_s: float = 30.0
    timeout_s: float = 30.0
    redial_s: float = 5.0
    return_s: float = 15.0
    trusted_s: float = 60.0
    dial: tuple[str, ...] = ()
    max_message_bytes: int = 16 * 1024**2
    max_extensions: int = 64
    max_terminals: int = 100

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return what the user chose."""
        return cls(
            ping_s=settings.bridge_ping_s,
            timeout_s=settings.bridge_timeout_s,
            dial=settings.bridge_dial,
            max_message_bytes=settings.max_message_bytes,
        )
