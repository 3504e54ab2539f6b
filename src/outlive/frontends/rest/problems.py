"""Everything that goes wrong in the routes as application/problem+json (RFC 9457).

`type` leads to the documentation of the slug. The documented paths get `success` and `message` on top, which is
where their callers look. What nobody expects is the boundary's, as for every door.
"""

import http
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.core.errors import AccessDenied, OutliveError
from outlive.core.hints import hint_for
from outlive.frontends.rest.slugs import DOCS_PATH, MEDIA_TYPE, as_shown_at, problem, send_problem
from outlive.server.error_formats import CLOSE
from outlive.server.http.boundary import ErrorBoundary

_CLOSE = {name.decode(): value.decode() for name, value in CLOSE}

_UNSURE = frozenset({"server_lost", "keeper_restarted", "extension_lost", "timeout"})
_BY_STATUS = {404: "unknown_path", 405: "http_method_not_allowed"}


class HttpRefusal(Exception):
    """A request is refused for a reason that only HTTP has; `slug` is one of `slugs.HTTP_SLUGS`."""

    def __init__(self, slug: str, detail: str) -> None:
        """Keep the slug and the sentence."""
        super().__init__(detail)
        self.slug = slug
        self.detail = detail


def problem_response(
    path: str, body: Mapping[str, object], headers: Mapping[str, str] | None = None
) -> Response:
    """Return the answer that carries a problem."""
    status = body["status"]
    assert isinstance(status, int)
    return Response(
        orjson.dumps(as_shown_at(path, body), default=str),
        status_code=status,
        media_type=MEDIA_TYPE,
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def install(
    app: FastAPI, openapi: Callable[[], dict[str, Any]], denied: Callable[[str, AccessDenied], None]
) -> None:
    """Make every error of the routes a problem.

    `openapi` returns the document of the routes; `denied` hears of what a caller may not do, with the path.
    """
    app.state.openapi = openapi
    app.state.denied = denied
    app.add_exception_handler(OutliveError, _last(_on_refusal))
    app.add_exception_handler(HttpRefusal, _last(_on_http_refusal))
    app.add_exception_handler(RequestValidationError, _last(_on_invalid))
    app.add_exception_handler(WebSocketRequestValidationError, _on_invalid_socket)
    app.add_exception_handler(HTTPException, _last(_on_http))
    app.add_exception_handler(ClientDisconnect, _last(_on_disconnect))
    app.add_middleware(_Layers)
    app.add_middleware(
        ErrorBoundary, answer=send_problem
    )  # inside the framework's own, which shows plain text


def _last(handler: Callable[[Request, Exception], Response]) -> Callable[[Request, Exception], Response]:
    """Return a handler that leaves nothing of an error: nobody asks any more which way it came.

    FastAPI's frames refer to the errors they raise, which refer to the frames: the request's body would stay in memory
    until somebody looks for such knots.
    """

    def handle(request: Request, error: Exception) -> Response:
        response = handler(request, error)
        link: BaseException | None = error
        while link is not None:
            link.__traceback__ = None
            link = link.__cause__ or link.__context__
        return response

    return handle


def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, OutliveError)
    if isinstance(error, AccessDenied):
        request.app.state.denied(request.url.path, error)
    body = problem(error.code, error.message, hint=hint_for(error, "rest"), details=error.details)
    headers = {"Retry-After": "1"} if body["status"] == 503 and not _may_be_done(error) else None
    return problem_response(request.url.path, body, headers)


def _may_be_done(error: OutliveError) -> bool:
    """Tell whether what was asked for may run, or have been done: many clients repeat what has a Retry-After unasked."""
    return error.code in _UNSURE or "process_id" in error.details


def _on_http_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpRefusal)
    return problem_response(request.url.path, problem(error.slug, error.detail))


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(request.url.path, _invalid(error.errors()))


async def _on_invalid_socket(websocket: WebSocket, error: Exception) -> None:
    assert isinstance(error, WebSocketRequestValidationError)
    await websocket.send_denial_response(problem_response(websocket.url.path, _invalid(error.errors())))


def _invalid(errors: Any) -> dict[str, object]:  # noqa: ANN401 -- pydantic's own, a sequence of dicts
    """Return the problem of what stands in the address or in a header; bodies are read by `bodies.read_body`."""
    places = [(".".join(map(str, one["loc"])), str(one["msg"])) for one in errors]
    detail = "; ".join(f"{place}: {text}" for place, text in places[:5])
    details = {"errors": [{"place": place, "message": text} for place, text in places[:20]]}
    return problem("invalid_params", detail, hint=f"{DOCS_PATH} describes every parameter.", details=details)


def _on_disconnect(request: Request, _error: Exception) -> Response:
    """Answer a client that hung up within its body: no fault of the server, so nothing is logged; no answer arrives."""
    return problem_response(request.url.path, problem("parse_error", "The connection ended within the body."))


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    slug = _BY_STATUS.get(error.status_code, "invalid_request")
    path = request.url.path
    sentences = {
        "unknown_path": f"There is nothing at {path[:100]}.",
        "http_method_not_allowed": f"{path[:100]} does not answer {request.method[:20]}.",
    }
    # What Starlette itself refuses, a body that is no UTF-8 for instance.
    detail = sentences.get(slug) or str(error.detail) or http.HTTPStatus(error.status_code).phrase
    hint = "" if slug in sentences else f"{DOCS_PATH} describes every request."
    body = problem(slug, detail, status=error.status_code, hint=hint)
    headers = {"Allow": ", ".join(_methods(request))} if slug == "http_method_not_allowed" else error.headers
    return problem_response(path, body, headers)


def _methods(request: Request) -> list[str]:
    """Return what the path answers, as the OpenAPI document tells; a path without parameters goes before others."""
    paths: Mapping[str, Mapping[str, object]] = request.app.state.openapi()["paths"]
    wanted = request.url.path
    found = (
        paths.get(wanted)
        or paths.get(f"{wanted}/")
        or next(
            (methods for path, methods in paths.items() if compile_path(path)[0].match(wanted)), {"get": None}
        )
    )
    return sorted(method.upper() for method in found)


class _Layers:
    """Runs the layers around the routes: what one of them refuses is a problem, too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except HttpRefusal as error:
            body = problem(error.slug, error.detail)
            await problem_response(scope["path"], body, _CLOSE)(scope, receive, send)
