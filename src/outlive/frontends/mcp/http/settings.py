"""What the MCP door over HTTP must be told."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHttpSettings:
    """Times are seconds, sizes bytes."""

    version: str
    max_message_bytes: int = 16 * 1024 * 1024
    termination_timeout_s: float = 30.0
