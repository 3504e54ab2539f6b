"""What carries out the operations that every door answers alike (`Operations`), among them those about
terminals (`TerminalCalls`, promise S3.6), and the pending approvals.

A frontend names the caller, checks the request, and encodes the returned members in its own way. Which
terminal host serves a call is decided by `engine.terminals`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from outlive.core.process import Owner
from outlive.core.terminal import ENGINE
from outlive.engine import Engine
from outlive.engine.terminals import NewTerminal, Terminals, terminals_of
from outlive.operations import terminal_requests
from outlive.operations.reports import REPORTS
from outlive.operations.terminal_requests import executed_view, terminal_view, text_view, typed_keys
from outlive.policy.access import Access, approver_of
from outlive.protocols.jsonrpc.views import approval_view

_Members = dict[str, object]


class TerminalCalls:
    """The terminals of one server. Every call raises what the same call of `TerminalHost` raises."""

    def __init__(self, terminals: Terminals, *, wait_s: float = 45.0) -> None:
        """Take the terminals, and how long `execute` waits for a command if the caller names no time."""
        self._terminals = terminals
        self._wait_s = wait_s

    async def list(self, _asked: terminal_requests.ListTerminals, by: Owner) -> _Members:
        """Return all open terminals of the caller."""
        return {"terminals": [terminal_view(one) for one in await self._terminals.terminals(by)]}

    async def get(self, terminal_id: str, by: Owner) -> _Members:
        """Return one terminal."""
        _, info = await self._terminals.find(terminal_id, by)
        return terminal_view(info)

    async def create(self, asked: terminal_requests.CreateTerminal, by: Owner) -> _Members:
        """Open a terminal."""
        wanted = NewTerminal(
            name=asked.terminal_name,
            shell=asked.shell,
            cwd=asked.cwd,
            env=asked.env,
            rows=asked.rows,
            cols=asked.cols,
            profile=asked.profile,
            backend=asked.backend,
            image=asked.image,
            tags=asked.tags,
        )
        opened = await self._terminals.host(asked.target).create(wanted, by)
        self._terminals.note_use(opened.terminal_id, by)
        return terminal_view(opened)

    async def has_active(self, by: Owner) -> bool:
        """Tell whether the caller has a terminal that `execute` takes when the request names none."""
        return await self._terminals.active(by) is not None

    async def execute(self, asked: terminal_requests.ExecuteInTerminal, by: Owner) -> _Members:
        """Run a command and wait for its end, at most `wait_s` seconds.

        Without a terminal in the request it takes the caller's active one, or opens one with every default.
        """
        wait_s = self._wait_s if asked.wait_s is None else asked.wait_s
        if asked.terminal_id is not None:
            host, info = await self._terminals.find(asked.terminal_id, by)
        elif (found := await self._terminals.active(by)) is not None:
            host, info = found
        else:
            host = self._terminals.host(ENGINE)
            info = await host.create(NewTerminal(), by)
        self._terminals.note_use(info.terminal_id, by)
        return executed_view(await host.execute(info.terminal_id, asked.command, by, wait_s=wait_s))

    async def read(self, asked: terminal_requests.ReadTerminal, by: Owner) -> _Members:
        """Return text of a terminal."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        return text_view(
            await host.read(info.terminal_id, by, form=asked.form, cursor=asked.cursor, budget=asked.budget)
        )

    async def write(self, asked: terminal_requests.WriteToTerminal, by: Owner) -> _Members:
        """Type into a terminal."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        self._terminals.note_use(info.terminal_id, by)
        data = typed_keys(asked.text, asked.keys)
        await host.write(info.terminal_id, data, by)
        return {"terminal_id": info.terminal_id, "written": len(data)}

    async def resize(self, asked: terminal_requests.ResizeTerminal, by: Owner) -> _Members:
        """Set the size of a terminal."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        await host.resize(info.terminal_id, asked.rows, asked.cols, by)
        return {"terminal_id": info.terminal_id, "rows": asked.rows, "cols": asked.cols}

    async def close(self, asked: terminal_requests.CloseTerminal, by: Owner) -> _Members:
        """Close a terminal."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        await host.close(info.terminal_id, by)
        return {"terminal_id": info.terminal_id, "closed": True}


async def pending_approvals(engine: Engine, access: Access, by: Owner, *, raw: bool) -> list[_Members]:
    """Return the commands that wait for an approval, oldest first.

    With `raw` secrets and values of variables are shown.

    Raises:
        AccessDenied: `scope_missing`: with `raw`, from a process that this server has started.
        BackendUnavailable: `audit_unavailable`: with `raw`, and the audit log cannot record it.
    """
    if raw:
        approver_of(access)
        await engine.as_(by).read_raw(None)
    return [approval_view(one) for one in engine.approvals.waiting(raw=raw)]


# Takes a checked request and its caller; raises what the engine's part raises.
Carrier = Callable[[Any, Owner], Awaitable[msgspec.Struct | Mapping[str, object]]]


class Operations:
    """The operations of `operations.table` that have an `answer`; `terminals` answers those about them."""

    def __init__(self, engine: Engine, terminals: TerminalCalls) -> None:
        self._engine = engine
        self.terminals = terminals
        self._added: dict[str, Carrier] = {}

    @classmethod
    def of(cls, engine: Engine, *, wait_s: float) -> "Operations":
        """Return the operations of an engine with its own terminals alone."""
        return cls(engine, TerminalCalls(terminals_of(engine), wait_s=wait_s))

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
