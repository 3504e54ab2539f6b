"""A project's services at every door: the same requests, the same answers, the same refusals."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlive.client import Client, OutliveError, StackInfo
from outlive.extensions.services.operations import StackList
from tests.docs.wire import Wire
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

_OPERATIONS = ("services_up", "services_down", "services_restart", "services_list")
Ask = Callable[[str, Mapping[str, Any]], Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server of these tests' own."""
    with OutliveServer(tmp_path_factory.mktemp("ds") / "state") as server:
        yield server


@pytest.fixture(params=["jsonrpc", "rest", "client"])
def ask(request: pytest.FixtureRequest, served: OutliveServer) -> Iterator[Ask]:
    """Ask a door by an operation's name; the answer is its members, or the slug of a refusal."""
    match request.param:
        case "jsonrpc":
            with Wire.dialled(served.url) as wire:
                yield lambda name, params: _rpc(wire, name, params)
        case "rest":
            yield lambda name, params: _rest(served, name, params)
        case _:
            with Client(served.state_dir, start_server=False) as client:
                yield lambda name, params: _client(client, name, params)


def _rpc(wire: Wire, name: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- JSON
    answer = wire.call(name, **params)
    return answer["data"]["reason"] if "data" in answer else answer


def _rest(served: OutliveServer, name: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- as above
    caller = RestCaller(served.rest_url)
    if name == "services_list":
        answer = caller.send("GET", "/v1/services", **params)
    else:
        answer = caller.send("POST", f"/v1/services/{name.removeprefix('services_')}", dict(params))
    return answer.json if answer.status == 200 else answer.json["slug"]


def _client(client: Client, name: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- as above
    members = {"grace_s" if one == "grace" else one: value for one, value in params.items()}
    try:
        answer = getattr(client.services, name.removeprefix("services_"))(**members)
    except OutliveError as error:
        return error.code
    return {"stacks": [_plain(one) for one in (answer if isinstance(answer, list) else [answer])]}


def _plain(stack: StackInfo) -> dict[str, Any]:
    """Return a stack of the client's in the wire's words."""
    services = [
        {
            "name": one.name,
            "state": one.state,
            "command": one.command,
            "process_id": one.process_id,
            "restarts": one.restarts,
            "since": one.since,
            "until": one.until,
            "exit_code": one.exit_code if one.exit_signal is None else -one.exit_signal,
            "error": one.error,
            "after": list(one.after),
            "blocked": one.is_blocked,
        }
        for one in stack.services
    ]
    return {
        "folder": stack.folder,
        "project": stack.project,
        "revision": stack.revision,
        "services": services,
    }


def _until(ask: Ask, folder: Path, claim: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the services by name once a claim holds; each request waits for news."""
    params: dict[str, Any] = {"folder": str(folder)}
    found: dict[str, Any] = {}
    for _ in range(100):
        answer = ask("services_list", params)
        msgspec.convert(answer, StackList)  # what is declared, and nothing else
        (stack,) = answer["stacks"]
        found = {one["name"]: one for one in stack["services"]}
        if claim(found):
            return found
        params |= {"revision": stack["revision"], "wait_s": 10}
    raise AssertionError(found)


@pytest.mark.promise("V.doors", "V.reconcile")
def test_services_come_up_restart_and_stop(ask: Ask, tmp_path: Path) -> None:
    services = {
        "db": {"command": "echo up; exec sleep 60", "ready": {"text": "up"}},
        "web": {"command": ["sleep", "60"], "after": ["db"]},
    }
    up = {
        "folder": str(tmp_path),
        "services": services,
        "names": [],
        "environment": {"PATH": "/usr/bin:/bin"},
    }
    (stack,) = ask("services_up", up)["stacks"]
    assert [one["name"] for one in stack["services"]] == ["db", "web"]
    assert (stack["folder"], stack["project"]) == (str(tmp_path), str(tmp_path))
    before = _until(ask, tmp_path, lambda one: one["web"]["state"] == "ready")
    assert ask("services_up", up)["stacks"][0]["services"] == [*before.values()]
    ask("services_restart", {"folder": str(tmp_path), "names": ["db"]})
    after = _until(
        ask,
        tmp_path,
        lambda one: one["db"]["process_id"] != before["db"]["process_id"] and one["db"]["state"] == "ready",
    )
    assert after["web"] == before["web"]
    listed = [one["folder"] for one in ask("services_list", {})["stacks"]]
    assert str(tmp_path) in listed
    ask("services_down", {"folder": str(tmp_path), "grace": 5})
    ended = _until(ask, tmp_path, lambda one: all(each["state"] == "stopped" for each in one.values()))
    assert ended["web"]["exit_code"] == -15


_ONE = {"web": {"command": "true"}}


@pytest.mark.promise("V.doors")
@pytest.mark.parametrize(
    ("name", "params", "slug"),
    [
        ("services_up", {"services": {}}, "invalid_params"),
        ("services_up", {"services": {"web": {"command": ""}}}, "invalid_params"),
        ("services_up", {"services": {"web": {"command": "a", "restart": "never"}}}, "invalid_params"),
        ("services_up", {"services": {"web": {"command": "a", "typo": 1}}}, "invalid_params"),
        ("services_up", {"services": {"1": {"command": "a"}}}, "invalid_params"),
        ("services_up", {"services": {"web": {"command": "a", "after": ["web"]}}}, "invalid_params"),
        ("services_up", {"services": _ONE, "names": ["wbe"]}, "invalid_params"),
        ("services_down", {}, "process_not_found"),
        ("services_restart", {"names": ["web"]}, "process_not_found"),
        ("services_down", {"grace": -1}, "invalid_params"),
    ],
)  # fmt: skip
def test_the_same_is_refused_for_the_same_reason(
    ask: Ask, tmp_path: Path, name: str, params: dict[str, Any], slug: str
) -> None:
    assert name in _OPERATIONS
    assert ask(name, {"folder": str(tmp_path), **params}) == slug


def test_a_project_without_services_has_none(ask: Ask, tmp_path: Path) -> None:
    assert ask("services_list", {"folder": str(tmp_path), "revision": 1, "wait_s": 0}) == {"stacks": []}
