"""The lean tools of outlive: run, read, wait, send, control (or stop), list."""

import re
from collections.abc import Sequence
from typing import ClassVar

from bench.agents.adapters.adapter import Adapter, State, View, Work, named_calls
from bench.agents.conversation import Reply, ToolUse

# The first line tells the state: `[id=… exit=0 …]`, `[exit 0]`, `[p3 running …]`.
_HEADER = re.compile(r"^\[(?!\.\.\.).*\]$", re.MULTILINE)
_ENDED = re.compile(r"\b(exit|signal|killed|stopped|timed out|lost|cancelled)\b")
_RUNNING = re.compile(r"\b(running|queued|waiting|goes on)\b")
_HANDLE = re.compile(r"\bid=([\w.:-]+)|\b(p\d+)\b")
_CURSOR = re.compile(r"\bcursor=\"?([\d.]+)\"?")
_OMITTED = re.compile(r"(\d+) bytes omitted")
# A model reads on what is about as much as one answer shows; in more it searches.
_READ_ON_BYTES = 12_000


class LeanAdapter(Adapter):
    """`outlive mcp` with the tool set `lean`."""

    needs: ClassVar[frozenset[str]] = frozenset({"run", "read", "wait", "send", "list"})
    holds_session: ClassVar[bool] = True

    def run(self, work: Work) -> ToolUse:
        """See `Adapter.run`."""
        arguments: dict[str, object] = {"script" if work.is_script else "command": work.command}
        if work.in_session:
            arguments["workspace"] = "main"
        if work.once:
            arguments["key"] = work.once
        match work.kind:
            case "service" if work.until:
                arguments["wait_for"] = {"text": work.until}
            case "service":
                arguments["wait_s"] = 0
            case "dialog":
                arguments["pty"] = True
            case _:
                pass
        if work.limit_s is not None:
            arguments["timeout"] = max(1, round(work.limit_s))
        return ToolUse(tool="run", arguments=arguments)

    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """See `Adapter.view`."""
        text = _about(reply.text, handle) if handle else reply.text
        header = next(iter(_HEADER.findall(text)), "")
        found = _HANDLE.search(header) or _HANDLE.search(text)
        named = (found.group(1) or found.group(2)) if found else handle
        return View(
            text=text,
            state=_state(header),
            handle=named or handle,
            offers=named_calls(text, self.tools),
            has_output=bool(_HEADER.sub("", text).strip()),
        )

    def wait(
        self, handles: Sequence[str], seconds: float, *, until: str = "", is_dialog: bool = False
    ) -> ToolUse | None:
        """See `Adapter.wait`: the server's own default is the longest that it recommends."""
        arguments: dict[str, object] = {"ids": list(handles)}
        for_name = next((name for name in ("wait_for", "until") if self.has_argument("wait", name)), None)
        if until and for_name:
            arguments[for_name] = {"text": until}
        if is_dialog:
            arguments["wait_s"] = round(seconds, 1)
        return ToolUse(tool="wait", arguments=arguments)

    def peek(self, handle: str) -> ToolUse | None:
        """See `Adapter.peek`."""
        return ToolUse(tool="read", arguments={"id": handle})

    def reads(self, view: View, clue: str) -> list[ToolUse]:
        """See `Adapter.reads`: what the mark names where it is short, else a search."""
        omitted = sum(int(size) for size in _OMITTED.findall(view.text))
        search = ToolUse(tool="read", arguments={"id": view.handle, "grep": clue, "context": 2})
        named = [use for use in view.offers if use.tool == "read"]
        if not view.handle:
            return named
        if omitted > _READ_ON_BYTES:
            return [search, *named]
        if omitted:
            return [*named, search]
        # Nothing was left out: reading it again would show the same.
        return named if view.has_output else [*named, ToolUse(tool="read", arguments={"id": view.handle})]

    def send(self, handle: str, text: str) -> ToolUse | None:
        """See `Adapter.send`."""
        return ToolUse(tool="send", arguments={"id": handle, "text": text + "\n"})

    def end_input(self, handle: str) -> ToolUse | None:
        """See `Adapter.end_input`."""
        return ToolUse(tool="send", arguments={"id": handle, "eof": True})

    def stop(self, handle: str) -> ToolUse | None:
        """See `Adapter.stop`."""
        if "stop" in self.tools:
            return ToolUse(tool="stop", arguments={"id": handle})
        return ToolUse(tool="control", arguments={"id": handle, "action": "cancel"})

    def recall(self) -> ToolUse | None:
        """See `Adapter.recall`."""
        return ToolUse(tool="list", arguments={"all": True})


def _about(text: str, handle: str) -> str:
    """Return the part of an answer about several processes that is about one: from its header to the next
    one.
    """
    headers = list(_HEADER.finditer(text))
    for place, header in enumerate(headers):
        if re.search(rf"\b{re.escape(handle)}\b", header.group()):
            after = headers[place + 1].start() if place + 1 < len(headers) else len(text)
            return text[header.start() : after]
    return text


def _state(header: str) -> State:
    if "waiting for input" in header or "waiting for a password" in header:
        return "asks"
    if _RUNNING.search(header) and not re.search(r"\bexit[= ]\d", header):
        return "running"
    return "ended"
