"""Every route and upgrade of the application, asked of the application itself, so that a new one is attacked,
too.
"""

import functools
from typing import cast

from starlette.routing import BaseRoute, Route, WebSocketRoute

from outlive.app import Application
from outlive.config import Settings, resolve
from outlive.core.layout import Layout
from outlive.engine import Engine
from outlive.frontends.rest.door import RestPaths
from outlive.frontends.rest.service import RestService

_PLACEHOLDERS = {
    "{process_id}": "01k9zq3v8d4t6r2m5x7b1n0c9f",
    "{terminal_id}": "01k9zq3v8d4t6r2m5x7b1n0c9f",
    "{file:path}": "app.js",
    "{gateway}": "gateway.example",
    "{name}": "far",
}
# What every caller may see that comes from no foreign page: that the server lives, and the page's files,
# which hold no data.
PUBLIC = frozenset(
    (method, path)
    for method in ("GET", "HEAD")
    for path in ("/health", "/ui/app.js", "/ui/codes", "/ui/session")
)


@functools.cache
def all_routes() -> tuple[tuple[str, str], ...]:
    """Return method (or WEBSOCKET) and path of everything that the application answers, and two that it does
    not.
    """
    settings = resolve({"state_dir": "/nowhere"}, {}, working_folder="/").settings
    application = Application(settings, Layout("/nowhere"), working_folder="/")
    found = {one for route in application.routes for one in _answered(route)}
    unknown = {("GET", "/no/such/route"), ("WEBSOCKET", "/no/such/socket")}
    return tuple(sorted((method, _filled(path)) for method, path in found | unknown))


def _answered(route: BaseRoute) -> set[tuple[str, str]]:
    match route:
        case WebSocketRoute():
            return {("WEBSOCKET", route.path)}
        case Route():
            return {(method, route.path) for method in route.methods or {"GET", "POST", "DELETE"}}
        case RestPaths():
            return set(RestService(cast("Engine", None), Settings()).routes())
        case _:
            raise AssertionError(f"a route of a new kind: teach this test to attack it ({route!r})")


def _filled(path: str) -> str:
    for name, value in _PLACEHOLDERS.items():
        path = path.replace(name, value)
    if "{" in path:
        raise AssertionError(f"a new parameter: say what stands for it in {path}")
    return path
