"""What serves REST once somebody asks: the FastAPI application with all routes, and its OpenAPI document.

This module and those of the routes are the only ones that import FastAPI (decision 40).
"""

from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from outlive.engine import Engine
from outlive.engine.terminals import Terminals, terminals_of
from outlive.frontends.rest.approvals import ApprovalRoutes
from outlive.frontends.rest.bodies import BodyLimit
from outlive.frontends.rest.context import RestContext, json_answer, problems
from outlive.frontends.rest.documents import DocumentRoutes
from outlive.frontends.rest.door import ALIVE, PATH, READY, RestSettings, found_so_far
from outlive.frontends.rest.follow import FollowRoutes
from outlive.frontends.rest.output import OutputRoutes
from outlive.frontends.rest.problems import install
from outlive.frontends.rest.processes import ProcessRoutes
from outlive.frontends.rest.reference import render_page
from outlive.frontends.rest.scopes import check_scope
from outlive.frontends.rest.slugs import DOCS_PATH
from outlive.frontends.rest.terminals import TerminalRoutes
from outlive.frontends.rest.verbs import VerbRoutes
from outlive.operations.schemas import body_schemas
from outlive.protocols.rest.answers import Alive, MatchPage, OutputPage, Problem, Ready
from outlive.protocols.rest.requests import BODIES
from outlive.server.access.guard import access_of
from outlive.server.terminal_calls import TerminalCalls

_ABOUT = (
    "Runs commands that outlive whoever asked for them. A process belongs to its principal: it is found again after "
    "every disconnect and restart, with all of its output."
)
_TAGS = [
    {"name": "processes", "description": "Processes as a resource."},
    {"name": "terminals", "description": "Shells that stay, whose commands are captured one by one."},
    {"name": "documents", "description": "Paths and shapes of an older back end, kept for its callers."},
    {"name": "probes", "description": "For whoever watches the server."},
]
# A page that loads nothing: whatever somebody smuggles into a text stays a text.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_NAMED_ONLY = (Problem, OutputPage, MatchPage)  # models that routes name by reference


class RestService:
    """REST over HTTP, an ASGI application. Nothing has to be opened or closed."""

    def __init__(self, engine: Engine, settings: RestSettings, terminals: Terminals | None = None) -> None:
        """Serve the processes of `engine`, and terminals: the engine's own if none are given."""
        self._settings = settings
        self._terminals = TerminalCalls(terminals or terminals_of(engine), wait_s=settings.wait_s)
        self._context = RestContext(engine=engine, settings=settings)
        self._document: dict[str, Any] | None = None
        self._app = self._build()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or WebSocket."""
        with self._context.serving(access_of(scope)):
            await self._app(scope, receive, send)

    def hang_up(self) -> None:
        """End streams and waits: their clients come again."""
        self._context.stopping.set()

    def routes(self) -> set[tuple[str, str]]:
        """Return everything that is answered: method (or WEBSOCKET) and path, with the parameters' names."""
        known = iter_route_contexts(self._app.routes)
        return {(method, str(route.path)) for route in known for method in route.methods or {"WEBSOCKET"}}

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self._document is None:
            document = get_openapi(
                title="outlive",
                version=self._settings.version,
                description=_ABOUT,
                routes=self._app.routes,
                tags=_TAGS,
                separate_input_output_schemas=False,
            )
            schemas = document["components"]["schemas"]
            for model in _NAMED_ONLY:
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                for name, part in schema.pop("$defs", {}).items():
                    schemas.setdefault(name, part)
                schemas.setdefault(model.__name__, schema)
            schemas |= body_schemas(BODIES)
            self._document = document
        return self._document

    def _build(self) -> FastAPI:
        app = FastAPI(
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            dependencies=[Depends(check_scope)],
            generate_unique_id_function=_operation_id,
        )
        app.add_middleware(BodyLimit, limit_bytes=self._settings.max_body_bytes)
        install(app, self.openapi, self._context.tell_denied)  # its boundary stands around the limit
        resource = APIRouter(prefix=PATH, tags=["processes"])
        for routes in (ProcessRoutes, VerbRoutes, OutputRoutes, FollowRoutes, ApprovalRoutes):
            routes(self._context).add_to(resource)
        terminals = APIRouter(prefix=PATH, tags=["terminals"])
        TerminalRoutes(self._context, self._terminals).add_to(terminals)
        # Callers of the document name no Content-Type. A page cannot use that: the guard knows it by its Origin.
        documents = APIRouter(tags=["documents"], strict_content_type=False)
        DocumentRoutes(self._context).add_to(documents)
        probes = APIRouter(tags=["probes"])
        probes.add_api_route("/healthz", _healthz, response_model=Alive)
        probes.add_api_route("/readyz", self._readyz, response_model=Ready, responses=problems())
        for router in (resource, terminals, documents, probes):
            app.include_router(router)
        app.add_api_route("/openapi.json", self._openapi, include_in_schema=False)
        app.add_api_route(DOCS_PATH, self._page, include_in_schema=False)
        return app

    async def _readyz(self) -> Response:
        """Tell whether the keeper answers and the registry can be written."""
        await self._context.engine.health.check()
        return json_answer({**READY, **found_so_far(self._context.engine)})

    async def _openapi(self) -> Response:
        return json_answer(self.openapi())

    async def _page(self) -> Response:
        return HTMLResponse(render_page(self.openapi()), headers=_PAGE_HEADERS)


async def _healthz() -> Response:
    """Tell that the server answers."""
    return json_answer(ALIVE)


def _operation_id(route: APIRoute) -> str:
    """Return the name that generated clients call it by, for example processes_start."""
    return "_".join([*map(str, route.tags), route.name.removeprefix("_")])
