"""Output ahead of a call's result (SEP-2998, a draft): only where the operator and the call ask for it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.mcp_http.modern_caller import ModernCaller
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer

_ASKS: dict[str, Any] = {"capabilities": {"partialResults": {}}, "meta": {"partialResultToken": "prt-1"}}


def _messages(
    caller: ModernCaller, command: str, tool: str = "execute_linux_shell_command"
) -> list[dict[str, Any]]:
    """Return all messages of one call, its response last."""
    name = "command" if tool == "command_execute" else "cmd"
    answer = caller.send("tools/call", name=tool, arguments={name: command})
    assert answer.status == 200, answer
    if answer.headers["content-type"].startswith("application/json"):
        return [answer.json]
    lines = answer.body.decode().splitlines()
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]


@pytest.mark.thorough
@pytest.mark.promise("M.partial")
@pytest.mark.parametrize("tool", ["execute_linux_shell_command", "command_execute"])
def test_pieces_come_in_order_and_the_result_is_whole(serve: ServerFactory, tool: str) -> None:
    server = serve("--mcp-partial-results")
    plain = ModernCaller(server.mcp_url)
    *pieces, response = _messages(
        replace(plain, **_ASKS), "for n in {1..9}; do echo $n; sleep 0.05; done", tool
    )
    assert pieces
    assert {piece["method"] for piece in pieces} == {"notifications/tools/partial_result"}
    assert [piece["params"]["seq"] for piece in pieces] == list(range(len(pieces)))
    assert {piece["params"]["partialResultToken"] for piece in pieces} == {"prt-1"}
    text = "".join(block["text"] for piece in pieces for block in piece["params"]["content"])
    assert text == "".join(f"{number}\n" for number in range(1, 10))
    shown = response["result"]["content"][0]["text"]
    assert (
        (text.rstrip() == shown)
        if tool == "execute_linux_shell_command"
        else (json.loads(shown)["stdout"] == text)
    )
    # With progress, too, each goes its own way.
    both = replace(plain, capabilities=_ASKS["capabilities"], meta={**_ASKS["meta"], "progressToken": "p"})
    methods = [message.get("method") for message in _messages(both, "echo one", tool)]
    assert set(methods[:-1]) == {"notifications/tools/partial_result", "notifications/progress"}
    # The draft: no notification unless the call itself declares the capability; and nothing without a token.
    other_calls: list[dict[str, Any]] = [
        {"capabilities": {}},
        {"meta": {}},
        {"meta": {"partialResultToken": True}},
    ]
    for declared in other_calls:
        assert len(_messages(replace(plain, **{**_ASKS, **declared}), "echo one", tool)) == 1


@pytest.mark.promise("M.partial")
def test_nothing_comes_where_the_operator_has_not_switched_it_on(server: OutliveServer) -> None:
    assert len(_messages(replace(ModernCaller(server.mcp_url), **_ASKS), "echo one")) == 1
