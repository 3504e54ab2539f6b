"""Every method, tool and route says how much its caller must be allowed, and none is forgotten."""

from typing import cast

import pytest

from outlive.config import Settings
from outlive.core.errors import AccessDenied
from outlive.engine import Engine
from outlive.frontends.jsonrpc.methods import methods
from outlive.frontends.mcp.tools.table import TOOL_SETS
from outlive.frontends.rest.processes import healthz
from outlive.frontends.rest.routes import RestRoute
from outlive.frontends.rest.service import ROUTES, RestService
from outlive.operations.table import all_operations
from outlive.policy.access import Access, Scope
from outlive.protocols.mcp.arguments import RunArguments, ShellArguments
from outlive.protocols.rest.requests import StartRequest
from outlive.server.access.web_pages import STATIC_PAGES
from scripts.measure import house

_LOOKS = {
    "attach",
    "list",
    "get",
    "read",
    "events",
    "nodes",
    "disk",
    "statistics",
    "search",
    "groups",
    "usage",
    "wait",
    "terminal_list",
    "terminal_read",
    "services_list",
}
_DECIDES = {"approvals", "approve", "deny", "audit", "settings", "checks"} | {
    f"node_{name}" for name in ("add", "drain", "resume", "adopt", "remove", "invite", "join", "leave")
}
_FOR_ADMINS = ("/v1/approvals", "/v1/audit", "/v1/settings", "/v1/checks", "/v1/gateways")


@pytest.mark.promise("A.scope")
def test_methods_that_only_look_need_the_scope_read_those_that_decide_admin_and_all_others_run() -> None:
    scopes = {name: all_operations()[name].scope for name in methods()}
    assert {name for name, scope in scopes.items() if scope is Scope.READ} == _LOOKS
    assert {name for name, scope in scopes.items() if scope is Scope.ADMIN} == _DECIDES
    assert set(scopes.values()) == {Scope.READ, Scope.RUN, Scope.ADMIN}


def test_every_operation_is_offered_and_what_a_frontend_takes_inherits_from_it() -> None:
    """An operation that no frontend has, or a request of a frontend's own beside it, is a fact told twice."""
    assert set(methods()) == set(all_operations()) - {"health", "ui_code"}  # asked over HTTP alone
    for name, method in methods().items():
        operation = all_operations()[name]
        assert operation.help.endswith(".")
        if operation.request is not None:
            assert issubclass(method.shape, operation.request)
    for shape, name in ((StartRequest, "execute"), (RunArguments, "execute"), (ShellArguments, "execute")):
        request = all_operations()[name].request
        assert request is not None
        assert issubclass(shape, request)


@pytest.mark.parametrize("verb", house.VERBS)
def test_a_verb_on_a_process_is_spelled_in_one_file_of_json_rpc(verb: str) -> None:
    """House: what it takes, what it gives and what the engine is asked stand together."""
    rooms = ("frontends/jsonrpc/", "protocols/jsonrpc/")
    found = [one for one in house.knowing(house.modules(), verb) if one.startswith(rooms)]
    assert found == ["frontends/jsonrpc/controls.py"]


@pytest.mark.promise("A.scope")
def test_every_tool_has_a_scope_and_what_is_said_to_only_read_needs_no_more() -> None:
    looking = "get_status list_history list_processes read wait list terminal_list terminal_read"
    for tool in TOOL_SETS["all"]:
        is_looking = tool.name.removeprefix("command_") in looking.split()
        annotations = tool.definition()["annotations"]
        assert isinstance(annotations, dict)
        assert annotations["readOnlyHint"] is is_looking
        assert tool.scope is (Scope.READ if is_looking else Scope.RUN)


@pytest.mark.promise("A.scope")
def test_every_rest_route_has_the_scope_of_its_operation() -> None:
    service = RestService(cast("Engine", None), Settings())  # nothing is asked of it
    for route in ROUTES:
        assert route.operation
        assert route.scope is all_operations()[route.operation].scope
    forgotten = RestRoute("GET", "/v1/new", "", healthz)
    assert forgotten.scope is Scope.ADMIN, "a route without an operation is closed"
    for (method, path), scope in service.routes().items():
        if path.startswith(_FOR_ADMINS) or (path.startswith("/v1/nodes") and method != "GET"):
            assert scope is Scope.ADMIN
            continue
        if path in STATIC_PAGES:
            assert scope is Scope.HELLO, "a link on any page may open it"
            continue
        looks = method in {"GET", "WEBSOCKET"} and not path.startswith(
            "/v1/files"
        )  # files need what a command needs
        assert scope is (Scope.READ if looks else Scope.RUN)


@pytest.mark.parametrize("has", list(Scope))
@pytest.mark.parametrize("needs", list(Scope))
def test_each_scope_includes_those_below_it(has: Scope, needs: Scope) -> None:
    access = Access(principal="token:t", scope=has)
    if has >= needs:
        access.require(needs)
        return
    with pytest.raises(AccessDenied) as refused:
        access.require(needs)
    assert refused.value.code == "scope_missing"
    assert refused.value.details == {"needed": needs.name.lower(), "given": has.name.lower()}
