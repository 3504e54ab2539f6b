"""The methods about a project's services: services_up, services_down, services_restart, services_list
(docs/services.md).

What each takes and gives stands in `operations.services.requests`, the same at every door.
"""

from typing import Any

import msgspec

from outlive.frontends.jsonrpc.context import Concurrency, Context, Result, methods_of
from outlive.operations.services.requests import (
    DownRequest,
    RestartRequest,
    ServicesRequest,
    StackList,
    UpRequest,
)


class UpParams(UpRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`services_up`: what is to run."""


class DownParams(DownRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`services_down`: what is to stop."""


class RestartParams(RestartRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`services_restart`: what is to start again."""


class ServicesParams(ServicesRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`services_list`: what to show."""


async def services_up(context: Context, params: UpParams, _label: str | None) -> Result[StackList]:
    """Make what runs what is declared; answered when it has begun."""
    return _result(await context.engine.services.up(params, context.owner()))


async def services_down(context: Context, params: DownParams, _label: str | None) -> Result[StackList]:
    """Stop services, those that wait for others first; answered when it has begun."""
    return _result(await context.engine.services.down(params, context.owner()))


async def services_restart(context: Context, params: RestartParams, _label: str | None) -> Result[StackList]:
    """End services and start them again; answered when it has begun."""
    return _result(await context.engine.services.restart(params, context.owner()))


async def services_list(context: Context, params: ServicesParams, _label: str | None) -> Result[StackList]:
    """Return services, at once or after news of them."""
    return _result(await context.engine.services.list(params, context.owner()))


def _result(answer: StackList) -> Result[Any]:
    """Return an answer as members, which the connection encodes."""
    return Result(msgspec.to_builtins(answer))


SERVICES = methods_of(
    {
        # Kept on disk before they are answered, which a slow disk delays: nothing else waits for that.
        services_up: Concurrency.LONG,
        services_down: Concurrency.LONG,
        services_restart: Concurrency.LONG,
        services_list: Concurrency.LONG,
    }
)
