"""Which events a connection gets."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from outlive.core.events import ProcessRemoved
from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.frontends.jsonrpc.event_feed import EventFeed
from outlive.frontends.jsonrpc.sessions import Session
from outlive.protocols.jsonrpc.answers import EventFilter
from tests.frontends.jsonrpc.following import PROCESS_ID, Tasks, TestOutbox, WrittenProcess

pytestmark = pytest.mark.anyio


@pytest.mark.promise("S0.19.events")
@pytest.mark.parametrize(
    ("owner", "is_detached", "is_told"),
    [
        (Owner(principal="me", connection_id="mine"), False, True),
        (Owner(principal="me", connection_id="other"), True, True),
        (Owner(principal="me", connection_id="other"), False, False),
        (Owner(principal="other", connection_id="other"), True, False),
        (None, True, False),
    ],
    ids=["my private one", "a detached one", "another session's", "another principal's", "an unknown one"],
)
async def test_a_removal_is_told_to_those_that_may_see_the_process(
    tmp_path: Path, owner: Owner | None, *, is_detached: bool, is_told: bool
) -> None:
    events, outbox = EventPublisher(), TestOutbox()
    engine = cast("Engine", SimpleNamespace(events=events, queries=SimpleNamespace(live=list)))
    async with asyncio.TaskGroup() as group:
        feed = EventFeed(engine, Session(engine, "mine", "me"), outbox, spawn=Tasks(group).spawn)
        feed.begin(EventFilter())
        record = None
        if owner is not None:
            record = WrittenProcess(tmp_path, owner=owner, is_detached=is_detached).process.record
        events.publish(ProcessRemoved(process_id=PROCESS_ID, record=record))
    assert [one["params"]["event"] for one in outbox.messages] == ["removed"] * is_told
