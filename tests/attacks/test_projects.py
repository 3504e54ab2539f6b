"""A project over HTTP: no other principal's, nothing that grows or is written, and no name that is
guessed.
"""

import json
from typing import Any

import pytest

from tests.attacks.attacking import create_token
from tests.mcp_http.raw_caller import Answer, RawCaller, request
from tests.support.server import OutliveServer

_KIB = 1024


def _caller(server: OutliveServer, token: str | None = None) -> RawCaller:
    return RawCaller.begin(server.mcp_url, {"Authorization": f"Bearer {token}"} if token else None)


def _put(caller: RawCaller, content: object) -> Answer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return request(
        caller.url, "PUT", body=body, headers={"Content-Type": "application/json", **caller.headers}
    )


def _content(**more: object) -> dict[str, object]:
    return {"cwd": "/usr", "root": "/usr", "env": {"PATH": "/usr/bin:/bin", "WHICH": "mine"}, **more}


def _call(caller: RawCaller, project: str, tool: str, **arguments: object) -> Answer:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return caller.post(message, headers={"Outlive-Project": project})


@pytest.mark.promise("S4.13.project", "A.owner")
def test_another_principal_cannot_show_a_project_and_sees_nothing_of_it(besieged: OutliveServer) -> None:
    """Neither by its name nor by the same content, which has the same name."""
    mine, yours = _caller(besieged), _caller(besieged, create_token(besieged, "admin"))
    name = _put(mine, _content()).json["project"]
    ran = _call(mine, name, "run", command="echo $WHICH; pwd", key="k")
    assert ran.text == "[exit 0]\nmine\n/usr"
    _call(mine, name, "run", command="export A=secret; cd lib", workspace="w")
    refused = _call(yours, name, "run", command="echo $WHICH")
    assert (refused.status, "mine" in str(refused.body)) == (412, False)
    for tool, arguments in (("list", {"all": True}), ("read", {"id": "p1"}), ("stop", {"ids": ["p1"]})):
        assert _call(yours, name, tool, **arguments).status == 412
    own = _put(yours, _content()).json["project"]
    assert own == name
    assert _call(yours, own, "list", all=True).text == "[no processes]"
    assert "No process of this project" in _call(yours, own, "read", id="p1").text
    assert _call(yours, own, "run", command="echo other", key="k").text == "[exit 0]\nother"
    assert "\n/usr\nunset" in _call(yours, own, "run", command="pwd; echo ${A-unset}", workspace="w").text
    assert len(_call(mine, name, "list", all=True).text.splitlines()) == 2


@pytest.mark.promise("S4.13.project", "A.scope")
def test_a_token_that_may_only_read_runs_nothing_in_its_project(besieged: OutliveServer) -> None:
    reader = _caller(besieged, create_token(besieged, "read"))
    put = _put(reader, _content())
    if put.status == 200:
        answer = _call(reader, put.json["project"], "run", command="id")
        assert answer.json["result"]["isError"]
    else:
        assert put.status == 403


@pytest.mark.promise("S4.13.project")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        {},
        {"cwd": "/usr"},
        _content(cwd="relative"),
        _content(root=""),
        _content(cwd="/a\0b"),
        _content(env={"A": "x\0y"}),
        _content(env={"A": 1}),
        _content(env=["A=1"]),
        _content(tools="everything"),
        _content(cwd="/" + "x" * 5000),
        _content(env={"A": "x" * 70 * _KIB}),
        b'{"cwd": "/", "root": "/", "env": {"A": "\xff"}}',
    ],
)
def test_what_is_no_project_is_refused(besieged: OutliveServer, content: object) -> None:
    caller = _caller(besieged)
    answer = _put(caller, content)
    assert answer.status == 400
    assert b"Traceback" not in answer.body
    assert b"x" * 100 not in answer.body  # an environment stands in no text


@pytest.mark.promise("S4.13.project")
def test_a_project_of_megabytes_is_not_read(besieged: OutliveServer) -> None:
    caller = _caller(besieged)
    try:
        answer = _put(caller, _content(env={"A": "x" * 64 * _KIB * _KIB}))
    except ConnectionError:
        return  # the server has closed before the client had sent it all
    assert answer.status in {400, 413}


@pytest.mark.promise("S4.13.project")
@pytest.mark.parametrize("name", ["", "x", "0" * 64, "../../etc/passwd", "%00", "é", "a" * 4000])
def test_a_name_that_is_guessed_is_no_project(besieged: OutliveServer, name: str) -> None:
    caller = _caller(besieged)
    answer = _call(caller, name.encode().decode("latin-1"), "run", command="echo ran")
    assert answer.status in {400, 412, 431}
    assert b"ran" not in answer.body


@pytest.mark.promise("S4.13.project")
def test_projects_without_end_cost_no_memory_and_the_one_in_use_stays(besieged: OutliveServer) -> None:
    """The oldest is forgotten; whoever shows it is refused, and sends it again."""
    caller = _caller(besieged, create_token(besieged, "run"))
    names: list[Any] = [
        _put(caller, _content(root=f"/usr/{number}")).json["project"] for number in range(100)
    ]
    assert _call(caller, names[0], "run", command="true").status == 200
    names += [_put(caller, _content(root=f"/usr/{number}")).json["project"] for number in range(100, 200)]
    assert len(set(names)) == 200
    assert _call(caller, names[0], "run", command="true").status == 200
    assert _call(caller, names[1], "run", command="true").status == 412
    assert _put(caller, _content(root="/usr/1")).json["project"] == names[1]
    assert _call(caller, names[1], "run", command="true").text == "[exit 0]"
