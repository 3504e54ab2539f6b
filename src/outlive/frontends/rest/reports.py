"""/v1/statistics, /v1/audit, /v1/settings and /v1/checks: what operators ask. What each takes and gives stands in `operations.reports`, the same at every door."""

import msgspec

from outlive.frontends.rest.routes import Members, RestCall
from outlive.operations.reports import AuditRequest, GroupsAnswer, StatisticsRequest


async def statistics(call: RestCall, asked: StatisticsRequest) -> Members:
    """Count the caller's starts, ends and failures in a span of time, by pieces of it and by project."""
    found: Members = msgspec.to_builtins(await call.engine.reports.statistics(call.access.principal, asked))
    return found


async def audit(call: RestCall, asked: AuditRequest) -> Members:
    """Return entries of the audit log, newest first; for admins only."""
    found: Members = msgspec.to_builtins(await call.engine.reports.audit(asked))
    return found


async def groups(call: RestCall) -> Members:
    """List your groups: their limits, how many run, and what waits, in the order of turns."""
    answer = GroupsAnswer(groups=call.engine.queue.groups(call.access.principal))
    found: Members = msgspec.to_builtins(answer)
    return found


async def settings(call: RestCall) -> Members:
    """Return the settings in effect, and where each comes from, without secrets; for admins only."""
    found: Members = msgspec.to_builtins(call.engine.reports.settings())
    return found


async def checks(call: RestCall) -> Members:
    """Return what `outlive doctor` finds where the server runs; for admins only. It takes some seconds."""
    found: Members = msgspec.to_builtins(await call.engine.reports.checks())
    return found
