"""What the door must be told: limits, times and its version."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRpcSettings:
    """Times are seconds, sizes bytes. `wait_s`: how long a terminal's command is waited for, if a request does not say."""

    version: str
    max_connections: int = 100
    reconnect_grace_s: float = 10.0
    max_line_bytes: int = 8192
    max_message_bytes: int = 16 * 1024 * 1024
    wait_s: float = 45.0
