"""What the tools must be told: `ToolSettings` (promise S1.8), filled in by the composition root."""

from dataclasses import dataclass
from typing import Literal

ToolSet = Literal["lean", "documents", "terminals", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """Limits and defaults of the tools. Times are seconds, sizes bytes.

    Attributes:
        enabled: Whether anything may be run at all.
        allowed_patterns: Globs; every simple command must match one.
        blocked_patterns: Globs; no simple command may match one.
        timeout_s: When a command's tree is ended, if the call names no timeout.
        max_output_bytes: What a result shows of each stream; the log keeps everything.
        allow_sudo: Whether commands may begin with sudo.
        allow_scripts: Whether scripts may be run.
        termination_timeout_s: Between TERM and KILL (promise S4.6).
        mcp_tools: Which tools are offered (promise S4.13).
        wait_s: How long a call waits for the end before it answers "still running" (promise S1.10), where the client
            is an official one that asked for no progress: many hosts give up after 60 s.
        heartbeat_s: After this long without output a waiting call reports progress all the same (promise S1.10).
        kept_s: How long a process is kept after its end, as tasks tell it; None for ever.
    """

    enabled: bool = True
    allowed_patterns: tuple[str, ...] = ("*",)
    blocked_patterns: tuple[str, ...] = ()
    timeout_s: int = 60
    max_output_bytes: int = 1024 * 1024
    allow_sudo: bool = False
    allow_scripts: bool = True
    termination_timeout_s: float = 30.0
    mcp_tools: ToolSet = "all"
    wait_s: float = 45.0
    heartbeat_s: float = 20.0
    kept_s: float | None = None
