"""The methods about the past: statistics, audit. What each takes and gives stands in `operations.reports`, the same at every door."""

from typing import Any

import msgspec

from outlive.frontends.jsonrpc.context import Concurrency, Context, Result, methods_of
from outlive.operations.reports import AuditPage, AuditRequest, StatisticsAnswer, StatisticsRequest


async def statistics(
    context: Context, params: StatisticsRequest, _label: str | None
) -> Result[StatisticsAnswer]:
    """Return what the caller's processes did in a span of time."""
    return _result(await context.engine.reports.statistics(context.owner().principal, params))


async def audit(context: Context, params: AuditRequest, _label: str | None) -> Result[AuditPage]:
    """Return entries of the audit log, newest first."""
    return _result(await context.engine.reports.audit(params))


def _result(answer: msgspec.Struct) -> Result[Any]:
    """Return an answer as members, which the connection encodes."""
    return Result(msgspec.to_builtins(answer))


REPORTS = methods_of(
    {statistics: Concurrency.LONG, audit: Concurrency.LONG}
)  # many records, or files, are read
