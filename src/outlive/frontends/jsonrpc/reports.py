"""The methods for operators: one for each of `operations.reports.REPORTS`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from outlive.frontends.jsonrpc.context import Concurrency, Context, Method, Result
from outlive.operations.reports import REPORTS as KINDS
from outlive.operations.reports import ReportRequest
from outlive.operations.table import OPERATIONS

_CONCURRENCY: Mapping[str, Concurrency] = {
    "statistics": Concurrency.LONG,  # many records are read
    "audit": Concurrency.LONG,  # and many files
    "groups": Concurrency.IN_ORDER,
    "settings": Concurrency.IN_ORDER,
    "checks": Concurrency.LONG,  # a program is started
}


async def _report(context: Context, params: ReportRequest, _label: str | None) -> Result[Any]:
    """Return an answer as members, which the connection encodes."""
    return Result(msgspec.to_builtins(await context.engine.reports.answer(context.owner().principal, params)))


REPORTS = {
    name: Method(
        name=name,
        scope=OPERATIONS[name].scope,
        shape=request,
        result=answer,
        answer=_report,
        concurrency=_CONCURRENCY[name],
    )
    for name, (request, answer) in KINDS.items()
}
