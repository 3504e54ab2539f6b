"""What REST costs before anybody uses it, whether the server is ready, and what a restart leaves of it."""

import os
import sqlite3
from pathlib import Path
from typing import cast

import anyio
import pytest
from anyio import to_thread
from starlette.applications import Starlette

from outlive.config import Settings
from outlive.engine import Engine
from outlive.frontends.rest.door import LoadedRest, RestFrontend
from outlive.frontends.rest.service import RestService
from tests.cli.launching import launched
from tests.extensions.fleet.pairs import wait_until
from tests.frontends.serving import admitted, served
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


def has_loaded(server: OutliveServer, module: str) -> bool:
    """Tell whether a server has mapped a compiled module."""
    return module in Path(f"/proc/{server.pid}/maps").read_text()


async def test_what_serves_rest_is_made_by_the_first_request_and_by_no_probe(tmp_path: Path) -> None:
    made = []

    def build() -> LoadedRest:
        made.append("service")
        return RestService(cast("Engine", None), Settings())

    async def is_ready() -> None:
        pass

    async with (
        RestFrontend(build, is_ready) as door,
        served(admitted(Starlette(routes=door.routes())), tmp_path) as where,
    ):
        rest = RestCaller(f"http://127.0.0.1:{where.port}")
        with anyio.fail_after(20):
            for path in ("/healthz", "/readyz"):
                await to_thread.run_sync(rest.call, "GET", path)
            assert made == []
            for path in ("/openapi.json", "/docs"):
                await to_thread.run_sync(rest.send, "GET", path)
    assert made == ["service"]


@pytest.mark.root("a server's memory and descriptors are closed to its user")
def test_rest_loads_no_second_validator(own_server: OutliveServer) -> None:
    """Pydantic's compiled part would show in the process's memory map: it takes 20 MB (decision 40)."""
    rest = RestCaller(own_server.rest_url)
    for path in ("/", "/health", "/healthz", "/readyz", "/v1/processes", "/openapi.json"):
        rest.call("GET", path)
    assert not has_loaded(own_server, "pydantic_core")


@pytest.mark.promise("R.probes")
def test_the_server_says_that_it_lives_and_is_ready(rest: RestCaller) -> None:
    assert rest.call("GET", "/healthz").json == {"status": "alive"}
    assert rest.call("GET", "/readyz").json == {
        "status": "ready",
        "keeper": "reachable",
        "registry": "writable",
    }


@pytest.mark.slow
@pytest.mark.promise("R.probes")
def test_a_server_whose_registry_cannot_be_written_is_alive_and_not_ready(own_server: OutliveServer) -> None:
    """Another program holds the file for longer than the registry waits."""
    rest = RestCaller(own_server.rest_url)
    with sqlite3.connect(own_server.state_dir / "registry.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = rest.send("GET", "/readyz")
        assert (answer.status, answer.json["slug"]) == (503, "disk_silent")
        assert answer.headers["content-type"] == "application/problem+json"
        assert rest.call("GET", "/healthz").json == {"status": "alive"}
        other.execute("ROLLBACK")
    other.close()
    wait_until(lambda: rest.send("GET", "/readyz").status == 200)


@pytest.mark.promise("S4.9.port")
def test_the_port_is_read_from_the_environment(tmp_path: Path) -> None:
    words = ("--print-json", "--jsonrpc-port", "0")
    with launched(tmp_path / "state", *words, env={"MCP_PORT": "0", "OUTLIVE_REST_PORT": ""}) as server:
        port = server.ready()["ports"]["rest"]
        assert RestCaller(f"http://127.0.0.1:{port}").call("GET", "/v1/processes").json["processes"] == []


@pytest.mark.promise("R.key")
def test_a_key_is_known_after_the_server_was_killed(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    key = {"Idempotency-Key": os.urandom(8).hex()}
    body = {"command": "sleep 60"}
    first = rest.call("POST", "/v1/processes", body, expect=201, headers=key).json
    own_server.restart()
    assert rest.call("POST", "/v1/processes", body, headers=key).json["process_id"] == first["process_id"]


@pytest.mark.promise("S4.12.restart")
def test_tags_output_and_state_survive_a_killed_server(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    running, ended = rest.start("echo one; sleep 60"), rest.run("echo two; exit 5")
    for process in (running, ended):
        rest.call("PATCH", f"/v1/processes/{process['process_id']}", {"tags": {"kept": "yes"}})
    own_server.restart()
    listed = rest.call("GET", "/v1/processes", tag="kept=yes").json["processes"]
    assert [(one["process_id"], one["state"]) for one in listed] == [
        (ended["process_id"], "exited"),
        (running["process_id"], "running"),
    ]
    assert (rest.raw(running["process_id"]), rest.raw(ended["process_id"])) == (b"one\n", b"two\n")
    rest.call("DELETE", f"/v1/processes/{running['process_id']}", force="true")
    own_server.restart()
    left = rest.call("GET", "/v1/processes").json["processes"]
    assert [one["process_id"] for one in left] == [ended["process_id"]]
