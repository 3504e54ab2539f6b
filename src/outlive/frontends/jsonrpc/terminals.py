"""The methods terminal_list, terminal_create, terminal_execute, terminal_read, terminal_write, terminal_resize, terminal_close.

Promise S3.6: what they take and give is the same at every door.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from outlive.core.process import Owner
from outlive.frontends.jsonrpc.context import Context, Result
from outlive.server.views.terminal_calls import TerminalCalls

_Params = TypeVar("_Params", bound=msgspec.Struct)


def terminal_method(
    call: Callable[[TerminalCalls, _Params, Owner], Awaitable[dict[str, object]]],
) -> Callable[[Context, _Params, str | None], Awaitable[Result]]:
    """Return the method that makes a call of `TerminalCalls`."""

    async def method(context: Context, params: _Params, label: str | None) -> Result:
        return Result(result=await call(context.terminals, params, context.owner(label)))

    return method
