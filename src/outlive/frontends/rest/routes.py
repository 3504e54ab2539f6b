"""One route of REST (`RestRoute`), what its handler gets (`RestCall`), and how a request is read, checked and
answered.

A handler is a function of the call, of the parameters that its `asked` names and of the body that its `body`
names, if it has these. Their types are structs of `protocols.rest.requests`; from them a request is read, and
the OpenAPI document is made (`openapi`). Its name and docstring stand in that document, too.
"""

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast, get_type_hints
from weakref import WeakValueDictionary

import msgspec
import orjson
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from outlive.config import Settings
from outlive.core.cursor import Cursor
from outlive.core.documents import checked_json
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    InvalidRequest,
    OutliveError,
    ProcessNotFound,
    ProtocolViolation,
)
from outlive.core.events import AuditEvent
from outlive.core.hints import hint_for
from outlive.core.process import Owner
from outlive.core.values import dataclass, field, replace
from outlive.engine import Asker, AuditedControls, Engine, Process, ProcessRegistry
from outlive.frontends.rest.problems import DOCS_PATH, HttpRefusal, send_problem, send_refusal
from outlive.operations.refusals import about_unknown
from outlive.operations.requests import convert_request
from outlive.operations.schemas import Schema, component_schemas
from outlive.operations.table import all_operations
from outlive.policy.access import Access, Scope
from outlive.protocols.rest.requests import OfProcess
from outlive.protocols.trace_context import traceparent_of
from outlive.server.access.guard import access_of
from outlive.server.access.web_pages import STATIC_PAGES
from outlive.server.operations import Operations, TerminalCalls
from outlive.store.output_log import OutputLog

WEBSOCKET = "WEBSOCKET"  # in the place of the method
Members = Mapping[str, object]

_JSON_TYPE = re.compile(r"application/(?:[\w.-]+\+)?json", re.IGNORECASE)
# The words for a flag in an address that msgspec does not take.
_FLAGS = MappingProxyType({"yes": "true", "on": "true", "no": "false", "off": "false"})
_KINDS = MappingProxyType({"integer": "a whole number", "number": "a number", "boolean": "true or false"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RestContext:
    """What all calls share: the engine, the terminals, what carries out the operations that every door
    answers alike, the settings, and whether the server is stopping.

    `key_locks`: the Idempotency-Keys that start a command right now.
    """

    engine: Engine
    terminals: TerminalCalls
    operations: Operations
    settings: Settings
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    key_locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCall:
    """One request, its caller, and what a handler does on the caller's behalf.

    `content` is the body as it came.
    """

    context: RestContext
    connection: HTTPConnection
    access: Access
    content: bytes = b""

    @property
    def engine(self) -> Engine:
        """The engine that runs processes."""
        return self.context.engine

    @property
    def acting(self) -> AuditedControls:
        """The verbs that change something, on the caller's behalf."""
        return self.engine.as_(self.owner())

    @property
    def registry(self) -> ProcessRegistry:
        """The caller's processes, by request id and pid."""
        return ProcessRegistry(
            self.engine,
            principal=self.access.principal,
            termination_timeout_s=self.context.settings.termination_timeout_s,
            by=self.owner(),
        )

    async def find(self, asked: OfProcess) -> Process:
        """Return a process of the caller's principal; private ones of a connection are not shown here.

        Raises:
            ProcessNotFound: There is none.
            InvalidRequest: `process_ambiguous`: several could be meant.
        """
        asker = Asker(principal=self.access.principal, project=asked.project)
        try:
            return await self.engine.lookup.find(asked.process_id, asker)
        except ProcessNotFound as error:
            hint = hint_for(error, "rest")
        raise _unknown(asked.process_id, hint)

    async def log_of(self, process: Process, begin: Cursor, *, raw: bool) -> OutputLog:
        """Return a process's output as it is shown from `begin` on to the caller; `raw` hides no secrets.

        Raises:
            AccessDenied: `raw`, and the caller is no administrator, or lives in a process of ours.
            BackendUnavailable: That it was shown raw cannot be recorded.
        """
        if raw:
            await self.acting.read_raw(process.process_id, begin)
        return process.raw_log if raw else process.log

    def owner(self, *, connection_id: str | None = None, request_id: str | None = None) -> Owner:
        """Return the owner of a process that the caller starts."""
        return self.access.owner(
            "rest",
            connection_id=connection_id,
            request_id=request_id,
            traceparent=traceparent_of(self.connection.headers.raw),
        )

    def publish_denial(self, error: AccessDenied) -> None:
        """Publish that the caller may not do what it asked for."""
        details = {"path": self.connection.url.path[:200]}
        self.engine.events.publish(
            AuditEvent(what="access", by=self.owner(), decision="denied", reason=error.code, details=details)
        )

    async def first_of(self, event: Awaitable[object], *, within_s: float | None = None) -> bool:
        """Wait for something, until the server stops or time is up; return whether it happened."""
        waiting = asyncio.ensure_future(event)
        stopping = asyncio.ensure_future(self.context.stopping.wait())
        try:
            await asyncio.wait({waiting, stopping}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            return waiting.done()
        finally:
            for task in (waiting, stopping):
                task.cancel()
            await asyncio.gather(waiting, stopping, return_exceptions=True)


@dataclass(frozen=True)
class RestRoute:
    """One line of the table of routes; not keyword-only, so that a line of the table is a line.

    Attributes:
        method: GET and so on, or `WEBSOCKET`.
        operation: Says the scope (`operations.table`); "" for a static page, which a link on any page may
            open. Whatever else has none is for administrators.
        handler: Answers with members, sent as JSON with `status`, or with an application that does the
            sending. None: every door answers the operation alike.
        answer: The members that it answers with; several where it depends on the request.
        problems: The statuses of errors beside those that follow from its path and its body (`openapi`).
        beside: What the document says beside that of answers, by status.
        content: What it says of a body that the handler reads itself.
        asked: What address and headers say, and `body` what the body does, if not what the types of the
            handler's parameters, or the operation's request, say. Beside a `body` that is the rest of the
            request.
    """

    method: str
    path: str
    operation: str
    handler: Callable[..., Awaitable[ASGIApp | Members]] | None = None
    answer: tuple[type[msgspec.Struct], ...] | type[msgspec.Struct] = ()
    problems: tuple[int, ...] = ()
    status: int = 200
    beside: Mapping[int, Schema] = field(default_factory=dict)
    content: Schema | None = None
    asked: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None

    @property
    def name(self) -> str:
        """What it does, in a word or some: of its handler, or of the operation."""
        if self.handler is None or self.body is not None:
            return self.operation.removeprefix("terminal_").removeprefix(f"{self.tag}_")
        return self.handler.__name__.strip("_")

    @property
    def help(self) -> str:
        """What it does, in a sentence or some."""
        if self.handler is None or self.body is not None:
            return all_operations()[self.operation].help
        return inspect.getdoc(self.handler) or ""

    @property
    def answers(self) -> tuple[type[msgspec.Struct], ...]:
        """The structs of what it answers with."""
        found = all_operations()[self.operation].answer if self.handler is None else self.answer
        return found if isinstance(found, tuple) else () if found is None else (found,)

    @property
    def scope(self) -> Scope:
        """How much the caller must be allowed."""
        if not self.operation:
            return Scope.HELLO if self.path in STATIC_PAGES else Scope.ADMIN
        return all_operations()[self.operation].scope

    @cached_property
    def shapes(self) -> Mapping[str, type[msgspec.Struct]]:
        """The structs of `asked` and `body`."""
        found: dict[str, type[msgspec.Struct] | None] = {}
        if self.handler is not None:
            found = get_type_hints(self.handler)
        elif self.body is not None:
            found = {"asked": _rest_of(all_operations()[self.operation].request, self.body)}
        else:
            has_body = self.method in {"POST", "PUT", "PATCH"} and "{" not in self.path
            found = {"body" if has_body else "asked": all_operations()[self.operation].request}
        both = {"asked": self.asked or found.get("asked"), "body": self.body or found.get("body")}
        return {name: shape for name, shape in both.items() if shape is not None}

    async def carry_out(
        self, call: RestCall, asked: msgspec.Struct | None = None, body: msgspec.Struct | None = None
    ) -> ASGIApp | Members:
        """Answer an operation that every door answers alike.

        Raises:
            BackendUnavailable: `server_lost`: the server stops while it waits for what the caller likes to
                wait for; what was begun goes on.
            OutliveError: What the operation raises.
        """
        operation = all_operations()[self.operation]
        assert operation.request is not None
        request = asked if body is None else body
        if not isinstance(request, operation.request):  # its parts come from address and body
            parts = [msgspec.structs.asdict(part) for part in (asked, body) if part is not None]
            request = operation.request(**{name: value for part in parts for name, value in part.items()})
        running = asyncio.ensure_future(
            call.context.operations.carry_out(self.operation, request, call.owner())
        )
        if operation.pace == "open" and not await call.first_of(running):
            raise BackendUnavailable("server_lost", "The server stops; what was begun goes on.")
        members = await running
        if self.status != 201:
            return members
        identity = next(members[name] for name in members if name.endswith("_id"))
        return json_answer(members, self.status, Location=f"{self.path}/{identity}")

    @cached_property
    def parameters(self) -> list[Schema]:
        """The parameters of the path, the query and the headers, as OpenAPI describes them."""
        shape = self.shapes.get("asked")
        if shape is None:
            return []
        schema = component_schemas([shape])[shape.__name__]
        return [self._parameter(name, dict(one), schema) for name, one in schema["properties"].items()]

    def _parameter(self, name: str, one: Schema, schema: Schema) -> Schema:
        place = one.pop("in", "path" if f"{{{name}}}" in self.path else "query")
        described = {"description": one["description"]} if "description" in one else {}
        return {
            "name": name.replace("_", "-") if place == "header" else name,
            "in": place,
            "required": name in schema.get("required", ()),
            **described,
            "schema": one,
        }

    def check_query(self, connection: HTTPConnection) -> None:
        """Refuse parameters that the route does not have; the documents' own paths take any.

        Raises:
            InvalidRequest: There is one.
        """
        names = [one["name"] for one in self.parameters if one["in"] == "query"]
        unknown = next((one for one in connection.query_params if one not in (*names, "token")), None)
        if unknown is not None and self.path.startswith("/v1/") and self.method != WEBSOCKET:
            raise _wrong(f"query.{unknown[:40]}", about_unknown(unknown, names))

    def read_parameters(self, connection: HTTPConnection) -> msgspec.Struct:
        """Return what the address and the headers say.

        Raises:
            InvalidRequest: A parameter is missing, of the wrong type or impossible.
        """
        found: dict[str, object] = {}
        places = {}
        for one in self.parameters:
            name, place, schema = one["name"], one["in"], one["schema"]
            member = name.replace("-", "_")
            places[member] = f"{place}.{name}"
            match place:
                case "path":
                    values = [connection.path_params[name]]
                case "header":
                    values = connection.headers.getlist(name)[:1]
                case _:
                    values = connection.query_params.getlist(name)
            if not values:
                if one["required"]:
                    raise _wrong(places[member], "it is missing")
                continue
            kinds = {schema.get("type"), *(other.get("type") for other in schema.get("anyOf", ()))}
            last = values[-1]
            if "boolean" in kinds:
                last = _FLAGS.get(last.lower(), last)
            if last.lower() == "null" and not kinds & {"string", "array"}:
                # msgspec would take the word for none.
                needed = " or ".join(_KINDS.get(one, "a value") for one in sorted(kinds - {"null", None}))
                raise _wrong(places[member], f"{needed} is needed, not null.")
            found[member] = values if "array" in kinds else last
        return _checked(found, self.shapes["asked"], places, is_text=True)

    @property
    def tag(self) -> str:
        """The section of the document that it stands in; none for a page."""
        if self.path.startswith("/api/"):
            return "documents"
        if self.path.startswith("/v1/terminals"):
            return "terminals"
        if self.path.startswith(("/v1/nodes", "/v1/gateways", "/v1/files")):
            return "machines"
        if self.operation and all_operations()[self.operation].route:  # an extension's
            return self.path.split("/")[2]
        return "processes" if self.path.startswith("/v1/") else "probes" if self.operation else ""


def _rest_of(request: type[msgspec.Struct] | None, body: type[msgspec.Struct]) -> type[msgspec.Struct] | None:
    """Return a shape of what a request has beside its body; None where the body has all."""
    fields = msgspec.structs.fields(request) if request is not None else ()
    rest = [(one.name, one.type) for one in fields if one.name not in body.__struct_fields__]
    return msgspec.defstruct("Place", rest, frozen=True, kw_only=True) if rest else None


class RestPath:
    """An ASGI application: what is at one path, by method."""

    def __init__(self, context: RestContext, routes: Mapping[str, RestRoute]) -> None:
        """Answer by `routes`, which have the path in common."""
        self._context = context
        self._routes = routes

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one request or upgrade."""
        is_socket = scope["type"] == "websocket"
        route = self._routes.get(WEBSOCKET if is_socket else scope["method"])
        if (
            route is None or (route.method == WEBSOCKET) is not is_socket
        ):  # a request's method may be any word
            await self._refuse_method(scope, send)
            return
        connection = HTTPConnection(scope) if is_socket else Request(scope, receive)
        limit_bytes = self._context.settings.max_message_bytes
        call = RestCall(context=self._context, connection=connection, access=access_of(scope))
        try:
            if route.content is None and _announced_bytes(connection) > limit_bytes:
                raise _too_large(limit_bytes)
            answer = await self._answer(route, call)
        except OutliveError as error:
            if isinstance(error, AccessDenied):
                call.publish_denial(error)
            await call.engine.events.recorded()
            call.engine.redaction.finish(error)
            await send_refusal(scope, send, error)
        except HttpRefusal as error:
            error.detail = call.engine.redaction.redactor.mask_text(error.detail)
            await send_refusal(scope, send, error)
        except ClientDisconnect:
            # A client that hangs up within its body is no fault of the server: nothing is logged, no answer
            # arrives.
            text = "The connection ended within the body."
            await send_problem(scope, send, error="parse_error", message=text)
        else:
            await answer(scope, receive, send)

    async def _answer(self, route: RestRoute, call: RestCall) -> ASGIApp:
        # A caller that may not do this learns nothing of what is wrong with its request.
        call.access.require(route.scope)
        asked: dict[str, Any] = {}
        route.check_query(call.connection)
        if "asked" in route.shapes:
            asked["asked"] = route.read_parameters(call.connection)
        if (shape := route.shapes.get("body")) is not None:
            request = cast("Request", call.connection)
            content = await _content(request, self._context.settings.max_message_bytes)
            call = replace(call, content=content)
            # Callers of the document name no Content-Type. A page cannot use that: the guard knows it by its
            # Origin.
            asked["body"] = _read_body(request, content, shape, needs_type=route.tag != "documents")
        answer = await (route.handler or route.carry_out)(call, **asked)
        return json_answer(answer, route.status) if isinstance(answer, Mapping) else answer

    async def _refuse_method(self, scope: AsgiScope, send: Send) -> None:
        path = scope["path"][:100]
        await send_problem(
            scope,
            send,
            error="http_method_not_allowed",
            message=f"{path} does not answer {scope['method'][:20]}.",
            headers=((b"allow", ", ".join(sorted(self._routes.keys() - {WEBSOCKET})).encode()),),
        )


def _unknown(word: str, hint: str) -> ProcessNotFound:
    # Made here, so that no frame that raises it has it as a variable: an error that its own traceback leads
    # to stays, with the request's body, until garbage is looked for.
    return ProcessNotFound("process_not_found", f"There is no process {word[:40]!r}.", hint=hint)


def json_answer(members: Members, status: int = 200, **headers: str) -> Response:
    """Return an answer in JSON."""
    return Response(
        orjson.dumps(members),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", **headers},
    )


async def _content(request: Request, limit_bytes: int) -> bytes:
    """Return a body of at most `limit_bytes`, also where its length was not announced.

    Raises:
        HttpRefusal: `body_too_large`.
    """
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > limit_bytes:
            raise _too_large(limit_bytes)
    return bytes(content)


def _announced_bytes(connection: HTTPConnection) -> int:
    """Return how long the body is going to be, as far as the request says it."""
    announced = connection.headers.get("content-length", "")
    return int(announced) if announced.isascii() and announced.isdigit() else 0


def _too_large(limit_bytes: int) -> HttpRefusal:
    return HttpRefusal("body_too_large", f"The body has more than {limit_bytes} bytes.")


def _read_body(
    request: Request, content: bytes, shape: type[msgspec.Struct], *, needs_type: bool
) -> msgspec.Struct:
    """Return what a body asks for, checked.

    `needs_type`: a body without a Content-Type is refused. Pages of other origins cannot send JSON's unasked
    (Fetch, "CORS").

    Raises:
        HttpRefusal: `not_json`: the Content-Type is another one.
        ProtocolViolation: `parse_error`.
        InvalidRequest: A member is missing, unknown, of the wrong type or impossible; `errors` in its details
        says which.
    """
    kind = request.headers.get("content-type", "none" if needs_type else "application/json")
    kind = kind.partition(";")[0].strip()
    if not _JSON_TYPE.fullmatch(kind):
        raise HttpRefusal("not_json", f"The Content-Type of the body is {kind[:80]}.")
    if not content:
        raise _wrong("body", "a JSON object is needed")
    try:
        members = msgspec.json.decode(checked_json(content, max_bytes=len(content)))
    except ValueError:  # a DecodeError is one, too
        raise _unreadable(content) from None
    return _checked(members, shape, {}, is_text=False)


def _checked(
    members: object, shape: type[msgspec.Struct], places: Mapping[str, str], *, is_text: bool
) -> msgspec.Struct:
    """Return the request that members make; `places` says where parameters were, all else is in the body.

    Raises:
        InvalidRequest: A member is missing, unknown, of the wrong type or impossible.
    """
    try:
        return convert_request(members, shape, is_text=is_text)
    except InvalidRequest as error:
        found = str(error.details.get("parameter", ""))
        name = found.replace("[...]", "").replace("[", ".").replace("]", "")
        # A member of the body that is missing is named by the sentence alone.
        place = places.get(name.partition(".")[0]) or (f"body.{name}" if name else "body")
        raise _wrong(place, error.message.removeprefix(f"{found}: ")) from None


def _wrong(place: str, message: str) -> InvalidRequest:
    hint = f"{DOCS_PATH} describes every parameter."
    errors = [{"place": place, "message": message}]
    return InvalidRequest("invalid_params", f"{place}: {message}", hint=hint, details={"errors": errors})


def _unreadable(content: bytes) -> OutliveError:
    """Return what is wrong with a body that msgspec does not read: not everything is broken JSON."""
    try:
        json.loads(checked_json(content.decode(), max_bytes=len(content)))
    except UnicodeDecodeError:
        hint = f"{DOCS_PATH} describes every request."
        return ProtocolViolation("invalid_request", "The body is no UTF-8.", hint=hint)
    except ValueError:
        return ProtocolViolation("parse_error", "The body is no JSON.")
    # Python's parser is more lenient: NaN, numbers beyond a double, and half of a surrogate pair.
    return _wrong("body", "a number or a text in it is none (half of a surrogate pair, NaN)")
