"""The documents' tools of outlive: commands with and without waiting, a status, a list, an end."""

import re
from typing import ClassVar

from bench.agents.adapters.adapter import Adapter, View, Work
from bench.agents.conversation import Reply, ToolUse

_PID = re.compile(r"^PID: (\d+)", re.MULTILINE)
_COMMAND_ID = re.compile(r'"id": ?"(cmd_[\w]+)"')


class DocumentsAdapter(Adapter):
    """Shell commands by the process tools, sessions and services by the command tools, whose output can be
    asked for.
    """

    needs: ClassVar[frozenset[str]] = frozenset(
        {"execute_linux_shell_command", "command_execute", "command_get_status", "terminate_process"}
    )
    holds_session: ClassVar[bool] = True

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`."""
        if work.is_script:
            return ToolUse(tool="command_execute_script", arguments={"script_content": work.command})
        limit = {} if work.limit_s is None else {"timeout": max(1, round(work.limit_s))}
        if work.in_session:
            arguments = {"command": work.command, "workspace": "main", **limit}
            return ToolUse(tool="command_execute", arguments=arguments)
        if work.kind == "service":
            return ToolUse(tool="command_execute", arguments={"command": work.command, "background": True})
        if work.kind == "long":
            return ToolUse(tool="command_execute", arguments={"command": work.command})
        return ToolUse(tool="execute_linux_shell_command", arguments={"cmd": work.command, **limit})

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        command_id, pid = _COMMAND_ID.search(reply.text), _PID.search(reply.text)
        if command_id:
            is_running = re.search(r'"running": ?true', reply.text) is not None
            named = command_id.group(1)
        else:
            is_running = pid is not None and "unning after" in reply.text
            named = pid.group(1) if pid else handle
        text = reply.text.replace("\\n", "\n").replace('\\"', '"') if command_id else reply.text
        return View(text=text, state="running" if is_running else "ended", handle=named)

    def peek(self, handle: str) -> ToolUse | None:
        """See `Adapter.peek`."""
        if handle.startswith("cmd_"):
            return ToolUse(tool="command_get_status", arguments={"command_id": handle})
        return ToolUse(tool="list_processes", arguments={})

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`: it takes a pid, which of a command only the list tells."""
        if not handle.isdigit():
            return None
        return ToolUse(tool="terminate_process", arguments={"pid": int(handle)})

    def look_up(self) -> ToolUse | None:
        """See `Adapter.look_up`."""
        return ToolUse(tool="list_processes", arguments={})

    def stop_listed(self, listed: str) -> ToolUse | None:
        """See `Adapter.stop_listed`."""
        pids = _PID.findall(listed)
        return self.stop(pids[-1]) if pids else None

    def recall(self) -> ToolUse | None:
        """See `Adapter.recall`."""
        return ToolUse(tool="command_list_history", arguments={})
