"""/v1/statistics and /v1/audit: what happened. What each takes and gives stands in `operations.reports`, the same at every door."""

import msgspec

from outlive.frontends.rest.routes import Members, RestCall
from outlive.operations.reports import AuditRequest, StatisticsRequest


async def statistics(call: RestCall, asked: StatisticsRequest) -> Members:
    """Count the caller's starts, ends and failures in a span of time, by pieces of it and by project."""
    found: Members = msgspec.to_builtins(await call.engine.reports.statistics(call.access.principal, asked))
    return found


async def audit(call: RestCall, asked: AuditRequest) -> Members:
    """Return entries of the audit log, newest first; for admins only."""
    found: Members = msgspec.to_builtins(await call.engine.reports.audit(asked))
    return found
