"""What the MCP door over HTTP must be told."""

from dataclasses import dataclass

__all__ = ["McpHttpSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHttpSettings:
    """`principal` is who a caller is when nothing else names him."""

    version: str
    principal: str
    max_message_bytes: int = 16 * 1024 * 1024
    termination_timeout_s: float = 30.0
