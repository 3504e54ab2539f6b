"""What the REST door must be told."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """Times are seconds, sizes bytes.

    Attributes:
        max_body_bytes: What a request may carry.
        max_output_bytes: What the documented paths show of each stream; the log keeps everything.
        termination_timeout_s: Between TERM and KILL on the documented paths (promise S4.9).
        quiet_s: How long a stream of events may be silent before it says that it lives; below every proxy's usual
            minute of patience.
        wait_s: How long a terminal's command is waited for, if a request does not say.
    """

    version: str
    max_body_bytes: int = 16 * 1024 * 1024
    max_output_bytes: int = 1024 * 1024
    termination_timeout_s: float = 30.0
    quiet_s: float = 15.0
    wait_s: float = 45.0
