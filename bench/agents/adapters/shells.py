"""Tool sets in the shape of two agents' own shells: Claude Code's Bash and Codex's exec_command, by whichever server."""

import re
from collections.abc import Sequence
from typing import ClassVar

from bench.agents.adapters.adapter import Adapter, View, Work, named_calls
from bench.agents.conversation import Reply, ToolUse

_SHELL_ID = re.compile(
    r"(?:with ID|shell_id|bash_id|ID)[:= ]+[\"']?([\w.-]+)|\b(p\d+|bash_\d+)\b", re.IGNORECASE
)
_GOES_ON = re.compile(r"status>running|\brunning\b|goes on|moved to the background|with ID", re.IGNORECASE)
_ASKS = re.compile(r"waiting for (input|a password)")
_SESSION = re.compile(r"session(?: ID|_id|Id)?[:= ]+[\"']?([\w.-]+)", re.IGNORECASE)


class ClaudeAdapter(Adapter):
    """Bash, BashOutput and KillShell: no input, no wait; a foreground command that outlasts its time is over."""

    needs: ClassVar[frozenset[str]] = frozenset({"Bash", "BashOutput", "KillShell"})
    # The folder holds from call to call, so a line is not repeated; variables do not hold, and that shows.
    holds_session: ClassVar[bool] = True

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`."""
        arguments: dict[str, object] = {"command": work.command, "description": "Run the command"}
        if work.kind == "service":
            arguments["run_in_background"] = True
        if work.limit_s is not None:
            arguments["timeout"] = round(1000 * work.limit_s)
        return ToolUse(tool="Bash", arguments=arguments)

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        head = reply.text[:400]
        found = _SHELL_ID.search(head) if use.tool == "Bash" else None
        named = next((one for one in found.groups() if one), "") if found else handle
        if use.arguments.get("run_in_background"):
            return View(text=reply.text, state="running", handle=named)
        if reply.is_error and use.tool != "Bash":
            return View(text=reply.text, state="ended")
        if use.tool == "Bash" and not (named and _GOES_ON.search(head)):
            return View(text=reply.text, state="ended", offers=named_calls(reply.text, self.tools))
        is_asking = _ASKS.search(head) is not None
        state = "asks" if is_asking else "running" if _GOES_ON.search(head) else "ended"
        return View(text=reply.text, state=state, handle=named)  # type: ignore[arg-type] # three literals

    def peek(self, handle: str) -> ToolUse | None:
        """See `Adapter.peek`."""
        return ToolUse(tool="BashOutput", arguments={"bash_id": handle})

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`."""
        return ToolUse(tool="KillShell", arguments={"shell_id": handle})


class CodexAdapter(Adapter):
    """exec_command and write_stdin: each yields after a time, and empty input is how one waits."""

    needs: ClassVar[frozenset[str]] = frozenset({"exec_command", "write_stdin"})

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`."""
        arguments: dict[str, object] = {"cmd": work.command}
        if work.kind == "dialog":
            arguments["tty"] = True
        if work.expected_s:
            arguments["yield_time_ms"] = round(1000 * work.expected_s)
        elif work.limit_s is not None:
            arguments["yield_time_ms"] = round(1000 * work.limit_s)
        return ToolUse(tool="exec_command", arguments=arguments)

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        head = reply.text[:500]
        found = _SESSION.search(head)
        is_running = found is not None and not re.search(r"exited with code|exit_code\W+\d|\[exit \d", head)
        named = found.group(1) if found else handle
        offers = named_calls(reply.text, self.tools)
        if not is_running:
            return View(text=reply.text, state="ended", handle=named, offers=offers)
        state = "asks" if _ASKS.search(head) else "running"
        return View(text=reply.text, state=state, handle=named)  # type: ignore[arg-type] # two literals

    def wait(
        self, handles: Sequence[str], seconds: float, *, until: str = "", is_dialog: bool = False
    ) -> ToolUse | None:
        """See `Adapter.wait`."""
        if len(handles) != 1:
            return None
        return self._write(handles[0], "", seconds)

    def send(self, handle: str, text: str) -> ToolUse | None:
        """See `Adapter.send`."""
        return self._write(handle, text + "\n", None)

    def end_input(self, handle: str) -> ToolUse | None:
        """See `Adapter.end_input`."""
        return self._write(handle, "\x04", None)

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`: Ctrl-C is all that there is."""
        return self._write(handle, "\x03", None)

    def _write(self, handle: str, chars: str, seconds: float | None) -> ToolUse:
        session: object = int(handle) if handle.isdigit() else handle
        arguments: dict[str, object] = {"session_id": session, "chars": chars}
        if seconds is not None:
            arguments["yield_time_ms"] = round(1000 * seconds)
        return ToolUse(tool="write_stdin", arguments=arguments)
