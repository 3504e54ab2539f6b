"""A file that is sent into a process's working folder: whole or not at all, and never where a command could
not write.
"""

import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.rest.rest_caller import Answer, Query, RestCaller
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


def _send(rest: RestCaller, process_id: str, body: bytes, **query: Query) -> Answer:
    headers = {"Content-Type": "application/octet-stream"}
    return rest.send("POST", f"/v1/processes/{process_id}/files", body, headers=headers, **query)


def _slug(answer: Answer) -> Any:  # noqa: ANN401 -- JSON
    return json.loads(answer.body)["slug"]


def _names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.promise("R.files")
def test_a_file_appears_where_the_process_works_now(rest: RestCaller, tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    process_id = rest.start("cd deeper; echo there; exec sleep 60", cwd=str(tmp_path))["process_id"]
    while b"there" not in rest.raw(process_id):
        pass
    content = os.urandom(3_000_000)
    answer = _send(rest, process_id, content, name="dä ta'.bin")
    file = tmp_path / "deeper" / "dä ta'.bin"
    assert (answer.status, answer.json["path"], answer.json["bytes"]) == (201, str(file), len(content))
    assert file.read_bytes() == content
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert _names(tmp_path / "deeper") == ["dä ta'.bin"]
    view = rest.call("GET", f"/v1/processes/{answer.json['process_id']}").json
    assert view["tags"] == {"upload": "dä ta'.bin"}
    # What is there stays, unless it is to be replaced.
    refused = _send(rest, process_id, b"other", name="dä ta'.bin")
    assert (refused.status, _slug(refused)) == (409, "file_exists")
    assert file.read_bytes() == content
    assert _send(rest, process_id, b"other", name="dä ta'.bin", replace="true").status == 201
    assert file.read_bytes() == b"other"
    assert _send(rest, process_id, b"", name="empty", folder=str(tmp_path)).status == 201
    assert (tmp_path / "empty").read_bytes() == b""
    rest.call("POST", f"/v1/processes/{process_id}/signal", {"signal": "KILL"})


@pytest.mark.promise("R.files.bounds")
@pytest.mark.parametrize(
    "name", ["", ".", "..", "../up", "a/b", "/etc/x", "a\nb", "a\0b", "\x1b[2J", "x" * 256]
)
def test_no_name_leads_out_of_the_folder(rest: RestCaller, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    process_id = rest.run("true", cwd=str(folder))["process_id"]
    answer = _send(rest, process_id, b"x", name=name)
    assert (answer.status, _slug(answer)) == (422, "invalid_params")
    assert _names(tmp_path) == ["in"]
    assert _names(folder) == []


@pytest.mark.promise("R.files.bounds")
@pytest.mark.parametrize("replace", ["false", "true"])
def test_no_link_is_followed(rest: RestCaller, tmp_path: Path, replace: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "victim").write_text("as it was")
    (folder / "link").symlink_to(tmp_path / "victim")
    (folder / "dangling").symlink_to(tmp_path / "new")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "real").mkdir()
    process_id = rest.run("true", cwd=str(folder))["process_id"]
    for name in ("link", "dangling", "folder"):
        answer = _send(rest, process_id, b"attack", name=name, replace=replace)
        if replace == "false":
            assert _slug(answer) == "file_exists"
            assert (folder / name).is_symlink()
        else:
            assert answer.status == 201
            assert not (folder / name).is_symlink(), "the link itself is replaced"
    assert _slug(_send(rest, process_id, b"attack", name="real", replace=replace)) == "file_exists"
    assert _names(tmp_path) == ["in", "victim"]
    assert (tmp_path / "victim").read_text() == "as it was"
    assert _names(folder) == ["dangling", "folder", "link", "real"]


@pytest.mark.promise("R.files")
def test_a_file_that_does_not_come_whole_does_not_appear(rest: RestCaller, tmp_path: Path) -> None:
    process_id = rest.run("true", cwd=str(tmp_path))["process_id"]
    host, _, port = rest.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as connection:
        head = (
            f"POST /v1/processes/{process_id}/files?name=part HTTP/1.1\r\nHost: {host}:{port}\r\n"
            "Content-Length: 1000000\r\n\r\n"
        )
        connection.sendall(head.encode() + b"x" * 1000)
        found: list[Any] = []
        while not found:  # the command has begun
            found = rest.call("GET", "/v1/processes", tag="upload=part").json["processes"]
    ended = rest.wait(found[0]["process_id"])
    assert ended["status"] != "completed"
    assert _names(tmp_path) == []
    answer = rest.send(
        "POST",
        f"/v1/processes/{process_id}/files",
        b"x",
        headers={"Content-Length": "5000000000"},
        name="large",
    )
    assert (answer.status, _slug(answer)) == (413, "body_too_large")


@pytest.mark.promise("R.files.bounds")
def test_an_upload_may_do_what_a_command_of_its_caller_may(own_server: OutliveServer, tmp_path: Path) -> None:
    """Another principal's process is not found, a looker is refused, and a profile bounds what is written."""
    mine = Requests(own_server)
    folder = tmp_path / "in"
    folder.mkdir()
    process_id = mine.start("true", cwd=str(folder))["process_id"]
    path = f"/v1/processes/{process_id}/files?name=x"
    other = Requests(own_server, create_token(own_server, "run", name="other"))("POST", path, body="x")
    assert other.status == 404
    looker = Requests(own_server, create_token(own_server, "read", name="looker"))("POST", path, body="x")
    assert looker.status == 403
    assert _names(folder) == []


@pytest.mark.promise("R.files.bounds")
def test_where_the_rules_allow_no_such_command_nothing_is_written(
    serve: ServerFactory, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rest = RestCaller(serve(ALLOWED_COMMANDS="true").rest_url)
    process_id = rest.run("true", cwd=str(folder))["process_id"]
    answer = _send(rest, process_id, b"x", name="x")
    assert (answer.status, _slug(answer)) == (403, "command_not_allowed")
    assert _names(folder) == []
