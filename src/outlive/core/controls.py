"""What can be asked of a running process: a value for each operation, which `Backend.control` carries out.

Pure.

A further operation is a class here, with the request that passes it on to another server, and a branch in
`engine.controls` that checks whether it makes sense; type checkers ask for it. The keeper is asked by its
verb and its members. Writing to the input is a method of its own, because its bytes are not copied.
"""

from typing import ClassVar

from outlive.core.cursor import Cursor
from outlive.core.lifecycle import Cause
from outlive.core.values import dataclass, fields


class ControlOperation:
    """The names of an operation, and how the keeper and another server are asked for it: a backend knows few
    by name.
    """

    __slots__ = ()
    verb: ClassVar[str]  # the keeper's name for it, and the audit log's
    method: ClassVar[str]  # JSON-RPC's

    def members(self) -> dict[str, object]:
        """Return its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # each is a dataclass

    def params(self) -> dict[str, object]:
        """Return the members of JSON-RPC's request besides the process's id.

        Those of most operations are their fields.
        """
        return self.members()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(ControlOperation):
    """Stop the whole tree until `Resume`; repeating it is a success (promise S0.10)."""

    verb = "pause"
    method = "control"

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "PAUSE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(ControlOperation):
    """Continue the whole tree; a process that runs already is a success."""

    verb = "resume"
    method = "control"

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "RESUME"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(ControlOperation):
    """End the whole tree: TERM now, KILL after the grace period; `note` says in one sentence which caller
    asked.
    """

    verb = "stop"
    method = "control"

    cause: Cause
    grace_s: float
    note: str

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "CANCEL", "grace": self.grace_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalProcess(ControlOperation):
    """Send a signal: to the main process, the process group that it leads, or everything below it too.

    Never repeated.
    """

    verb = method = "signal"
    signal: int
    whole_tree: bool = False
    whole_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseInput(ControlOperation):
    """Close the input after what was written: the process reads end-of-file. Repeating it is a success."""

    verb = method = "close_stdin"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOutput(ControlOperation):
    """Close the reading end of a pipe (0 stdout, 1 stderr): what writes to it gets SIGPIPE. Repeatable."""

    verb = method = "close_output"
    stream: int

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "stderr" if self.stream else "stdout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeWindow(ControlOperation):
    """Set the terminal's window size."""

    verb = method = "resize"
    rows: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutput(ControlOperation):
    """Let go of output before these offsets."""

    verb = method = "release"

    stdout_bytes: int
    stderr_bytes: int

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"cursor": str(Cursor(self.stdout_bytes, self.stderr_bytes))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbind(ControlOperation):
    """Let a process with `on_limit` "block" wait for no reader any more: beyond the limit the middle is
    released.
    """

    verb = "unbound"
    method = "release"

    output_limit: int | None

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"unbound": True}


# What a caller asks for as it is.
Control = Pause | Resume | SignalProcess | CloseInput | CloseOutput | ResizeWindow
Operation = Control | Stop | ReleaseOutput | Unbind
