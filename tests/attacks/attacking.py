"""What attacks are made with: requests with any header, another user, tokens, commands that call back."""

import http.client
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import OutliveServer, run_outlive

NOBODY = 65534
_PATIENCE_S = 60.0
# A profile may hide the interpreter of the tests.
_PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

needs_second_user = pytest.mark.root("only root can act as another user")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer's status and JSON body ({} where it is something else)."""

    status: int
    body: Any

    @property
    def slug(self) -> str:
        """The error's stable word, in whichever of the three shapes it came."""
        if "jsonrpc" in self.body:
            return str(self.body["error"]["data"]["reason"])
        return str(self.body.get("slug") or self.body.get("error"))


class Requests:
    """Requests to one server over TCP, with a token or without."""

    def __init__(self, server: OutliveServer, token: str | None = None) -> None:
        self._port = server.ready["ports"]["rest"]
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __call__(
        self, method: str, path: str, *, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request on a connection of its own."""
        return ask(self._port, method, path, body=body, headers={**self._headers, **(headers or {})})

    def start(self, command: str, **options: object) -> dict[str, Any]:
        """Start a process and return how it is shown."""
        reply = self("POST", "/v1/processes", body={"command": command, **options})
        assert reply.status == 201, reply
        view: dict[str, Any] = reply.body
        return view

    def output(self, process_id: str) -> str:
        """Return all output of a process, once it has ended."""
        self("GET", f"/v1/processes/{process_id}/wait?until=closed&timeout=20")
        page = self("GET", f"/v1/processes/{process_id}/output")
        assert page.status == 200, page
        return "".join(chunk["data"] for chunk in page.body["chunks"])


def ask(
    port: int,
    method: str,
    path: str,
    *,
    host: str = "127.0.0.1",
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Send one request to 127.0.0.1 or ::1 and return the answer."""
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE_S)
    try:
        raw = None if body is None else json.dumps(body).encode()
        kind = {} if raw is None else {"Content-Type": "application/json"}
        connection.request(method, path, body=raw, headers={**kind, **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    try:
        document = json.loads(content)
    except ValueError:
        document = {}
    return Reply(answer.status, document if isinstance(document, dict) else {})


def create_token(
    server: OutliveServer, scope: str = "run", *, name: str | None = None, expires: str = ""
) -> str:
    """Return a new token, made by the command line."""
    words = ["token", "create", "--scope", scope]
    words += ["--name", name] if name else []
    words += ["--expires", expires] if expires else []
    done = run_outlive(*words, state_dir=server.state_dir)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Becomes the other user by itself: the interpreter may lie where that one cannot reach it.
_KNOCK = """
import json, os, socket, sys
host, port, token, routes = sys.argv[1], int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
os.setgroups([])
os.setuid(65534)
shown = "Authorization: Bearer " + token + "\\r\\n" if token else ""
upgrade = (
    "Upgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\nConnection: Upgrade\\r\\n"
)
found = []
for method, path in routes:
    rest = upgrade if method == "WEBSOCKET" else "Content-Length: 0\\r\\nConnection: close\\r\\n"
    verb = "GET" if method == "WEBSOCKET" else method
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as peer:
        peer.settimeout(20)
        peer.connect((host, port))
        peer.sendall((verb + " " + path + " HTTP/1.1\\r\\nHost: localhost\\r\\n" + shown + rest + "\\r\\n").encode())
        found.append(int(peer.recv(4096).split()[1]))
print(json.dumps(found))
"""  # noqa: E501 -- lines of a table, or of another language


def knock_as_nobody(
    port: int, routes: Sequence[tuple[str, str]], *, host: str = "127.0.0.1", token: str = ""
) -> dict[tuple[str, str], int]:
    """Return the status that a real second user gets of each route, a method (or WEBSOCKET) and a path."""
    command = [sys.executable, "-I", "-c", _KNOCK, host, str(port), token, json.dumps(routes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return dict(zip(routes, json.loads(done.stdout), strict=True))


# What a command does to call back. Standard library only, and no environment needed.
_CALL_BACK = """
import http.client, json, socket, sys, time

class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.host)

def knock(connection, method, path, body=None, headers={}):
    connection.request(method, path, body=body, headers={**headers, "Host": "localhost"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    return [answer.status, content.get("slug") or content.get("error")]

state_dir, port, token, target, out, profile = sys.argv[1:]
shown = {"Authorization": "Bearer " + token} if token else {}
start = json.dumps({"command": "echo broken in", "profile": profile or None})
kind = {"Content-Type": "application/json", **shown}
found = {}
for name, make in (
    ("unix", lambda: Unix(state_dir + "/server.sock")),
    ("tcp", lambda: http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)),
    ("tcp6", lambda: http.client.HTTPConnection("::1", int(port), timeout=20)),
):
    try:
        found[name] = knock(make(), "POST", "/v1/processes", start, kind)
        found[name + " read"] = knock(make(), "GET", "/v1/processes/" + target + "/output", headers=shown)
    except OSError as error:
        found[name] = found[name + " read"] = [0, str(error)]
for operation in ({"op": "hello", "role": "server"}, {"op": "stop", "id": target, "cause": 1, "grace_s": 0}, {"op": "end", "kill": True}, {"op": "retire"}):
    reply = b""
    for attempt in range(20):  # one that came while a new supervisor was recovering may be dropped, and comes again
        keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        keeper.settimeout(20)
        try:
            keeper.connect(state_dir + "/keeper.sock")
            keeper.send(b"J" + json.dumps({**operation, "req": 1}).encode())
            reply = keeper.recv(1 << 18)
        except OSError:
            reply = b""
        if reply:
            break
        time.sleep(0.1)
    reply = reply or b'J{"error": "no answer"}'
    found["keeper " + operation["op"]] = json.loads(reply[1:].partition(b"\\0")[0]).get("error")
with open(out + ".new", "w") as file:
    json.dump(found, file)
import os
os.rename(out + ".new", out)
"""  # noqa: E501 -- lines of a table, or of another language

_WAYS = {
    "child": "{call}",
    "cleared": "env -i {call}",
    "daemon": "setsid -f env -i {call} >/dev/null 2>&1",
    "grandchild": "(setsid -f setsid -f env -i {call} >/dev/null 2>&1 &)",
}


def inside(
    server: OutliveServer,
    folder: Path,
    *,
    way: str,
    target: str,
    token: str = "",
    profiles: tuple[str, str] = ("open", ""),
    at: OutliveServer | None = None,
    backend: str = "local",
) -> dict[str, Any]:
    """Run a command that calls on every socket of its server, or of the one `at`, in one of four ways.

    Return what it got. `profiles`: that of the command, and the one that it asks for what it starts.
    """
    script, out = folder / "call.py", folder / f"{way}.json"
    script.write_text(_CALL_BACK)
    called = at or server
    port = str(called.ready["ports"]["rest"])
    words = [_PYTHON, "-I", "-S", str(script), str(called.state_dir), port, token, target, str(out)]
    call = shlex.join([*words, profiles[1]])
    options = {"profile": profiles[0], "cwd": str(folder)} if backend == "local" else {"backend": backend}
    Requests(server).start(_WAYS[way].format(call=call), **options)
    deadline = time.monotonic() + _PATIENCE_S
    while not out.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    found: dict[str, Any] = json.loads(out.read_text())
    return found
