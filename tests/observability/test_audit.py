"""The audit log's writer: what becomes an entry, what is counted, and a disk that refuses."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlive.core.errors import BackendUnavailable
from outlive.core.events import (
    AuditEvent,
    KeeperConnected,
    ProcessCompleted,
    ProcessRecovered,
    ProcessRemoved,
    ProcessStarted,
    StartRejected,
)
from outlive.core.process import Owner
from outlive.observability.audit import AuditLog, Tally, audited_kinds
from outlive.store.audit.audit_trail import AuditTrail
from tests.observability.test_logs import EXAMPLE

ME = Owner(principal="uid:7", connection_id="c", request_id="1", door="jsonrpc", address="127.0.0.1:5")


def written(folder: Path, act: Callable[[AuditLog], None]) -> list[dict[str, Any]]:
    trail = AuditTrail(str(folder), key_file=f"{folder}.key")
    audit = AuditLog(trail, redact=lambda text: text.replace("secret", "******"))
    audit.open()
    act(audit)
    audit.close()
    assert trail.verify().is_whole
    return list(trail.entries())


def test_starts_ends_and_refusals_become_entries(tmp_path: Path) -> None:
    record = replace(EXAMPLE, command="echo secret", owner=ME)

    def act(audit: AuditLog) -> None:
        audit.note(ProcessStarted(record=record))
        audit.note(ProcessCompleted(record=record))
        audit.note(StartRejected(principal="uid:7", code="command_not_allowed", by=ME, command="rm secret"))
        audit.note(StartRejected(principal="uid:8", code="not_found"))
        audit.note(ProcessRecovered(record=record))
        audit.note(ProcessRemoved(process_id=record.process_id, record=None))
        audit.note(
            AuditEvent(what="cancel", by=ME, decision="failed", reason="process_ended", process_id="p")
        )
        audit.note(KeeperConnected(pid=1))
        audit.enter("server_stopped", pid=1)

    entries = written(tmp_path, act)
    shown = [(entry["what"], entry.get("decision"), entry.get("reason")) for entry in entries]
    assert shown == [
        ("start", "allowed", None),
        ("exit", None, None),
        ("start", "denied", "command_not_allowed"),
        ("start", "failed", "not_found"),
        ("found", None, None),
        ("removed", None, None),
        ("cancel", "failed", "process_ended"),
        ("server_stopped", None, None),
    ]
    start, end, refused, *_ = entries
    assert start["command"] == "echo ******"
    assert refused["command"] == "rm ******"
    assert (start["principal"], start["door"], start["address"]) == ("uid:7", "jsonrpc", "127.0.0.1:5")
    assert start["process_id"] == end["process_id"] == record.process_id
    assert end["exit"] == record.wire_exit_code
    assert start["at"] <= end["at"]
    assert start["at"].endswith("Z")
    assert "secret" not in json.dumps(entries)
    assert ProcessStarted in audited_kinds()


def test_typing_is_one_entry_and_its_number(tmp_path: Path) -> None:
    typed = AuditEvent(what="write", by=ME, process_id=EXAMPLE.process_id, details={"bytes": 2})

    def act(audit: AuditLog) -> None:
        for _ in range(100):
            audit.note(typed)
        audit.note(ProcessCompleted(record=EXAMPLE))

    first, counted, end = written(tmp_path, act)
    assert (first["what"], first["bytes"], "times" in first) == ("write", 2, False)
    assert (counted["what"], counted["bytes"], counted["times"]) == ("write", 198, 99)
    assert end["what"] == "exit"


def test_a_flood_of_refusals_is_counted(tmp_path: Path) -> None:
    def act(audit: AuditLog) -> None:
        for port in range(1000):
            by = Owner(principal="", door="guard", address=f"127.0.0.1:{port}")
            audit.note(AuditEvent(what="access", by=by, decision="denied", reason="foreign_origin"))

    first, counted = written(tmp_path, act)
    assert (first["reason"], counted["times"]) == ("foreign_origin", 999)


def test_a_tally_forgets_nothing_and_stays_small() -> None:
    tally, told = Tally(), 0
    typed = [
        AuditEvent(what="write", by=ME, process_id=str(place), details={"bytes": 1}) for place in range(3000)
    ]
    for now_ns in (0, 1, 2):
        for deed in typed:
            told += sum(int(one.details.get("times", 1)) for one in tally.pass_on(deed, 1 + now_ns))
    told += sum(int(one.details["times"]) for one in tally.rest())
    assert told == 3 * len(typed)
    later = list(tally.pass_on(typed[0], 11 * 10**9))
    assert [dict(one.details) for one in later] == [{"bytes": 1}]


class _Stubborn(AuditTrail):
    """A trail on a disk that is full for the first so many tries."""

    def __init__(self, folder: str, refusals: int) -> None:
        super().__init__(folder, key_file=f"{folder}.key")
        self.refusals = refusals

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(28, "No space left on device")
        super().append(entries)


def test_a_full_disk_is_told_and_what_waits_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trail = _Stubborn(str(tmp_path), refusals=1)
    audit = AuditLog(trail, redact=str, capacity=10)
    audit.open()
    audit.enter("first")
    deadline = time.monotonic() + 10
    while trail.refusals and time.monotonic() < deadline:
        time.sleep(0.001)  # the thread's first try
    begun = time.monotonic()
    for place in range(30):
        audit.enter("more", pid=place)
    assert time.monotonic() - begun < 1.0  # nobody waits for a disk that has said no
    audit.close()
    entries = list(trail.entries())
    assert entries[0]["what"] == "first"
    assert [entry["pid"] for entry in entries if entry["what"] == "more"] == list(range(10))
    (lost,) = [entry for entry in entries if entry["what"] == "audit"]
    assert (lost["reason"], lost["lost"]) == ("entries_lost", 20)
    assert "cannot be written" in caplog.text
    assert "written again" in caplog.text


def test_a_disk_that_never_takes_anything_holds_nobody(tmp_path: Path) -> None:
    """And what has to be in the log first does not happen."""
    audit = AuditLog(_Stubborn(str(tmp_path), refusals=1 << 30), redact=str)
    audit.open()
    audit.enter("first")
    with pytest.raises(BackendUnavailable, match="cannot be written"):
        asyncio.run(audit.witness(AuditEvent(what="read_raw", by=ME)))
    audit.close()
    audit.close()


def test_a_refusal_is_written_when_it_is_recorded_and_a_start_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while another caller waits for the same; a disk that refuses entries holds no answer."""
    monkeypatch.setattr("outlive.observability.audit._COLLECT_S", 60.0)
    trail = AuditTrail(str(tmp_path), key_file=f"{tmp_path}.key")
    audit = AuditLog(trail, redact=str)
    audit.open()

    async def refuse() -> None:
        audit.note(ProcessStarted(record=EXAMPLE))
        await audit.recorded()
        assert not await asyncio.to_thread(lambda: [*trail.entries()])
        for principal in ("uid:7", "uid:8"):
            audit.note(StartRejected(principal=principal, code="command_denied"))
        await asyncio.gather(audit.recorded(), audit.recorded())
        found = await asyncio.to_thread(lambda: [*trail.entries()])
        assert [one["principal"] for one in found][1:] == ["uid:7", "uid:8"]

    async def refuse_in_vain() -> None:
        stubborn.note(StartRejected(principal="uid:7", code="command_denied"))
        await stubborn.recorded()
        await stubborn.recorded()

    asyncio.run(refuse())
    audit.close()
    stubborn = AuditLog(_Stubborn(str(tmp_path), refusals=1 << 30), redact=str)
    stubborn.open()
    asyncio.run(refuse_in_vain())
    stubborn.close()
