"""The seven calls of promise S3.6 for every door: `TerminalCalls`, from a checked request to the members of the answer.

A door names the caller, reads the request by `protocols.terminal.requests`, and writes the answer in its own way.

What waits for a person's approval, as every door shows it: `pending_approvals`.
"""

from outlive.core.process import Owner
from outlive.core.terminal import ENGINE
from outlive.engine import Engine
from outlive.engine.terminals import NewTerminal, Terminals
from outlive.policy.access import Access, approver_of
from outlive.protocols.jsonrpc.views import approval_view
from outlive.protocols.terminal import requests
from outlive.protocols.terminal.requests import executed_view, terminal_view, text_view
from outlive.protocols.terminal.typed import typed_keys

_Members = dict[str, object]


class TerminalCalls:
    """The terminals of one server. Every call raises what `TerminalHost` says."""

    def __init__(self, terminals: Terminals, *, wait_s: float = 45.0) -> None:
        """Take the terminals, and how long a command is waited for if the caller does not say."""
        self._terminals = terminals
        self._wait_s = wait_s

    async def list(self, _asked: requests.ListTerminals, by: Owner) -> _Members:
        """Return all that are open."""
        return {"terminals": [terminal_view(one) for one in await self._terminals.terminals(by)]}

    async def get(self, terminal_id: str, by: Owner) -> _Members:
        """Return one."""
        _, info = await self._terminals.find(terminal_id, by)
        return terminal_view(info)

    async def create(self, asked: requests.CreateTerminal, by: Owner) -> _Members:
        """Open one."""
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
        """Tell whether a caller has a terminal that `execute` takes where none is named."""
        return await self._terminals.active(by) is not None

    async def execute(self, asked: requests.ExecuteInTerminal, by: Owner) -> _Members:
        """Run a command and wait for its end, at most so long.

        Where no terminal is named it takes the active one, or opens one with every default.
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

    async def read(self, asked: requests.ReadTerminal, by: Owner) -> _Members:
        """Return text of it."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        return text_view(
            await host.read(info.terminal_id, by, form=asked.form, cursor=asked.cursor, budget=asked.budget)
        )

    async def write(self, asked: requests.WriteToTerminal, by: Owner) -> _Members:
        """Type into it."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        self._terminals.note_use(info.terminal_id, by)
        data = typed_keys(asked.text, asked.keys)
        await host.write(info.terminal_id, data, by)
        return {"terminal_id": info.terminal_id, "written": len(data)}

    async def resize(self, asked: requests.ResizeTerminal, by: Owner) -> _Members:
        """Set its size."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        await host.resize(info.terminal_id, asked.rows, asked.cols, by)
        return {"terminal_id": info.terminal_id, "rows": asked.rows, "cols": asked.cols}

    async def close(self, asked: requests.CloseTerminal, by: Owner) -> _Members:
        """Close it."""
        host, info = await self._terminals.find(asked.terminal_id, by)
        await host.close(info.terminal_id, by)
        return {"terminal_id": info.terminal_id, "closed": True}


async def pending_approvals(
    engine: Engine, access: Access, by: Owner, *, raw: bool
) -> list[dict[str, object]]:
    """Return what waits, oldest first; with `raw` with secrets and values of variables.

    Raises:
        AccessDenied: `scope_missing`: what was started here sees no secrets of what waits.
        BackendUnavailable: `audit_unavailable`: that it was shown raw cannot be recorded.
    """
    if raw:
        approver_of(access)
        await engine.read_raw(by, None)
    return [
        approval_view(
            one.record,
            digest=one.digest,
            argv=one.argv,
            script=one.script,
            script_bytes=one.script_bytes,
            env=one.env,
            redacted=one.redacted,
        )
        for one in engine.approvals(raw=raw)
    ]
