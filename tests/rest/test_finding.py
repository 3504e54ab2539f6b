"""A server started anew among hundreds of live processes: its doors are open before all of them are found
again.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.keeper.client import until
from tests.rest.rest_caller import Answer, Json, Query, RestCaller
from tests.support.processes import Gate
from tests.support.server import OutliveServer

pytestmark = pytest.mark.usefixtures("stays_stopped")

_MANY = 300


@contextlib.contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Keep processes from running: neither do they answer, nor does anybody see them dead."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _keeper(server: OutliveServer) -> tuple[int, int]:
    """Return the guardian, which would replace a hung supervisor, and the supervisor."""
    status = server.keeper_status()
    assert status.guardian_pid
    assert status.supervisor_pid
    return status.guardian_pid, status.supervisor_pid


def _start_many(rest: RestCaller, line: str, count: int = _MANY) -> list[str]:
    def start(_number: int) -> str:
        return str(rest.start(line)["process_id"])

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(start, range(count)))


def _all(rest: RestCaller, **query: Query) -> dict[str, Json]:
    found = rest.call("GET", "/v1/processes", limit=1000, **query).json["processes"]
    return {process["process_id"]: process for process in found}


@pytest.mark.thorough
@pytest.mark.promise("R.probes", "R.finding")
def test_doors_are_open_while_the_keeper_is_silent(own_server: OutliveServer, gate: Gate) -> None:
    """What is asked meanwhile is answered by what is known, or waits.

    Nothing is unknown and nothing is made up.
    """
    rest = RestCaller(own_server.rest_url)
    many = _start_many(rest, "exec sleep 1000")
    ends, doomed = rest.start(f"{gate.wait}; exit 3")["process_id"], many[7]
    over = rest.run("exit 5")["process_id"]
    own_server.kill()
    with ThreadPoolExecutor(4) as threads:
        with stopped(*_keeper(own_server)):
            own_server.start()
            ready = rest.send("GET", "/readyz")
            assert (ready.status, ready.json["slug"]) == (503, "keeper_unavailable")
            finding = ready.json["details"]["finding"]
            assert finding["known"] == 0
            assert 0 < finding["of"] <= _MANY + 1  # the newest may have had no row yet
            assert rest.call("GET", "/healthz").json == {"status": "alive"}
            listed = _all(rest)
            assert listed.keys() == {*many, ends, over}
            assert all(listed[one]["unknown"] and listed[one]["state"] == "running" for one in (*many, ends))
            assert rest.call("GET", f"/v1/processes/{many[0]}").json["unknown"] is True
            assert listed[over]["exit_code"] == 5
            assert "unknown" not in listed[over]
            assert not any("reachable" in one for one in listed.values())  # that is said of nodes
            started: Future[Json] = threads.submit(rest.start, "exit 4")
            cancelled: Future[Answer] = threads.submit(
                rest.send, "POST", f"/v1/processes/{doomed}/control", {"action": "cancel"}
            )
            waited: Future[Json] = threads.submit(rest.wait, ends)
            assert rest.call("GET", f"/v1/processes/{doomed}").json["state"] == "running"
            gate.open()
            assert not waited.done()
        assert rest.wait(started.result(30)["process_id"])["exit_code"] == 4
        assert cancelled.result(30).status == 200
        assert waited.result(30)["exit_code"] == 3
    assert rest.wait(doomed, "closed")["exit_code"] == -signal.SIGTERM
    until(lambda: "finding" not in rest.send("GET", "/readyz").json, "an end of the finding")
    assert rest.call("GET", "/readyz").json.keys() == {"status", "keeper", "registry"}
    found = _all(rest, state="active")
    assert found.keys() == {*many} - {doomed}
    assert not any("unknown" in process for process in found.values())


@pytest.mark.thorough
@pytest.mark.promise("R.finding")
def test_what_is_asked_in_the_first_moment_is_answered_in_full(own_server: OutliveServer, gate: Gate) -> None:
    """The keeper answers: the first list has everybody, and what ended while nobody served has ended."""
    rest = RestCaller(own_server.rest_url)
    many = _start_many(rest, "exec sleep 1000", 100)
    ends = rest.start(f"{gate.wait}; exit 3")["process_id"]
    own_server.kill()
    gate.open()
    own_server.start()
    listed = _all(rest)
    assert listed.keys() == {*many, ends}
    assert {listed[one]["state"] for one in many} == {"running"}
    assert rest.wait(ends)["exit_code"] == 3


@pytest.mark.thorough
@pytest.mark.promise("R.finding")
def test_a_start_that_was_answered_just_before_the_crash_is_found_while_the_keeper_is_silent(
    own_server: OutliveServer,
) -> None:
    """Nothing in the registry tells of it yet: its folder does."""
    rest = RestCaller(own_server.rest_url)
    keeper = _keeper(own_server)
    newest = rest.start("exec sleep 1000")["process_id"]
    own_server.kill()
    with stopped(*keeper):
        own_server.start()
        shown = rest.call("GET", f"/v1/processes/{newest}").json
        assert (shown["state"], shown["unknown"]) == ("running", True)
    rest.call("POST", f"/v1/processes/{newest}/control", {"action": "cancel"})
    assert rest.wait(newest, "closed")["exit_code"] == -signal.SIGTERM
