"""The methods that act on one process: control, signal, write, close_stdin, resize, relabel, remove and so
on.

Each stands here whole: what it takes, what it gives, what the engine is asked.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, assert_never

from msgspec import Meta

from outlive.core.controls import CloseInput, CloseOutput, Pause, Resume, SignalProcess
from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.lifecycle import signal_number
from outlive.engine import Process
from outlive.frontends.jsonrpc.context import Concurrency, Context, Method, Result, table_of
from outlive.operations import controls
from outlive.operations.answers import Acknowledgement, AnswerMembers
from outlive.protocols.jsonrpc.answers import encode_process_notification
from outlive.protocols.jsonrpc.members import ProcessMembers, StatusMembers
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.params import ProcessIdMember, ProcessParams, ProjectMember
from outlive.protocols.jsonrpc.views import Encoding, process_view
from outlive.server.shown_output import check_within


async def _held(context: Context, process: Process, asked: Awaitable[None]) -> Callable[[], None]:
    """Do what is asked of a process, whose output waits until the answer is written.

    Return what lets it go on (promise S0.4).
    """
    release = context.subscriptions.hold(process.process_id)
    try:
        await asked
    except BaseException:
        release()
        raise
    return release


class ControlParams(controls.Control, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`control`: what to do, under either of the two names that clients use."""

    process_id: ProcessIdMember = None
    project: ProjectMember = None
    type: Literal["PAUSE", "RESUME", "CANCEL"] | None = None
    action: Literal["PAUSE", "RESUME", "CANCEL"] | None = None

    def __post_init__(self) -> None:
        """Require exactly one verb."""
        if self.type is None and self.action is None:
            raise ValueError('Pass "type": "PAUSE", "RESUME" or "CANCEL"')
        if self.type is not None and self.action is not None and self.type != self.action:
            raise ValueError("type and action name different verbs")

    @property
    def verb(self) -> Literal["PAUSE", "RESUME", "CANCEL"]:
        """The verb that the client asked for."""
        verb = self.type or self.action
        if verb is None:
            raise AssertionError("__post_init__ has refused this")
        return verb


async def control(context: Context, params: ControlParams, _label: str | None) -> Result:
    """Pause, resume or cancel the whole tree.

    Output waits until the answer is written (promises S0.4, S0.10).
    """
    process = await context.find(params.process_id, params.project)
    match params.verb:
        case "PAUSE":
            word, asked = "paused", context.acting.control(process, Pause())
        case "RESUME":
            word, asked = "resumed", context.acting.control(process, Resume())
        case "CANCEL":
            word, asked = "cancelled", context.acting.cancel(process, grace_s=params.grace)
        case other:
            assert_never(other)
    release = await _held(context, process, asked)
    record = process.record
    cursor = context.subscriptions.cursor(process.process_id)
    # Every other client that follows the process gets the news at the cursor up to which it has the output.
    context.sessions.announce(
        process.process_id,
        lambda delivered: encode_process_notification(word, record, cursor=str(delivered)),
        but=context.session,
    )
    return Result(
        {"status": word}, (encode_process_notification(word, record, cursor=str(cursor)),), then=release
    )


class SignalParams(controls.SignalRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`signal`: a number or a name ("INT", "SIGINT"), for the main process, its group or the tree."""

    process_id: ProcessIdMember = None
    project: ProjectMember = None
    whole_group: Annotated[bool, Meta(description="Its process group gets it.")] = False

    def __post_init__(self) -> None:
        """Refuse two addressees."""
        if self.whole_tree and self.whole_group:
            raise ValueError("Pass whole_tree or whole_group, not both")
        super().__post_init__()


class SignalledMembers(StatusMembers, kw_only=True, frozen=True):
    """`signal`: by which number."""

    signal: int


async def signal(context: Context, params: SignalParams, _label: str | None) -> Result:
    """Send a signal to the main process, its process group or the whole tree."""
    number = signal_number(params.signal)
    process = await context.find(params.process_id, params.project)
    sending = SignalProcess(signal=number, whole_tree=params.whole_tree, whole_group=params.whole_group)
    asked = context.acting.control(process, sending)
    return Result({"status": "signalled", "signal": number}, then=await _held(context, process, asked))


class WriteParams(ProcessParams, kw_only=True, frozen=True):
    """`write`: bytes for the process's input, as text or base64."""

    data: str
    encoding: Encoding = "utf-8"


class WrittenMembers(AnswerMembers, kw_only=True, frozen=True):
    """`write`: how many bytes."""

    written: int


async def write(context: Context, params: WriteParams, _label: str | None) -> Result:
    """Write to the process's input; answered when all of it is in the pipe or terminal."""
    if params.encoding == "utf-8":
        return await write_bytes(context, params, params.data.encode())
    try:
        data = base64.b64decode(params.data, validate=True)
    except binascii.Error as error:
        raise InvalidRequest("invalid_params", f"data: not base64 ({error}).") from None
    return await write_bytes(context, params, data)


async def write_bytes(context: Context, params: ProcessParams, data: bytes | memoryview) -> Result:
    """Write bytes that came as they are, in a binary frame."""
    process = await context.find(params.process_id, params.project)
    await context.acting.write(process, data)
    return Result({"written": len(data)})


async def close_stdin(context: Context, params: ProcessParams, _label: str | None) -> Result:
    """Let the process read end-of-file; served after the writes before it."""
    await context.acting.control(await context.find(params.process_id, params.project), CloseInput())
    return Result({"status": "closed"})


class CloseOutputParams(ProcessParams, kw_only=True, frozen=True):
    """`close_output`: the pipe that the caller does not read any more."""

    type: Literal["stdout", "stderr"]


async def close_output(context: Context, params: CloseOutputParams, _label: str | None) -> Result:
    """Close the reading end of a pipe of the process: a program that writes to it gets SIGPIPE."""
    process = await context.find(params.process_id, params.project)
    await context.acting.control(process, CloseOutput(stream=STREAM_NAMES.index(params.type)))
    return Result({"status": "closed"})


class ReleaseParams(ProcessParams, kw_only=True, frozen=True):
    """`release`: output before `cursor` was delivered and may go; `unbound`: no client will read and release
    any more.
    """

    cursor: str = "0"
    unbound: bool = False


async def release(context: Context, params: ReleaseParams, _label: str | None) -> Result:
    """Let go of delivered output of a process whose `on_limit` is "block".

    That of others cannot be released.
    """
    cursor = Cursor.parse(params.cursor)
    process = await context.find(params.process_id, params.project)
    check_within(process, cursor)
    await context.acting.release(
        process, stdout_bytes=cursor.stdout, stderr_bytes=cursor.stderr, unbound=params.unbound
    )
    return Result({"status": "released"})


class ResizeParams(controls.Resize, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`resize`: the terminal's window size."""

    process_id: ProcessIdMember = None
    project: ProjectMember = None


class WindowCells(AnswerMembers, kw_only=True, frozen=True):
    """`resize`: the size that the terminal has now."""

    rows: int
    cols: int


async def resize(context: Context, params: ResizeParams, _label: str | None) -> Result:
    """Set the terminal's window size."""
    process = await context.find(params.process_id, params.project)
    await params.apply(context.acting, process)
    return Result({"rows": params.rows, "cols": params.cols})


class MoveParams(controls.Move, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`move`: how far, in the line of its group."""

    process_id: ProcessIdMember = None
    project: ProjectMember = None


class RelabelParams(controls.Changes, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`relabel`: tags to set (null removes one), the group and the name (null takes them away; absent leaves
    them).
    """

    process_id: ProcessIdMember = None
    project: ProjectMember = None


async def change(context: Context, params: MoveParams | RelabelParams, _label: str | None) -> Result:
    """Carry out a control of `operations.controls`, and return the process as it is then."""
    process = await context.find(params.process_id, params.project)
    await params.apply(context.acting, process)
    return Result(process_view(process.record))


class RemoveParams(ProcessParams, kw_only=True, frozen=True):
    """`remove`: forget a finished process; with `force` it is ended first."""

    force: bool = False


async def remove(context: Context, params: RemoveParams, _label: str | None) -> Result:
    """Forget a finished process: record, output and folder."""
    process = await context.find(params.process_id, params.project)
    await context.acting.remove(process, force=params.force, note="Removed by request.")
    return Result({"process_id": process.process_id, "removed": True})


CONTROLS = table_of(
    Method("control", ControlParams, StatusMembers, control),
    Method("signal", SignalParams, SignalledMembers, signal),
    # The engine serves the inputs of one process in the order of the calls: these may run side by side.
    Method("write", WriteParams, WrittenMembers, write, Concurrency.LONG),
    Method("close_stdin", ProcessParams, StatusMembers, close_stdin, Concurrency.LONG),
    Method("close_output", CloseOutputParams, StatusMembers, close_output),
    Method("release", ReleaseParams, StatusMembers, release),
    Method("resize", ResizeParams, WindowCells, resize),
    Method("move", MoveParams, ProcessMembers, change),
    Method("relabel", RelabelParams, ProcessMembers, change),
    Method("remove", RemoveParams, Acknowledgement, remove, Concurrency.LONG),
)
