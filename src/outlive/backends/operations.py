"""What can be asked of a running process: a value for each operation, which `Backend.control` carries out.

A further operation is a class here, and a branch in each backend: type checkers name those that lack it. Writing to the
input is a method of its own, because its bytes are not copied. Pure.
"""

from dataclasses import dataclass

from outlive.core.lifecycle import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Stop the whole tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Continue the whole tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End the whole tree: TERM now, KILL after the grace period; `note` says in one sentence who asked."""

    cause: Cause
    grace_s: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalProcess:
    """Send a signal: to the main process, its process group, or its tree. Never repeated."""

    number: int
    whole_tree: bool
    whole_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseInput:
    """Close the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOutput:
    """Close the reading end of a pipe: 0 is stdout, 1 stderr."""

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeWindow:
    """Set the terminal's window size."""

    rows: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutput:
    """Let go of output before these offsets."""

    stdout_bytes: int
    stderr_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbind:
    """Let a process with `on_limit` "block" wait for no reader any more: beyond the limit the middle is released."""

    output_limit: int | None


Operation = (
    Pause | Resume | Stop | SignalProcess | CloseInput | CloseOutput | ResizeWindow | ReleaseOutput | Unbind
)
