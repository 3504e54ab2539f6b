"""What every place of execution can do (`Backend`) and what it reports (`BackendListener`).

One contract, one test body run on each backend. Output does not pass here: it is read from the log.

What `Backend.control` carries out is a value of `core.controls`. Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from outlive.core.controls import Operation
from outlive.core.errors import InvalidRequest, OutliveError
from outlive.core.events import KeeperBounds
from outlive.core.identity import ProcessId
from outlive.core.location import LOCAL, Kind
from outlive.core.process import InputWait, Observation
from outlive.core.values import dataclass
from outlive.placement.fleet import FleetNode

# key, out, err, pid, code, phase, cause, flags, descendants: a doorbell's fields as `protocols.keeper.RECORD`
# has them. Tuples, because thousands come in a second.
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
    """What a backend reports to; called on the event loop's thread, must be quick and must not raise."""

    def link_opened(self) -> None:
        """From now on everything live is reported anew, ended by a doorbell with `Flags.SYNC`."""

    def link_ready(
        self, keeper_pid: int, sessions: tuple[int, ...] = (), bounds: KeeperBounds | None = None
    ) -> None:
        """The other side answers requests; unanswered starts have been sent again.

        `sessions` and `bounds`: see `KeeperConnected`.
        """

    def link_closed(self) -> None:
        """The other side is gone for the moment; commands go on."""

    def node_changed(self, name: str, reason: str | None, node: FleetNode | None = None) -> None:
        """A node is away from now on, and why; None: it is there, and is what `node` says, where that is
        known.
        """

    def ring(self, bells: Iterable[Bell]) -> None:
        """Take over the newest states of processes."""


class BackendSite(Protocol):
    """What a backend knows of itself and of the machine where commands run."""

    async def offers(self) -> str:
        """Return what bounds can be had where commands run, as `keeper.sandbox.capabilities` prints it."""

    async def status(self) -> dict[str, object]:
        """Return what the other side says about itself."""

    def nodes(self) -> dict[str, NodeState]:
        """Return what is known of other servers, by name; none is asked."""

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """Return rows and columns of a live process's terminal; None where there is none. Never raises."""


class Backend(BackendSite, Protocol):
    """Carries out what the engine asks. Every method raises BackendUnavailable when no answer comes in time.

    All but `write` and `SignalProcess` are asked again by themselves when the other side restarts; those two
    fail with `keeper_restarted`, because it is not known whether they had happened.
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

        `backend` names the place: "local", "docker", or a node. `secrets` are the values of the spec's secret
        variables; they are written nowhere. `settle` is called with the outcome also when the caller has been
        cancelled meanwhile.
        """

    async def control(
        self,
        process_id: ProcessId,
        operation: Operation,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Carry out an operation on a running process, and return when the other side has acknowledged it.

        `acknowledged` is called then, in the order of the doorbells: what one reports behind it is newer.
        """

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write at most 1 MiB to the input; returns when all of it is in the pipe or terminal.

        Raises:
            LimitExceeded: `stdin_full`; details have `written_bytes` and, in the keeper's hands,
            `waiting_bytes`.
        """

    async def observe(self, process_ids: Sequence[ProcessId], *, has_stdin: bool) -> list[Observation]:
        """Look at the trees of live processes, in this order: nothing of one that has ended.

        Never raises for what cannot be seen.

        `has_stdin`: they have inputs, and it is told whether they wait for them.
        """

    async def input_wait(self, process_id: ProcessId) -> InputWait | None:
        """Return what a live process with an input waits for; None when it waits for none.

        As `observe`, and cheaper.
        """


def unknown_backend(name: str, known: Iterable[str]) -> InvalidRequest:
    """Return the error for a backend's name that is not known."""
    names = ", ".join(known)
    return InvalidRequest(
        "invalid_params", f"backend: there is no {name[:60]!r}.", hint=f"There are: {names}."
    )
