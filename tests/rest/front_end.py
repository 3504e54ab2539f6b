"""A front end of the documented back end, as its document has one: a program of its own, run by
`test_front_end`.

It shares no code with outlive and its clients: what `fetch` would send, by hand, over one connection that
stays. No request says what its body is. Words: the back end's address, then the Origin of a page where it
plays one in a browser. What it has seen goes to stdout as one line of JSON.
"""

import http.client
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

_PATIENCE_S = 60.0


def fetch(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: dict[str, str] | None = None,
    *,
    page: str = "",
) -> Any:  # noqa: ANN401 -- JSON
    """Send what `fetch` sends: of a page with Origin and Fetch metadata, else as Node does.

    No Content-Type.
    """
    connection.putrequest(method, path, skip_accept_encoding=True)
    connection.putheader("Accept", "*/*")
    connection.putheader("Accept-Language", "*")
    connection.putheader("Accept-Encoding", "gzip, deflate")
    connection.putheader("Sec-Fetch-Mode", "cors")
    connection.putheader("User-Agent", "Mozilla/5.0" if page else "node")
    if page:
        connection.putheader("Origin", page)
        connection.putheader("Sec-Fetch-Site", "same-site")
        connection.putheader("Sec-Fetch-Dest", "empty")
    data = b"" if body is None else json.dumps(body).encode()
    if method == "POST":
        connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data or None)
    answer = connection.getresponse()
    text = answer.read()
    if page and answer.getheader("Access-Control-Allow-Origin") not in (page, "*"):
        raise SystemExit(f"a browser would not show this page the answer to {method} {path}")
    if answer.status != 200:
        raise SystemExit(f"{method} {path}: {answer.status} {text!r}")
    return json.loads(text)


_SHORT = ("echo out; echo err >&2; exit 3", "exit 4", "echo fine", "true")


def shown(data: dict[str, Any]) -> str:
    """Return the text that such a front end makes of a command's result: of three members, each optional."""
    text: str = data.get("output") or ""
    if data.get("error"):
        text += f"\n\nSTDERR:\n{data['error']}"
    return text.strip() or f"Command completed with return code {data.get('return_code', 0)}"


def main(address: str, page: str = "") -> None:
    """Start a command, watch it in the list, look at it, terminate it by its pid; then run a short one."""
    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_PATIENCE_S)
    seen: dict[str, object] = {}
    command = "echo from the front end; exec sleep 1000"
    started = fetch(connection, "POST", "/api/async/execute/background/", {"command": command}, page=page)
    pid = started["pid"]
    seen["started"] = (started["status"], started["command"] == command)

    def listed() -> list[str]:
        found = fetch(connection, "GET", "/api/async/processes/list/", page=page)
        if found["count"] != len(found["processes"]):
            raise SystemExit("the list counts wrongly")
        return [one["status"] for one in found["processes"] if one["pid"] == pid]

    seen["listed"] = listed()
    deadline = time.monotonic() + _PATIENCE_S
    path = f"/api/async/process/{started['process_id']}/"
    while not (described := fetch(connection, "GET", path, page=page))["stdout"]:
        if time.monotonic() > deadline:
            raise SystemExit("its output did not come")
    seen["described"] = (described["status"], described["success"], described["stdout"])
    ended = fetch(connection, "POST", f"/api/async/process/terminate_by_pid/?pid={pid}", page=page)
    seen["terminated"] = (ended["success"], ended["pid"] == pid, ended["signal"])
    seen["listed after"] = listed()
    short = fetch(connection, "POST", "/api/sync/execute/", {"command": "echo short; exit 3"}, page=page)
    seen["short"] = (short["success"], short["exit_code"], short["stdout"])
    seen["shown"] = [
        shown(fetch(connection, "POST", "/api/sync/execute/", {"command": one}, page=page)) for one in _SHORT
    ]
    connection.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
