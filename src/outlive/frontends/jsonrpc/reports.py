"""The methods for operators: statistics, audit, settings, checks. What each takes and gives stands in `operations.reports`, the same at every door."""

from typing import Any

import msgspec

from outlive.frontends.jsonrpc.context import Concurrency, Context, Result, methods_of
from outlive.operations.reports import (
    AuditPage,
    AuditRequest,
    ChecksAnswer,
    GroupsAnswer,
    SettingsAnswer,
    StatisticsAnswer,
    StatisticsRequest,
)


async def statistics(
    context: Context, params: StatisticsRequest, _label: str | None
) -> Result[StatisticsAnswer]:
    """Return what the caller's processes did in a span of time."""
    return _result(await context.engine.reports.statistics(context.owner().principal, params))


async def audit(context: Context, params: AuditRequest, _label: str | None) -> Result[AuditPage]:
    """Return entries of the audit log, newest first."""
    return _result(await context.engine.reports.audit(params))


class SettingsParams(msgspec.Struct, kw_only=True, frozen=True):
    """`settings`: nothing to say."""


class ChecksParams(msgspec.Struct, kw_only=True, frozen=True):
    """`checks`: nothing to say."""


class GroupsParams(msgspec.Struct, kw_only=True, frozen=True):
    """`groups`: nothing to say."""


async def groups(context: Context, _params: GroupsParams, _label: str | None) -> Result[GroupsAnswer]:
    """Return the caller's groups, and what waits in each, in the order of turns."""
    return _result(GroupsAnswer(groups=context.engine.queue.groups(context.owner().principal)))


async def settings(context: Context, _params: SettingsParams, _label: str | None) -> Result[SettingsAnswer]:
    """Return the settings in effect, and where each comes from."""
    return _result(context.engine.reports.settings())


async def checks(context: Context, _params: ChecksParams, _label: str | None) -> Result[ChecksAnswer]:
    """Return what `outlive doctor` finds where the server runs."""
    return _result(await context.engine.reports.checks())


def _result(answer: msgspec.Struct) -> Result[Any]:
    """Return an answer as members, which the connection encodes."""
    return Result(msgspec.to_builtins(answer))


REPORTS = methods_of(
    {
        statistics: Concurrency.LONG,  # many records are read
        audit: Concurrency.LONG,  # and many files
        groups: Concurrency.IN_ORDER,
        settings: Concurrency.IN_ORDER,
        checks: Concurrency.LONG,  # a program is started
    }
)
