"""What operators and their machines ask over GET: how the server is, and `operations.reports.REPORTS` with
their routes.
"""

from collections.abc import Awaitable, Callable

import msgspec

from outlive.frontends.rest.door import ALIVE, READY, found_so_far
from outlive.frontends.rest.routes import Members, RestCall, RestRoute
from outlive.operations.reports import REPORTS, ReportRequest
from outlive.operations.table import OPERATIONS


async def healthz(_call: RestCall) -> Members:
    """Say that the server answers."""
    return ALIVE


async def readyz(call: RestCall) -> Members:
    """Say whether the keeper answers and the registry can be written."""
    await call.engine.health.check()
    return {**READY, **found_so_far(call.engine)}


def _report(name: str) -> Callable[..., Awaitable[Members]]:
    request, _ = REPORTS[name]

    async def handle(call: RestCall, asked: ReportRequest) -> Members:
        answer = await call.engine.reports.answer(call.access.principal, asked)
        found: Members = msgspec.to_builtins(answer)
        return found

    # What stands in the document, and by what the address is read.
    handle.__name__, handle.__doc__ = name, OPERATIONS[name].help
    handle.__annotations__["asked"] = request
    return handle


ROUTES = tuple(
    RestRoute("GET", f"/v1/{name}", name, _report(name), answer) for name, (_, answer) in REPORTS.items()
)
