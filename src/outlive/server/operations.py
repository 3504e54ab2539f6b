"""What carries out the operations that every door answers alike: `Operations`."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.operations.reports import REPORTS
from outlive.server.terminal_calls import TerminalCalls

# Takes a checked request and its caller; raises what the engine's part raises.
Carrier = Callable[[Any, Owner], Awaitable[msgspec.Struct | Mapping[str, object]]]


class Operations:
    """The operations of `operations.table` that have an `answer`; `terminals` answers those about them."""

    def __init__(self, engine: Engine, terminals: TerminalCalls) -> None:
        self._engine = engine
        self.terminals = terminals
        self._added: dict[str, Carrier] = {}

    def add(self, carriers: Mapping[str, Carrier]) -> None:
        """Have an extension's operations carried out; before the first is asked for."""
        self._added.update(carriers)

    async def carry_out(self, name: str, request: msgspec.Struct, by: Owner) -> dict[str, object]:
        """Return the members of the operation's answer.

        Raises:
            OutliveError: What the part of the engine raises that answers.
        """
        members: dict[str, object] = msgspec.to_builtins(await self._carriers[name](request, by))
        return members

    @cached_property
    def _carriers(self) -> Mapping[str, Carrier]:
        engine, terminals = self._engine, self.terminals
        return {
            "disk": engine.disk_usage.answer,
            "terminal_list": terminals.list,
            "terminal_create": terminals.create,
            "terminal_execute": terminals.execute,
            "terminal_read": terminals.read,
            "terminal_write": terminals.write,
            "terminal_resize": terminals.resize,
            "terminal_close": terminals.close,
            **dict.fromkeys(REPORTS, engine.reports.answer),
            **self._added,
        }
