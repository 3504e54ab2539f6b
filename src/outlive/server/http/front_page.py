"""The server's own documents: the JSON at /, GET /health, and a helpful error for every unknown path.

What the pages contain is handed in as functions by `app`; the paths of the frontends are theirs. No page
starts or changes anything.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.policy.access import Scope as AccessScope
from outlive.server.access.guard import access_of
from outlive.server.error_formats import Headers, SendError, send_error, send_json

HEALTH_PATH = "/health"
_ALIVE = {"status": "ok"}
_Document = Mapping[str, object]


def health_route(health: Callable[[], _Document | Awaitable[_Document]]) -> BaseRoute:
    """Return the route of /health; the function is called for each request and must be quick.

    A caller without access learns there that the server runs, and nothing else (promise S4.9.health).
    """
    return Route(HEALTH_PATH, JsonDocument(health, brief=_ALIVE))


class JsonDocument:
    """An ASGI application that answers GET and HEAD with one JSON document."""

    def __init__(
        self,
        answer: Callable[[], _Document | Awaitable[_Document]],
        *,
        brief: _Document | None = None,
        headers: Headers = (),
    ) -> None:
        """Call `answer` for each request.

        A caller below the scope read gets `brief` instead, if there is one.
        """
        self._answer = answer
        self._brief = brief
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 -- ASGI
        """Serve one request."""
        if scope["method"] in {"GET", "HEAD"}:
            body = self._brief
            if body is None or access_of(scope).scope >= AccessScope.READ:
                found = self._answer()
                body = found if isinstance(found, Mapping) else await found
            await send_json(scope, send, status=200, body=body, headers=self._headers)
            return
        await refuse_method(scope, send, send_error)


async def refuse_method(
    scope: Scope, send: Send, answer: SendError, *, allowed: tuple[str, ...] = ("GET", "HEAD")
) -> None:
    """Answer a request whose method is none of those `allowed` at its path; the first one is proposed."""
    await answer(
        scope,
        send,
        status=405,
        error="http_method_not_allowed",
        message=f"{scope['path'][:100]} answers {allowed[0]} only, not {scope['method'][:20]}.",
        hint=f"Repeat it with {allowed[0]}.",
        headers=((b"allow", ", ".join(allowed).encode()),),
    )


def unknown_path(routes: Sequence[BaseRoute], *, sockets: str = "") -> ASGIApp:
    """Return the application behind all `routes`: 404, or 426 where a WebSocket path is asked by plain HTTP.

    `sockets` is added to the hint for a WebSocket that found no endpoint: some endpoints exist at one port
    only.
    """
    upgraded = [route for route in routes if isinstance(route, WebSocketRoute)]
    everywhere = sorted({route.path for route in upgraded if route.path != "/"})
    known = sorted({route.path for route in routes if isinstance(route, Route | WebSocketRoute)})

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 -- the shape of ASGI
        path = scope["path"]
        # 426 (RFC 9110, section 15.5.22): the path exists, but needs an upgrade to another protocol.
        if scope["type"] == "http" and any(one.path_regex.match(path) for one in upgraded):
            await send_error(
                scope,
                send,
                status=426,
                error="websocket_needed",
                message=f"{path} speaks WebSocket, not plain HTTP.",
                hint=f"Connect with a WebSocket client: ws://<address>{path}.",
            )
        elif scope["type"] == "websocket":
            await send_error(
                scope,
                send,
                status=404,
                error="unknown_path",
                message=f"There is no WebSocket at {path[:100]} of this port.",
                hint=f"WebSockets are answered at {', '.join(everywhere)}. {sockets}".rstrip(),
            )
        else:
            await send_error(
                scope,
                send,
                status=404,
                error="unknown_path",
                message=f"There is nothing at {path[:100]}.",
                hint=f"This server answers at {', '.join(known)}.",
            )

    return answer
