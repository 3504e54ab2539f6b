"""docs/architecture.md says which files survive a power cut: content before name, name before the answer."""

import asyncio
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.discovery.ownership import Ownership
from outlive.engine.processes.session_ends import append_ended, rewrite_ended
from outlive.extensions.fleet.gateway_files import GatewayEntry, GatewayFiles
from outlive.extensions.fleet.node_files import NodeEntry, NodeFiles
from outlive.extensions.services.service_files import KeptStack, ServiceFiles
from outlive.frontends.mcp.http.sessions import McpSessions
from outlive.kernel.folder_identity import claim_folder
from outlive.policy.access import Scope
from outlive.store.audit.audit_chain import AuditKey
from outlive.store.folder import ChangedLabels, write_labels
from outlive.store.queue_store import QueueStore, WaitingCommand
from outlive.store.token_file import TokenFile
from tests.docs.pages import page, section, table_rows, words
from tests.keeper.client import new_id

_ID = new_id()
_COMMAND = WaitingCommand(_ID, b"spec", b"")


def _queue(layout: Layout) -> QueueStore:
    store = QueueStore(layout)
    store.open()
    return store


def _labels(layout: Layout) -> None:
    os.makedirs(layout.process(_ID))
    write_labels(layout.process(_ID), ChangedLabels(tags={"a": "b"}, group=None, name=None))


def _services(layout: Layout) -> None:
    kept = KeptStack(principal="p", folder="/f", project="/f", services={})
    ServiceFiles(layout, fit=lambda write: write()).put(kept, needs_server=False)


_ENTRY = GatewayEntry(name="far", url="https://far", node="me", credential="c")
# What writes each file of the table, by the name that it has there.
_WRITES: dict[str, Callable[[Layout], object]] = {
    "identity": claim_folder,
    "tokens.json": lambda layout: TokenFile(layout).create(None, Scope.RUN, now=datetime.now(UTC)),
    "operator.json": lambda layout: Ownership(layout).remember({"port": "1"}, {}, working_folder="/"),
    "service.json": lambda layout: Ownership(layout).note_service({"OUTLIVE_SERVICE_UNIT": "/etc/unit"}),
    "server.stopped": lambda layout: Ownership(layout).note_stop(),
    "audit.key": lambda layout: AuditKey.make(layout.audit_key, first=1),
    "mcp.key": lambda layout: asyncio.run(McpSessions(layout).open()),
    "mcp.ended": lambda layout: rewrite_ended(layout.mcp_ended, ["0" * 32], 1),
    "services/": _services,
    "nodes/<name>/node": lambda layout: NodeFiles(layout).put(NodeEntry(name="far", url="https://far")),
    "gateways/": lambda layout: GatewayFiles(layout).put(_ENTRY),
    "waiting/<id>": lambda layout: _queue(layout).put_asked(_COMMAND),
    "waiting/spent-ids": lambda layout: _queue(layout).spent.add(_ID),
    "waiting/limits.json": lambda layout: _queue(layout).keep_limits({("p", "g"): 1}),
    "…/labels": _labels,
}
_APPENDED = {"waiting/spent-ids"}
# Of the others some, as they are written without: a start and an end wait for no disk.
_VOLATILE: dict[str, Callable[[Layout], object]] = {
    "waiting/<id> of a line": lambda layout: _queue(layout).put(_COMMAND),
    "waiting/order.json": lambda layout: _queue(layout).keep_order([_ID]),
}


def _traced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    done: list[tuple[str, str]] = []
    sync, rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        done.append(("fsync", os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    def renamed(old: str, new: str) -> None:
        done.append(("rename", new))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fdatasync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    return done


def test_the_table_names_every_file_that_survives_a_power_cut() -> None:
    text = section(page("docs/architecture.md"), "### What survives a power cut")
    named = {word for row in table_rows(text, "file") for word in words(row[0])}
    assert named == set(_WRITES)


def test_every_writer_that_syncs_is_one_of_these() -> None:
    source = Path(__file__).parents[2] / "src" / "outlive"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r'survives="power cut"|\bos\.f(data)?sync\(|\bsync_(file|folder)\(', path.read_text())
    }
    assert found == {
        "cli/machine/file_change.py",  # files of other programs
        "cli/operator/backup.py",
        "discovery/ownership.py",
        "discovery/restoration.py",
        "engine/processes/session_ends.py",
        "files/root.py",  # copies
        "frontends/mcp/http/sessions.py",
        "kernel/folder_identity.py",
        "kernel/files.py",
        "store/audit/audit_chain.py",
        "store/audit/audit_trail.py",  # at the server's end
        "store/folder.py",
        "extensions/fleet/gateway_files.py",
        "extensions/fleet/node_files.py",
        "store/queue_store.py",
        "store/used_ids.py",
        "extensions/services/service_files.py",
        "store/token_file.py",
    }


@pytest.mark.parametrize("name", _WRITES)
def test_content_and_name_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    done = _traced(monkeypatch)
    _WRITES[name](Layout(str(tmp_path)))
    if name in _APPENDED:
        assert [what for what, _ in done] == ["fsync"]
        return
    place = max(index for index, (what, _) in enumerate(done) if what == "rename")
    path = done[place][1]
    (synced,) = [found for what, found in done[:place][-1:] if what == "fsync"]
    assert synced.startswith(path + ".")
    assert ("fsync", os.path.dirname(path)) in done[place:]


@pytest.mark.parametrize("name", _VOLATILE)
def test_the_rest_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    done = _traced(monkeypatch)
    _VOLATILE[name](Layout(str(tmp_path)))
    assert "fsync" not in [what for what, _ in done]


def test_an_ended_session_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = _traced(monkeypatch)
    append_ended(str(tmp_path / "mcp.ended"), "0" * 32)
    assert done == [("fsync", str(tmp_path / "mcp.ended"))]
