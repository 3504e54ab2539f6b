"""What happened in a span of time, at every door: counted of the caller's own processes, beside the audit log
for admins.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from outlive.client import AccessDenied, Client, InvalidState
from outlive.operations.reports import AuditPage, ChecksAnswer, GroupsAnswer, SettingsAnswer, StatisticsAnswer
from tests.docs.wire import Wire
from tests.keeper.client import until
from tests.rest.rest_caller import Query, RestCaller
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive


@pytest.fixture
def served(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server of a test's own."""
    with OutliveServer(tmp_path / "state") as server:
        yield server


def _counted(served: OutliveServer, **span: Query) -> StatisticsAnswer:
    """Return what all doors say: the same, as declared."""
    with Wire.dialled(served.url) as wire, Client(served.state_dir, start_server=False) as client:
        found = [
            wire.call("statistics", **span),
            RestCaller(served.rest_url).send("GET", "/v1/statistics", **span).json,
            client.server.statistics(**span),
        ]
    answers = [msgspec.convert(one, StatisticsAnswer) for one in found]
    steady = [[(p.project, p.started, p.ended, p.failed, p.stopped) for p in one.projects] for one in answers]
    assert steady == [steady[0]] * 3
    return answers[0]


@pytest.mark.promise("A.statistics")
def test_every_door_counts_starts_ends_and_failures_by_time_and_project(
    served: OutliveServer, gate: Gate
) -> None:
    begun = datetime.now(UTC)
    with Client(served.state_dir, start_server=False) as client:
        client.start("echo four; exit 4", project="/srv/a").wait(30, until="closed")
        client.start("sleep 60", project="/srv/a", timeout_s=0.3).wait(30, until="closed")
        stopped = client.start("sleep 60", project="/srv/b")
        stopped.cancel(0)
        client.start("true", project="/srv/b").wait(30, until="closed")
        client.start(gate.wait, project="/srv/b")
        stopped.wait(30, until="closed")
    span: dict[str, Query] = {"since": begun.isoformat(), "until": (begun + timedelta(hours=1)).isoformat()}
    answer = _counted(served, **span)
    b, a = answer.projects
    assert (b.project, b.started, b.ended, b.failed, b.stopped) == ("/srv/b", 3, 2, 0, 1)
    assert (a.project, a.started, a.ended, a.failed, a.stopped) == ("/srv/a", 2, 2, 2, 0)
    assert (a.output_bytes, a.run_s >= 0.3) == (5, True)
    assert answer.bucket_s == 60, "a minute is the least"
    assert len(answer.buckets) == 60
    assert sum(one.started for one in answer.buckets) == 5
    assert answer.complete
    only = RestCaller(served.rest_url).send("GET", "/v1/statistics", project="/srv/a", **span).json
    assert [one["project"] for one in only["projects"]] == ["/srv/a"]
    uncounted = _counted(served, **span, counts=False)
    assert (uncounted.projects, sum(one.started for one in uncounted.buckets)) == ([], 0)
    earlier: dict[str, Query] = {
        "since": (begun - timedelta(hours=2)).isoformat(),
        "until": begun.isoformat(),
    }
    assert _counted(served, **earlier).projects == []


@pytest.mark.promise("A.statistics")
@pytest.mark.parametrize(
    "query",
    [
        {"since": "soon"},
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00Z", "until": "2026-02-01T00:00:00Z", "bucket_s": "60"},
        {"bucket_s": "59"},
        {"until": "0001-01-01T12:00:00Z"},
        {"until": "9999-12-31T23:59:59-10:00"},
        {"project": "relative"},
    ],
)
def test_a_span_that_makes_no_sense_is_refused(server: OutliveServer, query: dict[str, Query]) -> None:
    answer = RestCaller(server.rest_url).send("GET", "/v1/statistics", **query)
    assert (answer.status, answer.json["slug"]) == (422, "invalid_params")


@pytest.mark.promise("A.statistics")
def test_the_times_without_a_server_are_known_whether_it_was_stopped_or_killed(served: OutliveServer) -> None:
    asking = RestCaller(served.rest_url)
    assert asking.send("GET", "/v1/statistics").json["away"] == []
    before = datetime.now(UTC)
    served.stop()
    served.start()
    until(lambda: asking.send("GET", "/v1/statistics").json["away"], "the first is in the audit log")
    served.kill()
    served.start()
    until(lambda: len(asking.send("GET", "/v1/statistics").json["away"]) == 2, "both are in the audit log")
    stopped, killed = msgspec.convert(asking.send("GET", "/v1/statistics").json, StatisticsAnswer).away
    assert before < stopped.from_ < stopped.to <= killed.from_ < killed.to
    assert (stopped.exact, killed.exact) == (True, False)


@pytest.mark.promise("A.audit.read")
def test_an_admin_reads_the_audit_log_by_process_and_page(served: OutliveServer) -> None:
    made = run_outlive("token", "create", "--as-user", "--scope", "admin", state_dir=served.state_dir)
    as_admin = {"Authorization": f"Bearer {made.stdout.strip()}"}
    asking = RestCaller(served.rest_url)
    assert asking.send("GET", "/v1/audit").status == 403, "over TCP the user alone is no administrator"
    with Client(served.state_dir, start_server=False) as client:
        one = client.start("exit 3 # first")
        one.wait(30, until="closed")
        other = client.start("true # second")
        other.wait(30, until="closed")

        def about(process_id: str) -> list[tuple[object, object]]:
            page = client.server.audit(process_id=process_id)
            return [(entry["what"], entry.get("exit")) for entry in msgspec.convert(page, AuditPage).entries]

        until(lambda: len(about(other.process_id)) == 2, "the entries are written")
        assert about(one.process_id) == [("exit", 3), ("start", None)]
        page = client.server.audit(limit=2)
        assert page["more"]
        assert {entry["process_id"] for entry in page["entries"]} == {other.process_id}
        assert not {"prev", "mac"} & set(page["entries"][0])
        last = page["entries"][-1]["n"]
        older = asking.send("GET", "/v1/audit", headers=as_admin, before=last).json
        whats = [entry["what"] for entry in older["entries"]]
        assert whats == ["exit", "start", "access", "token_create", "server_started"]
        assert older["more"] is False
        at = older["entries"][0]["at"]
        assert client.server.audit(until=at)["entries"] == older["entries"][1:]
        assert [entry["n"] for entry in client.server.audit(since=at)["entries"]] == [
            last + 1,
            last,
            last - 1,
        ]
        assert client.server.audit(process_id="0" * 26)["entries"] == []


@pytest.mark.promise("A.audit.read", "A.statistics")
def test_another_principal_is_counted_nothing_and_reads_no_audit_log(server: OutliveServer) -> None:
    with Client(server.state_dir, start_server=False) as client:
        client.start("true").wait(30, until="closed")
    made = run_outlive("token", "create", "--name", "counted", "--scope", "run", state_dir=server.state_dir)
    with Client(server.state_dir, start_server=False, token=made.stdout.strip()) as other:
        assert other.server.statistics()["projects"] == []
        with pytest.raises(AccessDenied):
            other.server.audit()


@pytest.mark.promise("A.settings")
def test_an_admin_sees_the_settings_in_effect_with_their_places_and_no_secret(tmp_path: Path) -> None:
    words = ["--retention", "3d", "--mcp-api-key", "hunter2-hunter2", "--allowed-commands", "bash,make"]
    with OutliveServer(tmp_path / "state", args=words, env={"OUTLIVE_GRACE": "7s"}) as served:
        with Client(served.state_dir, start_server=False) as client:
            answer = client.server.settings()
        assert "hunter2" not in str(answer)
        found = {one.key: one for one in msgspec.convert(answer, SettingsAnswer).settings}
        assert (found["retention"].value, found["retention"].source, found["retention"].place) == (
            "3d",
            "flag",
            "--retention",
        )
        assert (found["grace"].value, found["grace"].source, found["grace"].place) == (
            "7s",
            "environment",
            "OUTLIVE_GRACE",
        )
        assert (found["mcp_api_key"].value, found["output_limit"].source) == ("(hidden)", "default")
        shown = json.loads(run_outlive("config", "show", "--json", state_dir=served.state_dir).stdout)
        assert found.keys() == shown.keys()


@pytest.mark.thorough
@pytest.mark.promise("A.checks")
def test_an_admin_sees_what_doctor_finds_where_the_server_runs(served: OutliveServer) -> None:
    with Client(served.state_dir, start_server=False) as client:
        answer = msgspec.convert(client.server.checks(), ChecksAnswer)
    found = {one.name: one for one in answer.checks}
    assert found["splice"].ok
    assert found["splice"].importance == "required"
    shown = json.loads(run_outlive("doctor", "--json", state_dir=served.state_dir).stdout)
    assert found.keys() == {one["name"] for one in shown["checks"]}
    assert answer.state_dir == shown["state_dir"]


@pytest.mark.promise("A.settings", "A.checks")
def test_a_caller_without_the_scope_admin_sees_neither_settings_nor_checks(server: OutliveServer) -> None:
    asking = RestCaller(server.rest_url)
    words = ("token", "create", "--as-user", "--name", "reports", "--scope", "admin")
    as_admin = {"Authorization": f"Bearer {run_outlive(*words, state_dir=server.state_dir).stdout.strip()}"}
    for path in ("/v1/settings", "/v1/checks"):
        assert asking.send("GET", path).json["slug"] == "scope_missing"
        assert asking.send("GET", path, headers=as_admin).status == 200


@pytest.mark.promise("A.groups")
def test_what_waits_is_moved_in_its_line_for_good(served: OutliveServer, gate: Gate) -> None:
    def line(client: Client) -> list[str]:
        (group,) = msgspec.convert(client.server.groups(), GroupsAnswer).groups
        assert (group.group, group.limit, group.running) == ("night", 1, 1)
        asking = RestCaller(served.rest_url)
        assert asking.send("GET", "/v1/groups").json["groups"][0]["waiting"] == group.waiting
        return [names[one] for one in group.waiting]

    with Client(served.state_dir, start_server=False) as client:
        assert client.server.groups() == {"groups": []}
        runs = client.start(gate.wait, group="night", group_limit=1)
        waits = {name: client.start("true", group="night", name=name) for name in ("one", "two", "three")}
        names: dict[str, str] = {process.process_id: name for name, process in waits.items()}
        assert line(client) == ["one", "two", "three"]
        client.server.move(waits["three"].process_id, -1)
        assert line(client) == ["one", "three", "two"]
        asking = RestCaller(served.rest_url)
        moved = asking.send("POST", f"/v1/processes/{waits['one'].process_id}/move", {"places": 1_000_000})
        assert (moved.status, moved.json["state"]) == (200, "queued")
        assert line(client) == ["three", "two", "one"]
        served.kill()
        served.start()
    with Client(served.state_dir, start_server=False) as client:
        until(lambda: client.server.groups()["groups"], "the lines are there again")
        names[client.start("true", group="night").process_id] = "later"
        assert line(client) == ["three", "two", "one", "later"]
        with pytest.raises(InvalidState) as refused:
            client.server.move(runs.process_id, 1)
        assert refused.value.code == "not_in_line"
        gate.open()
        for name in ("three", "two", "one"):
            client.get(waits[name].process_id).wait(30)
        begun = [
            str(client.get(waits[name].process_id).info().started_at) for name in ("three", "two", "one")
        ]
        assert begun == sorted(begun)
