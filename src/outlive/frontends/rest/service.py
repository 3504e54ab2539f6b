"""What serves REST once it is asked for: the table of all routes (`ROUTES`), and the application made of it
(`RestService`).

From the table come Starlette's routes, what each needs of its caller, and the document and the page that
describe them.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope
from starlette.websockets import WebSocketClose

from outlive import __version__
from outlive.config import Settings
from outlive.engine import Engine
from outlive.frontends.rest import documents, files, processes
from outlive.frontends.rest.files import upload
from outlive.frontends.rest.follow import EVENTS, follow, follow_socket
from outlive.frontends.rest.openapi import make_document, render_page
from outlive.frontends.rest.output import ASCIICAST_TYPE, BYTES_TYPE, LINES, TEXT, read, search
from outlive.frontends.rest.problems import DOCS_PATH, send_problem
from outlive.frontends.rest.routes import WEBSOCKET, Members, RestCall, RestContext, RestPath, RestRoute
from outlive.operations import answers as shared
from outlive.operations.controls import CONTROLS, Changes, Resize
from outlive.operations.files import FolderPage, NewFile
from outlive.operations.operation import Operation
from outlive.operations.reports import REPORTS
from outlive.operations.schemas import Schema, reference
from outlive.operations.table import all_operations
from outlive.operations.terminal_requests import ExecuteRequest, InputRequest, NewTerminalRequest
from outlive.policy.access import Scope
from outlive.protocols.rest import answers
from outlive.protocols.rest.requests import OfTerminal
from outlive.server.http.boundary import ErrorBoundary
from outlive.server.operations import Operations

# A page that loads nothing: whatever is smuggled into a text stays a text.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def _header(text: str) -> Schema:
    return {"description": text, "schema": {"type": "string"}}


def _content(media_type: str, **schema: str) -> Schema:
    return {media_type: {"schema": {"type": "string", **schema}}}


_BYTES = _content(BYTES_TYPE, format="binary")
_STARTED: Mapping[int, Schema] = {
    201: {"description": "It runs.", "headers": {"Location": _header("Where the process is.")}},
    200: {
        "description": "The Idempotency-Key has started it before.",
        "content": {"application/json": {"schema": reference(answers.ProcessView)}},
    },
}
_RERUN: Mapping[int, Schema] = {201: _STARTED[201]}
_OPENED: Mapping[int, Schema] = {
    201: {"description": "It shows its prompt.", "headers": {"Location": _header("Where the terminal is.")}}
}
_OUTPUT: Mapping[int, Schema] = {
    200: {
        "description": "A page of output, the lines that match `grep`, or the bytes themselves.",
        "content": {**_BYTES, **_content("text/plain"), **_content(ASCIICAST_TYPE)},
        "headers": {
            "Outlive-Cursor": _header("With bytes: the cursor behind them."),
            "Outlive-Redacted": _header(
                "With bytes: how many secrets are stars in them, where there are any; 3+: in the first "
                "64 MiB."
            ),
            "Outlive-Gaps": _header("With bytes and skip_gaps: what was left out, as stream=from-to."),
        },
    }
}
_FILE: Mapping[int, Schema] = {
    200: {"description": "The bytes themselves.", "content": _BYTES},
    206: {
        "description": "The range that was asked for.",
        "content": _BYTES,
        "headers": {
            "Content-Range": _header("From where to where, of how many bytes."),
            "ETag": _header("Names this version of the file, for If-Range."),
        },
    },
}
_SAVED: Mapping[int, Schema] = {201: {"description": "It is there, whole."}}
_FOLLOWED: Mapping[int, Schema] = {
    200: {
        "description": "Events `output` {type, data, end, and redacted where secrets are stars in it}, `gap` "
        "{type, from, to, end}, `completed` (the process) and `closed` {process_id}. The id of an event "
        "is the cursor behind it.",
        "content": _content(EVENTS),
    },
    204: {"description": "Everything was sent already (Last-Event-ID): an EventSource stops asking."},
}
_FOUND: Mapping[int, Schema] = {
    200: {
        "description": "One object a line, as they are found: a match {match: …}, or what was searched since "
        "the line before {searched: …}, with how much is left. The last line is {next, why}: `next` goes "
        "on there, null once everything was searched.",
        "content": {**_content(LINES), **_content(TEXT)},
    }
}
_PAGES = (answers.TimedPage, answers.MatchPage)
_INPUT = {"description": "The bytes themselves, whatever type they claim to be.", "content": _BYTES}

_ALL, _ONE, _APPROVAL = "/v1/processes", "/v1/processes/{process_id}", "/v1/approvals/{process_id}"
_CONTENT = "/v1/files/content"
_TERMINALS, _TERMINAL = "/v1/terminals", "/v1/terminals/{terminal_id}"
_ASYNC = "/api/async"
_BY_PID, _BY_ID = f"{_ASYNC}/process/terminate_by_pid/", f"{_ASYNC}/process/terminate/{{process_id}}/"
_SYNCHRONOUS, _BACKGROUND = "/api/sync/execute/", f"{_ASYNC}/execute/background/"
_VIEW = answers.ProcessView
_STATE = (409,)  # it is not in a state in which this can be done
_DISK = (507,)
_FILES = (409, 413, 507)
_LOST = (404, 409)
_NEW = (404, *_STATE, *_DISK)

# Method, path, operation, handler, answer, and statuses of errors beside those that follow from the path and
# the body. Without a handler every door answers the operation alike (`server.operations`).
_OWN: tuple[RestRoute, ...] = (
    RestRoute("POST", _ALL, "execute", processes.start, _VIEW, _DISK, 201, _STARTED),
    RestRoute("GET", _ALL, "list", processes.list_, answers.ProcessPage, (404,)),
    RestRoute("GET", _ONE, "get", processes.get, _VIEW),
    RestRoute("PATCH", _ONE, "relabel", processes.change, _VIEW, body=Changes),
    RestRoute("POST", f"{_ONE}/rerun", "rerun", processes.rerun, _VIEW, _NEW, 201, _RERUN),
    RestRoute("DELETE", _ONE, "remove", processes.remove, shared.Acknowledgement, _STATE),
    *(
        RestRoute("POST", f"{_ONE}/{name}", name, processes.change, _VIEW, _STATE, body=shape)
        for name, (shape, _) in CONTROLS.items()
    ),
    RestRoute("POST", f"{_ONE}/stdin", "write", processes.write, answers.Written, (409, 413), content=_INPUT),
    RestRoute("POST", f"{_ONE}/files", "execute", upload, answers.Uploaded, _FILES, 201, _SAVED, _INPUT),
    RestRoute("GET", f"{_ONE}/wait", "wait", processes.wait, answers.Waited),
    RestRoute("GET", f"{_ONE}/output", "read", read, _PAGES, (410,), beside=_OUTPUT),
    RestRoute("GET", f"{_ONE}/follow", "attach", follow, beside=_FOLLOWED),
    RestRoute(WEBSOCKET, f"{_ONE}/follow", "attach", follow_socket),
    RestRoute("GET", "/v1/search", "search", search, problems=(404,), beside=_FOUND),
    RestRoute("GET", "/v1/files", "file_list", files.list_files, FolderPage, _LOST),
    RestRoute("GET", _CONTENT, "file_read", files.read_file, (), _LOST, beside=_FILE),
    RestRoute("PUT", _CONTENT, "file_write", files.write_file, NewFile, (404, *_FILES), content=_INPUT),
    RestRoute("GET", "/v1/approvals", "approvals", processes.approvals, shared.Approvals),
    RestRoute("POST", f"{_APPROVAL}/approve", "approve", processes.approve, _VIEW, (*_STATE, *_DISK)),
    RestRoute("POST", f"{_APPROVAL}/deny", "deny", processes.deny, _VIEW, _STATE),
    RestRoute("GET", _TERMINALS, "terminal_list"),
    RestRoute("POST", _TERMINALS, "terminal_create", None, (), _NEW, 201, _OPENED, body=NewTerminalRequest),
    RestRoute("GET", _TERMINAL, "terminal_list", processes.terminal, shared.TerminalView),
    RestRoute("DELETE", _TERMINAL, "terminal_close", problems=_STATE),
    RestRoute("GET", f"{_TERMINAL}/output", "terminal_read", problems=_STATE),
    *(
        RestRoute("POST", f"{_TERMINAL}/{verb}", operation, problems=_STATE, asked=OfTerminal, body=body)
        for verb, operation, body in (
            ("execute", "terminal_execute", ExecuteRequest),
            ("input", "terminal_write", InputRequest),
            ("resize", "terminal_resize", Resize),
        )
    ),
    # Before the path with a parameter, which would take it, too.
    RestRoute("POST", _BY_PID, "control", documents.terminate_by_pid, answers.Terminated, (404, *_STATE)),
    RestRoute("GET", f"{_ASYNC}/processes/list/", "list", documents.list_, answers.TrackedProcesses),
    RestRoute("POST", _BACKGROUND, "execute", documents.execute_background, answers.Started, _DISK),
    RestRoute("GET", f"{_ASYNC}/process/{{process_id}}/", "get", documents.get, answers.Finished),
    RestRoute("POST", _BY_ID, "control", documents.terminate, answers.Terminated, _STATE),
    RestRoute("POST", _SYNCHRONOUS, "execute", documents.execute, answers.SyncAnswer, _DISK),
    RestRoute("GET", "/healthz", "health", processes.healthz, answers.Alive),
    RestRoute("GET", "/readyz", "health", processes.readyz, answers.Ready),
)


def _address(operation: Operation) -> tuple[str, str]:
    if operation.route:
        method, _, path = operation.route.partition(" ")
        return method, path
    is_read = operation.scope is Scope.READ or operation.name in REPORTS
    return "GET" if is_read else "POST", f"/v1/{operation.name}"


_ROUTED = {route.operation for route in _OWN}
ROUTES: tuple[RestRoute, ...] = (
    *_OWN,
    *(  # what every door answers alike and has no address of its own above
        RestRoute(*_address(one), one.name, problems=one.problems, body=one.body)
        for one in all_operations().values()
        if one.answer is not None and one.name not in _ROUTED
    ),
)


class RestService:
    """REST over HTTP, an ASGI application. Nothing has to be opened or closed."""

    def __init__(self, engine: Engine, settings: Settings, operations: Operations | None = None) -> None:
        """Serve the processes of `engine`, and what `operations` carries out (else the engine's own)."""
        operations = operations or Operations.of(engine, wait_s=settings.wait_s)
        self._context = RestContext(
            engine=engine, terminals=operations.terminals, operations=operations, settings=settings
        )
        self._routes = self._by_path()
        served: list[BaseRoute] = []
        for path, routes in self._routes.items():
            endpoint = RestPath(self._context, routes)
            served.append(Route(path, endpoint))
            if WEBSOCKET in routes:
                served.append(WebSocketRoute(path, endpoint))
        # What no handler answers is a problem, too: a path at which there is nothing, and what is unexpected.
        router = Router(served, redirect_slashes=False, default=_refuse_path)
        self._app = ErrorBoundary(router, answer=send_problem)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or WebSocket."""
        await self._app(scope, receive, send)

    def hang_up(self) -> None:
        """End streams and waits: their clients come again."""
        self._context.stopping.set()

    def routes(self) -> dict[tuple[str, str], Scope]:
        """Return everything that is answered, by method (or WEBSOCKET) and path, with what it needs of its
        caller.
        """
        return {
            (one.method, path): one.scope for path, routes in self._routes.items() for one in routes.values()
        }

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return self._document

    @cached_property
    def _document(self) -> dict[str, Any]:
        return make_document(ROUTES, __version__)

    def _by_path(self) -> dict[str, dict[str, RestRoute]]:
        """Return all routes by path and method, with the two static pages, which have no operation."""
        pages = (
            RestRoute("GET", "/openapi.json", "", self._send_document),
            RestRoute("GET", DOCS_PATH, "", self._send_page),
        )
        found: dict[str, dict[str, RestRoute]] = {}
        for route in (*ROUTES, *pages):
            # The documented paths are answered without their last slash, too.
            for path in {route.path, route.path.removesuffix("/")}:
                found.setdefault(path, {})[route.method] = route
        return found

    async def _send_document(self, _call: RestCall) -> Members:
        return self.openapi()

    async def _send_page(self, _call: RestCall) -> Response:
        return HTMLResponse(render_page(self.openapi()), headers=_PAGE_HEADERS)


async def _refuse_path(scope: AsgiScope, receive: Receive, send: Send) -> None:
    """Answer a path at which there is nothing."""
    if scope["type"] == "websocket":
        await WebSocketClose()(scope, receive, send)
        return
    await send_problem(
        scope, send, error="unknown_path", message=f"There is nothing at {scope['path'][:100]}."
    )
