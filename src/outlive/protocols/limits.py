"""`limits` as JSON-RPC and MCP take them: `LimitParams`. Pure."""

from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.core.sandbox import MIN_CPUS, NO_LIMITS, Limits

_Count = Annotated[int, Meta(ge=1, le=2**31)]
_Bytes = Annotated[int, Meta(ge=1, le=2**62)]
_Seconds = Annotated[int, Meta(ge=1, le=2**31)]
_Cpus = Annotated[float, Meta(ge=MIN_CPUS, le=2**20)]


class LimitParams(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Bounds of what a command may take, below the server's own; sizes are bytes, `cpu` is seconds.

    A name that is not known is refused everywhere: a bound that was misspelt would hold nothing.
    """

    cpu: _Seconds | None = None
    cpus: _Cpus | None = None
    memory: _Bytes | None = None
    files: _Count | None = None
    processes: _Count | None = None


def to_limits(asked: LimitParams | None) -> Limits:
    """Return them as the engine takes them."""
    if asked is None:
        return NO_LIMITS
    return Limits(
        cpu_s=asked.cpu,
        cpus=asked.cpus,
        memory_bytes=asked.memory,
        files=asked.files,
        processes=asked.processes,
    )
