"""Starts on a node that answers as a test says: what its refusals mean here, and what is left of a start that failed."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlive.backends.contract import StartOutcome
from outlive.backends.remote.contract import NodeConnection, NodeFeed
from outlive.backends.remote.link import NodeLink, Pauses
from outlive.backends.remote.processes import NodeProcesses
from outlive.backends.remote.requests import NodeRequests
from outlive.backends.remote.starts import NodeStarts
from outlive.core.errors import AccessDenied, LimitExceeded, OutliveError
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.layout import Layout
from outlive.core.needs import Needs
from outlive.core.spec import Spec
from outlive.keeper.common.kernel import punch_hole
from outlive.protocols.keeper import encode_spec

pytestmark = pytest.mark.anyio

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


def _feed() -> NodeFeed:
    """A feed over which no output comes."""
    feed = SimpleNamespace(expect=lambda _one: {}, leave=lambda _one: None, follows=lambda _one: False)
    return cast("NodeFeed", feed)


def _spec(needs: Needs | None = None) -> bytes:
    meta = {} if needs is None else {"needs": needs.view()}
    return encode_spec(Spec(program="/bin/true", argv=("true",), env={}, cwd="/", meta=meta))


class _Place:
    """The node "far" as a place for starts."""

    def __init__(self, folder: Path, node: object) -> None:
        self.layout = Layout(str(folder))
        link = NodeLink("far", cast("NodeConnection", node), pauses=Pauses())
        link.opened(_feed())
        self.processes = NodeProcesses(self.layout, "far", punch=punch_hole)
        self.starts = NodeStarts(NodeRequests(link), self.processes)

    async def start(self, spec: bytes) -> StartOutcome | OutliveError:
        """Start one command; return what came of it."""
        process_id = new_process_id(1, os.urandom(RANDOM_BYTES))
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
