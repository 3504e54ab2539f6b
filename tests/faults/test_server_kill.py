"""What a SIGKILL of the server takes along: nothing that was answered."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlive.client import Client, CommandRefused
from outlive.core.layout import Layout
from outlive.store.audit.audit_trail import AuditTrail
from tests.keeper.client import until
from tests.mcp_http.modern_caller import ModernCaller
from tests.rest.rest_caller import Json, RestCaller
from tests.support.server import OutliveServer

_STARTS = 200


@contextlib.contextmanager
def _nothing_is_committed(state_dir: Path) -> Iterator[None]:
    """Hold the registry's lock: the writer's transaction, however many rows it has, waits for it."""
    with contextlib.closing(sqlite3.connect(Layout(str(state_dir)).registry, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield


def _listed(asking: RestCaller) -> list[Json]:
    first = asking.call("GET", "/v1/processes", limit=_STARTS // 2).json
    rest = asking.call("GET", "/v1/processes", limit=_STARTS // 2, cursor=first["next"]).json
    return [*first["processes"], *rest["processes"]]


@pytest.mark.promise("W.list.killed")
def test_rows_that_no_commit_has_seen_are_made_from_the_folders(tmp_path: Path) -> None:
    """As many starts as one batch of the registry's writer may hold, and their ends.

    A row says when the server heard of an end, a folder when it was: that alone differs.
    """
    with OutliveServer(tmp_path / "state") as server:
        asking = RestCaller(server.rest_url)
        with Client(server.state_dir, start_server=False) as client:
            client.start("true").wait(30, until="closed")
            with _nothing_is_committed(server.state_dir):
                begun = [
                    client.start(
                        f"echo {number}; exit {number % 3}", tags={"n": str(number)}, name=f"n{number}"
                    )
                    for number in range(_STARTS)
                ]
                for process in begun:
                    process.wait(30, until="closed")
                before = _listed(asking)
                server.kill()
        server.start()
        assert [one["process_id"] for one in before] == [process.process_id for process in reversed(begun)]
        after = _listed(asking)
        assert all(one["ended_at"] <= heard["ended_at"] for one, heard in zip(after, before, strict=True))
        known = [{**one, "ended_at": heard["ended_at"]} for one, heard in zip(after, before, strict=True)]
        assert known == before
        for one in after:
            assert asking.call("GET", f"/v1/processes/{one['process_id']}").json == one
        assert asking.run("true")["short_id"] not in {one["short_id"] for one in before}


@pytest.mark.promise("A.audit.refused")
def test_a_refusal_is_in_the_audit_log_before_its_answer(tmp_path: Path) -> None:
    """It stands in no other file, so no kill of the server may take it along."""
    state_dir = tmp_path / "state"
    layout = Layout(str(state_dir))
    trail = AuditTrail(layout.audit, key_file=layout.audit_key)

    def refused_by_client() -> None:
        with Client(state_dir, start_server=False) as client, pytest.raises(CommandRefused):
            client.start("rm -r jsonrpc")

    with OutliveServer(state_dir, args=("--deny", "rm *")) as server:
        rest, mcp = RestCaller(server.rest_url), ModernCaller(server.mcp_url, extensions={})
        foreign = {"Origin": "http://example.com"}
        refusals: dict[str, Callable[[], object]] = {
            "rm -r jsonrpc": refused_by_client,
            "rm -r rest": lambda: rest.call("POST", "/v1/processes", {"command": "rm -r rest"}, expect=403),
            "rm -r mcp": lambda: mcp.result("tools/call", name="run", arguments={"command": "rm -r mcp"}),
            "no-such-program": lambda: mcp.result(
                "tools/call",
                name="command_execute_script",
                arguments={"interpreter": "no-such-program", "script_content": "x"},
            ),
            "foreign_origin": lambda: rest.call("GET", "/v1/processes", headers=foreign, expect=403),
            "scope_missing": lambda: rest.call("GET", "/v1/audit", expect=403),
        }
        for word, refused in refusals.items():
            until(lambda: any(one["what"] == "server_started" for one in trail.entries()), "the first entry")
            refused()
            server.kill()
            found = [one for one in trail.entries() if word in {one.get("command"), one.get("reason")}]
            assert [one["decision"] for one in found] == ["failed" if "no-such" in word else "denied"], word
            server.start()
        assert trail.verify().is_whole
