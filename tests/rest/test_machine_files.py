"""/v1/files: a folder's entries, a file's bytes by ranges, and a new file.

Whole or not at all, and never outlive's own.
"""

import hashlib
import os
import socket
import stat
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.attacks.attacking import create_token
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

_FILES, _CONTENT = "/v1/files", "/v1/files/content"


def _at(route: str, path: Path | str, **query: str) -> str:
    return f"{route}?{urlencode({'path': str(path), **query})}"


_BYTES = {"Content-Type": "application/octet-stream"}


@pytest.mark.promise("R.machine_files")
def test_a_file_is_written_listed_and_read_by_ranges(server: OutliveServer, tmp_path: Path) -> None:
    rest = RestCaller(server.rest_url)
    content = os.urandom(2_500_000)
    digest = hashlib.sha256(content).hexdigest()
    path = tmp_path / "dä ta.bin"
    written = rest.send("PUT", _at(_CONTENT, path, mode="640", sha256=digest), content, headers=_BYTES)
    assert (written.status, written.json["sha256"], written.json["entry"]["size"]) == (
        200,
        digest,
        len(content),
    )
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    found = rest.call("GET", _at(_FILES, tmp_path)).json
    assert (found["place"], found["entry"]["kind"], found["after"]) == ("local", "folder", None)
    assert [one["name"] for one in found["entries"]] == ["dä ta.bin"]
    whole = rest.send("GET", _at(_CONTENT, path))
    assert (whole.status, whole.body) == (200, content)
    for text, begin, end in (
        ("bytes=5-", 5, None),
        ("bytes=0-0", 0, 1),
        ("bytes=-7", -7, None),
        ("bytes=1000000-2200000", 1_000_000, 2_200_001),
    ):
        part = rest.send("GET", _at(_CONTENT, path), headers={"Range": text})
        assert (part.status, part.body) == (206, content[begin:end])
    empty = rest.send("PUT", _at(_CONTENT, tmp_path / "empty"), b"", headers=_BYTES)
    assert empty.json["entry"]["size"] == 0
    assert rest.send("GET", _at(_CONTENT, tmp_path / "empty")).body == b""


@pytest.mark.promise("R.machine_files")
@pytest.mark.parametrize("is_same_time", [False, True])
def test_no_answer_is_the_beginning_of_one_file_and_the_end_of_another(
    server: OutliveServer, tmp_path: Path, is_same_time: bool
) -> None:
    """What was announced does not come then, which a client sees: not even a file of the same size and time
    is put in its place.
    """
    size = 64 << 20  # far more than lies in sockets
    path, other = tmp_path / "f", tmp_path / "other"
    for one in (path, other):
        one.touch()
        os.truncate(one, size)
        os.utime(one, ns=(7, 7 if is_same_time else 8))
    host, port = server.rest_url.removeprefix("http://").split(":")
    connection = HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request("GET", _at(_CONTENT, path))
        response = connection.getresponse()
        assert (response.status, response.headers["Content-Length"]) == (200, str(size))
        response.read(1000)
        os.replace(other, path)
        with pytest.raises((IncompleteRead, ConnectionResetError)):
            response.read()
    finally:
        connection.close()


@pytest.mark.promise("R.machine_files")
def test_the_rest_of_a_file_is_sent_only_where_it_is_still_that_file(
    server: OutliveServer, tmp_path: Path
) -> None:
    """RFC 9110, 13.1.5: a range of another file than the client has the beginning of is ignored."""
    rest, path = RestCaller(server.rest_url), tmp_path / "f"

    def rest_of(tag: str) -> tuple[int, bytes]:
        answer = rest.send("GET", _at(_CONTENT, path), headers={"Range": "bytes=5-", "If-Range": tag})
        return answer.status, answer.body

    path.write_bytes(b"head tail")
    tag = rest.send("GET", _at(_CONTENT, path)).headers["etag"]
    assert tag[0] == tag[-1] == '"'
    assert rest.send("GET", _at(_CONTENT, path), headers={"If-Range": "no tag"}).status == 200
    part = rest.send("GET", _at(_CONTENT, path), headers={"Range": "bytes=5-", "If-Range": tag})
    assert (part.status, part.body, part.headers["etag"]) == (206, b"tail", tag)
    for other in (f"W/{tag}", '"other"', "Sat, 29 Oct 1994 19:43:31 GMT"):
        assert rest_of(other) == (200, b"head tail")
    looked = path.stat()
    (tmp_path / "g").write_bytes(b"HEAD TAIL")
    os.utime(tmp_path / "g", ns=(looked.st_atime_ns, looked.st_mtime_ns))
    os.replace(tmp_path / "g", path)
    assert rest_of(tag) == (200, b"HEAD TAIL")


@pytest.mark.promise("R.machine_files")
def test_a_file_is_there_whole_or_not_at_all(server: OutliveServer, tmp_path: Path) -> None:
    rest = RestCaller(server.rest_url)
    (tmp_path / "f").write_text("before")
    queries: tuple[dict[str, str], ...] = ({"sha256": "0" * 64}, {"mode": "9"})
    for query in queries:
        answer = rest.send("PUT", _at(_CONTENT, tmp_path / "f", **query), b"after", headers=_BYTES)
        assert answer.status in {409, 422}
    # A client that dies within its body.
    host, port = server.rest_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = (
            f"PUT {_at(_CONTENT, tmp_path)}/f HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: "
            "3000000\r\n\r\n"
        )
        connection.sendall(head.encode() + bytes(2_000_000))
    rest.call("GET", _at(_FILES, tmp_path))
    assert (tmp_path / "f").read_text() == "before"


@pytest.mark.promise("R.machine_files", "S0.19.copy_wall", "S0.19.copy_callers")
def test_what_a_caller_may_not_copy_is_not_read_over_rest(server: OutliveServer, tmp_path: Path) -> None:
    rest = RestCaller(server.rest_url)
    state = str(server.state_dir)
    for method, path in (
        ("GET", f"{state}/tokens.json"),
        ("PUT", f"{state}/x"),
        ("GET", "/proc/self/environ"),
    ):
        body = b"x" if method == "PUT" else None
        answer = rest.send(method, _at(_CONTENT, path), body, headers=_BYTES)
        assert (answer.status, answer.json["slug"]) == (403, "path_refused")
    assert rest.send("GET", _at(_CONTENT, tmp_path / "none")).json["slug"] == "file_missing"
    assert rest.send("GET", _at(_FILES, tmp_path / "none")).status == 404
    assert rest.send("GET", _at(_CONTENT, tmp_path)).json["slug"] == "file_failed"
    (tmp_path / "f").write_text("x")
    for text in ("bytes=9-", "bytes=0-1,3-4", "lines=1-2"):
        refused = rest.send("GET", _at(_CONTENT, tmp_path / "f"), headers={"Range": text})
        assert refused.json["slug"] == "invalid_params"
    reader = {"Authorization": f"Bearer {create_token(server, 'read')}"}
    answer = rest.send("GET", _at(_FILES, tmp_path), headers=reader)
    assert (answer.status, answer.json["slug"]) == (403, "scope_missing")
