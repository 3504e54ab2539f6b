"""Tool sets in the shape of two agents' own shells: Claude Code's Bash and Codex's exec_command, by whichever server."""

import re
from collections.abc import Sequence
from typing import ClassVar

from bench.agents.adapters.adapter import Adapter, State, View, Work, named_calls
from bench.agents.conversation import Reply, ToolUse

# What Bash says of a command that goes on: alone, or behind the output.
_IN_BACKGROUND = re.compile(r"^Command .*\bin background with ID: ([\w-]+)", re.MULTILINE)
_ASKS = re.compile(r"^(?:Command|Process) waits for (?:input|a password)|^<waiting_for>", re.MULTILINE)
_SESSION = re.compile(r"^Process running with session ID (\d+)$", re.MULTILINE)
# How much of an answer's ends is looked at for the state: between them is output, which may say anything.
_END_CHARS = 400


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
        ends = f"{reply.text[:_END_CHARS]}\n{reply.text[-_END_CHARS:]}"
        if use.tool == "Bash":
            found = _IN_BACKGROUND.search(ends)
            handle, goes_on = (found.group(1), True) if found else ("", False)
        else:
            goes_on = reply.text.startswith("<status>running</status>")
        offers = named_calls(reply.text, self.tools)
        if not goes_on:
            return View(text=reply.text, state="ended", handle=handle, offers=offers)
        state: State = "asks" if _ASKS.search(ends) else "running"
        return View(text=reply.text, state=state, handle=handle, offers=offers)

    def reads(self, view: View, clue: str) -> list[ToolUse]:
        """See `Adapter.reads`: an offered search is for the reader's own words."""
        offered = dict.fromkeys(
            str(use.arguments["bash_id"]) for use in view.offers if "filter" in use.arguments
        )
        return [
            ToolUse(tool="BashOutput", arguments={"bash_id": one, "filter": clue}) for one in offered if clue
        ]

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
        head = reply.text[:_END_CHARS].partition("\nOutput:")[0]
        found = _SESSION.search(head)
        if found is None:
            offers = named_calls(reply.text, self.tools)
            return View(text=reply.text, state="ended", handle=handle, offers=offers)
        state: State = "asks" if _ASKS.search(head) else "running"
        return View(text=reply.text, state=state, handle=found.group(1))

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
