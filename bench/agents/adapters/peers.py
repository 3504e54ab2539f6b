"""Other MCP servers that run commands, by the tools that their descriptions recommend for each purpose."""

import json
import re
from collections.abc import Sequence
from typing import ClassVar

from bench.agents.adapters.adapter import Adapter, View, Work
from bench.agents.conversation import Reply, ToolUse

_DC_PID = re.compile(r"PID (\d+)")
_DC_END = re.compile(
    r"Process (?:completed|finished)|exit code|No active session|has already (?:ended|exited)"
)
_DC_REMAINING = re.compile(r"\(total: \d+ lines, \d+ remaining\)")
_PID_LINE = re.compile(r"^PID: (\d+)", re.MULTILINE)


class DesktopCommanderAdapter(Adapter):
    """start_process, read_process_output, interact_with_process, force_terminate; times are milliseconds."""

    needs: ClassVar[frozenset[str]] = frozenset(
        {"start_process", "read_process_output", "interact_with_process", "force_terminate"}
    )

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`: the tool demands a time, after which it goes on."""
        seconds = work.expected_s or work.limit_s or (3.0 if work.kind in {"service", "dialog"} else 10.0)
        arguments = {"command": work.command, "timeout_ms": round(1000 * seconds)}
        return ToolUse(tool="start_process", arguments=arguments)

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        found = _DC_PID.search(reply.text) if use.tool == "start_process" else None
        named = found.group(1) if found else handle or str(use.arguments.get("pid", ""))
        if use.tool == "start_process":
            is_running = "Process is running" in reply.text or "waiting for input" in reply.text
        else:
            is_running = not _DC_END.search(reply.text) and not reply.is_error
            is_running = is_running and not _DC_REMAINING.search(reply.text)
        return View(text=reply.text, state="running" if is_running else "ended", handle=named)

    def wait(
        self, handles: Sequence[str], seconds: float, *, until: str = "", is_dialog: bool = False
    ) -> ToolUse | None:
        """See `Adapter.wait`."""
        if len(handles) != 1:
            return None
        arguments = {"pid": int(handles[0]), "timeout_ms": round(1000 * seconds)}
        return ToolUse(tool="read_process_output", arguments=arguments)

    def reads(self, view: View, clue: str) -> list[ToolUse]:
        """See `Adapter.reads`: the next page, else the last lines."""
        if not view.handle:
            return []
        pid = int(view.handle)
        return [
            ToolUse(tool="read_process_output", arguments={"pid": pid}),
            ToolUse(tool="read_process_output", arguments={"pid": pid, "offset": -50}),
        ]

    def send(self, handle: str, text: str) -> ToolUse | None:
        """See `Adapter.send`."""
        if not handle:
            return None
        return ToolUse(tool="interact_with_process", arguments={"pid": int(handle), "input": text})

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`."""
        return ToolUse(tool="force_terminate", arguments={"pid": int(handle)})

    def recall(self) -> ToolUse | None:
        """See `Adapter.recall`."""
        return ToolUse(tool="get_recent_tool_calls", arguments={})


class BashCommandAdapter(Adapter):
    """bash-command-mcp: run, and run_background with wait, tail and kill by pid; no input."""

    needs: ClassVar[frozenset[str]] = frozenset(
        {"run", "run_background", "wait_background", "tail_background", "kill_background"}
    )

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`."""
        if work.kind == "service":
            return ToolUse(tool="run_background", arguments={"command": work.command})
        limit = work.expected_s or work.limit_s
        timing = {"timeoutSeconds": round(limit, 1)} if limit else {}
        return ToolUse(tool="run", arguments={"command": work.command, **timing})

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        if use.tool == "run":
            return View(text=reply.text, state="ended")
        found = _PID_LINE.search(reply.text)
        named = found.group(1) if found else handle
        # The tail says nothing of the state: it is taken to run until a wait says otherwise.
        is_running = use.tool == "tail_background" or "STATUS: running" in reply.text
        return View(
            text=reply.text,
            state="running" if is_running else "ended",
            handle=named,
            has_output=use.tool == "tail_background",
        )

    def wait(
        self, handles: Sequence[str], seconds: float, *, until: str = "", is_dialog: bool = False
    ) -> ToolUse | None:
        """See `Adapter.wait`."""
        if len(handles) != 1:
            return None
        arguments = {"pid": int(handles[0]), "timeoutSeconds": round(seconds, 1)}
        return ToolUse(tool="wait_background", arguments=arguments)

    def peek(self, handle: str) -> ToolUse | None:
        """See `Adapter.peek`."""
        return ToolUse(tool="tail_background", arguments={"pid": int(handle)})

    def reads(self, view: View, clue: str) -> list[ToolUse]:
        """See `Adapter.reads`."""
        if not view.handle:
            return []
        return [ToolUse(tool="tail_background", arguments={"pid": int(view.handle)})]

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`."""
        return ToolUse(tool="kill_background", arguments={"pid": int(handle)})

    def recall(self) -> ToolUse | None:
        """See `Adapter.recall`."""
        return ToolUse(tool="list_background", arguments={})


class ServerCommandsAdapter(Adapter):
    """mcp-server-commands: one tool that runs to the end; everything else is the shell's."""

    needs: ClassVar[frozenset[str]] = frozenset({"run_command"})
    has_background: ClassVar[bool] = False

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`: what may hang runs under timeout(1)."""
        command = work.command
        if work.limit_s is not None:
            command = f"timeout {work.limit_s:g} {command}"
        return ToolUse(tool="run_command", arguments={"command": command})

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        return View(text=reply.text, state="ended")


class TerminalMcpAdapter(Adapter):
    """terminal-mcp: a temporary terminal for one command, or sessions that are sent to, read and waited
    for.
    """

    needs: ClassVar[frozenset[str]] = frozenset(
        {"session_create", "session_exec", "session_read", "session_wait_for", "session_close"}
    )

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`."""
        if work.kind in {"service", "dialog"}:
            return ToolUse(tool="session_create", arguments={"command": work.command})
        seconds = work.expected_s or work.limit_s
        timing = {"timeout": round(seconds, 1)} if seconds else {}
        return ToolUse(tool="session_exec", arguments={"exec": work.command, **timing})

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        try:
            answer = json.loads(reply.text)
        except json.JSONDecodeError:
            return View(text=reply.text, state="ended", handle=handle)
        if not isinstance(answer, dict):
            return View(text=reply.text, state="ended", handle=handle)
        # The model reads JSON; facts are looked for in what that says.
        text = "\n".join(str(value) for value in answer.values())
        if use.tool == "session_exec":
            return View(text=text, state="ended")
        is_over = answer.get("success") is False or answer.get("is_alive") is False
        named = str(answer.get("session_id") or handle)
        return View(
            text=text,
            state="ended" if is_over else "running",
            handle=named,
            has_output=bool(answer.get("output")),
        )

    def wait(
        self, handles: Sequence[str], seconds: float, *, until: str = "", is_dialog: bool = False
    ) -> ToolUse | None:
        """See `Adapter.wait`."""
        if len(handles) != 1:
            return None
        arguments: dict[str, object] = {"session_id": handles[0]}
        if until:
            arguments |= {"pattern": re.escape(until), "timeout": round(seconds, 1)}
            return ToolUse(tool="session_wait_for", arguments=arguments)
        return ToolUse(tool="session_read", arguments={**arguments, "timeout": round(seconds, 1)})

    def peek(self, handle: str) -> ToolUse | None:
        """See `Adapter.peek`: the screen has what was printed before a wait began to listen."""
        return ToolUse(tool="session_read", arguments={"session_id": handle, "mode": "snapshot"})

    def send(self, handle: str, text: str) -> ToolUse | None:
        """See `Adapter.send`."""
        if not handle:
            return None
        return ToolUse(tool="session_interact", arguments={"session_id": handle, "input": text})

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`."""
        return ToolUse(tool="session_close", arguments={"session_id": handle})

    def recall(self) -> ToolUse | None:
        """See `Adapter.recall`."""
        return ToolUse(tool="session_list", arguments={})
