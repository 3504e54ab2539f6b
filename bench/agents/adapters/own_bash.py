"""The tools of Claude Code's own shell, as `bench.peers.own_bash` models them."""

import re
from typing import ClassVar

from bench.agents.adapters.adapter import Adapter, View, Work
from bench.agents.conversation import Reply, ToolUse

_IN_BACKGROUND = re.compile(r"Command running in background with ID: ([\w-]+)$")


class OwnBashAdapter(Adapter):
    """Bash, BashOutput and KillShell: no input, no wait.

    A foreground command that outlasts its time is over.
    """

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
        if use.tool == "Bash":
            found = _IN_BACKGROUND.match(reply.text)
            handle, goes_on = (found.group(1), True) if found else ("", False)
        else:
            goes_on = reply.text.startswith("<status>running</status>")
        return View(text=reply.text, state="running" if goes_on else "ended", handle=handle)

    def peek(self, handle: str) -> ToolUse | None:
        """See `Adapter.peek`."""
        return ToolUse(tool="BashOutput", arguments={"bash_id": handle})

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`."""
        return ToolUse(tool="KillShell", arguments={"shell_id": handle})
