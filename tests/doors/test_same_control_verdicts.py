"""The same control at every door: done everywhere, or refused everywhere for the same reason."""

from collections.abc import Iterator
from typing import Any

import pytest

from outlive.client import Client
from tests.docs.wire import Wire
from tests.doors.controls import (
    ControlDoor,
    client_controls,
    json_rpc_controls,
    rest_controls,
    tool_controls,
)
from tests.doors.starts import ACCEPTED, REFUSED
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

_BAD = "invalid_params"
_NOBODY = "0" * 26
_OF_PROCESSES = {"control", "signal", "resize", "relabel", "wait"}

# Operation, members, verdict: of a process with a terminal, or of a terminal.
_CONTROLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "pause": ("control", {"action": "pause"}, ACCEPTED),
    "resume": ("control", {"action": "resume"}, ACCEPTED),
    "no action": ("control", {}, _BAD),
    "an unknown action": ("control", {"action": "explode"}, _BAD),
    "an action that is a number": ("control", {"action": 5}, _BAD),
    "a grace before now": ("control", {"action": "cancel", "grace": -1}, _BAD),
    "a grace of ages": ("control", {"action": "cancel", "grace": 1e12}, _BAD),
    "a grace that is no time": ("control", {"action": "cancel", "grace": "soon"}, _BAD),
    "a control with more": ("control", {"action": "resume", "unknown": 5}, _BAD),
    "a signal by name": ("signal", {"signal": "WINCH"}, ACCEPTED),
    "a signal by its whole name": ("signal", {"signal": "SIGWINCH"}, ACCEPTED),
    "a signal by number": ("signal", {"signal": 28}, ACCEPTED),
    "a signal for the tree": ("signal", {"signal": "WINCH", "whole_tree": True}, ACCEPTED),
    "no signal": ("signal", {}, _BAD),
    "a signal of null": ("signal", {"signal": None}, _BAD),
    "an unknown signal": ("signal", {"signal": "NOTHING"}, _BAD),
    "a signal without a name": ("signal", {"signal": ""}, _BAD),
    "a signal of 0": ("signal", {"signal": 0}, _BAD),
    "a signal of 1000": ("signal", {"signal": 1000}, _BAD),
    "a signal that is a flag": ("signal", {"signal": True}, _BAD),
    "a signal for a text": ("signal", {"signal": "WINCH", "whole_tree": "yes"}, _BAD),
    "a size": ("resize", {"rows": 50, "cols": 132}, ACCEPTED),
    "the largest size": ("resize", {"rows": 65535, "cols": 65535}, ACCEPTED),
    "a size without rows": ("resize", {"rows": 0, "cols": 80}, _BAD),
    "a size that is too wide": ("resize", {"rows": 24, "cols": 65536}, _BAD),
    "a size that lacks a member": ("resize", {"rows": 24}, _BAD),
    "a size of half a row": ("resize", {"rows": 2.5, "cols": 80}, _BAD),
    "a size that is a text": ("resize", {"rows": "24", "cols": 80}, _BAD),
    "a tag": ("relabel", {"tags": {"a": "b"}}, ACCEPTED),
    "a tag to remove": ("relabel", {"tags": {"a": None}}, ACCEPTED),
    "65 tags": ("relabel", {"tags": {f"t{one}": "" for one in range(65)}}, _BAD),
    "a tag without a name": ("relabel", {"tags": {"": "b"}}, _BAD),
    "a tag with a long name": ("relabel", {"tags": {"x" * 129: "b"}}, _BAD),
    "a tag with a long value": ("relabel", {"tags": {"a": "b" * 1025}}, _BAD),
    "a tag that is a number": ("relabel", {"tags": {"a": 5}}, _BAD),
    "no tags": ("relabel", {"tags": None}, ACCEPTED),
    "tags in a list": ("relabel", {"tags": []}, _BAD),
    "a group": ("relabel", {"group": "g"}, ACCEPTED),
    "no group": ("relabel", {"group": None}, ACCEPTED),
    "a group without a name": ("relabel", {"group": ""}, _BAD),
    "a group with a long name": ("relabel", {"group": "g" * 129}, _BAD),
    "a name": ("relabel", {"name": "web"}, ACCEPTED),
    "no name": ("relabel", {"name": None}, ACCEPTED),
    "a name that is a short id": ("relabel", {"name": "p7"}, "name_invalid"),
    "nothing to change": ("relabel", {}, ACCEPTED),
    "no wait": ("wait", {"wait_s": 0}, ACCEPTED),
    "a wait before now": ("wait", {"wait_s": -1}, _BAD),
    "a wait of ages": ("wait", {"wait_s": 3601}, _BAD),
    "a wait for noon": ("wait", {"wait_s": 0, "until": "noon"}, _BAD),
    # A caller without the scope admin, which is what comes over TCP without a token, learns that first.
    "a yes": ("approve", {"digest": "0f" * 32}, "scope_missing"),
    "a digest that is none": ("approve", {"digest": "x"}, "scope_missing"),
    "no digest": ("approve", {}, "scope_missing"),
    "a no": ("deny", {"reason": "No."}, "scope_missing"),
    "a long reason": ("deny", {"reason": "x" * 501}, "scope_missing"),
    "a terminal of an unknown kind": ("terminal_create", {"target": "moon"}, _BAD),
    "a terminal without rows": ("terminal_create", {"rows": 0}, _BAD),
    "a terminal without a name": ("terminal_create", {"terminal_name": ""}, _BAD),
    "a terminal with a name of two lines": ("terminal_create", {"terminal_name": "a\nb"}, _BAD),
    "a terminal of an unknown profile": ("terminal_create", {"profile": "weak"}, _BAD),
    "a terminal of 65 tags": ("terminal_create", {"tags": {f"t{one}": "" for one in range(65)}}, _BAD),
    "a terminal of no image": ("terminal_create", {"image": ""}, _BAD),
    "a terminal of no backend": ("terminal_create", {"backend": ""}, _BAD),
    "a line in a terminal": ("terminal_execute", {"command": "true"}, ACCEPTED),
    "an empty line in a terminal": ("terminal_execute", {"command": ""}, _BAD),
    "a wait in a terminal before now": ("terminal_execute", {"command": "true", "wait_s": -1}, _BAD),
    "nothing typed": ("terminal_write", {}, _BAD),
    "an unknown key": ("terminal_write", {"keys": ["hyper"]}, _BAD),
    "a key": ("terminal_write", {"keys": ["enter"]}, ACCEPTED),
    "a terminal's size": ("terminal_resize", {"rows": 30, "cols": 100}, ACCEPTED),
    "a terminal's size without cols": ("terminal_resize", {"rows": 30, "cols": 0}, _BAD),
    "a small budget": ("terminal_read", {"budget": 99}, _BAD),
    "an unknown form": ("terminal_read", {"form": "pretty"}, _BAD),
}
# Of a process that is not there, where the members are right.
_OF_NOBODY: dict[str, tuple[str, dict[str, Any]]] = {
    "a pause": ("control", {"action": "pause"}),
    "a signal": ("signal", {"signal": "INT"}),
    "a size": ("resize", {"rows": 24, "cols": 80}),
    "tags": ("relabel", {"tags": {}}),
    "a wait": ("wait", {"wait_s": 0}),
}
# Where a promise wants another verdict: control and door -> the verdict, and the promise.
_PROMISED = {
    ("a control with more", "jsonrpc"): (ACCEPTED, "S0.3.unknown-keys"),
    # A model's wait is cut to what its host can wait, whatever it says.
    ("a wait of ages", "mcp"): (ACCEPTED, "S4.13.waits"),
}


@pytest.fixture(scope="module")
def control_doors(server: OutliveServer) -> Iterator[dict[str, ControlDoor]]:
    """Every door that has controls by its name."""
    tools = RawCaller.begin(server.mcp_url)
    with Wire.dialled(server.url) as wire, Client(server.state_dir, start_server=False) as client:
        yield {
            "jsonrpc": json_rpc_controls(wire),
            "rest": rest_controls(RestCaller(server.rest_url)),
            "mcp": tool_controls(tools),
            "client": client_controls(client),
        }


@pytest.fixture(scope="module")
def process_id(server: OutliveServer) -> Iterator[str]:
    """A process in a terminal of its own that waits for input."""
    rest = RestCaller(server.rest_url)
    name = rest.start("exec cat", pty=True)["process_id"]
    yield name
    rest.call("DELETE", f"/v1/processes/{name}", force="true")


@pytest.fixture(scope="module")
def terminal_id(server: OutliveServer) -> Iterator[str]:
    """An open terminal."""
    rest = RestCaller(server.rest_url)
    name = rest.call("POST", "/v1/terminals", {}, expect=201).json["terminal_id"]
    yield name
    rest.call("DELETE", f"/v1/terminals/{name}")


def _verdicts(
    doors: dict[str, ControlDoor], operation: str, name: str, members: dict[str, Any]
) -> dict[str, str]:
    asked = {door: ask(operation, name, members) for door, ask in doors.items()}
    return {door: verdict for door, verdict in asked.items() if verdict is not None}


@pytest.mark.parametrize("name", _CONTROLS)
def test_a_control_has_one_verdict(
    name: str, control_doors: dict[str, ControlDoor], process_id: str, terminal_id: str
) -> None:
    operation, members, wanted = _CONTROLS[name]
    asked = terminal_id if operation.startswith("terminal_") else process_id
    found = _verdicts(control_doors, operation, asked, members)
    assert len(found) >= 2
    expected = {}
    for door, verdict in found.items():
        told, _promise = _PROMISED.get((name, door), (wanted, ""))
        expected[door] = REFUSED if verdict == REFUSED and told != ACCEPTED else told
    assert found == expected


@pytest.mark.parametrize("name", _OF_NOBODY)
def test_a_control_of_nobody_has_one_verdict(name: str, control_doors: dict[str, ControlDoor]) -> None:
    operation, members = _OF_NOBODY[name]
    found = _verdicts(control_doors, operation, _NOBODY, members)
    assert len(found) >= 2
    assert set(found.values()) <= {"process_not_found", REFUSED}


# Of a process that is not there, where a member is wrong, too: that is said first.
_WRONG_OF_NOBODY = [
    name
    for name, (operation, _, wanted) in _CONTROLS.items()
    if wanted == _BAD and operation in _OF_PROCESSES
]


@pytest.mark.parametrize("name", _WRONG_OF_NOBODY)
def test_a_member_that_is_wrong_is_said_before_that_the_process_is_not_there(
    name: str, control_doors: dict[str, ControlDoor]
) -> None:
    operation, members, _ = _CONTROLS[name]
    found = _verdicts(control_doors, operation, _NOBODY, members)
    assert len(found) >= 2
    # The client asks for the process itself before anything can be done to it.
    promised = {"client", *(door for control, door in _PROMISED if control == name)}
    assert {found[door] for door in found if door not in promised} <= {_BAD, REFUSED}, found
