"""Which events are wanted, and what their notification says."""

import json
from datetime import UTC, datetime

import pytest

from outlive.core.lifecycle import State
from outlive.operations.schemas import member_names
from outlive.protocols.jsonrpc.answers import EventFilter, encode_event
from outlive.protocols.jsonrpc.members import NOTIFICATIONS
from tests.store.rows import a_row

_RECORD = a_row(1, group="g", tags={"a": "1", "b": "2"}).record
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (EventFilter(), True),
        (EventFilter(events=frozenset({"ended"})), True),
        (EventFilter(events=frozenset({"started"})), False),
        (EventFilter(process_ids=frozenset({_RECORD.process_id})), True),
        (EventFilter(process_ids=frozenset({"other"})), False),
        (EventFilter(group="g"), True),
        (EventFilter(group="h"), False),
        (EventFilter(tags={"a": "1"}), True),
        (EventFilter(tags={"a": "1", "b": "3"}), False),
        (EventFilter(states=frozenset({State.EXITED})), True),
        (EventFilter(states=frozenset({State.RUNNING})), False),
        (EventFilter(group="g", states=frozenset({State.RUNNING})), False),
    ],
)
def test_every_condition_has_to_hold(wanted: EventFilter, *, matches: bool) -> None:
    assert wanted.matches("ended", _RECORD) is matches


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (EventFilter(), True),
        (EventFilter(events=frozenset({"keeper_connected"})), True),
        (EventFilter(tags={}), True),
        (EventFilter(group="g"), False),
        (EventFilter(tags={"a": "1"}), False),
        (EventFilter(process_ids=frozenset()), False),
        (EventFilter(states=frozenset()), False),
    ],
)
def test_what_is_about_no_process_fits_only_without_a_condition_on_one(
    wanted: EventFilter, *, matches: bool
) -> None:
    assert wanted.matches("keeper_connected", None) is matches


def test_every_event_has_the_same_members() -> None:
    one = json.loads(encode_event("ended", _RECORD, at=_AT))
    other = json.loads(encode_event("missed", None, at=_AT, reason="x", missed=7))
    assert one["method"] == other["method"] == "event"
    assert set(one["params"]) == set(other["params"]) == set(member_names(NOTIFICATIONS["event"]))
    assert one["params"]["process_id"] == one["params"]["process"]["process_id"] == _RECORD.process_id
    shown = {"event": "missed", "at": "2026-01-02T03:04:05+00:00", "reason": "x", "missed": 7}
    assert other["params"] == {**shown, "process_id": None, "process": None, "node": None}
    about_node = json.loads(encode_event("node_away", None, at=_AT, reason="x", node="far"))
    assert (about_node["params"]["node"], about_node["params"]["reason"]) == ("far", "x")
