"""The follower of a node at moments that real servers give seldom: what is asked of it while its connection
ends.
"""

import asyncio
import gc
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from outlive.backends.contract import BackendListener, Bell
from outlive.client.messages import FollowedMessage
from outlive.client.results import Page, ProcessInfo
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable, ProcessNotFound, ProtocolViolation
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.layout import Layout
from outlive.core.needs import Amounts
from outlive.core.process import MAX_TAGS
from outlive.core.spec import Spec
from outlive.extensions.fleet.follower import NodeFollower, OutputWriter
from outlive.extensions.fleet.link import NodeLink, Pauses
from outlive.extensions.fleet.node_client import AsyncFeed, NodeClient
from outlive.extensions.fleet.process import RemoteProcess
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.kernel.calls import punch_hole
from outlive.kernel.files import read_small
from outlive.protocols.keeper import CauseCode, Flags, Phase, encode_spec

pytestmark = pytest.mark.anyio


class _Silent:
    """A node that is asked nothing."""

    async def open(self) -> None:
        """Nothing is open."""


_NODE = cast("NodeClient", _Silent())


class _Closing(_Silent):
    """A node that shows no secrets, where the last descendant of a process has just ended."""

    def __init__(self) -> None:
        self.is_asked_raw: list[bool] = []

    async def get(self, process_id: str, *, stats: bool = False) -> ProcessInfo:
        view = dict.fromkeys(("pid", "exit_code", "exit_signal", "error", "cause", "started_at", "ended_at"))
        more = {"state": "lost", "is_complete": True, "is_closed": True, "descendants": 0}
        flags = {"is_stalled": False, "output_lost": False, "process_id": process_id, "stats": stats}
        return cast("ProcessInfo", SimpleNamespace(**view, **more, **flags))

    async def read(self, _process_id: str, _cursor: Cursor, *, raw: bool) -> Page:
        self.is_asked_raw.append(raw)
        if raw:
            raise AccessDenied("scope_missing", "raw needs the scope admin.")
        return cast("Page", SimpleNamespace(items=()))


class _Feed(AsyncFeed):
    """A feed that is lost while a process is being attached; another start is answered at that moment."""

    is_raw = True

    def __init__(self) -> None:
        self.follower: NodeFollower
        self.started: RemoteProcess
        self._is_attaching = asyncio.Event()

    async def listen(self) -> None:
        """Every event is received."""

    async def describe(self) -> Mapping[str, Any]:
        return {"capacity": {}, "labels": {}, "draining": False}

    def expect(self, process_id: str) -> dict[str, object]:
        raise AssertionError(process_id)

    def follows(self, process_id: str) -> bool:  # noqa: ARG002 -- as the feed has it
        return False

    def leave(self, process_id: str) -> None:
        """It was not followed."""

    async def attach(self, process_id: str, cursor: Cursor) -> None:  # noqa: ARG002 -- as the feed has it
        self._is_attaching.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.follower.attach(self.started)

    async def beat(self, *, answer_s: float) -> None:
        raise AssertionError(answer_s)

    async def hear(self) -> list[FollowedMessage | None]:
        await self._is_attaching.wait()
        raise BackendUnavailable("server_lost", "The connection was cut.")

    async def close(self) -> None:
        """Nothing is open."""


class _Processes(NodeProcesses):
    """The table of processes, and an event for the moment in which none is left."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout, "far", punch=punch_hole)
        self.all_dropped = asyncio.Event()

    def drop(self, process: RemoteProcess) -> None:
        super().drop(process)
        self.all_dropped.set()


class _QuietFeed(_Feed):
    """A feed that brings nothing, and ends once nothing is followed any more."""

    def __init__(self, processes: _Processes) -> None:
        super().__init__()
        self._processes = processes

    async def hear(self) -> list[FollowedMessage | None]:
        await self._processes.all_dropped.wait()
        raise BackendUnavailable("server_lost", "The connection was closed.")


class _CutFeed(_Feed):
    """A feed that is lost in the moment in which a start is answered."""

    async def hear(self) -> list[FollowedMessage | None]:
        before = asyncio.all_tasks()
        self.follower.attach(self.started)
        for task in asyncio.all_tasks() - before:  # as the group does that ends in this turn of the loop
            task.cancel()
        raise BackendUnavailable("server_lost", "The connection was cut.")


async def _never(process: RemoteProcess) -> None:
    raise AssertionError(process.process_id)


async def test_a_start_that_is_answered_while_the_connection_ends_ends_nothing_else(tmp_path: Path) -> None:
    """The task of the start would fail, and with it everything that is done for the node."""
    processes = NodeProcesses(Layout(str(tmp_path)), "far", punch=punch_hole)
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    known: list[RemoteProcess] = []
    for now_ns in range(2):
        process_id: ProcessId = new_process_id(now_ns, os.urandom(RANDOM_BYTES))
        known.append(await processes.add(process_id, spec, b""))
        known[-1].acknowledge(1, 1)
    feed = _Feed()
    feed.started = known[1]
    del processes.by_id[known[1].process_id]
    link = NodeLink("far", _NODE, pauses=Pauses())
    feed.follower = NodeFollower(link, processes, begin=_never)
    with pytest.raises(ExceptionGroup) as ended:
        await feed.follower.follow(feed)
    assert ended.group_contains(BackendUnavailable)
    assert not ended.group_contains(RuntimeError)
    for process in known:
        process.files.close()


async def test_what_was_to_be_done_when_the_connection_ended_is_left_without_a_warning(
    tmp_path: Path,
) -> None:
    """Its task is cancelled before the first step."""
    processes = NodeProcesses(Layout(str(tmp_path)), "far", punch=punch_hole)
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    feed = _CutFeed()
    feed.started = await processes.add(new_process_id(1, os.urandom(RANDOM_BYTES)), spec, b"")
    feed.started.acknowledge(1, 1)
    del processes.by_id[feed.started.process_id]
    feed.follower = NodeFollower(NodeLink("far", _NODE, pauses=Pauses()), processes, begin=_never)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(ExceptionGroup):
            await feed.follower.follow(feed)
        gc.collect()
    assert [str(one.message) for one in said if one.category is RuntimeWarning] == []
    feed.started.files.close()


class _Heard:
    """The engine's ear: the phases and flags of all doorbells."""

    def __init__(self) -> None:
        self.phases: list[int] = []
        self.flags: list[int] = []

    def ring(self, bells: Iterable[Bell]) -> None:
        for bell in bells:
            self.phases.append(bell[5])
            self.flags.append(bell[7])


async def test_an_end_that_comes_before_the_answer_to_its_start_is_told_after_it(tmp_path: Path) -> None:
    """Nobody would know otherwise when it began: its span was never sent, and its end was published before
    its start.
    """
    processes, heard = NodeProcesses(Layout(str(tmp_path)), "far", punch=punch_hole), _Heard()
    processes.listener = cast("BackendListener", heard)
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    ran, refused = [
        await processes.add(new_process_id(now_ns, os.urandom(RANDOM_BYTES)), spec, b"") for now_ns in (1, 2)
    ]
    for process in (ran, refused):
        await process.end_here("lost", "")
        processes.publish(process)
        processes.drop(process)
    assert heard.phases == []
    processes.answered(ran.process_id, is_started=True)
    processes.answered(refused.process_id, is_started=False)  # the engine has let go of it
    assert heard.phases == [Phase.DONE]
    processes.publish(ran)
    assert heard.phases == [Phase.DONE] * 2


@pytest.mark.promise("S4.12.nodes.once")
async def test_what_comes_behind_an_end_is_read_with_a_token_that_may_see_no_secrets(tmp_path: Path) -> None:
    """Over a connection on which nothing was attached before.

    Else it would be cut, and tried again half a minute later.
    """
    processes = _Processes(Layout(str(tmp_path)))
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    process = await processes.add(new_process_id(1, os.urandom(RANDOM_BYTES)), spec, b"")
    process.acknowledge(1, 1)
    await process.end_here("lost", "")
    process.is_closed, process.descendants = False, 1
    node = _Closing()
    link = NodeLink("far", cast("NodeClient", node), pauses=Pauses())
    follower = NodeFollower(link, processes, begin=_never)
    with pytest.raises(ExceptionGroup) as ended:
        await follower.follow(_QuietFeed(processes))
    assert not ended.group_contains(AccessDenied)
    assert node.is_asked_raw == [True, False]
    assert process.is_finished


class _Forgetful(_Closing):
    """A node where a process has been removed whose descendants were followed."""

    def __init__(self, *, knows: int) -> None:
        super().__init__()
        self._knows = knows

    async def get(self, process_id: str, *, stats: bool = False) -> ProcessInfo:
        self._look()
        return await super().get(process_id, stats=stats)

    async def read(self, _process_id: str, _cursor: Cursor, *, raw: bool) -> Page:  # noqa: ARG002 -- as the node has it
        self._look()
        return cast("Page", SimpleNamespace(items=()))

    def _look(self) -> None:
        self._knows -= 1
        if self._knows < 0:
            raise ProcessNotFound("process_not_found", "It was removed.")


@pytest.mark.promise("S4.12.nodes.once")
@pytest.mark.parametrize("knows", [0, 1])
async def test_what_was_removed_on_the_node_is_followed_no_more(tmp_path: Path, knows: int) -> None:
    """Nothing is heard of its descendants any more: it would be open for ever, and neither it nor its node
    could be removed.
    """
    layout = Layout(str(tmp_path))
    processes, heard = _Processes(layout), _Heard()
    processes.listener = cast("BackendListener", heard)
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    process = await processes.add(new_process_id(1, os.urandom(RANDOM_BYTES)), spec, b"")
    process.acknowledge(1, 1)
    processes.answered(process.process_id, is_started=True)
    await process.end_here("lost", "")
    process.is_closed, process.descendants = False, 1
    link = NodeLink("far", cast("NodeClient", _Forgetful(knows=knows)), pauses=Pauses())
    async with asyncio.timeout(10):
        with pytest.raises(ExceptionGroup):
            await NodeFollower(link, processes, begin=_never).follow(_QuietFeed(processes))
    assert process.is_finished
    assert not processes.by_id
    assert await asyncio.to_thread(read_small, f"{layout.process(process.process_id)}/closed")
    assert not heard.flags[-1] & (Flags.OUT_OPEN | Flags.ERR_OPEN)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("pid", 2**70),
        ("pid", -1),
        ("pid", ["x"]),
        ("exit_code", 2**63),
        ("exit_signal", True),
        ("descendants", -4),
    ],
)
async def test_a_number_of_a_node_that_makes_no_sense_is_taken_nowhere(
    tmp_path: Path, member: str, value: object
) -> None:
    """It would be in the process's files, and the registry could not hold its row."""
    processes = NodeProcesses(Layout(str(tmp_path)), "far", punch=punch_hole)
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    process = await processes.add(new_process_id(1, os.urandom(RANDOM_BYTES)), spec, b"")
    members = {"state": "exited", "is_stalled": False, "output_lost": False, "pid": 1, "error": None}
    members |= {"exit_code": 1, "exit_signal": None, "cause": None, "started_at": None, "ended_at": None}
    members |= {"is_complete": True, "is_closed": True, "descendants": 0}
    if member == "exit_signal":
        members["exit_code"] = None
    with pytest.raises(ProtocolViolation, match="makes no sense"):
        process.learn(cast("ProcessInfo", SimpleNamespace(**{**members, member: value})))
    if member == "pid":
        with pytest.raises(ProtocolViolation, match="makes no sense"):
            process.acknowledge(cast("int", value), 1)
    assert process.pid == int(member != "pid")
    process.files.close()


@pytest.mark.promise("A.node")
@pytest.mark.parametrize(("start", "end"), [(-1, 0), (1, 0), (0, 2**44 + 1)])
def test_output_at_a_place_that_no_log_has_is_taken_nowhere(tmp_path: Path, start: int, end: int) -> None:
    writer = OutputWriter(_Processes(Layout(str(tmp_path))))
    with pytest.raises(ProtocolViolation, match="impossible place"):
        writer.add("p1", 0, start=start, end=end, data=None)


def _ended(cause: str | None, error: str | None) -> ProcessInfo:
    members = {"state": "exited", "is_stalled": False, "output_lost": False, "pid": 1, "error": error}
    members |= {"exit_code": 0, "exit_signal": None, "cause": cause, "started_at": None, "ended_at": None}
    members |= {"is_complete": True, "is_closed": True, "descendants": 0}
    return cast("ProcessInfo", SimpleNamespace(**members))


@pytest.mark.promise("S4.12.nodes.once")
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ((None, None), (CauseCode.NONE, "")),
        (("cancel", "by the gateway"), (CauseCode.SHUTDOWN, "by me")),
        (("timeout", "after 5 s"), (CauseCode.TIMEOUT, "after 5 s")),
    ],
)
async def test_why_it_ended_is_the_nodes_word_and_who_wanted_it_is_known_here(
    tmp_path: Path, said: tuple[str | None, str | None], kept: tuple[CauseCode, str]
) -> None:
    """A stop may be lost with the link, and then it is not what has ended it, also for who looks
    meanwhile.
    """
    processes = NodeProcesses(Layout(str(tmp_path)), "far", punch=punch_hole)
    spec = encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/"))
    process = await processes.add(new_process_id(1, os.urandom(RANDOM_BYTES)), spec, b"")
    process.acknowledge(1, 1)
    process.ask_end(CauseCode.SHUTDOWN, "by me")
    assert process.bell()[6] == CauseCode.NONE
    for _ in range(2):
        process.learn(_ended(*said))
        assert (process.cause, process.note) == kept
        assert process.bell()[6] == kept[0]
    process.files.close()


class _Boasting(_QuietFeed):
    """A feed of a machine that says of itself whatever it likes."""

    async def describe(self) -> Mapping[str, Any]:
        labels = {f"n{number}": "x" for number in range(100)}
        odd = {"": "x", "half": "\ud800", "long": "y" * 2000}
        # As JSON's reader gives them: Infinity and NaN are numbers to it, and whole numbers have no end.
        capacity = {"cpu": math.inf, "memory": 10**400, "gpu": math.nan}
        return {"capacity": capacity, "labels": {**odd, **labels}, "draining": False}


@pytest.mark.promise("A.node")
async def test_what_a_node_says_that_it_has_stays_what_callers_can_be_told(tmp_path: Path) -> None:
    processes = _Processes(Layout(str(tmp_path)))
    processes.all_dropped.set()
    link = NodeLink("far", _NODE, pauses=Pauses())
    with pytest.raises(ExceptionGroup) as ended:
        await NodeFollower(link, processes, begin=_never).follow(_Boasting(processes))
    assert ended.group_contains(BackendUnavailable)
    node = link.described
    assert node is not None
    assert node.labels == frozenset((f"n{number}", "x") for number in range(MAX_TAGS))
    room = [
        amount.view() for amount in (node.capacity, Amounts() - node.capacity, node.capacity + node.capacity)
    ]
    assert msgspec.json.encode(room)
    assert node.capacity.gpu_milli == 0
    assert 0 < node.capacity.cpu_milli <= 1 << 62
