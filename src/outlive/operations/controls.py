"""What is done to a process that is there: signals, sizes, tags, answers to an approval. Pure.

How a process is named is each frontend's own: JSON-RPC by a member `process_id`, which its subclasses add,
REST by the path.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from outlive.core.controls import Control as Asked
from outlive.core.controls import Pause, ResizeWindow, Resume, SignalProcess
from outlive.core.lifecycle import signal_number
from outlive.core.process import ProcessRecord, check_name, merge_tags
from outlive.operations.requests import Cells, Group, ProcessName, Seconds, TagChanges


class _Recorded(Protocol):
    """A process, as far as a control has to know it."""

    @property
    def record(self) -> ProcessRecord: ...


_Process = TypeVar("_Process", bound=_Recorded)
_Process_contra = TypeVar("_Process_contra", bound=_Recorded, contravariant=True)


class ControlVerbs(Protocol[_Process_contra]):
    """What carries controls out for a caller (the engine's `AuditedControls`).

    What a process is, is the engine's to say.
    """

    async def control(self, process: _Process_contra, operation: Asked, /) -> None:
        """Carry out what is asked for as it is."""

    async def cancel(
        self, process: _Process_contra, /, *, grace_s: float | None = None, note: str = ""
    ) -> None:
        """End the whole tree."""

    async def move(self, process: _Process_contra, /, *, places: int) -> None:
        """Put it back, or forward, in its group's line."""

    async def relabel(
        self, process: _Process_contra, /, *, tags: Mapping[str, str], group: str | None, name: str | None
    ) -> None:
        """Give it other tags, another group and another name."""


class ProcessControl(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A request that does one thing to a process that is there.

    Nothing is answered but how the process is then.
    """

    async def apply(self, verbs: ControlVerbs[_Process], process: _Process) -> None:
        """Do it. The first paragraph of a subclass's docstring is published."""
        raise NotImplementedError


class Control(ProcessControl, kw_only=True, frozen=True):
    """What to do with the whole tree."""

    grace: Annotated[Seconds | None, Meta(description="For cancel: seconds between TERM and KILL.")] = None


class ControlRequest(Control, kw_only=True, frozen=True):
    """What to do with the whole tree."""

    action: Literal["pause", "resume", "cancel"]

    async def apply(self, verbs: ControlVerbs[_Process], process: _Process) -> None:
        """Pause, resume or cancel the whole tree.

        Repeating it is a success; a cancel is answered before the end.
        """
        match self.action:
            case "pause":
                await verbs.control(process, Pause())
            case "resume":
                await verbs.control(process, Resume())
            case "cancel":
                await verbs.cancel(process, grace_s=self.grace, note="Cancelled by request.")


class SignalRequest(ProcessControl, kw_only=True, frozen=True):
    """A signal by number or name."""

    signal: Annotated[int | str, Meta(description="A number, or a name like INT or SIGINT.")]
    whole_tree: Annotated[bool, Meta(description="Everything below the main process gets it, too.")] = False

    def __post_init__(self) -> None:
        """Refuse a signal that this system lacks, before any process is looked for."""
        signal_number(self.signal)

    async def apply(self, verbs: ControlVerbs[_Process], process: _Process) -> None:
        """Send a signal to the main process, or to its whole tree."""
        number = signal_number(self.signal)
        await verbs.control(process, SignalProcess(signal=number, whole_tree=self.whole_tree))


class Resize(ProcessControl, kw_only=True, frozen=True):
    """A terminal's window size."""

    rows: Annotated[Cells, Meta(description="Character cells: height.")]
    cols: Annotated[Cells, Meta(description="Character cells: width.")]

    async def apply(self, verbs: ControlVerbs[_Process], process: _Process) -> None:
        """Set the terminal's window size."""
        await verbs.control(process, ResizeWindow(rows=self.rows, cols=self.cols))


class Move(ProcessControl, kw_only=True, frozen=True):
    """A place in the line of a group."""

    places: Annotated[
        int,
        Meta(
            ge=-1_000_000,
            le=1_000_000,
            description="So many places back; forward where it is negative. -1000000: it is the next.",
        ),
    ]

    async def apply(self, verbs: ControlVerbs[_Process], process: _Process) -> None:
        """Move a process that waits for its group's turn in its line. The order survives a crash."""
        await verbs.move(process, places=self.places)


# Each control by the name of its operation, with an example. REST makes a route of each.
CONTROLS: Mapping[str, tuple[type[ProcessControl], dict[str, object]]] = MappingProxyType(
    {
        "control": (ControlRequest, {"action": "cancel", "grace": 5}),
        "signal": (SignalRequest, {"signal": "INT"}),
        "move": (Move, {"places": -1}),
        "resize": (Resize, {"rows": 50, "cols": 132}),
    }
)


class Changes(ProcessControl, kw_only=True, frozen=True):
    """What to change of a process (as in RFC 7396): absent members stay, null removes."""

    tags: Annotated[
        TagChanges | UnsetType | None,
        Meta(description="Tags to set; null removes one, and null for all of them removes all."),
    ] = UNSET
    group: Annotated[Group | UnsetType | None, Meta(description="Its group; null takes it out.")] = UNSET
    name: Annotated[
        ProcessName | UnsetType | None,
        Meta(description="What it is called; null: nothing. Only one that lives in the project has a name."),
    ] = UNSET

    def applied(self, tags: Mapping[str, str], group: str | None) -> tuple[dict[str, str], str | None]:
        """Return tags and group as they are afterwards.

        Raises:
            InvalidRequest: There would be too many tags.
        """
        new_group = group if isinstance(self.group, UnsetType) else self.group
        if isinstance(self.tags, UnsetType):
            return dict(tags), new_group
        return {} if self.tags is None else merge_tags(tags, self.tags), new_group

    async def apply(self, verbs: ControlVerbs[_Process], process: _Process) -> None:
        """Change tags, group and name, while it runs and afterwards."""
        tags, group = self.applied(process.record.tags, process.record.group)
        name = process.record.name if isinstance(self.name, UnsetType) else self.name
        if name is not None:
            check_name(name)
        await verbs.relabel(process, tags=tags, group=group, name=name)


class Approving(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What is approved."""

    digest: Annotated[
        str,
        Meta(
            pattern=r"^[0-9a-f]{64}(?!\n)$",
            description="As the list of approvals has shown it: all that would run.",
        ),
    ]
    always: Annotated[
        bool,
        Meta(description="Approve exactly this for always, in its project: what the list shows as `always`."),
    ] = False


class Denial(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Why a start is not approved."""

    reason: Annotated[str, Meta(max_length=500, description="One sentence for the caller.")] = ""
