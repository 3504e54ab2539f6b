"""What every place of execution can do (`Backend`) and what it tells (`BackendListener`).

One contract, one test body run on each backend. Output does not pass here: it is read from the log.

What can be asked of a running process: a value for each operation, which `Backend.control` carries out.

A further operation is a class here, and a branch in each backend: type checkers name those that lack it. Writing to the
input is a method of its own, because its bytes are not copied. Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import ClassVar, Protocol

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause
from outlive.core.location import LOCAL, Kind
from outlive.core.process import Observation


class _Request:
    """How another server is asked for an operation (docs/jsonrpc.md): a backend that passes it on knows none by name."""

    __slots__ = ()
    method: ClassVar[str]

    def params(self) -> dict[str, object]:
        """Return the members of the request besides the process's id; those of most operations are their fields."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # each is a dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(_Request):
    """Stop the whole tree."""

    method = "control"

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "PAUSE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(_Request):
    """Continue the whole tree."""

    method = "control"

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "RESUME"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(_Request):
    """End the whole tree: TERM now, KILL after the grace period; `note` says in one sentence who asked."""

    method = "control"

    cause: Cause
    grace_s: float
    note: str

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "CANCEL", "grace": self.grace_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalProcess(_Request):
    """Send a signal: to the main process, its process group, or its tree. Never repeated."""

    method = "signal"

    number: int
    whole_tree: bool
    whole_group: bool = False

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {
            "signal": self.number,
            "whole_tree": self.whole_tree,
            "whole_group": self.whole_group,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseInput(_Request):
    """Close the input."""

    method = "close_stdin"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseOutput(_Request):
    """Close the reading end of a pipe: 0 is stdout, 1 stderr."""

    method = "close_output"

    stream: int

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"type": "stderr" if self.stream else "stdout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeWindow(_Request):
    """Set the terminal's window size."""

    method = "resize"

    rows: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOutput(_Request):
    """Let go of output before these offsets."""

    method = "release"

    stdout_bytes: int
    stderr_bytes: int

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"cursor": str(Cursor(self.stdout_bytes, self.stderr_bytes))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbind(_Request):
    """Let a process with `on_limit` "block" wait for no reader any more: beyond the limit the middle is released."""

    method = "release"

    output_limit: int | None

    def params(self) -> dict[str, object]:
        """Return the members of the request."""
        return {"unbound": True}


Operation = (
    Pause | Resume | Stop | SignalProcess | CloseInput | CloseOutput | ResizeWindow | ReleaseOutput | Unbind
)


# key, out, err, pid, code, phase, cause, flags, descendants: a doorbell's fields as `protocols.keeper.RECORD`
# has them. Tuples, because thousands a second are told.
Bell = tuple[bytes, int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """The answer to a start; `is_existing`: an earlier start with this id had been carried out already."""

    pid: int
    started_ns: int
    is_existing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """Whether a node is there, since when (aware UTC), and why not; `processes` are followed there."""

    address: str
    is_away: bool
    since: datetime
    reason: str | None
    hint: str | None
    processes: int


class BackendListener(Protocol):
    """Who hears a backend; called on the event loop's thread, must be quick and must not raise."""

    def link_opened(self) -> None:
        """From now on everything live is told anew, ended by a bell with `Flags.SYNC`."""

    def link_ready(self, keeper_pid: int, sessions: tuple[int, ...] = ()) -> None:
        """The other side answers requests; unanswered starts have been sent again. `sessions`: POSIX's, of its parts."""

    def link_closed(self) -> None:
        """The other side is gone for the moment; commands go on."""

    def node_changed(self, name: str, reason: str | None) -> None:
        """A node is away from now on, and why; None: it is there."""

    def ring(self, bells: Iterable[Bell]) -> None:
        """Take over the newest states of processes."""


class BackendSite(Protocol):
    """What a backend knows of itself and of the machine where commands run."""

    async def offers(self) -> str:
        """Return what bounds can be had where commands run, as `keeper.offers` prints it.

        Raises:
            InvalidRequest: The other side is of an earlier version and does not know.
        """

    async def status(self) -> dict[str, object]:
        """Return what the other side says about itself."""

    def nodes(self) -> dict[str, NodeState]:
        """Return what is known of other servers, by name; nobody is asked."""

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """Return rows and columns of a live process's terminal; None where there is none. Never raises."""


class Backend(BackendSite, Protocol):
    """Carries out what the engine asks. Every method raises BackendUnavailable when nobody answers in time.

    All but `write` and `SignalProcess` are asked again by themselves when the other side restarts; those two fail with
    `keeper_restarted`, because nobody knows whether they had happened.
    """

    def kind_of(self, backend: str) -> Kind:
        """Return what kind of place is meant by a name that `start` takes.

        Raises:
            InvalidRequest: There is none of that name; the hint names those that there are.
        """

    async def open(self, listener: BackendListener) -> None:
        """Connect; returns when the other side answers."""

    async def close(self) -> None:
        """Disconnect; what runs goes on."""

    async def start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        settle: Callable[[StartOutcome | OutliveError], None],
        secrets: Mapping[str, str] | None = None,
        backend: str = LOCAL,
    ) -> StartOutcome:
        """Start a command once, however often this is asked with the same id.

        `backend` names the place: "local", "docker", or a node. `secrets` are the values of the spec's secret variables; they are written nowhere.
        `settle` is called with the outcome also when the caller has been cancelled meanwhile.
        """

    async def control(
        self,
        process_id: ProcessId,
        operation: Operation,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Carry out an operation on a running process, and return when the other side has acknowledged it.

        `acknowledged` is called then, in the order of the bells: what a bell reports behind it is newer.
        """

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write at most 1 MiB to the input; returns when all of it is in the pipe or terminal.

        Raises:
            LimitExceeded: `stdin_full`; details tell `written_bytes` and, in the keeper's hands, `waiting_bytes`.
        """

    async def observe(self, process_id: ProcessId, *, has_stdin: bool) -> Observation:
        """Look at a live process's tree; nothing of one that has ended. Never raises for what cannot be seen."""


def unknown_backend(name: str, known: Iterable[str]) -> InvalidRequest:
    """Return the error for a backend's name that nobody knows."""
    names = ", ".join(known)
    return InvalidRequest(
        "invalid_params", f"backend: there is no {name[:60]!r}.", hint=f"There are: {names}."
    )
