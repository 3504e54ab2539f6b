"""A search in all output, by callers that may not see it: inside a tree, and of another principal, at every
door that has it.
"""

import json
import shlex
import sys

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.mcp_http.raw_caller import RawCaller
from tests.support.server import OutliveServer

# Asks REST and MCP for a word that stands in another output, as the same user inside a command may.
_ASK = """
import http.client, json, sys
rest, mcp = map(int, sys.argv[1:3])
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "read", "arguments": {"grep": "quokk.", "all_projects": True}}}
kind = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
for port, method, path, body in ((rest, "GET", "/v1/search?text=quokk", None), (mcp, "POST", "/mcp", json.dumps(call))):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, kind)
    answer = connection.getresponse()
    print(answer.status, "seen" if b"quokka" in answer.read() else "nothing", flush=True)
"""  # noqa: E501 -- lines of a table, or of another language


def _search(server: OutliveServer, token: str | None = None) -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else None
    caller = RawCaller.begin(server.mcp_url, headers)
    params = {"name": "read", "arguments": {"grep": "quokk.", "all_projects": True}}
    return caller.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).text


@pytest.mark.promise("S4.13.grep.all", "R.search", "A.owner")
def test_a_search_shows_nothing_inside_a_tree_and_nothing_of_another_principal(
    besieged: OutliveServer,
) -> None:
    ask = Requests(besieged)
    shown = ask.start("echo a quokka")["process_id"]
    assert ask.output(shown) == "a quokka\n"
    assert "a quokka" in _search(besieged)
    for scope in ("read", "admin"):
        token = create_token(besieged, scope)
        assert _search(besieged, token) == "[no line matches]"
        reply = Requests(besieged, token)("GET", "/v1/search?text=quokka")
        assert "quokka" not in json.dumps(str(reply))
    ports = besieged.ready["ports"]
    words = [sys.executable, "-I", "-S", "-c", _ASK, str(ports["rest"]), str(ports["mcp"])]
    inside = ask.output(ask.start(shlex.join(words))["process_id"])
    statuses = [line.split() for line in inside.splitlines()]
    assert [seen for _, seen in statuses] == ["nothing", "nothing"]
    assert {status for status, _ in statuses} == {"401"}
