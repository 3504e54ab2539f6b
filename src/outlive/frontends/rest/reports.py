"""What operators ask over GET: the handlers of `operations.reports.REPORTS`, and their routes."""

from collections.abc import Awaitable, Callable

import msgspec

from outlive.frontends.rest.routes import Members, RestCall, RestRoute
from outlive.operations.reports import REPORTS, ReportRequest
from outlive.operations.table import OPERATIONS


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
