"""Starts on a node that answers as a test says: what its refusals mean here, and what is left of a start that
failed.
"""

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlive.backends.contract import StartOutcome
from outlive.core.errors import AccessDenied, InvalidState, LimitExceeded, OutliveError
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.needs import Needs
from outlive.core.spec import Spec
from outlive.extensions.fleet.link import NodeLink, Pauses
from outlive.extensions.fleet.node_client import AsyncFeed, NodeClient
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.extensions.fleet.starts import NodeRequests, NodeStarts
from outlive.kernel.calls import punch_hole
from outlive.protocols.keeper import encode_spec
from outlive.store.folder import read_folder
from outlive.store.queue_store import QueueStore, WaitingCommand

pytestmark = pytest.mark.anyio

_ID = ProcessId("01m81ds7h140vms3gn2qew5vw4")
_REFUSALS = [
    LimitExceeded("disk_full", "The state folder's file system is full."),
    LimitExceeded("read_only", "The state folder's file system is read-only."),
    LimitExceeded("process_limit", "9 processes of this principal run or wait already."),
    AccessDenied("scope_missing", "execute needs the scope run."),
]


class _Node:
    """A node that refuses each start, or takes it where there is nothing to say against it."""

    def __init__(self, refusal: OutliveError | None) -> None:
        self.refusal = refusal

    async def execute(
        self, _words: Mapping[str, object], *, process_id: str, subscription: Mapping[str, object]
    ) -> Mapping[str, Any]:
        assert not subscription
        if self.refusal is not None:
            raise self.refusal
        return {"pid": 7, "process_id": process_id}


def _feed() -> AsyncFeed:
    """A feed over which no output comes."""
    feed = SimpleNamespace(expect=lambda _one: {}, leave=lambda _one: None, follows=lambda _one: False)
    return cast("AsyncFeed", feed)


def _spec(needs: Needs | None = None) -> bytes:
    meta = {} if needs is None else {"needs": needs.view()}
    return encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/", meta=meta))


class _Place:
    """The node "far" as a place for starts."""

    def __init__(self, folder: Path, node: object) -> None:
        self.layout = Layout(str(folder))
        link = NodeLink("far", cast("NodeClient", node), pauses=Pauses())
        link.opened(_feed())
        self.processes = NodeProcesses(self.layout, "far", punch=punch_hole)
        self.starts = NodeStarts(NodeRequests(link), self.processes)

    async def start(self, spec: bytes, process_id: ProcessId | None = None) -> StartOutcome | OutliveError:
        """Start one command; return what came of it."""
        process_id = process_id or new_process_id(1, os.urandom(RANDOM_BYTES))
        told: list[StartOutcome | OutliveError] = []
        outcome = await self.starts.run(process_id, spec, b"", {}, settle=told.append)
        assert told == [outcome]
        return outcome


@pytest.mark.promise("L.place")
@pytest.mark.parametrize("refusal", _REFUSALS, ids=lambda one: one.code)
async def test_a_node_that_takes_nothing_has_no_room_and_is_named(
    tmp_path: Path, refusal: OutliveError
) -> None:
    """Another machine may take it; and the disk that is full is not the one of this server."""
    outcome = await _Place(tmp_path, _Node(refusal)).start(_spec(Needs()))
    assert isinstance(outcome, LimitExceeded)
    assert outcome.code == "no_room"
    assert "'far'" in outcome.message
    assert refusal.message in outcome.message
    assert outcome.hint == refusal.hint


@pytest.mark.parametrize("refusal", _REFUSALS, ids=lambda one: one.code)
async def test_a_node_that_was_asked_for_by_name_is_named_in_what_it_refuses(
    tmp_path: Path, refusal: OutliveError
) -> None:
    outcome = await _Place(tmp_path, _Node(refusal)).start(_spec())
    assert isinstance(outcome, OutliveError)
    assert (type(outcome), outcome.code) == (type(refusal), refusal.code)
    assert "'far'" in outcome.message
    assert refusal.message in outcome.message


async def test_a_token_that_may_start_nothing_is_not_waited_for(tmp_path: Path) -> None:
    """Where the caller wants this node: no other one may take it, and tokens do not change by themselves."""
    refusal = AccessDenied("scope_missing", "execute needs the scope run.")
    outcome = await _Place(tmp_path, _Node(refusal)).start(_spec(Needs(node="far")))
    assert isinstance(outcome, AccessDenied)
    assert "'far'" in outcome.message


@pytest.mark.promise("S4.12.nodes.once")
async def test_what_the_node_has_removed_before_it_was_heard_is_lost(tmp_path: Path) -> None:
    """It has run there, or may have: it is no start that failed, and it is kept."""
    refusal = InvalidState("process_ended", "It has named a process that was removed.")
    place = _Place(tmp_path, _Node(refusal))
    outcome = await place.start(_spec(Needs()), _ID)
    assert isinstance(outcome, StartOutcome)
    assert outcome.is_existing
    assert not place.processes.by_id
    found = await asyncio.to_thread(read_folder, place.layout.process(_ID), _ID, is_live=True)
    assert found is not None
    assert (found[0].record.state, found[0].record.is_closed) == (State.LOST, True)
    assert "not known" in str(found[0].record.error)


def _is_torn(path: str, *, ignore_errors: bool = False) -> None:
    """Remove as much of a folder as is gone when the server is killed meanwhile."""
    assert ignore_errors
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}/spec")


def _left(layout: Layout) -> list[str]:
    """Return the files and folders that there are of starts on the node, below `nodes` and `processes`."""
    places = (f"{layout.nodes}/far", f"{layout.nodes}/far/live", os.path.dirname(layout.process(_ID)))
    return [name for place in places if os.path.isdir(place) for name in os.listdir(place) if name != "live"]


@pytest.mark.promise("L.once")
async def test_a_server_that_is_killed_while_it_removes_what_was_refused_loses_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is taken for started where it has a folder, and one without a spec is nothing at all."""
    layout = Layout(str(tmp_path))
    waits = WaitingCommand(_ID, _spec(Needs()), b"")
    store = QueueStore(layout)
    await asyncio.to_thread(store.open)
    await asyncio.to_thread(store.put, waits)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", _is_torn)
        refusal = LimitExceeded("no_room", "Others have taken it.")
        assert await _Place(tmp_path, _Node(refusal)).start(waits.spec, _ID) is refusal
    next_one = NodeProcesses(layout, "far", punch=punch_hole)
    await next_one.load()
    assert not next_one.by_id
    assert await asyncio.to_thread(_left, layout) == []
    waiting, _ = await asyncio.to_thread(QueueStore(layout).open)
    assert [one.process_id for one in waiting] == [_ID]


async def test_a_start_that_the_disk_did_not_take_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(_old: str, _new: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = _Place(tmp_path, _Node(None))
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", is_full)
        outcome = await place.start(_spec(), _ID)
    assert isinstance(outcome, LimitExceeded)
    assert outcome.code == "disk_full"
    assert await asyncio.to_thread(_left, place.layout) == []
    assert isinstance(await place.start(_spec(), _ID), StartOutcome)
    place.processes.by_id[_ID].files.close()


async def test_what_a_kill_has_left_of_a_start_is_removed_by_the_next_server(tmp_path: Path) -> None:
    place = _Place(tmp_path, _Node(None))
    half_made, others = f"{place.layout.nodes}/far/prepared-{_ID}", f"{place.layout.nodes}/far/prepared-x"
    for folder in (half_made, others):
        await asyncio.to_thread(os.makedirs, folder)
    await asyncio.to_thread(Path(half_made, "spec").write_bytes, b"")
    await place.processes.load()
    assert await asyncio.to_thread(_left, place.layout) == ["prepared-x"]
