"""Tokens that are missing, wrong, over, revoked or too narrow, and other principals' processes by every
name.
"""

import asyncio
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import websockets

from outlive.policy.access import digest_of
from tests.attacks.attacking import Requests, create_token
from tests.support.fixtures import ServerFactory
from tests.support.raw import upgrade
from tests.support.server import OutliveServer, run_outlive

_PREFIX = "olv_"


@pytest.mark.thorough
@pytest.mark.promise("A.token")
def test_what_is_no_token_of_ours_is_refused_and_does_not_fall_back_to_the_user(
    besieged: OutliveServer,
) -> None:
    expired = create_token(besieged, expires="1ms")
    revoked = create_token(besieged, name="gone")
    assert run_outlive("token", "revoke", "gone", state_dir=besieged.state_dir).returncode == 0
    for wrong in (expired, revoked, _PREFIX, _PREFIX + "A" * 43, revoked[:-1], revoked + "A"):
        for headers in ({"Authorization": f"Bearer {wrong}"}, {"Authorization": wrong}, {"X-API-Key": wrong}):
            reply = Requests(besieged)("GET", "/v1/processes", headers=headers)
            assert (reply.status, reply.slug) == (401, "token_invalid"), headers
            assert upgrade(besieged.port, headers=headers).status == 401


@pytest.mark.promise("A.token")
def test_a_token_in_an_address_counts_nowhere(besieged: OutliveServer) -> None:
    token = create_token(besieged)
    via = {"Via": "1.1 proxy"}
    assert Requests(besieged)("GET", f"/v1/processes?token={token}", headers=via).status == 401
    assert upgrade(besieged.port, path=f"/ws/mcp?token={token}", headers=via).status == 401


@pytest.mark.promise("A.scope")
def test_a_token_for_the_bridge_opens_no_door(besieged: OutliveServer) -> None:
    reply = Requests(besieged, create_token(besieged, "bridge"))("GET", "/v1/processes")
    assert (reply.status, reply.slug) == (403, "scope_missing")


@pytest.mark.promise("A.scope")
def test_a_token_that_may_read_starts_and_ends_nothing(besieged: OutliveServer) -> None:
    reader = Requests(besieged, create_token(besieged, "read"))
    one = "/v1/processes/01k9zq3v8d4t6r2m5x7b1n0c9f"
    assert reader("GET", "/v1/processes").status == 200
    assert reader("GET", "/api/async/processes/list/").body["count"] == 0
    for method, path, body in (
        ("POST", "/v1/processes", {"command": "date"}),
        ("POST", "/api/sync/execute/", {"command": "date"}),
        ("POST", "/api/async/execute/background/", {"command": "date"}),
        ("POST", "/api/async/process/terminate_by_pid/?pid=1", None),
        ("POST", f"{one}/control", {"action": "cancel"}),
        ("POST", f"{one}/stdin", None),
        ("DELETE", one, None),
        ("PATCH", one, {"tags": {}}),
    ):
        reply = reader(method, path, body=body)
        assert (reply.status, reply.slug) == (403, "scope_missing"), path


@pytest.mark.promise("A.token")
async def test_revoking_a_token_ends_what_its_holder_has_open_within_a_second(
    besieged: OutliveServer,
) -> None:
    token = await asyncio.to_thread(create_token, besieged, "run", name="leaver")
    headers = {"Authorization": f"Bearer {token}"}
    mine = Requests(besieged, token)
    process = await asyncio.to_thread(mine.start, "sleep 60")
    rest = f"ws://127.0.0.1:{besieged.ready['ports']['rest']}/v1/processes/{process['process_id']}/follow"
    async with (
        websockets.connect(besieged.url, additional_headers=headers) as talking,
        websockets.connect(rest, additional_headers=headers) as following,
    ):
        assert json.loads(await talking.recv())["method"] == "connected"
        words = ("token", "revoke", "leaver")
        assert (await asyncio.to_thread(run_outlive, *words, state_dir=besieged.state_dir)).returncode == 0
        async with asyncio.timeout(1):
            for open_one in (talking, following):
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await open_one.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1008
    assert (await asyncio.to_thread(mine, "GET", "/v1/processes")).status == 401


@pytest.mark.promise("A.token")
def test_a_revoked_token_counts_no_more_though_a_backup_has_linked_the_file(
    besieged: OutliveServer, tmp_path: Path
) -> None:
    """The link keeps the old file alive, by which the server notices a new one."""
    tokens = [create_token(besieged, "run", name=f"linked-{number}") for number in range(2)]
    callers = [Requests(besieged, token) for token in tokens]
    for number, caller in enumerate(callers):
        os.link(besieged.state_dir / "tokens.json", tmp_path / str(number))
        assert caller("GET", "/v1/processes").status == 200
        words = ("token", "revoke", f"linked-{number}")
        assert run_outlive(*words, state_dir=besieged.state_dir).returncode == 0
        assert caller("GET", "/v1/processes").status == 401


@pytest.mark.promise("A.token")
def test_a_token_is_shown_once_and_kept_as_a_hash_that_only_we_can_read(besieged: OutliveServer) -> None:
    token = create_token(besieged, name="canary")
    assert len(token) == len(_PREFIX) + 43  # 256 bits in base64
    Requests(besieged, token)("GET", "/v1/processes")
    file = besieged.state_dir / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert digest_of(token) in file.read_text()
    for path in besieged.state_dir.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path
    shown = run_outlive("token", "list", "--json", state_dir=besieged.state_dir).stdout
    assert "canary" in shown
    assert token not in shown
    assert digest_of(token) not in shown


@pytest.mark.promise("A.owner")
def test_another_principals_process_is_not_there_by_any_name(besieged: OutliveServer) -> None:
    mine, yours = Requests(besieged), Requests(besieged, create_token(besieged, "admin"))
    headers = {"Idempotency-Key": "k1"}
    view = mine(
        "POST", "/v1/processes", body={"command": "sleep 60", "tags": {"a": "b"}}, headers=headers
    ).body
    started = mine("POST", "/api/async/execute/background/", body={"command": "sleep 60"}).body
    one = f"/v1/processes/{view['process_id']}"
    for method, path, body in (
        ("GET", one, None),
        ("GET", f"{one}/output", None),
        ("GET", f"{one}/follow", None),
        ("GET", f"{one}/wait?timeout=0", None),
        ("POST", f"{one}/control", {"action": "cancel"}),
        ("POST", f"{one}/signal", {"signal": "KILL"}),
        ("POST", f"{one}/resize", {"rows": 1, "cols": 1}),
        ("PATCH", one, {"tags": {}}),
        ("DELETE", f"{one}?force=true", None),
        ("POST", f"/api/async/process/terminate_by_pid/?pid={started['pid']}", None),
        ("GET", f"/api/async/process/{started['process_id']}/", None),
        ("GET", f"/api/async/process/{started['request_id']}/", None),
        ("POST", f"/api/async/process/terminate/{started['request_id']}/", None),
    ):
        assert yours(method, path, body=body).status == 404, path
    assert yours("POST", f"{one}/stdin").status == 404
    assert yours("GET", "/v1/processes").body["processes"] == []
    assert yours("GET", "/v1/processes?tag=a=b").body["processes"] == []
    assert yours("GET", "/api/async/processes/list/").body == {"processes": [], "count": 0}
    other = yours("POST", "/v1/processes", body={"command": "true"}, headers=headers)
    assert (other.status, other.body["process_id"] != view["process_id"]) == (201, True)
    for name in (view["process_id"], started["process_id"]):
        assert mine("GET", f"/v1/processes/{name}").body["state"] == "running"
        mine("DELETE", f"/v1/processes/{name}?force=true")


@pytest.mark.promise("A.owner")
async def test_another_principals_session_cannot_be_guessed_nor_its_events_heard(
    besieged: OutliveServer,
) -> None:
    token = await asyncio.to_thread(create_token, besieged, "admin")
    headers = {"Authorization": f"Bearer {token}"}
    async with websockets.connect(besieged.url) as mine:
        session = json.loads(await mine.recv())["params"]["session_id"]
        async with websockets.connect(
            f"{besieged.url}?session_id={session}&cursor=0", additional_headers=headers
        ) as yours:
            hello = json.loads(await yours.recv())["params"]
            assert (hello["resumed"], hello["session_id"] != session) == (False, True)
            await _ask(yours, 1, "events", {})
            answer = await _ask(mine, 1, "execute", {"command": "sleep 60", "detach": True})
            process_id = answer["result"]["process_id"]
            asked: tuple[tuple[str, Mapping[str, object]], ...] = (
                ("get", {}),
                ("read", {}),
                ("attach", {}),
                ("wait", {"wait_s": 0}),
                ("control", {"type": "CANCEL"}),
                ("signal", {"signal": "KILL"}),
                ("write", {"data": "x"}),
                ("relabel", {"tags": {}}),
                ("remove", {"force": True}),
                ("release", {"cursor": "0"}),
            )
            for number, (method, params) in enumerate(asked, start=2):
                refused = await _ask(yours, number, method, {"process_id": process_id, **params})
                assert refused["error"]["code"] == -32003, method
            taken = await _ask(yours, 90, "execute", {"command": "true", "process_id": process_id})
            assert taken["error"]["code"] == -32602
            assert (await _ask(yours, 91, "list", {}))["result"]["processes"] == []
            await _ask(mine, 2, "remove", {"process_id": process_id, "force": True})
            # Everything that happened was told before this answer, to whom it concerned.
            assert await _ask(yours, 92, "list", {}, heard=False)


async def _ask(
    connection: websockets.ClientConnection,
    number: int,
    method: str,
    params: dict[str, object],
    *,
    heard: bool = True,
) -> dict[str, Any]:
    """Return the answer to a request; without `heard` nothing may come before it."""
    await connection.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
    async with asyncio.timeout(20):
        while True:
            message = json.loads(await connection.recv())
            if message.get("id") == number:
                return dict(message)
            assert heard, message


@pytest.mark.thorough
@pytest.mark.promise("A.token", "A.owner")
def test_a_process_outlives_the_token_and_belongs_to_its_name(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve()
    first = Requests(server, create_token(server, name="ci"))
    process_id = first.start("echo kept")["process_id"]
    assert first.output(process_id) == "kept\n"
    run_outlive("token", "revoke", "ci", state_dir=server.state_dir)
    assert first("GET", f"/v1/processes/{process_id}").status == 401
    again = Requests(server, create_token(server, name="ci"))
    assert again.output(process_id) == "kept\n"
